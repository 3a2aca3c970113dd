"""Layer-1 prices, row by row, and the defects of the original that are not copied."""

from __future__ import annotations

import pytest

from fuel_async.cli.prices import PARAMS
from fuel_async.cost import INFEASIBLE, LAYER1, cost_flash_decoding_cuda, default_cost_for_op_kind
from fuel_async.dispatch import BackendCapabilities, OpParams, unknown_cost
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DType, OpKind, SubstrateClass

F32, F64, BF16, F16 = DType.F32, DType.F64, DType.BF16, DType.F16
U8, U32, I64 = DType.U8, DType.U32, DType.I64
NONE = OpParams.NONE

CAPS = BackendCapabilities(BackendId.CPU, CPU_DEVICE, frozenset(), 64, 8, (), SubstrateClass.HostBytes, 1.0, 4.0)

Shape = tuple[int, ...]


def price(op: OpKind, shapes: list[Shape], dtypes: list[DType], params: OpParams = NONE) -> CostEstimate:
    return default_cost_for_op_kind(op)(shapes, tuple(dtypes), params, CAPS)


#: (kind, shapes, dtypes, params) -> flops, bytes, overhead in ns.
ROWS: list[tuple[OpKind, list[Shape], list[DType], OpParams, tuple[int, int, int]]] = [
    (OpKind.ReluElementwise, [(8, 16)] * 2, [F32] * 2, NONE, (128, 1024, 50)),
    (OpKind.SignElementwise, [(10,)] * 2, [F64] * 2, NONE, (10, 160, 50)),
    (OpKind.TanhElementwise, [(10,)] * 2, [F32] * 2, NONE, (100, 80, 50)),
    (OpKind.GeluErfElementwise, [(10,)] * 2, [BF16] * 2, NONE, (100, 40, 50)),
    (OpKind.AddElementwise, [(10,)] * 3, [F32] * 3, NONE, (10, 120, 50)),
    (OpKind.PowElementwise, [(10,), (1,), (10,)], [F32] * 3, NONE, (10, 120, 50)),
    (OpKind.LessElementwise, [(10,)] * 3, [F32, F32, U8], NONE, (10, 90, 50)),
    (OpKind.Where, [(10,)] * 4, [U8, F64, F64, F64], NONE, (10, 250, 50)),
    (OpKind.ClampElementwise, [(10,)] * 2, [F32] * 2, OpParams.Clamp(0, 1), (20, 80, 50)),
    (OpKind.Affine, [(10,)] * 2, [F32] * 2, OpParams.Affine(2, 1), (20, 80, 50)),
    (OpKind.Cast, [(10,)] * 2, [F64, F16], OpParams.Cast(), (0, 100, 50)),
    (OpKind.SumReduce, [(4, 5), (4,)], [F32] * 2, OpParams.Reduce((1,)), (20, 96, 50)),
    (OpKind.MaxReduce, [(4, 5), ()], [F32] * 2, OpParams.Reduce((0, 1)), (20, 84, 50)),
    (OpKind.Copy, [(10,)] * 2, [F32] * 2, NONE, (0, 80, 50)),
    (OpKind.Concat, [(3,), (4,), (7,)], [F32] * 2, OpParams.Concat(1, (3, 4), 1, 0), (0, 56, 50)),
    (
        OpKind.IndexSelect,
        [(9, 5), (2,), (2, 5)],
        [F32, U32, F32],
        OpParams.IndexSelect(1, 9, 2, 5, 0),
        (10, 120, 50),
    ),
    (OpKind.Gather, [(9, 5), (2, 5), (2, 5)], [F32, U32, F32], OpParams.Gather((9, 5), (2, 5), 0), (10, 120, 50)),
    (OpKind.IndexAdd, [(9,), (2,), (2,), (9,)], [F64, U32, F64, F64], OpParams.IndexAdd(1, 9, 2, 1, 0), (9, 180, 50)),
    (OpKind.ScatterAdd, [(9,), (2,), (2,), (9,)], [F32, U32, F32, F32], NONE, (9, 108, 50)),
    (OpKind.MaskedFill, [(10,)] * 3, [F64, U8, F64], OpParams.MaskedFill(bytes(8)), (0, 170, 50)),
    (OpKind.Flip, [(10,)] * 2, [F32] * 2, OpParams.Flip(1, 10, 1, 0), (0, 80, 50)),
    (OpKind.Roll, [(10,)] * 2, [F16] * 2, OpParams.Roll(1, 10, 1, 0, 3), (0, 40, 50)),
    (OpKind.Triu, [(2, 5)] * 2, [F32] * 2, OpParams.Triangular(1, 2, 5, 0), (0, 80, 50)),
    (OpKind.Tril, [(2, 5)] * 2, [U8] * 2, OpParams.Triangular(1, 2, 5, 0), (0, 20, 50)),
    (OpKind.Pad, [(3,), (5,)], [F32] * 2, OpParams.Pad((3,), (5,), ((1, 1),), 0, bytes(4)), (0, 32, 50)),
    (OpKind.PadBackward, [(5,), (3,)], [F32] * 2, OpParams.PadBackward((3,), (5,), ((1, 1),), 0), (0, 32, 50)),
    (OpKind.SoftmaxLastDim, [(2, 5)] * 2, [F32] * 2, OpParams.SoftmaxLastDim(2, 5), (50, 120, 50)),
    (OpKind.LayerNormLastDim, [(2, 5)] * 2, [F32] * 2, OpParams.NormLastDim(2, 5, 1e-5), (70, 120, 50)),
    (OpKind.RemElementwise, [(10,)] * 3, [F32] * 3, NONE, (10, 120, 50)),
    (OpKind.PowIElementwise, [(10,)] * 2, [F16] * 2, OpParams.PowI(7), (20, 40, 50)),
    (OpKind.PowIElementwiseBackward, [(10,)] * 3, [F32] * 3, OpParams.PowI(-7), (50, 120, 50)),
    (OpKind.ReduceSumTo, [(4, 5), (5,)], [F32] * 2, OpParams.ReduceSumTo((4, 5), (5,)), (20, 100, 50)),
    (OpKind.ReduceMaxTo, [(4, 5), (5,)], [F64] * 2, OpParams.ReduceMaxTo((4, 5), (5,)), (20, 200, 50)),
    (
        OpKind.ReduceMaxToBackward,
        [(4, 5), (5,), (4, 5)],
        [F32] * 3,
        OpParams.ReduceMaxToBackward((4, 5), (5,)),
        (110, 460, 80),
    ),
    (OpKind.ArgMaxDim, [(4, 5), (4,)], [F64, U32], OpParams.Reduce((1,)), (20, 176, 50)),
    (OpKind.ArgMinDim, [(4, 5), (5,)], [F16, U32], OpParams.Reduce((0,)), (20, 60, 50)),
    (OpKind.CumSum, [(4, 5)] * 2, [F32] * 2, OpParams.CumSum(4, 5, 1, 1), (0, 160, 50)),
    (OpKind.SoftmaxLastDimBackward, [(2, 5)] * 3, [F32] * 3, OpParams.SoftmaxLastDim(2, 5), (50, 120, 50)),
    (OpKind.LayerNormLastDimBackward, [(2, 5)] * 3, [F32] * 3, OpParams.NormLastDim(2, 5, 0), (70, 120, 50)),
    (OpKind.RmsNormLastDim, [(2, 5)] * 2, [F64] * 2, OpParams.NormLastDim(2, 5, 0), (70, 240, 50)),
    (OpKind.RmsNormLastDimBackward, [(2, 5)] * 3, [F32] * 3, OpParams.NormLastDim(2, 5, 0), (70, 120, 50)),
    (
        OpKind.FusedSoftmaxCrossEntropy,
        [(2, 3, 7), (2, 3), ()],
        [F16, I64, F32],
        OpParams.FusedSoftmaxCrossEntropy(6, 7, "mean", -100),
        (186, 136, 50),
    ),
    (
        OpKind.SelectiveScan,
        [(2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4), (2, 5, 3)],
        [F32] * 6,
        OpParams.SelectiveScan(2, 5, 3, 4, False),
        (16 * 120, 4 * (90 + 80 + 12), 50),
    ),
    (OpKind.Rope, [(2, 3, 4), (3, 4), (3, 4), (2, 3, 4)], [F32] * 4, OpParams.Rope(2, 3, 4), (96, 288, 50)),
    (
        OpKind.FusedLinear,
        [(2, 4, 8), (2, 8, 16), (16,), (2, 4, 16)],
        [F32] * 4,
        OpParams.Matmul((2,), (2,), 4, 16, 8),
        (2048 + 128, 4 * (64 + 256 + 128 + 16), 100),
    ),
    (
        OpKind.Conv2D,
        [(2, 4, 8, 8), (6, 4, 3, 3), (6,), (2, 6, 8, 8)],
        [F32] * 4,
        NONE,
        (55_296 + 768, 4 * (512 + 216 + 6 + 768), 100),
    ),
    (OpKind.Conv2D, [(1, 4, 3, 3), (6, 2, 2, 2), (1, 6, 2, 2)], [F32] * 3, NONE, (2 * 24 * 8, 4 * (36 + 48 + 24), 100)),
    (
        OpKind.ConvTranspose2D,  # 2 groups of 2 channels in, 3 out
        [(1, 4, 2, 2), (4, 3, 2, 2), (1, 6, 3, 3)],
        [F32] * 3,
        NONE,
        (2 * 54 * 2 * 4, 4 * (16 + 48 + 54), 100),
    ),
    (
        OpKind.CausalConv1d,
        [(2, 3, 7), (3, 4), (3,), (2, 3, 7)],
        [F16] * 4,
        OpParams.CausalConv1d(2, 3, 7, 7, 4, True),
        (42 * 18, 2 * (42 + 12 + 3 + 42), 50),
    ),
    (
        OpKind.SsdChunkScan,
        [(2, 8, 3, 5), (2, 8, 3), (3,), (2, 8, 3, 4), (2, 8, 3, 4), (2, 8, 3, 5)],
        [F32] * 6,
        NONE,
        (8 * 240 * 4, 4 * (2 * 240 + 48 + 3 + 2 * 192), 50),
    ),
    (OpKind.QMatMul, [(2, 3, 64), (5, 9), (2, 3, 5)], [F32, U32, F32], NONE, (2 * 30 * 64, 4 * (384 + 45 + 30), 100)),
    (
        OpKind.Nf4Matmul,
        [(3, 64), (160,), (5,), (3, 5)],
        [F16, U8, F32, F16],
        NONE,
        (3 * 15 * 64, 2 * 192 + 160 + 20 + 30, 50),
    ),
    (OpKind.NonZeroIndices, [(10,), (10,)], [F32, U32], NONE, (10, 80, 50)),
    (
        OpKind.FlashAttn,
        [(2, 8, 3, 16), (2, 8, 5, 16), (2, 8, 5, 16), (2, 8, 3, 16)],
        [F32] * 4,
        OpParams.FlashAttn(2, 8, 8, 3, 5, 16, None, 0.25),
        (240 * 69, 4 * (2 * 768 + 2 * 1280), 200),
    ),
    (
        OpKind.PagedAttn,
        [(1, 4, 1, 8)] * 6,
        [F16] * 6,
        OpParams.PagedAttn(1, 4, 4, 1, 8, 16, 10, 10, 1.0),
        (4 * 4 * 160 * 8, 2 * (2 * 32 + 2 * 160 * 4 * 8), 200),
    ),
    (OpKind.MatMul, [(2, 3), (3, 4), (2, 4)], [F32] * 3, OpParams.Matmul((), (), 2, 4, 3), (48, 104, 100)),
    (
        OpKind.MatMul,
        [(5, 2, 3), (5, 3, 4), (5, 2, 4)],
        [F16] * 3,
        OpParams.Matmul((5,), (5,), 2, 4, 3),
        (240, 260, 100),
    ),
]


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "params", "wanted"),
    ROWS,
    ids=lambda value: value.value if isinstance(value, OpKind) else "",
)
def test_rows(
    op: OpKind, shapes: list[Shape], dtypes: list[DType], params: OpParams, wanted: tuple[int, int, int]
) -> None:
    assert price(op, shapes, dtypes, params) == CostEstimate(*wanted)


