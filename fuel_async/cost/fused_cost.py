"""What a call of a fused op costs: declared, else counted from what the op is made of; never nothing. Pure.

The order is that of trust. A kernel's contract may declare a price; else its cost function does; else the op is
decomposed and its parts are priced by Layer 1, each with its own parameters. What the op moves is its operands and its
result, since a fused kernel keeps what lies between. Measured times, where there are any, go before all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.cost.counting import CALL_NS
from fuel_async.cost.layer1 import default_cost_for_op_kind
from fuel_async.dispatch import FUSED_OPS, derive_params, fused_call, kernel_dtypes, unknown_cost
from fuel_async.errors import GraphError, UserError
from fuel_async.ir import CostEstimate, Form, Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import BackendCapabilities, BackendImpl, CostFn, FusedOpId, FusedOpParams
    from fuel_async.ir import DType, FrozenGraph, TensorType

_MOST = 2**64 - 1


def is_fused_cost_sentinel(cost: CostFn) -> bool:
    """Whether the kernel has no price of its own, so that it is counted from the op's decomposition."""
    return cost is unknown_cost


def fused_layer1_cost(
    impl: BackendImpl,
    id: FusedOpId,  # noqa: A002 - the seeds' name
    input_shapes: Sequence[tuple[int, ...]],
    input_dtypes: Sequence[DType],
    params: FusedOpParams,
    caps: BackendCapabilities,
) -> CostEstimate:
    """Return what `impl` costs on inputs of concrete shapes: never unpriced for what the op takes.

    Unpriced for operands and parameters that the op refuses, and for a number that has no entry in `FUSED_OPS`.
    """
    call = fused_call(id, input_shapes, input_dtypes, params)
    if call is None:
        return CostEstimate()
    asked = call.shapes, call.dtypes, call.params, caps
    declared = None if impl.cost_expr is None else impl.cost_expr.evaluate(*asked)
    if declared is not None:
        return declared
    found = CostEstimate() if is_fused_cost_sentinel(impl.cost) else impl.cost(*asked)
    if found.is_unpriced:
        found = cost_from_decompose(id, input_shapes, input_dtypes, params, caps)
    return CostEstimate(kernel_overhead_ns=CALL_NS) if found.is_unpriced else found


def cost_from_decompose(
    id: FusedOpId,  # noqa: A002
    input_shapes: Sequence[tuple[int, ...]],
    input_dtypes: Sequence[DType],
    params: FusedOpParams,
    caps: BackendCapabilities,
) -> CostEstimate:
    """Return what the op's parts cost as one kernel.

    Unpriced where `fused_layer1_cost` is, and where the op decomposes into itself or into nothing that is computed.
    """
    entry = FUSED_OPS.get(id)
    if entry is None or len(input_shapes) != len(input_dtypes) or not input_shapes:
        return CostEstimate()
    scratch = Graph(entry.name)
    try:
        operands = [
            scratch.input(f"operand {place}", shape, dtype)
            for place, (shape, dtype) in enumerate(zip(input_shapes, input_dtypes, strict=True))
        ]
        results = entry.decompose_slots(operands, params)
    except (GraphError, UserError):
        return CostEstimate()
    for slot, result in enumerate(results):
        scratch.output(f"result {slot}", result)
    frozen = scratch.freeze()
    return CostEstimate() if entry.op in frozen.ops else composed_cost(frozen, caps)


def composed_cost(graph: FrozenGraph, caps: BackendCapabilities) -> CostEstimate:
    """Return what the kernels of a graph without symbols would cost as one: their flops, its inputs and outputs.

    The overhead is the greatest of theirs, since one kernel is started; each number is at most that of 64 bits.
    Unpriced when nothing is computed.
    """
    parts = [_part(graph, node, caps) for node, op in enumerate(graph.ops) if op.form is Form.KERNEL]
    if not parts:
        return CostEstimate()
    types: list[TensorType] = [graph.types[node] for node in (*graph.inputs.values(), *graph.outputs.values())]
    return CostEstimate(
        min(sum(part.flops for part in parts), _MOST),
        min(sum(kind.nbytes for kind in types), _MOST),
        max(part.kernel_overhead_ns for part in parts),
    )


def _part(graph: FrozenGraph, node: int, caps: BackendCapabilities) -> CostEstimate:
    op, kind = graph.ops[node], graph.types[node]
    assert op.kind is not None  # a kernel's
    inputs = graph.operand_types(node)
    shapes: list[tuple[int, ...]] = [each.shape for each in (*inputs, kind)]  # type: ignore[misc]  # no symbols
    params = derive_params(op, graph.attrs[node], inputs, kind)
    return default_cost_for_op_kind(op.kind)(shapes, kernel_dtypes(op, inputs, kind), params, caps)
