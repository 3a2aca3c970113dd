"""Plans for devices of several kinds: which rows can run where, and the calls and scratch of each kind.

What differs between kinds is the kernel, its price and its working memory. Slots, offsets and ports are those of the
plan, so that a region can go to any kind that has all of its kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.dispatch import SlotClass
from fuel_async.ir import Breathe, DType, TensorType, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import KernelCall
    from fuel_async.plan.lower import Rows
    from fuel_async.plan.memory import Arena

Table = list[tuple[int, ...]]


def row_kinds(rows: Rows, breathe: Breathe = no_breath) -> list[int]:
    """By row: the bit mask of the kinds that have a kernel for it; empty when all rows have the same. O(rows)."""
    masks: list[int] = []
    known: dict[int, int] = {}
    for row, call in enumerate(rows.calls):
        mask = known.get(id(call))
        if mask is None:
            mask = known[id(call)] = sum([1 << kind for kind, one in enumerate(call.each) if one is not None])
        masks.append(mask)
        if not row & 63:
            breathe()
    return masks if len(set(known.values())) > 1 else []


def with_scratch(arena: Arena, part: Sequence[int], table: Table) -> Table:
    """The slots of the rows of a region, `part`, with those of their working memory."""
    if not arena.scratch:
        return table
    return [entry + arena.scratch.get(row, ()) for row, entry in zip(part, table, strict=True)]


def on_kind(
    rows: Rows, arena: Arena, part: Sequence[int], table: Table, calls: Sequence[KernelCall], kind: int
) -> tuple[list[KernelCall], Table] | None:
    """The calls and slots of a region's rows on one kind of device; None when it lacks a kernel for one of them.

    Working memory lies where the largest of all kinds was placed, in the size that this kind's kernel asks for.
    """
    found: list[KernelCall] = []
    for call in calls:
        one = call.each[kind]
        if one is None:
            return None
        found.append(one)
    if not arena.scratch:
        return found, table
    entries: Table = []
    for row, entry, one in zip(part, table, found, strict=True):
        shared = arena.scratch.get(row, ())[: len(one.scratch_nbytes)]
        own = [_sized(rows, slot, nbytes) for slot, nbytes in zip(shared, one.scratch_nbytes, strict=True)]
        entries.append((*entry, *own))
    return found, entries


def _sized(rows: Rows, slot: int, nbytes: int) -> int:
    """A slot at the same place, of the wanted size."""
    if rows.types[slot].nbytes == nbytes:
        return slot
    return rows.slot(SlotClass.TEMPORARY, rows.places[slot], TensorType((nbytes,), DType.U8, nbytes))