def test_every_kind_is_priced_but_those_made_at_run_time() -> None:
    assert set(OpKind) - LAYER1.keys() == {OpKind.RuntimeFused}


@pytest.mark.parametrize("op", LAYER1)
def test_a_call_of_every_kind_has_a_price(op: OpKind) -> None:
    cubes: list[Shape] = [(4, 4, 4, 4)] * 6
    assert not price(op, cubes, [F32] * 6, PARAMS.get(op, NONE)).is_unpriced
    assert price(op, cubes, [F32] * 6).is_unpriced is (op in PARAMS)


def test_kinds_without_a_formula_are_unpriced() -> None:
    assert default_cost_for_op_kind(OpKind.RuntimeFused) is unknown_cost
    assert price(OpKind.RuntimeFused, [(4,)], [F32]).is_unpriced


def test_log_softmax_is_not_free() -> None:
    """Defect (a): its own parameters are unknown to the softmax formula, which counts from shapes instead."""
    for op in (OpKind.LogSoftmaxLastDim, OpKind.LogSoftmaxLastDimBackward):
        assert price(op, [(2, 5)] * 2, [F32] * 2) == CostEstimate(50, 120, 50)


def test_grouped_heads_read_the_shared_operand_once() -> None:
    """Defect (b): 8 query heads over 2 key heads move 8 lefts, 2 rights and 8 results."""
    params = OpParams.Matmul((8,), (2,), m=3, n=4, k=5)
    got = price(OpKind.MatMul, [(8, 3, 5), (2, 5, 4), (8, 3, 4)], [F32] * 3, params)
    assert (got.flops, got.bytes_moved) == (2 * 8 * 60, 4 * (8 * 15 + 2 * 20 + 8 * 12))


