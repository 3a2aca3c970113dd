"""Lines: work on one stream in order, and the thread that hears of its ends.

What work waits for is on the same stream, and precedes it; or on another stream of some CUDA device, whose event the
stream then waits for; or elsewhere, and then the host holds the work back until it has settled.
"""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fuel_async.backends.cuda.points import Point
from fuel_async.backends.cuda.statuses import error_of
from fuel_async.backends.cuda.streams import Stream
from fuel_async.backends.grids.holding import Held
from fuel_async.errors import DeviceLost, ExecutorClosed, FuelError
from fuel_async.registry import Inflight, inflight_of
from fuel_async.streams import Timing, fresh, without_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.watch import Watch
    from fuel_async.backends.cuda.work import Work
    from fuel_async.streams import CompletionHandle


class Line:
    """One stream with its thread, which starts with the first work and ends with `close`, or with the last holder."""

    def __init__(self, context: Context, watch: Watch, name: str, *, counted: bool = True) -> None:
        """Make the stream. Work that is not `counted` is none of the device's. `DeviceError`."""
        self.context, self.location, self.name = context, context.location, name
        self.inflight: Inflight | None = inflight_of(context.location) if counted else None
        #: Known to the completions of this line's own work.
        self.order = object()
        self.stream = Stream(context)
        self._watch = watch
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Work | None] = SimpleQueue()
        #: What is on the stream or waits for the thread, in order.
        self._line: dict[Work, None] = {}
        self._pending_ns = self._busy_ns = 0
        #: How much of it the thread has yet to put on the stream: what comes behind must wait for that.
        self._late = 0
        #: What the thread waits for, and since when the stream was free for it.
        self._current: Work | None = None
        self._free_ns = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._held: Held[Work] = Held(self._go, self._end_if_idle)
        context.tell_while_alive(self._lose)
        watch.add(self)

    @property
    def pending_count(self) -> int:
        """Submissions that have not settled."""
        return len(self._line) + len(self._held)

    @property
    def pending_ns(self) -> int:
        """Their predicted time."""
        return self._pending_ns

    @property
    def busy_ns(self) -> int:
        """Time the stream has worked since it was made."""
        return self._busy_ns

    @property
    def is_running(self) -> bool:
        """Whether its thread has begun and not ended."""
        return self._thread is not None and self._thread.is_alive()

    def take(self, work: Work) -> CompletionHandle:
        """Put work on the stream, or hold it back until it can go there. Never blocks, never raises."""
        try:
            error = work.refusal()
            if error is not None:
                raise error
            siblings, others = self._sorted(work)
            if others or len(self._held):
                self._hold(work, others)
            else:
                self._put(work, siblings)
        except BaseException as error:
            self.refuse(work, without_frames(error))
        return work.handle

    def close(self) -> None:
        """Refuse further work; the thread ends after what is there. Idempotent, never blocks."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._end_if_idle()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def refuse(self, work: Work, error: BaseException) -> None:
        """Settle work that never came to the stream."""
        now_ns = work.handle.submitted_ns
        work.let_go()
        work.settle(Timing(self.location, self.name, now_ns, now_ns, now_ns, 0), error)
        if self._closed:
            self._end_if_idle()

    # --- submitting -------------------------------------------------------------------------------

    def _sorted(self, work: Work) -> tuple[list[Point], list[CompletionHandle]]:
        """What other streams will have reached, and what only the host can wait for."""
        siblings: list[Point] = []
        others: list[CompletionHandle] = []
        for wait in work.waits:
            point = wait.completion
            if wait.done():
                continue
            if work.reads_host or not isinstance(point, Point):
                others.append(wait)
            elif point.owner is not self.order:
                if point.event is None:
                    others.append(wait)
                else:
                    siblings.append(point)
        return siblings, others

    def _hold(self, work: Work, others: Sequence[CompletionHandle]) -> None:
        with self._lock:
            refused = self._refusal()
            if refused is not None:
                raise refused
            work.is_accepted = True
        self._held.add(work, others)

    def _go(self, work: Work) -> None:
        """What held work waited for has settled."""
        work.ready_ns = perf_counter_ns()
        try:
            error = work.refusal()
            if error is not None:
                raise error
            self._put(work, self._sorted(work)[0])
        except BaseException as error:
            self.refuse(work, without_frames(error))

    def _put(self, work: Work, siblings: Sequence[Point]) -> None:
        """Put work on the stream behind `siblings`, or leave that to the thread."""
        failed: Exception | None = None
        with self._lock:
            refused = self._refusal(is_accepted=work.is_accepted)
            if refused is None:
                work.is_late = bool(self._late) or not work.can_begin()
                if work.is_late:
                    work.siblings = siblings
                    self._late += 1
                else:
                    failed = self._begin(work, siblings)
            if refused is None and failed is None:
                self._line[work] = None
                self._pending_ns += work.handle.predicted_ns
                self._jobs.put(work)
        # Outside of the lock: who hears of a loss may submit.
        if failed is not None:
            raise self.context.failed(failed, "the launch")
        if work.error is not None:
            self.context.noted(work.error)
        if refused is not None:
            raise refused
        self._watch.wake()

    def _begin(self, work: Work, siblings: Sequence[Point]) -> Exception | None:
        """The error after which nothing of the work is on the stream; one that came later is the work's own."""
        context, stream, event = self.context, self.stream, None
        try:
            with context.here():
                event = context.events.take()
                for point in siblings:
                    if (theirs := point.event) is not None:  # None: it has been reached meanwhile
                        stream.raw.wait_event(theirs)
                try:
                    work.begin(stream)
                except Exception as error:
                    work.error = error_of(context.name, "the launch", error)
                try:
                    event.record(stream.raw)
                except Exception as error:
                    return context.unheard(work.error or error, "cudaEventRecord")
                work.event = work.point.event = event
        except Exception as error:
            if event is not None and work.event is None:
                context.events.give(event)
            return error
        return None

    def _refusal(self, *, is_accepted: bool = False) -> BaseException | None:
        """Why nothing can be submitted; None when something can: then the thread runs."""
        if self.context.lost is not None:
            return fresh(self.context.lost)
        if self._closed and not is_accepted:
            return ExecutorClosed()
        if self._thread is None:
            thread = threading.Thread(
                target=_serve, args=(self.context, self._jobs), name=f"fuel_async {self.name}", daemon=True
            )
            weakref.finalize(self, self._jobs.put, None).atexit = False
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                return DeviceLost(f"{self.name} of {self.location}", str(error))
            self._thread = thread
        return None

    # --- ends -------------------------------------------------------------------------------------

    def serve(self, work: Work) -> None:
        """See work through to its end. Called by the line's thread, with its device current."""
        self._current = work
        error: BaseException | None = None
        try:
            if work.is_late:
                self._perform(work)
            elif work.event is not None:
                self.context.wait(work.event)
                self.context.events.give(work.event)
            if work.error is None and self.context.lost is None:
                work.finish()
        except Exception as caught:
            error = without_frames(caught)
        work.let_go()
        # What was reached after the loss has been spoilt by it.
        self._ended(work, self.context.lost or work.error or error)
        self._current = None

    def _perform(self, work: Work) -> None:
        try:
            if self.context.lost is not None:
                raise fresh(self.context.lost)
            for point in work.siblings:
                if (theirs := point.event) is not None:
                    self.stream.raw.wait_event(theirs)
            work.perform(self.stream)
        except Exception as error:
            raise self.context.failed(error, "the copy") from None
        finally:
            with self._lock:
                self._late -= 1

    def _ended(self, work: Work, error: BaseException | None) -> None:
        now_ns, free_ns = perf_counter_ns(), self._free_ns
        self._free_ns = now_ns
        timing = self._timing(work, free_ns, now_ns)
        with self._lock:
            if work not in self._line:
                return  # it was given up
            del self._line[work]
            self._pending_ns -= work.handle.predicted_ns
            self._busy_ns += timing.work_ns
        late = () if error is not None else [wait for wait in work.waits if not wait.done()]
        if late:
            self._settle_after(work, late, free_ns, now_ns)
        else:
            work.settle(timing, error)
        if self._closed:
            self._end_if_idle()

    def _timing(self, work: Work, free_ns: int, now_ns: int) -> Timing:
        """When it ran: from when the stream was free and all that it waited for had ended, as far as that is known."""
        ends = [
            outcome.finished_ns for wait in work.waits if wait.done() and isinstance(outcome := wait.outcome(), Timing)
        ]
        started_ns = min(max(work.ready_ns, free_ns, *ends), now_ns)
        return Timing(self.location, self.name, work.handle.submitted_ns, started_ns, now_ns, now_ns - started_ns)

    def _settle_after(self, work: Work, late: Sequence[CompletionHandle], free_ns: int, now_ns: int) -> None:
        """Settle when it is known how what it waited for ended: another line's thread may be a moment behind."""
        work.before = len(late)

        def settled(_: CompletionHandle) -> None:
            with self._lock:
                work.before -= 1
                last = not work.before
            if last:
                work.settle(self._timing(work, free_ns, now_ns), None)

        for wait in late:
            wait.add_done_callback(settled)

    def _end_if_idle(self) -> None:
        """Let the thread end when the line is closed and has nothing left."""
        with self._lock:
            idle = self._closed and not self._line
        if idle and not len(self._held):
            self._jobs.put(None)
            self._watch.remove(self)

    # --- loss -------------------------------------------------------------------------------------

    def _lose(self) -> None:
        """The device is lost: nothing goes to the stream any more."""
        for work in self._held.take_all():
            self.refuse(work, fresh(self.context.lost) if self.context.lost is not None else ExecutorClosed())

    def worked_ns(self, now_ns: int) -> int:
        """How long the stream has worked on what its thread waits for; 0 while that waits for others."""
        work = self._current
        if work is None:
            return 0
        if any(not wait.done() for wait in work.waits):
            work.ready_ns = now_ns
        return now_ns - max(work.ready_ns, self._free_ns)

    def give_up(self, error: FuelError) -> None:
        """Settle everything with `error`: the thread hangs in the driver. What the device may work on is kept."""
        with self._lock:
            works = list(self._line)
            self._line.clear()
            self._pending_ns = 0
        for work in works:
            self.context.bury((work.held, work.event))
            now_ns = perf_counter_ns()
            work.settle(Timing(self.location, self.name, work.handle.submitted_ns, now_ns, now_ns, 0), fresh(error))
        if self._closed:
            self._end_if_idle()


def _serve(context: Context, jobs: SimpleQueue[Work | None]) -> None:
    """What a line's thread does. It does not hold the line: one that nobody refers to is collected, and this ends."""
    try:
        context.runtime.setDevice(context.ordinal)  # the thread's own for good
    except Exception as error:
        context.failed(error, "cudaSetDevice")
    while True:
        work = jobs.get()
        if work is None:
            return
        work.line.serve(work)
        del work  # an idle line keeps nothing alive
