"""Bundle: the handle of a node with several outputs while its graph is built. Its slots are the tensors.

>>> made = graph.bundle(SELECTIVE_SCAN, (u, delta, a, b, c), SelectiveScan(False))
>>> y, last_state = made.slots()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir.ops.bundle import VIEW_OWNED, VIEW_SLOT, Slot
from fuel_async.ir.shape import integer

if TYPE_CHECKING:
    from fuel_async.ir.bundle import BundleType
    from fuel_async.ir.graph import Graph
    from fuel_async.ir.tensor import Tensor


class Bundle:
    """All outputs of one node. No tensor: it is no operand, no output of the graph, and goes nowhere as a whole."""

    __slots__ = ("graph", "index", "type")

    def __init__(self, graph: Graph, index: int, kind: BundleType) -> None:
        """`Graph.bundle` makes these."""
        self.graph, self.index, self.type = graph, index, kind

    def __len__(self) -> int:
        return len(self.type.views)

    def __repr__(self) -> str:
        return f"<Bundle %{self.index} {self.graph.node_at(self.index).op.name} {self.type}>"

    def slot(self, slot: int) -> Tensor:
        """Return output `slot`, counted from 0, as a view; it keeps the bytes of all outputs alive.

        `BundleMisuse` when there is no such output.
        """
        return self.graph.node(VIEW_SLOT, (self,), Slot(integer(VIEW_SLOT.name, "slot", slot)))

    def owned(self, slot: int) -> Tensor:
        """Return a copy of output `slot`, with bytes of its own; errors are those of `slot`."""
        return self.graph.node(VIEW_OWNED, (self,), Slot(integer(VIEW_OWNED.name, "slot", slot)))

    def slots(self) -> tuple[Tensor, ...]:
        """Return all outputs in order, as views."""
        return tuple([self.slot(slot) for slot in range(len(self))])
