"""Arena offsets of temporaries by live range.

Two values share bytes only if every region that touches the first precedes, or is, the region that writes the second;
within one region rows run in order. So any interleaving of lanes that honours the regions' dependencies is safe, and
no dependency is added for the sake of memory. An op that may write over its input takes the bytes of an input that dies
with it. Scratch lives for its row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuel_async.dispatch import SlotClass
from fuel_async.ir import Breathe, DType, TensorType, no_breath
from fuel_async.plan.lower import Rows
from fuel_async.plan.memory.freelist import FreeList

#: The largest alignment any device asks for, so that offsets are the same on every candidate device.
ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Arena:
    """The outcome: bytes of the arena, and the scratch slots of each row that has any."""

    nbytes: int
    scratch: dict[int, tuple[int, ...]]


def assign_offsets(
    rows: Rows, order: Sequence[int], region_of: Sequence[int], before: Sequence[int], breathe: Breathe = no_breath
) -> Arena:
    """Give each temporary slot of `rows` its offset; scratch slots are added. O(rows) for small values.

    `order` lists the rows region by region; `before[r]` is the bit mask of the regions that precede region r, and r.
    """
    free, scratch = FreeList(), dict[int, tuple[int, ...]]()
    classes, places, bases, types = rows.classes, rows.places, rows.bases, rows.types
    uses = _uses(rows)
    touched = [0] * len(types)
    temporary = int(SlotClass.TEMPORARY)
    for done, row in enumerate(order):
        region = region_of[row]
        may, bit = before[region], 1 << region
        *inputs, output = rows.slots[row]
        resolved = rows.resolved[row]
        dying: list[int] = []
        for slot in inputs:
            base = bases[slot]
            if classes[base] == temporary:
                touched[base] |= bit
                uses[base] -= 1
                if not uses[base]:
                    dying.append(base)
        if classes[output] == temporary:
            taken = -1
            if resolved.in_place and dying:
                taken = _dying_twin(rows, inputs, dying, output, touched, may)
            if taken >= 0:
                places[output] = places[taken]
                dying.remove(taken)
                touched[output] = touched[taken] | bit
            else:
                places[output] = free.take(_aligned(types[output].nbytes), may)
                touched[output] = bit
        if resolved.scratch_nbytes:
            scratch[row] = _scratch(rows, resolved.scratch_nbytes, free, may, bit)
        for base in dying:
            free.give(places[base], _aligned(types[base].nbytes), touched[base])
        if classes[output] == temporary and not uses[output]:
            free.give(places[output], _aligned(types[output].nbytes), touched[output])
        if not done & 63:
            breathe()
    for slot, base in enumerate(bases):
        if base != slot:
            places[slot] = places[base]
    return Arena(free.top, scratch)


def _uses(rows: Rows) -> list[int]:
    """How often rows read each base slot."""
    uses = [0] * len(rows.types)
    bases = rows.bases
    for slots in rows.slots:
        for slot in slots[:-1]:
            uses[bases[slot]] += 1
    return uses


def _dying_twin(
    rows: Rows, inputs: Sequence[int], dying: Sequence[int], output: int, touched: Sequence[int], may: int
) -> int:
    """A base slot that dies here, has the output's type, is read as it lies, and whose other readers are all done."""
    kind = rows.types[output]
    for slot in inputs:
        if slot in dying and rows.types[slot] is kind and not touched[slot] & ~may:
            # A second, strided view of the same bytes among the inputs would be overwritten while it is read.
            if all(other == slot or rows.bases[other] != slot for other in inputs):
                return slot
    return -1


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
