"""Prices of fused ops: declared, else counted from their parts, and never nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.cost import (
    composed_cost,
    cost_from_decompose,
    default_cost_for_op_kind,
    fused_layer1_cost,
    is_fused_cost_sentinel,
)
from fuel_async.dispatch import (
    FUSED_OPS,
    BackendCapabilities,
    BackendImpl,
    FusedOpId,
    FusedOpParams,
    OpParams,
    unknown_cost,
)
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DType, Graph, Layout, SubstrateClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import KernelDTypes

F32, F64, F16, I64 = DType.F32, DType.F64, DType.F16, DType.I64
ID, P = FusedOpId, FusedOpParams
CAPS = BackendCapabilities(BackendId.CPU, CPU_DEVICE, frozenset(), 64, 8, (), SubstrateClass.HostBytes, 1.0, 4.0)

Shape = tuple[int, ...]

#: For each fused op: shapes, dtypes and parameters of a call, and flops, bytes and overhead of its parts.
ROWS: list[tuple[FusedOpId, list[Shape], list[DType], FusedOpParams, tuple[int, int, int]]] = [
    (ID.SOFTMAX_LAST_DIM, [(2, 5)], [F32], P.SoftmaxLastDim(), (10 + 10 + 100 + 10 + 10, 80, 50)),
    (
        ID.FUSED_LINEAR,
        [(2, 4, 8), (2, 8, 16), (16,)],
        [F32] * 3,
        P.FusedLinear(),
        (2048 + 128, 4 * (64 + 256 + 16 + 128), 100),
    ),
    (ID.RMS_NORM_LAST_DIM, [(2, 5)], [F32], P.RmsNormLastDim(1e-5), (10 + 10 + 2 + 2 + 10, 80, 50)),
    (ID.LAYER_NORM_LAST_DIM, [(2, 5)], [F64], P.LayerNormLastDim(1e-5), (10 + 10 + 10 + 10 + 2 + 2 + 10, 160, 50)),
    (ID.ROPE, [(3, 2, 4), (2, 4), (2, 4)], [F32] * 3, P.Rope(), (12 + 3 * 24, 4 * (48 + 16), 50)),
    (ID.SOFTMAX_LAST_DIM_BACKWARD, [(2, 5)] * 2, [F16] * 2, P.SoftmaxLastDimBackward(), (40, 60, 50)),
    (ID.LAYER_NORM_LAST_DIM_BACKWARD, [(2, 5)] * 2, [F32] * 2, P.LayerNormLastDimBackward(1.0), (124, 120, 50)),
    (ID.RMS_NORM_LAST_DIM_BACKWARD, [(2, 5)] * 2, [F32] * 2, P.RmsNormLastDimBackward(1.0), (84, 120, 50)),
    (ID.REDUCE_MAX_TO_BACKWARD, [(4, 5), (5,)], [F32] * 2, P.ReduceMaxToBackward(), (20 * 4 + 5, 180, 50)),
    (ID.POWI_BACKWARD, [(10,)] * 2, [F32] * 2, P.PowIBackward(3), (20 + 10 + 10, 120, 50)),
    (ID.INPLACE_AFFINE, [(10,)], [F32], P.InplaceAffine(2.0, 1.0), (20, 80, 50)),
    (ID.FUSED_SOFTMAX_CROSS_ENTROPY, [(2, 5), (2,)], [F32, I64], P.FusedSoftmaxCrossEntropy(), (50 + 20 + 3, 60, 50)),
    (
        ID.SELECTIVE_SCAN,
        [(2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4)],
        [F32] * 5,
        P.SelectiveScan(),
        # steps · u, then of each step but the first 16 flops a state; the first has no decay
        (30 + 3 * 24 + 4 * 16 * 24, 4 * (3 * 30 + 12 + 2 * 40 + 24), 50),
    ),
]


def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("nothing is run to be priced")


class Seen:
    """A cost function and a declared price, which note what they are asked and answer as told."""

    def __init__(self, answer: CostEstimate | None) -> None:
        self.answer = answer
        self.asked: list[tuple[object, ...]] = []

    def evaluate(
        self, shapes: Sequence[Shape], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate | None:
        self.asked.append((shapes, dtypes, params, caps))
        return self.answer

    def cost(
        self, shapes: Sequence[Shape], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate:
        self.asked.append((shapes, dtypes, params, caps))
        return self.answer or CostEstimate()


def test_every_fused_op_has_a_row() -> None:
    assert [row[0] for row in ROWS] == list(FUSED_OPS)


@pytest.mark.parametrize(("fused", "shapes", "dtypes", "params", "wanted"), ROWS, ids=lambda value: str(value)[:30])
def test_parts_are_priced_with_their_own_parameters(
    fused: FusedOpId, shapes: list[Shape], dtypes: list[DType], params: FusedOpParams, wanted: tuple[int, int, int]
) -> None:
    composed = cost_from_decompose(fused, shapes, dtypes, params, CAPS)
    assert composed == CostEstimate(*wanted)
    unpriced = BackendImpl(kernel, (*dtypes, dtypes[0]))
    assert fused_layer1_cost(unpriced, fused, shapes, dtypes, params, CAPS) == composed
    layer1 = BackendImpl(kernel, (*dtypes, dtypes[0]), default_cost_for_op_kind(FUSED_OPS[fused].kind))
    counted = fused_layer1_cost(layer1, fused, shapes, dtypes, params, CAPS)
    assert composed.flops / 4 <= counted.flops <= composed.flops * 4


def test_two_elementwise_nodes_over_three_tensors_at_the_border() -> None:
    graph = Graph()
    x, y = (graph.input(name, (10,)) for name in "xy")
    graph.output("z", (x + y).relu())
    assert composed_cost(graph.freeze(), CAPS) == CostEstimate(20, 3 * 10 * 4, 50)
    assert unknown_cost([(10,)] * 3, (F32,) * 3, OpParams.NONE, CAPS).is_unpriced


def test_nothing_that_is_computed_is_unpriced() -> None:
    graph = Graph()
    x = graph.input("x", (10,))
    graph.output("same", x)
    graph.output("view", x.reshape((2, 5)))
    assert composed_cost(graph.freeze(), CAPS).is_unpriced


def test_numbers_stop_at_64_bits() -> None:
    graph = Graph()
    x = graph.input("x", (2**62,))
    graph.output("y", x.exp())
    assert composed_cost(graph.freeze(), CAPS) == CostEstimate(2**64 - 1, 2**64 - 1, 50)


def test_a_declared_price_goes_before_everything() -> None:
    declared, counted = Seen(CostEstimate(flops=8)), Seen(CostEstimate(777, 42, 9))
    impl = BackendImpl(kernel, (F32, F32), counted.cost, cost_expr=declared)
    assert fused_layer1_cost(impl, ID.RMS_NORM_LAST_DIM, [(2, 5)], [F32], P.RmsNormLastDim(0.5), CAPS).flops == 8
    assert declared.asked == [(((2, 5), (2, 5)), (F32, F32), OpParams.NormLastDim(2, 5, 0.5), CAPS)]
    assert not counted.asked


def test_a_price_of_the_kernels_own_is_used_untouched() -> None:
    declared, counted = Seen(None), Seen(CostEstimate(777, 42, 9))
    impl = BackendImpl(kernel, (F32, F32), counted.cost, cost_expr=declared)
    found = fused_layer1_cost(impl, ID.RMS_NORM_LAST_DIM, [(2, 5)], [F32], P.RmsNormLastDim(0.5), CAPS)
    assert found == CostEstimate(777, 42, 9)
    assert declared.asked == counted.asked == [(((2, 5), (2, 5)), (F32, F32), OpParams.NormLastDim(2, 5, 0.5), CAPS)]


def test_a_kernel_that_prices_nothing_is_priced_by_its_parts() -> None:
    impl = BackendImpl(kernel, (F32, F32), Seen(None).cost)
    assert not is_fused_cost_sentinel(impl.cost)
    assert is_fused_cost_sentinel(BackendImpl(kernel, (F32, F32)).cost)
    found = fused_layer1_cost(impl, ID.SOFTMAX_LAST_DIM, [(2, 5)], [F32], P.SoftmaxLastDim(), CAPS)
    assert found == CostEstimate(140, 80, 50)


@pytest.mark.parametrize(
    ("fused", "shapes", "dtypes", "params"),
    [
        (ID.SOFTMAX_LAST_DIM, [(0, 3)], [F32], P.SoftmaxLastDim()),
        (ID.ROPE, [(0, 2)] * 3, [F32] * 3, P.Rope()),
        (ID.POWI_BACKWARD, [(4,), (4,)], [F32] * 2, P.PowIBackward(0)),
    ],
)
def test_what_has_no_parts_still_is_a_call(
    fused: FusedOpId, shapes: list[Shape], dtypes: list[DType], params: FusedOpParams
) -> None:
    assert cost_from_decompose(fused, shapes, dtypes, params, CAPS).is_unpriced
    impl = BackendImpl(kernel, (*dtypes, F32))
    assert fused_layer1_cost(impl, fused, shapes, dtypes, params, CAPS) == CostEstimate(0, 0, 50)


@pytest.mark.parametrize(
    ("fused", "shapes", "dtypes", "params"),
    [
        (ID.SOFTMAX_LAST_DIM, [(2, 5)], [F32], P.Rope()),
        (ID.SOFTMAX_LAST_DIM, [], [], P.SoftmaxLastDim()),
        (ID.SOFTMAX_LAST_DIM, [(2, 5)], [], P.SoftmaxLastDim()),
        (ID.SOFTMAX_LAST_DIM, [(2, 5)] * 2, [F32] * 2, P.SoftmaxLastDim()),
        (ID.SOFTMAX_LAST_DIM, [(2, 5)], [DType.F4], P.SoftmaxLastDim()),  # no array holds it
        (ID.RMS_NORM_LAST_DIM, [(2, 5)], [F32], P.RmsNormLastDim(-1.0)),
        (ID.CONV2D, [(2, 5)], [F32], P.SoftmaxLastDim()),
        (ID(50_000), [(2, 5)], [F32], P.SoftmaxLastDim()),
    ],
)
def test_what_the_op_refuses_is_unpriced(
    fused: FusedOpId, shapes: list[Shape], dtypes: list[DType], params: FusedOpParams
) -> None:
    assert cost_from_decompose(fused, shapes, dtypes, params, CAPS).is_unpriced
    never = Seen(CostEstimate(1, 1, 1))
    impl = BackendImpl(kernel, (F32, F32), never.cost, cost_expr=never)
    assert fused_layer1_cost(impl, fused, shapes, dtypes, params, CAPS).is_unpriced
    assert not never.asked
