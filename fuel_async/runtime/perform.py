"""The whole effect surface of a run: carrying out what the scheduler says.

`Driver` serialises the scheduler without ever blocking: whichever thread brings an event (a loop, or a lane that has
just settled) handles it and performs the instructions, unless another thread is at it, which then takes this event
too. So a lane is given its next region without a hop through a loop, and a loop hears of a run once, at its end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from numpy.typing import NDArray

from fuel_async.errors import InternalError, InvariantBroken, KernelFailed
from fuel_async.schedule import (
    Bind,
    CancelRequested,
    Copy,
    Deliver,
    Event,
    Instruction,
    Launch,
    RegionFailed,
    RegionFinished,
    Release,
    Replan,
    Resweep,
    RunAdmitted,
    Runs,
    Stop,
)
from fuel_async.streams import CompletionHandle, Lane, LoopShare, StopFlag, Timing, Waker, fresh

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from fuel_async.ir import FrozenGraph
    from fuel_async.runtime.feed_guards import FeedGuards
    from fuel_async.runtime.instances import PlanInstance, Prepared

_LOG = logging.getLogger("fuel_async")

Array = NDArray[Any]
Results = dict[str, Array]


class ActiveRun(StopFlag):
    """One run on lanes, from admission to release. Holds instance, feeds and outputs until no lane uses them.

    It is its own stop flag.
    """

    __slots__ = (
        "_guarded",
        "_guards",
        "graph",
        "handles",
        "instance",
        "number",
        "outputs",
        "prepared",
        "priority",
        "progress",
        "result",
        "share",
        "values",
        "work_ns",
    )

    def __init__(
        self,
        graph: FrozenGraph,
        prepared: Prepared,
        instance: PlanInstance,
        values: Sequence[Array],
        share: LoopShare,
        priority: int,
        progress: Progress | None,
        result: asyncio.Future[Results],
    ) -> None:
        """`result` is a future of the run's own loop."""
        self.stopped = False
        self.graph, self.prepared, self.instance, self.values = graph, prepared, instance, values
        self.share, self.priority, self.progress = share, priority, progress
        self.number = -1
        self.outputs = prepared.allocate_outputs()
        self.handles: dict[int, CompletionHandle] = {}
        self.work_ns = 0
        #: Set on the run's own loop, at its end.
        self.result = result
        #: Who keeps feeds from being written, and which; on loops in debug mode.
        self._guards: FeedGuards | None = None
        self._guarded: list[Array] = []
        if progress is not None:
            progress.total = len(prepared.plan.regions)

    def guard(self, guards: FeedGuards, values: Sequence[Array]) -> None:
        """Keep feeds from being written until the run has ended."""
        self._guards, self._guarded = guards, guards.hold(values)

    @property
    def guarded(self) -> bool:
        """Whether feeds are kept from being written."""
        return self._guards is not None

    def unguard(self) -> None:
        """Let callers write their feeds again. Idempotent; called by whoever has the scheduler."""
        if self._guards is not None:
            guarded, self._guarded = self._guarded, []
            self._guards.release(guarded)


class Released(Protocol):
    """What is told of the end of a run."""

    def __call__(self, run: ActiveRun, delivered: bool, *, intact: bool) -> None:
        """Take the run's instance and admission back; an instance that is not `intact` is not used again."""


class Progress:
    """How far a run is, for whoever looks."""

    __slots__ = ("done", "total")

    def __init__(self) -> None:
        self.done = self.total = 0


