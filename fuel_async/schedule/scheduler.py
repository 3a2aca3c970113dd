"""The scheduler: a pure state machine over all runs of an executor. Events in, instructions out.

It decides which region goes to which lane and when: late, when a lane has a slot; by priority, then in turn among
runs, then in the order of regions. It owns no thread, clock or lock: whoever calls `handle` serialises the calls and
carries out the instructions in their order. Every run ends with exactly one `Release`.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken
from fuel_async.schedule.events import Event, RegionFinished, RunAdmitted
from fuel_async.schedule.instructions import Instruction, Launch
from fuel_async.schedule.runs import Runs
from fuel_async.schedule.selector import LaneLoad, choose_lane
from fuel_async.schedule.state import NO_LANES, Phase, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.shape import LaneShape, RunShape


class Scheduler(Runs[RunState]):
    """The state of every admitted run, and of the lanes as this executor fills them."""

    def __init__(self, lanes: Sequence[LaneShape]) -> None:
        """Start with idle lanes."""
        super().__init__()
        self.loads = [LaneLoad(shape) for shape in lanes]
        #: Runs with candidates: (-priority, turn, run); an entry may be stale. Those whose candidates are all fine
        #: stand apart where some lane takes none: else each event would pass over all of them for nothing.
        self._queues: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
        self._apart = len(lanes) > 1 and not all(lane.takes_fine for lane in lanes)
        #: By run, which of the two it stands in.
        self._queued: dict[int, int] = {}
        #: Runs of one region that have had nothing but their beginning: all that is known of them is shape and lane.
        self.alone: dict[int, tuple[RunShape, int]] = {}
        self._handlers = {**self._handlers, RunAdmitted: self._admit, RegionFinished: self._finished}

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """Take one fact into account and return what is to be done about it, in order."""
        if event.run in self.alone:
            self._know(event.run)
        instructions = self._handlers[type(event)](event)
        told = (*instructions, *self._fill()) if self._queued else tuple(instructions)
        self._story.append((event, told))
        return told

    # --- the short way of a run of one region -------------------------------------------------------

    def begin_alone(self, run: int, shape: RunShape, now_ns: int = 0) -> int | None:
        """See `Runs`; every lane must have room. An event about the run takes it to the ordinary way at any moment."""
        if self._queued or not self._roomy():
            return None
        lane = choose_lane(self.loads, NO_LANES, shape.fine[0])
        if lane is not None:
            self.loads[lane].take(shape.predicted_ns[0])
            self.alone[run] = shape, lane
        return lane

    def end_alone(self, run: int, now_ns: int = 0) -> Sequence[Instruction] | None:
        """See `Runs`. None when it went the ordinary way meanwhile: then `RegionFinished` is the way."""
        known = self.alone.pop(run, None)
        if known is None:
            return None
        shape, lane = known
        self.loads[lane].give(shape.predicted_ns[0])
        return self._fill() if self._queued else ()

    def _know(self, run: int) -> None:
        """Take a run to the ordinary way: as if it had been admitted by an event."""
        shape, lane = self.alone.pop(run)
        state = self.runs[run] = RunState(run, shape, 0, self._turn)
        state.issue(0, lane)

    def forget(self, run: int) -> list[str]:
        """Drop all that is known of a run that cannot go on; return its story."""
        if run in self.alone:
            self._know(run)
        return super().forget(run)

    # --- events -----------------------------------------------------------------------------------

    def _admit(self, event: RunAdmitted) -> Sequence[Instruction]:
        if event.run in self.runs:
            raise InvariantBroken("a run is admitted once", f"run {event.run}", self.story(event.run))
        # Behind all that wait already, before the one that was served last.
        state = RunState(event.run, event.shape, event.priority, self._turn - 1)
        self.runs[event.run] = state
        if not state.left:  # a graph without kernels
            return self._deliver(state)
        return self._go_on(state)

    def _finished(self, event: RegionFinished) -> Sequence[Instruction]:
        region = event.region
        state = self._settle(event.run, region)
        state.finished.add(region)
        state.left -= 1
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        if not state.left:
            return self._deliver(state)
        return self._go_on(state)

    # --- steps ------------------------------------------------------------------------------------

    def _settle(self, run: int, region: int) -> RunState:
        state = self.runs.get(run)
        if state is None:
            raise InvariantBroken("only admitted runs settle regions", f"run {run}", self.story(run))
        self.loads[state.settle(region)].give(state.shape.predicted_ns[region])
        return state

    # --- placing ----------------------------------------------------------------------------------

    def _enqueue(self, state: RunState) -> None:
        if not state.candidates or self._queued.get(state.run) == 0:
            return
        fine = state.shape.fine
        which = int(self._apart and all(fine[region] for region in state.candidates))
        if self._queued.get(state.run) != which:
            self._queued[state.run] = which
            heapq.heappush(self._queues[which], (-state.priority, state.turn, state.run))

    def _go_on(self, state: RunState) -> Sequence[Instruction]:
        """Let a run have its turn; at once when no other waits for one and every lane has room."""
        if self._queued or not self._roomy():
            self._enqueue(state)
            return ()
        launches: list[Instruction] = []
        while state.candidates:
            launch = self._place(state)
            if launch is None:
                self._enqueue(state)
                break
            launches.append(launch)
            self._turn += 2
            state.turn = self._turn
        return launches

    def _roomy(self) -> bool:
        for load in self.loads:  # noqa: SIM110 - a generator costs more than the loop
            if not load.free:
                return False
        return True

    def _next(self) -> RunState | None:
        """Take out the run whose turn it is, among those that some lane has a slot for."""
        queues, queued, loads = self._queues, self._queued, self.loads
        while True:
            usable = [0] if queues[0] and any(load.free for load in loads) else []
            if queues[1] and any(load.free and load.shape.takes_fine for load in loads):
                usable.append(1)
            if not usable:
                return None
            which = usable[0] if len(usable) == 1 else min(usable, key=lambda one: queues[one][0])
            run = heapq.heappop(queues[which])[2]
            state = self.runs.get(run)
            if queued.get(run) == which:
                del queued[run]
                if state is not None and state.candidates:
                    return state

    def _fill(self) -> list[Instruction]:
        """Give free slots to candidates: the run of highest priority first, then whoever has waited for most turns."""
        launches: list[Instruction] = []
        blocked: list[RunState] = []
        while (state := self._next()) is not None:
            launch = self._place(state)
            if launch is None:
                blocked.append(state)
                continue
            launches.append(launch)
            self._turn += 2
            state.turn = self._turn
            self._enqueue(state)
        for state in blocked:
            self._enqueue(state)
        return launches

    def _place(self, state: RunState) -> Launch | None:
        alone = not state.in_flight
        for region in state.candidates:
            waited_for = NO_LANES if alone else state.lanes_waited_for(region)
            lane = choose_lane(self.loads, waited_for, state.shape.fine[region])
            if lane is not None:
                waits = () if alone else state.waits(region)
                state.issue(region, lane)
                self.loads[lane].take(state.shape.predicted_ns[region])
                return Launch(state.run, region, lane, waits)
        return None
