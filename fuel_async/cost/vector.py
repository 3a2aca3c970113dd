"""What candidates are compared by: time, memory by tier, digits of precision, class of accuracy. Pure.

What is not known is None and compares with nothing but None: a candidate without a price is neither better nor worse
than one with a price, and it comes after all of them in the total order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fuel_async.ir import PrecisionGuarantee

_MOST = 2**64 - 1

#: Digits of what is exact, and of what gives the same bits each time without a bound.
EXACT_DIGITS, STABLE_DIGITS = 18, 9


class AccuracyClass(IntEnum):
    """What is known of a result's error, the least first."""

    Unbounded = 0
    #: The same bits each time, no bound.
    Stable = 1
    BoundedLoose = 2
    #: At most 2 units in the last place.
    BoundedTight = 3
    CorrectlyRounded = 4

    @classmethod
    def of(cls, precision: PrecisionGuarantee) -> AccuracyClass:
        """Return the class of a guarantee: by its bound in units in the last place, else by its stability."""
        match precision.max_ulp:
            case None:
                return cls.Stable if precision.bit_stable_on_same_hardware else cls.Unbounded
            case 0:
                return cls.CorrectlyRounded
            case 1 | 2:
                return cls.BoundedTight
            case _:
                return cls.BoundedLoose


def precision_digits(precision: PrecisionGuarantee) -> int:
    """Return how many decimal digits are right, 0 to 18: by the relative bound, else by what else is claimed."""
    relative = precision.max_relative
    if relative is not None:
        return EXACT_DIGITS if relative <= 0 else min(max(math.floor(-math.log10(relative)), 0), EXACT_DIGITS)
    if precision.max_ulp == 0:
        return EXACT_DIGITS
    return STABLE_DIGITS if precision.bit_stable_on_same_hardware else 0


@dataclass(frozen=True, slots=True)
class MemoryTiers:
    """Bytes that are moved, by whose memory they are in."""

    host_ram_bytes: int = 0
    device_vram_bytes: int = 0

    @property
    def total(self) -> int:
        """Bytes of both, saturated at 64 bits."""
        return min(self.host_ram_bytes + self.device_vram_bytes, _MOST)


#: Sorts candidates: see `CostVector.total_order_key`.
OrderKey: TypeAlias = tuple[bool, int, int, int, bool, int]


@dataclass(frozen=True, slots=True)
class CostVector:
    """The axes of one candidate; None where nothing is known."""

    #: Nanoseconds.
    time: int | None
    memory: MemoryTiers | None
    #: Right digits, more are better.
    precision: int
    accuracy: AccuracyClass

    def dominates(self, other: CostVector) -> bool:
        """Whether it is no worse on any axis and better on one; never where only one of them has a price."""
        if (self.time is None) is not (other.time is None) or (self.memory is None) is not (other.memory is None):
            return False
        mine, its = self._costs(), other._costs()
        return mine != its and all(a <= b for a, b in zip(mine, its, strict=True))

    def _costs(self) -> tuple[int, ...]:
        """The axes as numbers of which less is better."""
        memory = self.memory or MemoryTiers()
        return self.time or 0, memory.host_ram_bytes, memory.device_vram_bytes, -self.precision, -self.accuracy

    @property
    def total_order_key(self) -> OrderKey:
        """The less the better: time first, then precision, accuracy, and memory; what has no price comes last."""
        memory = self.memory or MemoryTiers()
        return (
            self.time is None,
            self.time or 0,
            0xFFFF - self.precision,
            0xFF - self.accuracy,
            self.memory is None,
            memory.total,
        )

    def axes(self) -> tuple[int | None, int | None, int | None, int, int]:
        """Time, bytes of the host, bytes of devices, digits, class of accuracy."""
        memory = self.memory
        host, device = (None, None) if memory is None else (memory.host_ram_bytes, memory.device_vram_bytes)
        return self.time, host, device, self.precision, int(self.accuracy)
