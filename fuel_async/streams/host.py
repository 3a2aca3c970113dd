"""The host lane: an ordered queue and the thread that serves it.

numpy kernels on small arrays never release the interpreter, and a thread that runs thousands of them starves the event
loop. So the thread sleeps for at least 50 µs after every stretch of such work (a shorter sleep or a bare yield is
worse than none: each release restarts the waiter's timer), and publishes when it is next due, so that a busy loop can
see it starve in turn (`streams.loop_share`). The stretch adapts to what a sleep costs on this machine, and grows
while no other thread of the process has anything to do.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fuel_async.errors import DeviceLost, ExecutorClosed, ShapeMismatch, Stopped
from fuel_async.registry import Inflight, inflight_of
from fuel_async.streams.completion import CompletionHandle, HostSignal, Timing
from fuel_async.streams.errors import without_frames

if TYPE_CHECKING:
    from fuel_async.ir import DeviceLocation
    from fuel_async.streams.lane import StopFlag

#: Kernels that hold the interpreter run for at least and at most this long between two sleeps.
STRETCH_NS = 200_000
LONGEST_STRETCH_NS = 350_000

#: A stretch lasts this many times as long as a sleep costs: the price of giving away stays near a quarter.
STRETCH_PER_SLEEP = 2.5

#: Other threads that used less processor time than this since the last sleep had nothing to do.
IDLE_NS = 15_000

#: The shortest sleep that another thread can wake up in.
SLEEP_NS = 50_000

#: How late a lane may be before a loop helps it.
LATE_NS = 100_000

#: The same for work that has not started: an idle lane must wake up first, which takes that long on a slow machine
#: whatever the loop does. A loop that sleeps for it then only makes it later.
START_LATE_NS = 500_000

#: Work predicted below this is measured by the thread's own time, without its waits for the interpreter.
EXACT_NS = 200_000

#: `due_ns` of a lane that is not waiting for anything.
NEVER = 1 << 62


class HostCall(Protocol):
    """What a host lane can run: a bound instance, or a single bound kernel."""

    @property
    def predicted_ns(self) -> int:
        """What it is expected to take."""

    @property
    def measures(self) -> bool:
        """Whether somebody wants to know exactly how long the next run of it works."""

    def execute(
        self,
        feeds: Sequence[Any],
        outputs: Sequence[Any],
        sessions: Sequence[Any],
        scalars: Sequence[Any],
        stop: StopFlag | None,
        pace: Callable[[bool, int], None] | None,
    ) -> None:
        """Run to the end, calling `pace(holds, cost_ns)` before each stretch of kernels; `Stopped` when told to."""


#: Feeds, outputs, sessions and scalars of a submission.
_Bound = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]
_NOTHING: _Bound = ((), (), (), ())


class _Job(HostSignal):
    """A submission, and the signal that it is done. It holds its lane: a lane lives as long as it has work."""

    __slots__ = ("bound", "handle", "instance", "lane", "predicted_ns", "stop", "waiting")

    def __init__(
        self, lane: HostLane, instance: HostCall, bound: _Bound, stop: StopFlag | None, node: int | None
    ) -> None:
        self.owner, self._reached, self._waiters = lane.order, False, []
        self.lane, self.instance, self.bound, self.stop = lane, instance, bound, stop
        self.predicted_ns = predicted_ns = instance.predicted_ns
        self.waiting = 0
        #: None once it is settled: then the handle holds the signal, and the signal nothing.
        self.handle: CompletionHandle | None = CompletionHandle(
            self, lane.location, lane.name, perf_counter_ns(), node, predicted_ns, lane.inflight
        )

    def finish(self) -> CompletionHandle:
        """Let go of everything that the work needed, set the signal, and return the handle that is to be settled."""
        handle, self.handle = self.handle, None
        assert handle is not None  # it is finished once, by the lane
        self.bound, self.stop = _NOTHING, None
        del self.instance, self.lane
        self.set()
        return handle


class HostLane:
    """A worker thread behind a queue. Its thread starts with the first submission and ends with `close`."""

    def __init__(
        self,
        name: str,
        location: DeviceLocation,
        *,
        counted: bool = True,
        longest_stretch_ns: int = LONGEST_STRETCH_NS,
    ) -> None:
        """Name a lane of a host device. Nothing runs yet. Work that is not `counted` is none of the device's."""
        self.name, self.location = name, location
        self.inflight: Inflight | None = inflight_of(location) if counted else None
        self.longest_stretch_ns = longest_stretch_ns
        self.due_ns = NEVER
        #: Known to the completions of this lane's own work.
        self.order = object()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        #: Work whose turn has not come since the first of it waits for others.
        self._held: deque[_Job] = deque()
        self._lock = threading.Lock()  # `+=` on an attribute is not atomic
        self._pending_count = self._pending_ns = 0
        self._busy_ns = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def pending_count(self) -> int:
        """Submissions that have not settled."""
        return self._pending_count

    @property
    def pending_ns(self) -> int:
        """Their predicted time."""
        return self._pending_ns

    @property
    def busy_ns(self) -> int:
        """Time the lane has worked since it was made."""
        return self._busy_ns

    def submit(
        self,
        instance: HostCall,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        waits: Sequence[CompletionHandle] = (),
        *,
        stop: StopFlag | None = None,
        node: int | None = None,
    ) -> CompletionHandle:
        """See `Lane.submit`. `node` labels the handle of a single kernel."""
        if waits:
            # The error of a failed wait is found when the job's turn comes: its handle then settles in lane order.
            instance = _After(instance, tuple(waits))
        job = _Job(self, instance, (feeds, outputs, sessions, scalars), stop, node)
        # What this lane was given before runs before: only completions of others can hold a job back.
        others = [wait for wait in waits if not self._precedes(wait)] if waits else ()
        handle = job.handle
        assert handle is not None  # nobody has finished it yet
        if not others:
            due_ns = handle.submitted_ns + START_LATE_NS
            if due_ns < self.due_ns:
                self.due_ns = due_ns
        with self._lock:
            refused = None if self._thread is not None and not self._closed else self._refusal()
            if refused is None:
                self._pending_count += 1
                self._pending_ns += job.predicted_ns
                job.waiting = len(others)
                if others or self._held:
                    self._held.append(job)
                else:
                    self._jobs.put(job)
        if refused is not None:
            job.finish()
            now_ns = handle.submitted_ns
            handle.settle(Timing(self.location, self.name, now_ns, now_ns, now_ns, 0), refused)
        elif others:
            self._release_after(job, others)
        return handle

    def submit_copy(
        self, src: np.ndarray[Any, Any], dst: np.ndarray[Any, Any], waits: Sequence[CompletionHandle] = ()
    ) -> CompletionHandle:
        """See `Lane.submit_copy`: numpy arrays of equal shape; strides are followed, dtypes must agree."""
        return self.submit(_Copy(src, dst), waits=waits)

    def close(self) -> None:
        """Refuse further work; the thread ends after what is queued. Idempotent, never blocks."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            idle = not self._pending_count
        if idle:
            self._jobs.put(None)

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _precedes(self, wait: CompletionHandle) -> bool:
        """Whether the work waited for has ended, or has its turn in this lane before whatever is submitted now."""
        return wait.done() or getattr(wait.completion, "owner", None) is self.order

    def _refusal(self) -> Exception | None:
        """Why nothing can be submitted; None when something can: then the thread runs."""
        if self._closed:
            return ExecutorClosed()
        if self._thread is None:
            server = _Server(self, self._jobs)
            thread = threading.Thread(target=server.serve, name=f"fuel_async {self.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                return DeviceLost(f"{self.name} of {self.location}", str(error))
            self._thread = thread
        return None

    def _release_after(self, job: _Job, waits: Sequence[CompletionHandle]) -> None:
        def settled(wait: CompletionHandle) -> None:
            held = self._held
            with self._lock:
                job.waiting -= 1
                while held and not held[0].waiting:
                    self._jobs.put(held.popleft())
            self.due_ns = min(self.due_ns, perf_counter_ns() + START_LATE_NS)

        for wait in waits:
            wait.add_done_callback(settled)

    def settled(self, job: _Job, started_ns: int, work_ns: int | None, error: BaseException | None) -> None:
        """Account for a finished job and settle its handle. Called by the lane's thread."""
        now_ns = perf_counter_ns()
        if work_ns is None:
            work_ns = now_ns - started_ns
        with self._lock:
            self._pending_count -= 1
            self._pending_ns -= job.predicted_ns
            self._busy_ns += now_ns - started_ns
            last = self._closed and not self._pending_count
        self.due_ns = NEVER if not self._pending_count else now_ns + START_LATE_NS
        handle = job.finish()
        handle.settle(Timing(self.location, self.name, handle.submitted_ns, started_ns, now_ns, work_ns), error)
        if last:
            self._jobs.put(None)


