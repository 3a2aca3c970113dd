"""Which lane takes a region now: a pure choice among the lanes that have a free slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.shape import LaneShape


@dataclass(slots=True)
class LaneLoad:
    """What the scheduler has given a lane and not got back."""

    shape: LaneShape
    held: int = 0
    held_ns: int = 0
    #: Whether it should be given more.
    free: bool = True

    def take(self, predicted_ns: int) -> None:
        """Note a submission."""
        self.held += 1
        self.held_ns += predicted_ns
        self.free = self.held < self.shape.slot_capacity

    def give(self, predicted_ns: int) -> None:
        """Note that a submission has settled."""
        self.held -= 1
        self.held_ns -= predicted_ns
        self.free = self.held < self.shape.slot_capacity


def choose_lane(loads: Sequence[LaneLoad], waited_for: AbstractSet[int], fine: bool) -> int | None:
    """Return the lane for a region, or None when it must wait.

    A region that waits for work in flight goes behind it, on that lane, or nowhere yet. Any other goes where the least
    predicted time is held; the first of equals, so that equal histories give equal choices.
    """
    if len(loads) == 1:
        return 0 if loads[0].free else None
    if len(waited_for) > 1:
        return None
    lanes = waited_for or range(len(loads))
    best: int | None = None
    for lane in lanes:
        load = loads[lane]
        if load.free and (load.shape.takes_fine or not fine) and (best is None or load.held_ns < loads[best].held_ns):
            best = lane
    return best
