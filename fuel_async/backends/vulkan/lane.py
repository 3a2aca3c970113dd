"""A queue as a lane: submissions of recorded command buffers, and the thread that hears of their ends."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from fuel_async.backends.grids.holding import Held
from fuel_async.backends.grids.serving import Served
from fuel_async.backends.vulkan.gates import Gate, Gates
from fuel_async.backends.vulkan.queue import MOST_SIBLINGS, Queue, Submission
from fuel_async.backends.vulkan.results import SUCCESS
from fuel_async.backends.vulkan.timeline import Point, Timeline
from fuel_async.errors import DeviceError, DeviceLost, ExecutorClosed, Stopped
from fuel_async.streams import CompletionHandle, Timing, WaitStatus, first_error, fresh, when_all, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from queue import SimpleQueue

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.streams import StopFlag


class Recorded(Protocol):
    """What a queue can run: something that has command buffers for given arrays."""

    @property
    def predicted_ns(self) -> int:
        """What it is expected to take."""

    def commands(self, given: Sequence[Sequence[Any]]) -> Any:
        """The `VkCommandBuffer[1]` that runs it over what a submission gives. `DeviceError`."""


class _Job:
    """A submission until it has settled. It holds all that the device works on, and its lane."""

    __slots__ = (
        "gate", "given", "handle", "instance", "is_accepted", "lane", "point", "predicted_ns", "ready_ns",
        "waits",
    )  # fmt: skip

    def __init__(
        self,
        lane: VulkanLane,
        instance: Recorded,
        given: tuple[Sequence[Any], ...],
        waits: Sequence[CompletionHandle],
    ) -> None:
        self.lane, self.instance, self.given, self.waits = lane, instance, given, waits
        self.predicted_ns = instance.predicted_ns
        self.point = Point(lane.timeline, lane.order)
        self.gate: Gate | None = None
        #: Whether it was taken before the lane closed.
        self.is_accepted = False
        self.handle = CompletionHandle(
            self.point, lane.location, lane.name, perf_counter_ns(), None, self.predicted_ns, lane.inflight
        )
        #: When it could have started, were the queue free.
        self.ready_ns = self.handle.submitted_ns

    def opened(self) -> None:
        """Its gate opens: what it waited for has settled."""
        self.ready_ns = perf_counter_ns()


class VulkanLane(Served[_Job]):
    """One queue."""

    context: Context

    def __init__(self, context: Context, queue: Queue, peers: list[Timeline], *, holds: bool = False) -> None:
        """`peers` are the timelines of the device's queues, to which this adds its own.

        With `holds` nothing goes to the queue before what it waits for has settled: copies must pass it there.
        """
        super().__init__(context, context.location, f"{context.name} queue {queue.number}")
        self.timeline, self.gates = Timeline(context), Gates(context)
        self._queue = queue
        peers.append(self.timeline)
        self._submission = Submission(context, self.timeline, self.gates.timeline, peers)
        self._pending_count = self._last = 0
        self._held: Held[_Job] | None = Held(self._go, self._end_if_idle) if holds else None
        context.tell_while_alive(self._lose)

    @property
    def pending_count(self) -> int:
        """Submissions that have not settled."""
        return self._pending_count + len(self._held or ())

    def submit(
        self,
        instance: Recorded,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        waits: Sequence[CompletionHandle] = (),
        *,
        stop: StopFlag | None = None,
    ) -> CompletionHandle:
        """See `Lane.submit`. The work is on the queue when this returns, behind a gate where it waits for others."""
        job = _Job(self, instance, (feeds, outputs, sessions, scalars), waits)
        try:
            if stop is not None and stop.stopped:
                raise Stopped
            if self._held is None:
                self._enqueue(job, *self._sorted(waits))
            else:
                self._hold(job, self._held)
        except BaseException as error:
            self._refuse(job, without_frames(error))
        return job.handle

    # --- inside -----------------------------------------------------------------------------------

    def _enqueue(self, job: _Job, siblings: Sequence[Point], others: Sequence[CompletionHandle]) -> None:
        """Put a job on the queue, after `siblings` and behind a gate for `others`."""
        commands, code = job.instance.commands(job.given), SUCCESS
        with self._lock:
            refused = self._refusal(is_accepted=job.is_accepted)
            if refused is None:
                job.gate = self.gates.make() if others else None
                code = self._queue.submit(self._submission, commands, self._last + 1, siblings, job.gate)
            if refused is None and code == SUCCESS:
                self._last += 1
                job.point.value = self._last
                self._pending_count += 1
                self._pending_ns += job.predicted_ns
                self._jobs.put(job)
        if job.gate is not None and code == SUCCESS:
            self.gates.watch(job.gate, others, job.opened)
        elif job.gate is not None:
            self.gates.open(job.gate)
        # Outside of the lock: who hears of a loss may submit.
        refused = refused or (None if code == SUCCESS else self.context.failed(code, "vkQueueSubmit"))
        if refused is not None:
            raise refused

    def _hold(self, job: _Job, held: Held[_Job]) -> None:
        with self._lock:
            refused = self._refusal()
            if refused is None:
                job.is_accepted = True
        if refused is not None:
            raise refused
        held.add(job, [wait for wait in job.waits if not self._precedes(wait)])

    def _go(self, job: _Job) -> None:
        """What a held job waited for has settled."""
        job.opened()
        try:
            error = first_error(job.waits)
            if error is not None:
                raise error
            self._enqueue(job, (), ())
        except BaseException as error:
            self._refuse(job, without_frames(error))

    def _lose(self) -> None:
        """The device is lost: nobody waits for anything any more."""
        self.gates.open_all()
        for job in self._held.take_all() if self._held is not None else ():
            self._refuse(job, fresh(self.context.lost) if self.context.lost is not None else ExecutorClosed())

    def _precedes(self, wait: CompletionHandle) -> bool:
        """Whether the work waited for has ended, or has its turn in this lane before whatever is submitted now."""
        return wait.done() or getattr(wait.completion, "owner", None) is self.order

    def _sorted(self, waits: Sequence[CompletionHandle]) -> tuple[list[Point], list[CompletionHandle]]:
        """What other queues of the device will have reached, and what only a gate can wait for."""
        siblings: list[Point] = []
        others: list[CompletionHandle] = []
        for wait in waits:
            point = wait.completion
            if self._precedes(wait):
                continue
            beside = isinstance(point, Point) and point.timeline.context is self.context and point.value is not None
            if beside and len(siblings) < MOST_SIBLINGS:
                assert isinstance(point, Point)
                siblings.append(point)
            else:
                others.append(wait)
        return siblings, others

    def _server(self) -> Callable[[], None]:
        return _Server(self, self._jobs).serve

    def _refuse(self, job: _Job, error: BaseException) -> None:
        now_ns = job.handle.submitted_ns
        job.point.set()
        job.handle.settle(Timing(self.location, self.name, now_ns, now_ns, now_ns, 0), error)
        if self._closed:
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        """Let the thread end when the lane is closed and has nothing left."""
        with self._lock:
            idle = self._closed and not self._pending_count
        if idle and not self._held:
            self._jobs.put(None)

    def ended(self, job: _Job, started_ns: int, error: BaseException | None) -> None:
        """The device is through with a job. Called by the lane's thread."""
        now_ns = perf_counter_ns()
        with self._lock:
            self._pending_count -= 1
            self._pending_ns -= job.predicted_ns
            self._busy_ns += now_ns - started_ns
        timing = Timing(self.location, self.name, job.handle.submitted_ns, started_ns, now_ns, now_ns - started_ns)
        late = () if error is not None else [wait for wait in job.waits if not wait.done()]
        if late:  # a sibling's thread may be a moment behind
            when_all(late, lambda: _settle(job, timing, None))
        else:
            _settle(job, timing, error)
        if self._closed:
            self._end_if_idle()


