"""Rows that may write over an operand come after all other rows that read it, whatever regions they are put into.

Lowering has brought the rows into an order in which that is so wherever it can be (`ir.ordering`). Here it becomes a
dependency, for those rows that can then take the operand's bytes: the last reader of a temporary, with a kernel that
works in place. So every region that touches the operand precedes the region of the row, which is what
`plan.memory.offsets` asks of two values that share bytes, and rows that copy wait for nobody.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from fuel_async.dispatch import SlotClass
from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from fuel_async.plan.lower import Rows


def order_overwrites(rows: Rows, breathe: Breathe = no_breath) -> None:
    """Add to `rows.preds` what a row that takes its operand's bytes waits for. O(operands)."""
    bases, ops, nodes = rows.bases, rows.graph.ops, rows.nodes
    writing, last = dict[int, int](), array("i", [-1]) * len(rows.types)
    for row, slots in enumerate(rows.slots):
        for slot in slots[:-1]:
            last[bases[slot]] = row
        if ops[nodes[row]].destroys is not None:
            base = overwritten(rows, row)
            if base >= 0:
                writing[base] = row
        if not row & 63:
            breathe()
    waiting = {base: set(rows.preds[row]) for base, row in writing.items() if last[base] == row}
    for row, slots in enumerate(rows.slots):
        for slot in slots[:-1]:
            needs = waiting.get(bases[slot])
            if needs is not None and row != writing[bases[slot]]:
                needs.add(row)
        if not row & 63:
            breathe()
    for count, (base, needs) in enumerate(waiting.items()):
        rows.preds[writing[base]] = tuple(sorted(needs))
        if not count & 63:
            breathe()


def overwritten(rows: Rows, row: int) -> int:
    """The temporary base slot whose bytes the row is there to write over, if its result can take them; else -1."""
    slots, call = rows.slots[row], rows.calls[row]
    op = rows.graph.ops[rows.nodes[row]]
    if op.destroys is None or not call.in_place or slots[-1] != rows.nodes[row]:
        return -1
    temporary, (slot, output) = SlotClass.TEMPORARY, (slots[op.destroys], slots[-1])
    base = rows.bases[slot]
    both = rows.classes[base] == temporary == rows.classes[output]
    return base if both and rows.shows_all(slot) and rows.types[slot] is rows.types[output] else -1
