"""Arithmetic of values with bounds on their errors: a formula over `Tracked` values gives its result and the bound.

Each operation adds what its operands' errors do to it and what its own rounding may do, whatever the order in which
a kernel computes. So rules of ops with long formulas are those formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.testing.estimates.bounds import Array, rounded

if TYPE_CHECKING:
    from fuel_async.testing.estimates.bounds import Node, Operand, Result

#: Units in the last place by which one operation may be off: one rounding of its own, one of another formula.
_ULPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """A value in float64, the bound on its error, and the unit in which its dtype rounds."""

    x: Array
    e: Array
    unit: float

    def _made(self, y: Array, e: Array, ulps: float = _ULPS) -> Tracked:
        return Tracked(y, e + ulps * self.unit * (np.abs(y) + e), self.unit)

    def __add__(self, other: Tracked | float) -> Tracked:
        b = self._other(other)
        return self._made(self.x + b.x, self.e + b.e)

    def __sub__(self, other: Tracked | float) -> Tracked:
        b = self._other(other)
        return self._made(self.x - b.x, self.e + b.e)

    def __mul__(self, other: Tracked | float) -> Tracked:
        b = self._other(other)
        return self._made(self.x * b.x, np.abs(self.x) * b.e + np.abs(b.x) * self.e + self.e * b.e)

    def over(self, other: Tracked | float, least: float = 0.0) -> Tracked:
        """Divide by what is known to be at least `least` in magnitude, errors notwithstanding."""
        b = self._other(other)
        y, low = self.x / b.x, np.maximum(np.abs(b.x) - b.e, least)
        exact = (self.e == 0) & (b.e == 0)
        return self._made(y, np.where(exact, 0.0, np.where(low > 0, (self.e + np.abs(y) * b.e) / low, math.inf)))

    def sqrt(self) -> Tracked:
        """Return the square root of what is not negative."""
        y = np.sqrt(self.x)
        low = np.sqrt(np.maximum(self.x - self.e, 0.0))
        return self._made(y, np.maximum(np.sqrt(self.x + self.e) - y, y - low))

    def exp(self) -> Tracked:
        """Return the exponential."""
        y = np.exp(self.x)
        return self._made(y, y * np.expm1(self.e), 16)

    def log(self) -> Tracked:
        """Return the logarithm of what is positive."""
        low = self.x - self.e
        moved = np.where(self.e == 0, 0.0, np.where(low > 0, self.e / np.maximum(low, 1e-300), math.inf))
        return self._made(np.log(self.x), moved, 16)

    def softplus(self) -> Tracked:
        """Return log(1 + exp(x)), which moves by no more than x does."""
        return self._made(np.logaddexp(self.x, 0), self.e, 16)

    def within(self, limit: float) -> Tracked:
        """Return the same, undetermined where it may be beyond `limit`: what follows may be infinite there, or not.

        So it is where the bound is no number, as that of 0 times something undetermined.
        """
        beyond = (np.abs(self.x) + self.e > limit) | np.isnan(self.e)
        return Tracked(self.x, np.where(beyond & np.isfinite(self.x), math.inf, self.e), self.unit)

    def sum(self) -> Tracked:
        """Sum along the last axis, kept with size 1, in any order."""
        size, count = np.abs(self.x) + self.e, self.x.shape[-1]
        moved = np.add.reduce(self.e + count * self.unit * size, axis=-1, keepdims=True)
        return self._made(np.add.reduce(self.x, axis=-1, keepdims=True), moved)

    def mean(self) -> Tracked:
        """Mean along the last axis, kept with size 1."""
        return self.sum().over(self.x.shape[-1] or math.nan)

    def max(self) -> Tracked:
        """Maximum along the last axis, kept with size 1; of nothing -infinity."""
        y = np.maximum.reduce(self.x, axis=-1, keepdims=True, initial=-math.inf)
        return Tracked(y, np.maximum.reduce(self.e, axis=-1, keepdims=True, initial=0.0), self.unit)

    def result(self, node: Node) -> Result:
        """Return what a rule returns: rounded to the node's dtype."""
        return rounded(node, _ULPS, self.x, self.e)

    def _other(self, value: Tracked | float) -> Tracked:
        if isinstance(value, Tracked):
            return value
        return Tracked(np.float64(value), np.float64(0.0), self.unit)  # type: ignore[arg-type]  # as good as arrays


def tracked(node: Node, operand: Operand) -> Tracked:
    """Return the operand of a node, in whose precision it will be computed."""
    return Tracked(operand.x, operand.e, node.long.unit)