def _settle(job: _Job, timing: Timing, error: BaseException | None) -> None:
    error = error or first_error(job.waits)
    job.given, job.waits = (), ()
    del job.instance, job.lane
    job.point.set()
    job.handle.settle(timing, error)


class _Server:
    """The thread's side. It does not hold the lane: one that nobody refers to is collected, and this ends."""

    __slots__ = ("_deadline_ns", "_jobs", "_timeline")

    def __init__(self, lane: VulkanLane, jobs: SimpleQueue[_Job | None]) -> None:
        self._jobs, self._timeline = jobs, lane.timeline
        self._deadline_ns = int(lane.context.options.deadline_s * 1e9)

    def serve(self) -> None:
        context, waiter = self._timeline.context, self._timeline.waiter()
        reached, free_ns = 0, 0
        while True:
            job = self._jobs.get()
            if job is None:
                return
            value = job.point.value
            assert value is not None  # it is on the queue
            try:
                while value > reached:
                    status = waiter.wait(value)
                    if status is WaitStatus.REACHED:
                        reached = value if self._jobs.empty() else waiter.reached()
                    elif status is WaitStatus.LOST:
                        break
                    else:
                        self._look(context, job, free_ns)
            except DeviceError as caught:
                context.lose(DeviceLost(context.name, str(caught)))
            # What was reached after the loss may have run through a gate that the loss has opened.
            error = context.lost
            started_ns = max(job.ready_ns, free_ns)
            free_ns = perf_counter_ns()
            job.lane.ended(job, min(started_ns, free_ns), error)
            del job, error  # an idle lane keeps nothing alive

    def _look(self, context: Context, job: _Job, free_ns: int) -> None:
        """After a round without news: give a device up that has worked on one submission for too long."""
        if job.gate is not None and not job.gate.is_open:
            return
        worked_ns = perf_counter_ns() - max(job.ready_ns, free_ns)
        if worked_ns > self._deadline_ns:
            reason = f"{job.lane.name} has worked on one submission for {worked_ns / 1e9:.1f} s"
            context.lose(DeviceLost(context.name, reason), hangs=True)
