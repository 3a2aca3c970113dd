"""How the slots of a program become what kernels see: operands, ranges of bytes, hazards.

Pure: no driver, no memory.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.kernel import Operand
from fuel_async.dispatch import SlotClass
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Limits
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import DType

#: Shaders read and write whole words.
WORD = 4

#: What lies together: (class of slot, place of what is given; 0 for the arena).
Space = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """One slot as a shader sees it."""

    operand: Operand
    space: Space
    #: The descriptor's bytes, from the start of the space: aligned, and whole words.
    start: int
    nbytes: int
    #: The bytes that are touched, for hazards: from, and up to.
    low: int
    high: int
    #: What tells descriptors apart.
    where: tuple[Space, int, int]


class Operands:
    """The slots of one program, each looked at once."""

    __slots__ = ("_alignment", "_interned", "_known", "_limits", "_program")

    def __init__(self, program: LaneProgram, alignment: int, limits: Limits) -> None:
        self._program, self._alignment, self._limits = program, alignment, limits
        self._known: dict[int, Bound] = {}
        #: Equal operands are one object, so that calls are told apart by identity.
        self._interned: dict[Operand, Operand] = {}

    def get(self, slot: int) -> Bound:
        """A slot of the program. `KernelArgumentError` when it is larger than what a shader can be given."""
        found = self._known.get(slot)
        if found is None:
            found = self._known[slot] = self._look(slot)
        return found

    def _look(self, slot: int) -> Bound:
        slots = self._program.slots
        cls, place, kind = slots.classes[slot], slots.places[slot], slots.types[slot]
        shape: Any = kind.shape  # concrete
        layout = slots.layouts[slot] or Layout.contiguous(shape)
        in_arena = cls == SlotClass.TEMPORARY
        space = (int(cls), 0 if in_arena else place)
        found = bound(kind.dtype, layout, space, place if in_arena else 0, self._alignment, self._limits)
        return replace(found, operand=self._interned.setdefault(found.operand, found.operand))


def bound(dtype: DType, layout: Layout, space: Space, base: int, alignment: int, limits: Limits) -> Bound:
    """What lies as `layout` says from byte `base` of a space on. `KernelArgumentError` when it is too large."""
    size, span = dtype.nbytes, layout.span()
    first, last = span if span is not None else (0, -1)
    low, high = base + first * size, base + (last + 1) * size
    start = low - low % alignment
    nbytes = max(-(-(high - start) // WORD) * WORD, WORD)
    if nbytes > limits.max_range_nbytes:
        most = f"at most {limits.max_range_nbytes:,} on this device"
        raise KernelArgumentError("a kernel", "an operand", f"{nbytes:,} bytes", most)
    operand = Operand(dtype, layout.shape, layout.strides, (base + layout.offset * size - start) // size)
    return Bound(operand, space, start, nbytes, low, max(high, low), (space, start, nbytes))


def is_same(source: Bound, target: Bound) -> bool:
    """Return whether two operands are the same elements in the same order."""
    where = (source.space, source.start) == (target.space, target.start)
    return where and source.operand == target.operand


class Hazards:
    """What was read and written since the last barrier; tells when the next one is due.

    A barrier is for all memory, so one clears everything. Ranges are kept sorted by their starts; touching ones of one
    kind are joined, so that independent kernels over neighbouring bytes cost little.
    """

    __slots__ = ("_reads", "_writes")

    def __init__(self) -> None:
        self._reads: dict[Space, _Ranges] = {}
        self._writes: dict[Space, _Ranges] = {}

    def step(self, reads: Sequence[Bound], writes: Sequence[Bound]) -> bool:
        """Note the next dispatch; whether a barrier must come before it."""
        due = any(self._hits(self._writes, one) for one in (*reads, *writes)) or any(
            self._hits(self._reads, one) for one in writes
        )
        if due:
            self._reads.clear()
            self._writes.clear()
        for known, some in ((self._reads, reads), (self._writes, writes)):
            for one in some:
                if one.high > one.low:
                    known.setdefault(one.space, _Ranges()).add(one.low, one.high)
        return due

    @staticmethod
    def _hits(known: dict[Space, _Ranges], one: Bound) -> bool:
        found = known.get(one.space)
        return found is not None and one.low < one.high and found.overlaps(one.low, one.high)


class _Ranges:
    """Disjoint ranges of bytes in order."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def overlaps(self, low: int, high: int) -> bool:
        """Whether any byte of the range is among them."""
        place = bisect_left(self._starts, high)
        return place > 0 and self._ends[place - 1] > low

    def add(self, low: int, high: int) -> None:
        """Put a range among them."""
        first = bisect_left(self._ends, low)
        last = first
        while last < len(self._starts) and self._starts[last] <= high:
            last += 1
        if first < last:
            low, high = min(low, self._starts[first]), max(high, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [low], [high]
