"""The order of a graph's nodes in which ops that may write over their operand come after those who read it.

An order is a matter of memory, not of values: an op that may write over its operand copies when somebody is still to
read that. `derive_ordering` finds, for each value, one such op that can come last: all who read the value, also through
views, reshapes and contiguous copies, must run before it. Where a reader depends on the op there is none such, and the
op copies: that is the safety copy. Values that come from outside or that the caller receives are never written over, so
nothing waits for the sake of them.

Pure; graphs without such ops are not looked at.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.ir.frozen import no_breath
from fuel_async.ir.op import Form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir.frozen import Breathe, FrozenGraph

#: How many nodes may be looked at, for each node of the graph, to let ops wait for readers that were built after them.
#: Beyond that they copy.
LOOKED_AT = 32


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order that honours operands and `before`: that of node numbers but for what must wait."""

    order: Sequence[int]
    #: For ops that may write over their operand: the nodes that read it, too, and run before. Sorted.
    before: Mapping[int, tuple[int, ...]]


def derive_ordering(graph: FrozenGraph, breathe: Breathe = no_breath) -> Ordering:
    """Order the nodes of `graph`. O(nodes)."""
    if not graph.destructive:
        return Ordering(range(len(graph)), {})
    ordered = _Ordered(graph, breathe)
    for readers, ops in _contested(graph, breathe):
        # Of several ops that would write over one value the last to be built is asked first: it waits for the others.
        for node in reversed(ops):
            if ordered.put_last(node, readers):
                break
        breathe()
    return Ordering(ordered.order, ordered.before)


def roots_of(graph: FrozenGraph, breathe: Breathe = no_breath) -> array[int]:
    """By node: the node whose bytes it may show, itself unless it is a view; a view that copies counts as one."""
    roots = array("i")
    view = Form.VIEW
    for node, (op, args) in enumerate(zip(graph.ops, graph.args, strict=True)):
        roots.append(roots[args[0]] if op.form is view else node)
        if not node & 63:
            breathe()
    return roots


def _contested(graph: FrozenGraph, breathe: Breathe) -> list[tuple[list[int], list[int]]]:
    """Values made by the graph for itself that some op may write over: (kernels that read it, those ops among them)."""
    roots, kernel = roots_of(graph, breathe), Form.KERNEL
    kept = {roots[node] for node in graph.outputs.values()}
    found: dict[int, tuple[list[int], list[int]]] = {}
    for node, op in enumerate(graph.ops):
        if op.destroys is not None and op.form is kernel:
            root = roots[graph.args[node][op.destroys]]
            if root not in kept and graph.ops[root].form is kernel:
                found.setdefault(root, ([], []))[1].append(node)
        if not node & 63:
            breathe()
    for node, args in enumerate(graph.args):
        for arg in args:
            contested = found.get(roots[arg])
            if contested is not None and graph.ops[node].form is kernel:
                readers = contested[0]
                if not readers or readers[-1] != node:
                    readers.append(node)
        if not node & 63:
            breathe()
    return list(found.values())


class _Ordered:
    """An order of the nodes under more and more demands: a linear extension of all of them at any time."""

    def __init__(self, graph: FrozenGraph, breathe: Breathe) -> None:
        self.args, self.breathe = graph.args, breathe
        self.order = list(range(len(graph)))
        self.place = list(range(len(graph)))
        self.before: dict[int, tuple[int, ...]] = {}
        self.left = LOOKED_AT * len(graph)

    def put_last(self, node: int, readers: Sequence[int]) -> bool:
        """Demand that `readers` run before `node`, which is one of them; False when one depends on it."""
        if len(readers) == 1:  # itself
            return True
        others = [reader for reader in readers if reader != node]
        first, last = self.place[node], max([self.place[reader] for reader in others])
        if last > first and not self._wait(first, last, frozenset(others)):
            return False
        self.before[node] = tuple(others)
        return True

    def _wait(self, first: int, last: int, readers: frozenset[int]) -> bool:
        """Move the node at place `first`, and what depends on it, behind the rest of the places up to `last`."""
        self.left -= last - first
        if self.left < 0:
            return False
        window = self.order[first : last + 1]
        moved, rest = {window[0]: None}, []
        for count, node in enumerate(window[1:]):
            needs = self.args[node]
            if node in self.before:
                needs = (*needs, *self.before[node])
                self.left -= len(needs)
            if not count & 63:
                self.breathe()
            if moved.keys().isdisjoint(needs):
                rest.append(node)
            elif node in readers:
                return False
            else:
                moved[node] = None
        for place, node in enumerate((*rest, *moved), first):
            self.order[place], self.place[node] = node, place
        return True
