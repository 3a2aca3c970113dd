"""Indices that can be checked before a run: feeds and constants that an op takes as indices.

The host's kernels look at their indices themselves. Others cannot tell of a wrong one, and bring it within bounds: for
them the engine looks, where the indices come from the caller. Indices that a graph computes are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_async.dispatch import (
    GatherParams,
    IndexAddParams,
    IndexSelectParams,
    OpParams,
    ScatterAddParams,
    SlotClass,
)
from fuel_async.ir import Breathe, Layout, OpKind, no_breath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.plan.lower import Rows

#: By kind of parameters: the number of entries of the dimension that operand 1 is an index of.
ENTRIES: Mapping[type[OpParams], Callable[[Any], int]] = {
    IndexSelectParams: lambda params: params.source_dim_size,
    GatherParams: lambda params: params.source_shape[params.dim],
    IndexAddParams: lambda params: params.base_dim_size,
    ScatterAddParams: lambda params: params.base_shape[params.dim],
}


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """One operand to look at: a feed or a constant by its place, how it is laid out, and the number of entries."""

    node: int
    op: OpKind
    kind: SlotClass
    place: int
    layout: Layout | None
    entries: int


def index_checks(rows: Rows, breathe: Breathe = no_breath) -> tuple[IndexCheck, ...]:
    """What of `rows` can be checked before a run. O(rows)."""
    found: list[IndexCheck] = []
    for row, call in enumerate(rows.calls):
        entries = ENTRIES.get(type(call.params))
        if entries is not None:
            slot = _source(rows, rows.slots[row][1])
            kind = SlotClass(rows.classes[slot])
            if kind in (SlotClass.FEED, SlotClass.CONSTANT):
                limit = entries(call.params)
                found.append(IndexCheck(rows.nodes[row], call.kind, kind, rows.places[slot], rows.layouts[slot], limit))
        if not row & 63:
            breathe()
    return tuple(found)


def _source(rows: Rows, slot: int) -> int:
    """What a slot is a copy of, if it is one."""
    while (writer := rows.writers[rows.bases[slot]]) >= 0:
        if rows.bases[slot] != slot or rows.calls[writer].kind is not OpKind.Copy:
            return slot
        slot = rows.slots[writer][0]
    return slot
