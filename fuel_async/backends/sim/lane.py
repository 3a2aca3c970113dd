"""Lanes in simulated time: what happens to a submission from its queue to its settling.

A job starts when the one before has ended and its waits have settled, and ends when its simulated time is over. It is
computed for real. In virtual time that happens at its end, in the thread that advances the clock: whoever reads a
result too early, or overwrites an operand too early, gets wrong numbers. In scaled time it happens meanwhile, in a
thread of the lane, and the job ends when both are through.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from functools import partial
from queue import SimpleQueue
from time import thread_time_ns
from typing import TYPE_CHECKING

from fuel_async.backends.sim.hands import work
from fuel_async.errors import DeviceLost, ExecutorClosed
from fuel_async.streams import Timing

if TYPE_CHECKING:
    from random import Random

    from fuel_async.backends.sim.job import Job
    from fuel_async.backends.sim.site import Port, Site
    from fuel_async.ir import DeviceLocation
    from fuel_async.registry import Inflight
    from fuel_async.streams import CompletionHandle

#: A lane that never asks a loop for courtesy: `LoopShare` looks after lanes by this.
NEVER = 1 << 62


def nothing() -> None:
    """The work of a job that is over."""


class Track:
    """An ordered queue in simulated time. All methods take any thread and never block for long."""

    def __init__(
        self,
        site: Site,
        name: str,
        location: DeviceLocation,
        random: Random,
        inflight: Inflight | None = None,
        ports: tuple[Port, ...] = (),
    ) -> None:
        self.site, self.core = site, site.core
        self.name, self.location, self.inflight = name, location, inflight
        #: Known to the completions of this lane's own work.
        self.order = object()
        self.due_ns = NEVER
        self._random, self._ports = random, ports
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._free_ns = 0
        self._pending_count = self._pending_ns = self._busy_ns = 0
        self._closed = False
        self._hands: SimpleQueue[Job | None] = SimpleQueue()
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
        """Simulated time that the lane has worked since it was made."""
        return self._busy_ns

    def enter(self, job: Job, refused: BaseException | None = None) -> CompletionHandle:
        """Queue a job, or settle it with `refused` at once."""
        others = [wait for wait in job.waits if not self._precedes(wait)]
        with self.core.lock:
            refused = refused or self._refusal()
            if refused is None:
                self._pending_count += 1
                self._pending_ns += job.predicted_ns
                self.core.pending_count += 1
                job.waiting = len(others)
                job.error = self.site.armed.popleft() if self.site.armed else None
                self._queue.append(job)
        if refused is not None:
            now_ns = job.handle.submitted_ns
            job.signal.set()
            job.handle.settle(Timing(self.location, self.name, now_ns, now_ns, now_ns, 0), refused)
            return job.handle
        for wait in others:
            wait.add_done_callback(partial(self._released, job))
        self.pump()
        return job.handle

    def pump(self) -> None:
        """Start what can start now."""
        while (job := self._take()) is not None:
            error = job.refusal()
            if error is None:
                error = self._begin(job)
                if error is None:
                    return
            self._retire(job, error, job.started_ns)

    def abandon(self, error: BaseException) -> None:
        """Settle everything with `error`: at once, but for a job whose kernels run at this moment."""
        with self.core.lock:
            jobs, running = list(self._queue), self._running
            if running is not None:
                self._forget_event(running)
                if running.computing:  # buffers are in use until it is through
                    running.error, running.parts = error, 1
                else:
                    jobs.insert(0, running)
        now_ns = self.core.clock.now_ns()
        for job in jobs:
            self._retire(job, error, now_ns)

    def retime(self) -> None:
        """Plan the end of what runs anew, after the timeline has changed."""
        with self.core.lock:
            job = self._running
            if job is not None and job.parts and not job.elapsed:
                self._forget_event(job)
                self._plan_end(job)

    def close(self) -> None:
        """Refuse further work; the thread, if any, ends after what is queued. Idempotent, never blocks."""
        with self.core.lock:
            idle = not self._closed and not self._pending_count
            self._closed = True
        if idle:
            self._hands.put(None)

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    # --- inside ---------------------------------------------------------------------------------------------

    def _precedes(self, wait: CompletionHandle) -> bool:
        return wait.done() or getattr(wait.completion, "owner", None) is self.order

    def _refusal(self) -> BaseException | None:
        if self.site.lost is not None:
            return self.site.lost
        if self._closed:
            return ExecutorClosed()
        if self._thread is None and not self.core.clock.is_virtual:
            # The thread does not hold the lane: one that nobody refers to is collected, and its thread ends.
            thread = threading.Thread(target=work, args=(self._hands,), name=f"fuel_async {self.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                return DeviceLost(f"{self.name} of {self.location}", str(error))
            self._thread = thread
            weakref.finalize(self, self._hands.put, None).atexit = False
        return None

    def _released(self, job: Job, wait: CompletionHandle) -> None:
        with self.core.lock:
            job.waiting -= 1
            job.ready_ns = self.core.clock.now_ns()
        self.pump()

    def _take(self) -> Job | None:
        """The next job, if it may start: it then is the one that runs."""
        with self.core.lock:
            if self._running is not None or not self._queue or self._queue[0].waiting:
                return None
            if any(port.busy for port in self._ports):
                if self not in self.core.blocked:
                    self.core.blocked.append(self)
                return None
            job = self._running = self._queue.popleft()
            for port in self._ports:
                port.busy = True
            job.started_ns = max(self._free_ns, job.ready_ns, *[port.free_ns for port in self._ports])
            return job

    def _begin(self, job: Job) -> BaseException | None:
        """Let its time run; the error of a clock that does not."""
        virtual = self.core.clock.is_virtual
        with self.core.lock:
            if job.retired or self.site.lost is not None:  # since it was taken
                return self.site.lost
            job.work_ns = max(1.0, self.site.duration_ns(job.true_ns, self._random))
            job.parts = 1 if virtual else 2
            try:
                self._plan_end(job)
            except DeviceLost as error:
                return error
        if not virtual:
            self._hands.put(job)
        return None

    def _plan_end(self, job: Job) -> None:
        job.end_ns = self.site.timeline.finish_ns(job.started_ns, job.work_ns)
        if job.end_ns is not None:
            job.event = self.core.clock.call_at(job.end_ns, partial(self._elapsed, job, job.turn))

    def _forget_event(self, job: Job) -> None:
        job.turn += 1
        if job.event is not None:
            job.event.cancel()

    def _elapsed(self, job: Job, turn: int) -> None:
        """Its time is over."""
        with self.core.lock:
            if job.turn != turn or job.retired:
                return
            job.elapsed = True
        self._part_ended(job, job.compute() if self.core.clock.is_virtual else None)

    def compute(self, job: Job) -> None:
        """Do its work, in the lane's thread."""
        with self.core.lock:
            if job.retired:
                return
            job.computing = True
        try:
            began_ns = thread_time_ns()
            error = job.compute()
            job.spent_ns = int((thread_time_ns() - began_ns) * self.core.clock.scale)
            self._part_ended(job, error)
        except BaseException as error:
            self.core.broken(f"the thread of {self.name} died of {type(error).__name__}: {error}")
            self._retire(job, self.site.lost, self.core.clock.now_ns())
            raise

    def _part_ended(self, job: Job, error: BaseException | None) -> None:
        with self.core.lock:
            job.parts -= 1
            job.error = job.error or error
            if job.parts:
                job.computing = False
                return
            job.computing = False
            finished_ns = self.core.clock.now_ns()
            if job.elapsed and job.end_ns is not None:
                # Late only by its arithmetic: what threads were late by is nobody's time.
                finished_ns = max(job.end_ns, job.started_ns + job.spent_ns)
        self._retire(job, job.error, finished_ns)
        self.pump()

    def _retire(self, job: Job, error: BaseException | None, finished_ns: int) -> None:
        """Take a job off the books and settle it, once."""
        with self.core.lock:
            if job.retired:
                return
            job.retired = True
            # Whoever hears of the end may want the memory that it worked on.
            job.call, job.event = nothing, None
            finished_ns = max(finished_ns, job.started_ns)
            if self._running is job:
                self._running = None
                self._free_ns = finished_ns
                self._busy_ns += finished_ns - job.started_ns
                for port in self._ports:
                    port.busy, port.free_ns = False, finished_ns
            else:
                job.started_ns = finished_ns  # it never did
                self._queue.remove(job)
            self._pending_count -= 1
            self._pending_ns -= job.predicted_ns
            self.core.pending_count -= 1
            last, all_done = self._closed and not self._pending_count, self.core.closed and not self.core.pending_count
            self._count(job, error)
        self._wake_blocked()  # before what somebody submits when he is told
        job.signal.set()
        took_ns = finished_ns - job.started_ns
        handle = job.handle
        handle.settle(
            Timing(self.location, self.name, handle.submitted_ns, job.started_ns, finished_ns, took_ns), error
        )
        if last:
            self._hands.put(None)
        if all_done:
            self.core.idle()

    def _count(self, job: Job, error: BaseException | None) -> None:
        """What a kind of lane counts besides. The machine's lock is held."""

    def _wake_blocked(self) -> None:
        """Let the links that wait for a port try again."""
        if not self._ports:
            return
        with self.core.lock:
            blocked = list(self.core.blocked)
            self.core.blocked.clear()
        for track in blocked:
            track.pump()
