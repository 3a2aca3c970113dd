"""What a plan's runs were measured to take, and whether they may run in place. Shared by all graphs of that plan."""

from __future__ import annotations

from fuel_async.streams import History

#: A run in place that takes this long has kept everybody waiting.
OVERRUN_NS = 500_000

#: After so many such runs one after the other, a plan's runs go to lanes, until so many were delivered.
MOST_OVERRUNS = 3
OFF_LOOP_RUNS = 1_000


class Measured:
    """The history of a plan's runs. All methods take any thread; a count that is a moment late does no harm."""

    __slots__ = ("_off_loop", "_overruns", "_prior_ns", "history")

    def __init__(self, prior_ns: int) -> None:
        """Start from what the cost model says."""
        self._prior_ns = prior_ns
        self.history = History(prior_ns)
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
