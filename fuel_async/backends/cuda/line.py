"""Lines: work on one stream in order, and the thread that hears of its ends.

What work waits for is on the same stream, and precedes it; or on another stream of some CUDA device, whose event the
stream then waits for; or elsewhere, and then the host holds the work back until it has settled.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fuel_async.backends.cuda.points import Point
from fuel_async.backends.cuda.statuses import error_of
from fuel_async.backends.cuda.streams import Stream
from fuel_async.backends.cuda.work import Work
from fuel_async.backends.grids.holding import Held
from fuel_async.backends.grids.serving import Served
from fuel_async.errors import ExecutorClosed
from fuel_async.streams import Timing, first_error, fresh, when_all, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from queue import SimpleQueue

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.watch import Watch
    from fuel_async.errors import FuelError
    from fuel_async.streams import CompletionHandle


class Line(Served[Work]):
    """One stream with its thread."""

    context: Context

    def __init__(self, context: Context, watch: Watch, name: str, *, counted: bool = True) -> None:
        """Make the stream. Work that is not `counted` is none of the device's. `DeviceError`."""
        super().__init__(context, context.location, name, counted=counted)
        self.stream = Stream(context)
        self._watch = watch
        #: What is on the stream or waits for the thread, in order.
        self._line: dict[Work, None] = {}
        #: How much of it the thread has yet to put on the stream: what comes behind must wait for that.
        self._late = 0
        #: What the thread waits for, and since when the stream was free for it.
        self._current: Work | None = None
        self._free_ns = 0
        self._held: Held[Work] = Held(self._go, self._end_if_idle)
        context.tell_while_alive(self._lose)
        watch.add(self)

    @property
    def pending_count(self) -> int:
        """Submissions that have not settled."""
        return len(self._line) + len(self._held)

    def take(self, work: Work) -> CompletionHandle:
        """Put work on the stream, or hold it back until it can go there. Never blocks, never raises."""
        try:
            error = first_error(work.waits)
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
            error = first_error(work.waits)
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

    def _server(self) -> Callable[[], None]:
        return partial(_serve, self.context, self._jobs)

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
        if late:  # another line's thread may be a moment behind
            when_all(late, lambda: work.settle(self._timing(work, free_ns, now_ns), None))
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