class Driver:
    """The scheduler of one executor with its effects. All methods take any thread and never block."""

    def __init__(self, scheduler: Runs[Any], lanes: Sequence[Lane], released: Released) -> None:
        """`lanes` are those of the scheduler, by number; `released` is told when none works for a run any more."""
        self._lanes = lanes
        self._released = released
        self._scheduler: Runs[Any] = scheduler
        self._handle: Callable[[Event], tuple[Instruction, ...]] = scheduler.handle
        self._events: deque[Event] = deque()
        self._busy = threading.Lock()
        self._numbers = count(1)
        #: What loops are to be told, once the scheduler is free.
        self._told: list[tuple[Waker, Callable[[], None]]] = []
        self.active: dict[int, ActiveRun] = {}

    def start(self, run: ActiveRun) -> None:
        """Launch an admitted run."""
        number = run.number = next(self._numbers)
        self.active[number] = run
        shape = run.prepared.shape
        if len(shape.needs) == 1 and self._busy.acquire(blocking=False):
            try:
                lane = self._scheduler.begin_alone(number, shape)
            finally:
                self._busy.release()
            if lane is not None:
                self._launch_alone(run, self._lanes[lane])
                if self._events:
                    self._pump()
                return
        self.post(RunAdmitted(number, shape, run.priority))

    def cancel(self, run: ActiveRun) -> None:
        """Nobody wants the results any more: what lanes hold of the run drains."""
        self.post(CancelRequested(run.number))

    def post(self, event: Event) -> None:
        """Handle an event now, or leave it to the thread that is handling one."""
        self._events.append(event)
        self._pump()

    def _pump(self) -> None:
        events, busy = self._events, self._busy
        while events and busy.acquire(blocking=False):
            try:
                while events:
                    event = events.popleft()
                    try:
                        self._perform(self._handle(event))
                    except Exception as error:
                        self._abandon(event.run, error)
            finally:
                told, self._told = self._told, []
                busy.release()
            # A loop is woken last: it may take the interpreter at once, and then finds nobody at the scheduler.
            for waker, call in told:
                waker.post(call)

    def tell(self, waker: Waker, call: Callable[[], None]) -> None:
        """Post to a loop once the scheduler is free, behind what was to be told before. For `released` alone."""
        self._told.append((waker, call))

    def story(self, run: int) -> list[str]:
        """What the scheduler heard of a run and said about it."""
        return self._scheduler.story(run)

    def _abandon(self, number: int, error: Exception) -> None:
        """A law of our own was broken: that is the end of this run, and of no other."""
        story = self._scheduler.forget(number)
        run = self.active.pop(number, None)
        if run is None:
            _LOG.error("an event of a run that has ended: %s", error)
            return
        _LOG.exception("run %d of graph %r was given up", number, run.graph.name, exc_info=error)
        run.stopped = True
        self._fail(run, InvariantBroken("a run is scheduled by the rules", str(error), story))
        self._released(run, False, intact=False)

    # --- effects ----------------------------------------------------------------------------------

    def _perform(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            run = self.active[instruction.run]
            match instruction:
                case Launch():
                    self._launch(run, instruction.region, self._lanes[instruction.lane], instruction.waits)
                case Stop():
                    self._stop(run, instruction.error)
                case Deliver():
                    self._deliver(run)
                case Release():
                    self._release(run)
                case Bind() | Copy() | Replan() | Resweep():
                    raise InternalError(f"{instruction} is for runs over several devices")
                case _:
                    assert_never(instruction)

    def _launch(self, run: ActiveRun, region: int, lane: Lane, waits: tuple[int, ...]) -> None:
        instance = run.instance.programs[region]
        values, outputs = run.values, run.outputs
        feeds, given = run.prepared.ports[region]
        handle = lane.submit(
            instance,
            values if feeds is None else [values[place] for place in feeds],
            outputs if given is None else [outputs[place] for place in given],
            waits=[run.handles[need] for need in waits] if waits else (),
            stop=run,
        )
        run.handles[region] = handle

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if isinstance(outcome, Timing):
                work_ns = outcome.work_ns
                instance.history.record(work_ns)
                run.work_ns += work_ns
                if run.progress is not None:
                    run.progress.done += 1
                self.post(RegionFinished(run.number, region))
            else:
                self.post(RegionFailed(run.number, region, outcome))

        handle.add_done_callback(settled)

    def _launch_alone(self, run: ActiveRun, lane: Lane) -> None:
        """Submit a run of one region that went the short way, and end it by the same way, unless something comes up."""
        instance, number = run.instance.programs[0], run.number
        values, outputs = run.values, run.outputs
        feeds, given = run.prepared.ports[0]
        handle = lane.submit(
            instance,
            values if feeds is None else [values[place] for place in feeds],
            outputs if given is None else [outputs[place] for place in given],
            stop=run,
        )

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if not isinstance(outcome, Timing):
                self.post(RegionFailed(number, 0, outcome))
                return
            work_ns = run.work_ns = outcome.work_ns
            instance.history.record(work_ns)
            if run.progress is not None:
                run.progress.done += 1
            self.end_alone(run)

        handle.add_done_callback(settled)

    def end_alone(self, run: ActiveRun, *, failed: bool = False) -> None:
        """End a run that went the short way by the same way, or by an event when anything has come up."""
        number = run.number
        if failed or run.stopped or not self._busy.acquire(blocking=False):
            self.post(self._alone_ended(number))
            return
        others: Sequence[Instruction] | None = ()
        try:
            others = self._scheduler.end_alone(number, self._now_ns())
            if others is not None:
                self._deliver(run)
                self._release(run)
                self._perform(others)
        except Exception as error:
            self._abandon(number, error)
        finally:
            told, self._told = self._told, []
            self._busy.release()
        for waker, call in told:
            waker.post(call)
        if others is None:
            self.post(self._alone_ended(number))
        elif self._events:
            self._pump()

    def _now_ns(self) -> int:
        """The time, for a scheduler that asks for it."""
        return 0

    def _alone_ended(self, number: int) -> Event:
        """How the scheduler is told of such an end."""
        return RegionFinished(number, 0)

    def _stop(self, run: ActiveRun, error: BaseException | None) -> None:
        run.stopped = True
        if error is not None:
            self._fail(run, error)

    def _release(self, run: ActiveRun) -> None:
        del self.active[run.number]
        if run.guarded:
            run.unguard()
        run.values, run.outputs = [], []
        run.handles.clear()
        self._released(run, not run.stopped, intact=True)

    def _deliver(self, run: ActiveRun) -> None:
        run.prepared.measured.on_lanes(run.work_ns)
        self._give(run, run.prepared.deliver(run.outputs))

    def _give(self, run: ActiveRun, results: Results) -> None:
        if run.guarded:
            run.unguard()
        future = run.result
        self._told.append((run.share.waker, partial(_settle, future, results)))

    def _fail(self, run: ActiveRun, error: BaseException) -> None:
        told, future = described(error, run.graph), run.result
        self._told.append((run.share.waker, partial(_settle, future, told)))


def _settle(future: asyncio.Future[Results], outcome: Results | BaseException) -> None:
    """Tell a caller, unless it gave up."""
    if future.done():
        return
    try:
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except RuntimeError:  # its loop was closed under it
        return


def described(error: BaseException, graph: FrozenGraph) -> BaseException:
    """A fresh error that names the node as this graph's builder knows it: equal graphs share a plan.

    StopIteration cannot go through a future, so everything a kernel raises comes as the cause of a `KernelFailed`.
    """
    if not isinstance(error, KernelFailed) or error.node_id < 0:
        return fresh(error)
    told = KernelFailed(graph.describe(error.node_id), error.device, error.cause, error.node_id)
    told.__cause__ = error.__cause__
    return told