def test_a_product_of_fewer_rows_costs_less() -> None:
    """Defect (c)."""
    few = OpParams.Matmul((), (), m=100, n=4, k=5, m_compute=10)
    assert price(OpKind.MatMul, [(100, 5), (5, 4), (100, 4)], [F32] * 3, few).flops == 2 * 10 * 20


def test_an_attention_to_fewer_keys_costs_less() -> None:
    """Defect (c): of a buffer of 4096 keys the 100 that are there are read."""
    shapes: list[Shape] = [(1, 8, 1, 64), (1, 2, 4096, 64), (1, 2, 4096, 64), (1, 8, 1, 64)]
    for op in (OpKind.FlashAttn, OpKind.FlashAttnBackwardK):
        live = price(op, shapes, [F16] * 4, OpParams.FlashAttn(1, 8, 2, 1, 4096, 64, 100, 0.125))
        assert live == CostEstimate(8 * 100 * (4 * 64 + 5), 2 * (2 * 8 * 64 + 2 * 2 * 100 * 64), 200)
        assert price(op, shapes, [F16] * 4, OpParams.FlashAttn(1, 8, 2, 1, 50, 64, 100, 0.125)).flops == live.flops / 2


def test_shared_keys_of_an_attention_are_read_once() -> None:
    """Defect (b) again: 8 query heads over 2 key heads."""
    grouped = price(OpKind.FlashAttn, [], [F32], OpParams.FlashAttn(1, 8, 2, 1, 10, 4, None, 1.0))
    assert grouped.bytes_moved == 4 * (2 * 8 * 4 + 2 * 2 * 10 * 4)


