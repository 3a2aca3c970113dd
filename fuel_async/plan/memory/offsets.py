"""Arena offsets of temporaries by live range.

Two values share bytes only if every region that touches the first precedes, or is, the region that writes the second;
within one region rows run in order. So any interleaving of lanes that honours the regions' dependencies is safe, and
no dependency is added for the sake of memory. An op that may write over its input takes the bytes of an input that dies
with it; one that is there to do so also where the input is seen in another shape. Scratch lives for its row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.dispatch import SlotClass
from fuel_async.ir import Breathe, DType, TensorType, no_breath
from fuel_async.plan.lower import count_items
from fuel_async.plan.memory.freelist import FreeList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.lower import Rows

#: The largest alignment any device asks for, so that offsets are the same on every candidate device.
ALIGNMENT = 256

#: Slots that are numbered in one C call.
_SLICE = 8_192


@dataclass(frozen=True, slots=True)
class Arena:
    """The outcome, beside the places of the temporary slots."""

    nbytes: int
    #: The slot that stands for each slot: one for all row-major temporaries of one type at one place.
    canonical: Sequence[int]
    #: Scratch slots of each row that has any.
    scratch: dict[int, tuple[int, ...]]


def assign_offsets(
    rows: Rows, order: Sequence[int], region_of: Sequence[int], before: Sequence[int], breathe: Breathe = no_breath
) -> Arena:
    """Give each temporary slot of `rows` its offset; scratch slots are added. O(rows) for small values.

    `order` lists the rows region by region; `before[r]` is the bit mask of the regions that precede region r, and r.
    """
    free, scratch = FreeList(before), dict[int, tuple[int, ...]]()
    take, give = free.take, free.give
    classes, places, bases, types, calls = rows.classes, rows.places, rows.bases, rows.types, rows.calls
    uses, touched = _uses(rows, breathe), [0] * len(types)
    canonical: list[int] = []
    for start in range(0, len(types), _SLICE):
        canonical.extend(range(start, min(start + _SLICE, len(types))))
        breathe()
    first: dict[tuple[int, TensorType], int] = {}
    sizes: dict[TensorType, int] = {}
    temporary, destructive = int(SlotClass.TEMPORARY), rows.graph.destructive
    for done, row in enumerate(order):
        region = region_of[row]
        may, bit = before[region], 1 << region
        slots, call = rows.slots[row], calls[row]
        output = slots[-1]
        dying: list[int] = []
        for slot in slots:
            if slot == output:
                break
            base = bases[slot]
            left = uses[base] = uses[base] - 1
            touched[base] |= bit
            if not left and classes[base] == temporary:
                dying.append(base)
        if classes[output] == temporary:
            kind = types[output]
            taken = _dying_twin(rows, slots, dying, touched, may) if dying and call.in_place else -1
            if taken >= 0:
                places[output], canonical[output] = places[taken], canonical[taken]
                dying.remove(taken)
                touched[output] = touched[taken] | bit
            elif (
                destructive
                and dying
                and call.in_place
                and (whole := _dying_whole(rows, slots, dying, touched, may)) >= 0
            ):
                place = places[output] = places[whole]
                canonical[output] = first.setdefault((place, kind), output)
                dying.remove(whole)
                sizes[kind] = sizes[types[whole]]
                touched[output] = touched[whole] | bit
            else:
                nbytes = sizes.get(kind)
                if nbytes is None:
                    nbytes = sizes[kind] = _aligned(kind.nbytes)
                place = places[output] = take(nbytes, may)
                canonical[output] = first.setdefault((place, kind), output)
                touched[output] = bit
            if not uses[output]:
                dying.append(output)
        if call.scratch_nbytes:
            scratch[row] = _scratch(rows, call.scratch_nbytes, free, may, bit)
        for base in dying:
            give(places[base], sizes[types[base]], touched[base])
        if not done & 63:
            breathe()
    _place_views(rows)
    canonical.extend(range(len(canonical), len(types)))
    return Arena(free.top, canonical, scratch)


def _uses(rows: Rows, breathe: Breathe) -> list[int]:
    """How often rows read each base slot."""
    touched = np.frombuffer(count_items(rows.slots, len(rows.types), breathe), np.int64)
    reads = touched - (np.frombuffer(rows.writers, np.int32) >= 0)  # a slot is written by one row at most
    uses = np.zeros(len(reads), np.int64)
    np.add.at(uses, np.frombuffer(rows.bases, np.int32), reads)
    return uses.tolist()


def _place_views(rows: Rows) -> None:
    """Give each view the place of the slot whose bytes it shows."""
    places, bases = np.frombuffer(rows.places, np.int64), np.frombuffer(rows.bases, np.int32)
    views = np.flatnonzero(bases != np.arange(len(bases), dtype=np.int32))
    places[views] = places[bases[views]]


def _dying_twin(rows: Rows, slots: tuple[int, ...], dying: Sequence[int], touched: Sequence[int], may: int) -> int:
    """A base slot that dies here, has the output's type, is read as it lies, and whose other readers are all done."""
    types, bases = rows.types, rows.bases
    kind = types[slots[-1]]
    for slot in slots[:-1]:
        if slot in dying and types[slot] is kind and not touched[slot] & ~may:
            # A second, strided view of the same bytes among the inputs would be overwritten while it is read.
            for other in slots[:-1]:
                if bases[other] == slot != other:
                    break
            else:
                return slot
    return -1


def _dying_whole(rows: Rows, slots: tuple[int, ...], dying: Sequence[int], touched: Sequence[int], may: int) -> int:
    """The base of the first operand, under the same conditions, though the operand shows it in another shape."""
    slot, bases = slots[0], rows.bases
    base = bases[slot]
    free = base in dying and rows.types[slot] is rows.types[slots[-1]] and not touched[base] & ~may
    alone = all(bases[other] != base for other in slots[1:-1])
    return base if free and alone and rows.shows_all(slot) else -1


def _scratch(rows: Rows, sizes: tuple[int, ...], free: FreeList, may: int, bit: int) -> tuple[int, ...]:
    slots = []
    for nbytes in sizes:
        slot = rows.slot(SlotClass.TEMPORARY, free.take(_aligned(nbytes), may), _bytes_type(nbytes))
        slots.append(slot)
    for slot in slots:
        free.give(rows.places[slot], _aligned(rows.types[slot].nbytes), bit)
    return tuple(slots)


def _bytes_type(nbytes: int) -> TensorType:
    return TensorType((nbytes,), DType.U8, nbytes)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
