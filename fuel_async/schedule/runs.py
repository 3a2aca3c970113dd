"""What all schedulers do with runs: how they end, what is remembered of them, and who is told.

How runs begin, and where their regions go, is what schedulers differ in: `Scheduler` for one device, `SpreadScheduler`
for several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fuel_async.schedule.events import CancelRequested, Event, RegionFailed
from fuel_async.schedule.instructions import Deliver, Instruction, Release, Stop
from fuel_async.schedule.state import Phase, RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.schedule.selector import LaneLoad
    from fuel_async.schedule.shape import RunShape

#: Events that the story remembers.
STORY_LENGTH = 128

StateT = TypeVar("StateT", bound=RunState)


class Runs(ABC, Generic[StateT]):
    """The runs of a scheduler, and the lanes that they are given to."""

    #: By lane: what it holds.
    loads: Sequence[LaneLoad]

    def __init__(self) -> None:
        self.runs: dict[int, StateT] = {}
        self._turn = 0
        self._story: deque[tuple[Event, tuple[Instruction, ...]]] = deque(maxlen=STORY_LENGTH)
        self._handlers: Mapping[type[Event], Callable[[Any], Sequence[Instruction]]] = {
            RegionFailed: self._failed,
            CancelRequested: self._cancelled,
        }

    @abstractmethod
    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """Take one fact into account and return what is to be done about it, in order."""

    @abstractmethod
    def begin_alone(self, run: int, shape: RunShape, now_ns: int = 0) -> int | None:
        """Admit a run of one region by a shorter way than events, and give it to a lane at once, when nobody waits.

        Returns the lane; None when there is something to decide: then `RunAdmitted` is the way.
        """

    @abstractmethod
    def end_alone(self, run: int, now_ns: int = 0) -> Sequence[Instruction] | None:
        """Note that such a run has finished and is to be delivered and released; return what others do now.

        None when something came up meanwhile: then an event is the way.
        """

    def story(self, run: int) -> list[str]:
        """What was heard of and said about a run, oldest first, as far back as it is remembered."""
        return [
            f"{event} -> {', '.join(map(str, told)) or 'nothing'}"
            for event, told in self._story
            if event.run == run or any(one.run == run for one in told)
        ]

    def forget(self, run: int) -> list[str]:
        """Drop all that is known of a run that cannot go on; return its story."""
        story = self.story(run)
        state = self.runs.pop(run, None)
        if state is not None:
            self._abandon(state)
        return story

    # --- events -----------------------------------------------------------------------------------

    def _failed(self, event: RegionFailed) -> Sequence[Instruction]:
        state = self._settle(event.run, event.region)
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        return self._stop(state, event.error)

    def _cancelled(self, event: CancelRequested) -> Sequence[Instruction]:
        state = self.runs.get(event.run)
        if state is None or state.phase is not Phase.RUNNING:
            return ()
        return self._stop(state, None)

    # --- steps ------------------------------------------------------------------------------------

    @abstractmethod
    def _settle(self, run: int, region: int) -> StateT:
        """Note that a lane is through with a region. `InvariantBroken` when it was not given it."""

    def _abandon(self, state: StateT) -> None:
        """Give back what is held for a run."""
        for region, lane in state.in_flight.items():
            self.loads[lane].give(state.held_ns(region))

    def _stop(self, state: StateT, error: BaseException | None) -> tuple[Instruction, ...]:
        state.stop()
        return (Stop(state.run, error), *self._drained(state))

    def _drained(self, state: StateT) -> tuple[Instruction, ...]:
        return self._end(state) if state.quiet else ()

    def _deliver(self, state: StateT) -> tuple[Instruction, ...]:
        return (Deliver(state.run), *self._end(state))

    def _end(self, state: StateT) -> tuple[Instruction, ...]:
        state.phase = Phase.ENDED
        del self.runs[state.run]
        return (Release(state.run),)
