"""How the operands of kernels lie in memory, as lowering will show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir import BY_NAME, Breathe, Form, Layout, no_breath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.ir import FrozenGraph, TensorType

_VIEW_SLOT = BY_NAME["view_slot"]


def view_layouts(graph: FrozenGraph, breathe: Breathe = no_breath) -> Mapping[int, Layout]:
    """Return the layouts of views that show their operand's bytes; all other values are row-major. O(nodes).

    A view that has to be copied is row-major, too.
    """
    found: dict[int, Layout] = {}
    for node, op in enumerate(graph.ops):
        if not node & 63:
            breathe()
        if op.form is not Form.VIEW:
            continue
        (operand,), attrs = graph.args[node], graph.attrs[node]
        if op is _VIEW_SLOT:
            (slot,) = attrs or (0,)
            found[node] = graph.bundles[operand][slot].layout
            continue
        layout = found.get(operand) or Layout.contiguous(_sizes(graph.types[operand]))
        assert op.view is not None  # the form says so
        shown = op.view(layout, attrs, _sizes(graph.types[node]))
        if shown is not None:
            found[node] = shown
    return found


def operand_layouts(graph: FrozenGraph, node: int, views: Mapping[int, Layout]) -> list[Layout]:
    """Return the layout of each operand of a kernel node."""
    kinds = graph.operand_types(node)
    return [
        views.get(operand) or Layout.contiguous(_sizes(kind))
        for operand, kind in zip(graph.args[node], kinds, strict=True)
    ]


def _sizes(kind: TensorType) -> tuple[int, ...]:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound
