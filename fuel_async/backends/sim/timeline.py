"""How long work takes on something whose speed changes: exact, and a pure function of what was noted."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_async.backends.sim.spec import Slowdowns


class Timeline:
    """The factor by which everything takes longer, over time. 1 from the beginning until the first change."""

    __slots__ = ("_factors", "_moments")

    def __init__(self, slowdowns: Slowdowns = ()) -> None:
        self._moments: list[float] = [-math.inf, *[at_ns for at_ns, _ in slowdowns]]
        self._factors: list[float] = [1.0, *[factor for _, factor in slowdowns]]

    def change(self, at_ns: int, factor: float) -> None:
        """Let everything take `factor` times as long from `at_ns` on. What was planned for later is forgotten."""
        keep = bisect_right(self._moments, at_ns)
        self._moments[keep:], self._factors[keep:] = [at_ns], [factor]

    def finish_ns(self, start_ns: int, work_ns: float) -> int | None:
        """Return when work that takes `work_ns` at factor 1 ends; None when it never does."""
        at = bisect_right(self._moments, start_ns) - 1
        now_ns, left_ns = float(start_ns), work_ns
        for place in range(at, len(self._moments)):
            factor = self._factors[place]
            until_ns = self._moments[place + 1] if place + 1 < len(self._moments) else math.inf
            takes_ns = left_ns * factor if left_ns else 0.0
            if now_ns + takes_ns <= until_ns and takes_ns != math.inf:
                return round(now_ns + takes_ns)
            left_ns -= (until_ns - now_ns) / factor
            now_ns = until_ns
        return None