class _After:
    """An instance that runs only if what it waited for succeeded."""

    __slots__ = ("instance", "measures", "predicted_ns", "waits")

    def __init__(self, instance: HostCall, waits: tuple[CompletionHandle, ...]) -> None:
        self.instance, self.waits, self.predicted_ns = instance, waits, instance.predicted_ns
        self.measures = getattr(instance, "measures", False)

    def execute(self, *bound: Any) -> None:
        for wait in self.waits:
            wait.result()
        self.instance.execute(*bound)


class _Copy:
    """A copy of one array into another."""

    __slots__ = ("dst", "predicted_ns", "src")
    measures = False

    def __init__(self, src: np.ndarray[Any, Any], dst: np.ndarray[Any, Any]) -> None:
        self.src, self.dst, self.predicted_ns = src, dst, 1_000 + src.nbytes // 4

    def execute(self, *_: Any) -> None:
        if self.src.shape != self.dst.shape:  # numpy would broadcast
            raise ShapeMismatch("copy", "the arrays differ in shape", [self.src.shape, self.dst.shape])
        np.copyto(self.dst, self.src, casting="no")


class _Server:
    """The thread's side. It does not hold the lane: an idle lane that nobody refers to is collected, and this ends."""

    __slots__ = ("_due", "_gave_ns", "_jobs", "_longest_ns", "_others_ns", "_sleep_s", "_stretch_ns")

    def __init__(self, lane: HostLane, jobs: SimpleQueue[_Job | None]) -> None:
        self._jobs, self._longest_ns = jobs, lane.longest_stretch_ns
        self._gave_ns, self._stretch_ns, self._sleep_s, self._others_ns = 0, STRETCH_NS, 0.0, 0
        #: The lane whose job runs.
        self._due: HostLane | None = None
        weakref.finalize(lane, jobs.put, None).atexit = False

    def serve(self) -> None:
        np.seterr(all="ignore")  # numpy's error state belongs to a context: a new thread has the default one
        self._sleep_s = _shortest_sleep_s()
        jobs, pace = self._jobs, self._pace
        ended_ns = perf_counter_ns()
        while True:
            idle = jobs.empty()
            job = jobs.get()
            if job is None:
                return
            lane, stop = job.lane, job.stop
            self._due = lane
            started_ns = perf_counter_ns()
            # Only its own work counts towards the next sleep: between two jobs others had the interpreter.
            self._gave_ns = started_ns if idle else self._gave_ns + started_ns - ended_ns
            error: BaseException | None = None
            # Asking for the thread's own time is a system call: only for what may turn out to run in place.
            exact = job.predicted_ns < EXACT_NS and getattr(job.instance, "measures", False)
            work_ns = thread_time_ns() if exact else 0
            try:
                if stop is not None and stop.stopped:
                    raise Stopped
                job.instance.execute(*job.bound, stop, pace)
            except BaseException as caught:  # a lane outlives whatever a kernel raises
                error = without_frames(caught)
            lane.settled(job, started_ns, thread_time_ns() - work_ns if exact else None, error)
            self._due = None
            ended_ns = perf_counter_ns()
            del job, lane, stop, error  # an idle lane keeps nothing alive

    def _pace(self, holds: bool, cost_ns: int) -> None:
        """Before a stretch of kernels: sleep if it is due, and say by when the next word is to be expected."""
        now_ns = perf_counter_ns()
        lane = self._due
        if lane is None:
            return
        if holds and now_ns - self._gave_ns > self._stretch_ns:
            lane.due_ns = now_ns + LATE_NS
            time.sleep(self._sleep_s)
            woke_ns = perf_counter_ns()
            self._adapt(woke_ns - now_ns)
            now_ns = self._gave_ns = woke_ns
        lane.due_ns = now_ns + cost_ns + LATE_NS

    def _adapt(self, slept_ns: int) -> None:
        """Set the next stretch: by the price of a sleep while others are at work, longer and longer while none is."""
        others_ns = process_time_ns() - thread_time_ns()
        if others_ns - self._others_ns > IDLE_NS:
            wanted_ns = max(int(slept_ns * STRETCH_PER_SLEEP), STRETCH_NS)
        else:
            wanted_ns = self._stretch_ns * 3 // 2
        self._others_ns = others_ns
        self._stretch_ns = min(wanted_ns, self._longest_ns)


def _shortest_sleep_s() -> float:
    """The shortest argument of `time.sleep` that sleeps for `SLEEP_NS` here.

    A sleep of 0 lasts as long as the kernel's timer slack, 50 µs by default; with less slack it must be asked for.
    """
    slept = []
    for _ in range(3):
        start_ns = perf_counter_ns()
        time.sleep(0)
        slept.append(perf_counter_ns() - start_ns)
    return 0.0 if min(slept) >= SLEEP_NS else SLEEP_NS / 1e9
