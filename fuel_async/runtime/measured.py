"""What is known of a plan's runs: their times, whether they may run in place, where their regions go.

Shared by all graphs of that plan, so that one built anew for each request begins with what others have learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.streams import History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule import Prior

#: A run in place that takes this long has kept everybody waiting.
OVERRUN_NS = 500_000

#: After so many such runs one after the other, a plan's runs go to lanes, until so many were delivered.
MOST_OVERRUNS = 3
OFF_LOOP_RUNS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class PlannedWhole:
    """A plan of whole runs over several devices, and what it was made for."""

    #: Which devices were there.
    there: tuple[bool, ...]
    #: By region: what it was predicted to take where it is planned.
    regions_ns: Sequence[int]
    #: None where runs are better off without one.
    prior: Prior | None


class Measured:
    """The history of a plan's runs. All methods take any thread; a count that is a moment late does no harm."""

    __slots__ = ("_off_loop", "_overruns", "_prior_ns", "history", "whole")

    def __init__(self, prior_ns: int) -> None:
        """Start from what the cost model says."""
        self._prior_ns = prior_ns
        self.history = History(prior_ns)
        #: What was planned last, for whichever graph: others begin with it.
        self.whole: PlannedWhole | None = None
        self._overruns = self._off_loop = 0

    def on_lanes(self, work_ns: int) -> None:
        """Take note of a run that was done on lanes, by the time its threads worked."""
        if self._off_loop:
            self._off_loop -= 1
        else:
            self.history.record(work_ns)

    def in_place(self, elapsed_ns: int) -> None:
        """Take note of a run in place. A kernel that waits shows only here: a lane's clock cannot see it."""
        self.history.record(elapsed_ns)
        if elapsed_ns <= OVERRUN_NS:
            self._overruns = 0
            return
        self._overruns += 1
        if self._overruns == MOST_OVERRUNS:
            self._overruns, self._off_loop = 0, OFF_LOOP_RUNS
            self.history = History(self._prior_ns)
