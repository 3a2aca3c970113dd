"""Time that may be spent: shared out to the sections of a check, what one leaves goes to those after it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Budget:
    """Seconds from now on."""

    __slots__ = ("_clock", "_end_s", "whole_s")

    def __init__(self, whole_s: float, clock: Callable[[], float] = perf_counter) -> None:
        self.whole_s, self._clock = whole_s, clock
        self._end_s = clock() + whole_s

    @property
    def left_s(self) -> float:
        """What is left of it; never below 0."""
        return max(self._end_s - self._clock(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return not self.left_s

    def share(self, part: float, *others: float) -> Budget:
        """Return the budget of a section with so large a part, before others with theirs."""
        return Budget(self.left_s * part / (part + sum(others)), self._clock)