def test_a_pool_of_keys_has_those_of_all_heads() -> None:
    """Defect (d), and a pool that holds the keys of others: a sequence reads those that fit its own blocks."""
    small = price(OpKind.PagedAttn, [], [F32], OpParams.PagedAttn(2, 8, 4, 1, 16, 32, 3, 1000, 1.0))
    keys = 32 * 3
    assert small == CostEstimate(4 * 2 * 8 * keys * 16, 4 * (2 * 2 * 8 * 16 + 2 * 2 * keys * 4 * 16), 200)


def test_a_decoding_kernel_takes_one_query_of_few_features() -> None:
    fits = OpParams.FlashAttn(1, 8, 8, 1, 10, 128, None, 1.0)
    assert cost_flash_decoding_cuda([], (F16,), fits, CAPS) == price(OpKind.FlashAttn, [], [F16], fits)
    for sq, d in ((2, 128), (1, 129), (1, 0)):
        wrong = OpParams.FlashAttn(1, 8, 8, sq, 10, d, None, 1.0)
        assert cost_flash_decoding_cuda([], (F16,), wrong, CAPS) == INFEASIBLE
    assert cost_flash_decoding_cuda([], (F16,), NONE, CAPS).is_unpriced


def test_parameters_of_another_kind_leave_a_product_unpriced() -> None:
    assert price(OpKind.MatMul, [(2, 2)] * 3, [F32] * 3, NONE).is_unpriced


def test_sub_byte_types_are_counted_in_bits() -> None:
    """Defect (f)."""
    assert price(OpKind.Copy, [(10,)] * 2, [DType.F4] * 2).bytes_moved == 10
    assert price(OpKind.Copy, [(3,)] * 2, [DType.F6E2M3] * 2).bytes_moved == 5


def test_missing_dtypes_count_four_bytes_and_empty_operands_nothing() -> None:
    assert price(OpKind.ReluElementwise, [(10,)] * 2, []).bytes_moved == 80
    assert price(OpKind.ReluElementwise, [], [F32]) == CostEstimate(0, 0, 50)
    assert price(OpKind.IndexSelect, [(4,), (2,), (2,)], [F32]).bytes_moved == 24
    assert price(OpKind.Cast, [(0, 5)] * 2, [I64, F32]) == CostEstimate(0, 0, 50)
