"""Copies of slots that outlive the others of their bundle, so that the bundle's bytes are free for others sooner.

A rewriting of a frozen graph into one that means the same. The planner does not use it: an arena counts a bundle as one
value, and a copy adds its own bytes while both are alive, so it pays only where a large slot is soon done with and a
small one lives on for long. That is known to who builds the graph, who may ask for a copy of a slot himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir.frozen import no_breath, with_ops
from fuel_async.ir.op import Form
from fuel_async.ir.ops.bundle import VIEW_OWNED, VIEW_SLOT

if TYPE_CHECKING:
    from fuel_async.ir.frozen import Breathe, FrozenGraph


def promote_views_for_liveness(graph: FrozenGraph, breathe: Breathe = no_breath) -> FrozenGraph:
    """Return `graph` with views of slots made copies where another slot of the bundle is done with earlier. O(nodes).

    The last use of a slot is the greatest depth of what reads it, itself or through views, where the depth of a node
    is the length of the longest chain of operands to it; an output is used after everything else. The slots of the
    earliest last use remain views. The graph itself comes back where there is nothing to promote.
    """
    views = [node for node, op in enumerate(graph.ops) if op is VIEW_SLOT]
    if not views:
        return graph
    uses = _last_uses(graph, breathe)
    by_slot: dict[tuple[int, int], list[int]] = {}
    for node in views:
        (bundle,), (slot,) = graph.args[node], graph.attrs[node] or ()
        by_slot.setdefault((bundle, slot), []).append(node)
    last = {slot: max(uses[node] for node in nodes) for slot, nodes in by_slot.items()}
    first: dict[int, int] = {}
    for (bundle, _), use in last.items():
        first[bundle] = min(first.get(bundle, use), use)
    ops = list(graph.ops)
    for slot, nodes in by_slot.items():
        if last[slot] > first[slot[0]]:
            for node in nodes:
                ops[node] = VIEW_OWNED
    return graph if ops == list(graph.ops) else with_ops(graph, ops, breathe)


def _last_uses(graph: FrozenGraph, breathe: Breathe) -> list[int]:
    """By node: the depth of the last kernel that reads it, itself or through views; its own where none does."""
    depths: list[int] = []
    for node, args in enumerate(graph.args):
        depths.append(1 + max([depths[arg] for arg in args], default=-1))
        if not node & 63:
            breathe()
    uses, view, beyond = list(depths), Form.VIEW, len(graph)
    for node in graph.outputs.values():
        uses[node] = beyond
    for node in range(len(graph) - 1, -1, -1):
        use = uses[node] if graph.ops[node].form is view else depths[node]
        for arg in graph.args[node]:
            uses[arg] = max(uses[arg], use)
        if not node & 63:
            breathe()
    return uses
