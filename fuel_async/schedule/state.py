"""One run as the scheduler sees it: which regions are waiting, in flight and finished.

A region is a *candidate* once everything it needs is finished or in flight on one and the same lane: behind it, in that
lane's order, it may be submitted at once, so that the lane goes from one to the next without a hop.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.shape import RunShape


NO_LANES: frozenset[int] = frozenset()


class Phase(Enum):
    """Where a run is in its life."""

    RUNNING = "running"
    #: Failed or cancelled; lanes still work for it.
    DRAINING = "draining"
    ENDED = "ended"


class RunState:
    """The state of one run. Pure: changed by the scheduler only, knows no clock and no thread."""

    __slots__ = (
        "_missing",
        "candidates",
        "finished",
        "in_flight",
        "left",
        "phase",
        "priority",
        "run",
        "shape",
        "turn",
    )

    def __init__(self, run: int, shape: RunShape, priority: int, turn: int) -> None:
        self.run, self.shape, self.priority, self.turn = run, shape, priority, turn
        self.phase = Phase.RUNNING
        #: Lane of each region that is in flight.
        self.in_flight: dict[int, int] = {}
        #: Regions whose results are there.
        self.finished: set[int] = set()
        #: Regions that have not finished.
        self.left = len(shape.needs)
        #: Needs of each region that are neither finished nor in flight.
        self._missing = list(shape.missing)
        #: Regions that may be submitted now or behind what a lane holds, in order.
        self.candidates: list[int] = list(shape.roots)

    def lanes_waited_for(self, region: int) -> AbstractSet[int]:
        """The lanes that hold what the region needs and have not finished it."""
        in_flight = self.in_flight
        if not in_flight:
            return NO_LANES
        return {in_flight[need] for need in self.shape.needs[region] if need in in_flight}

    def waits(self, region: int) -> tuple[int, ...]:
        """The needs of the region that are in flight."""
        in_flight = self.in_flight
        return tuple([need for need in self.shape.needs[region] if need in in_flight]) if in_flight else ()

    def issue(self, region: int, lane: int) -> None:
        """Note that the region goes to the lane; what hangs on it alone becomes a candidate."""
        self.candidates.remove(region)
        self.in_flight[region] = lane
        for later in self.shape.dependents[region]:
            self._missing[later] -= 1
            if not self._missing[later]:
                self.candidates.append(later)

    def settle(self, region: int) -> int:
        """Note that the lane is through with the region; return the lane."""
        lane = self.in_flight.pop(region, None)
        if lane is None:
            raise InvariantBroken("a region settles once, while in flight", f"region {region} of run {self.run}")
        return lane

    @property
    def quiet(self) -> bool:
        """Whether nothing is in flight for it."""
        return not self.in_flight

    def held_ns(self, region: int) -> int:
        """The time that a lane holds for the region while it is in flight."""
        return self.shape.predicted_ns[region]

    def stop(self) -> None:
        """Note that nothing more is to be submitted."""
        self.phase = Phase.DRAINING
        self.candidates.clear()

    def missing(self) -> Sequence[int]:
        """Needs of each region that are neither finished nor in flight; for the invariants."""
        return self._missing
