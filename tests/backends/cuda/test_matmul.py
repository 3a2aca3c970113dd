"""Products of CUDA devices: which calls of cuBLAS they become, and that these are the product."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.cuda.kernels.gemm import AS_IT_LIES, CUBLAS, MOST_CALLS, TRANSPOSED, Gemm
from fuel_async.backends.cuda.kernels.matmul import kernels
from fuel_async.backends.grids.grids import row_major
from fuel_async.backends.grids.kernel import Dispatch, Operand
from fuel_async.dispatch import MatmulParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind
from tests.backends.cuda.demands import needs_compiler
from tests.backends.cuda.source_rig import LIMITS, SourceRig
from tests.backends.grids.support import by_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.backends.grids.rig import Array

KERNELS = by_key([kernels()])
FLOATS = (DType.F32, DType.F64, DType.BF16, DType.F16)
CLOSE = {DType.F32: 1e-5, DType.F64: 1e-13, DType.BF16: 1e-2, DType.F16: 2e-3}
WITHOUT = replace(LIMITS, features=LIMITS.features - {CUBLAS})

compiles = needs_compiler


def product_of(dtype: DType, *, biased: bool = False) -> Any:
    op = OpKind.FusedLinear if biased else OpKind.MatMul
    return KERNELS[op, (dtype,) * (4 if biased else 3)]


def params_of(left: Sequence[int], right: Sequence[int]) -> MatmulParams:
    return MatmulParams(tuple(left[:-2]), tuple(right[:-2]), left[-2], right[-1], left[-1])


def planned(
    left: tuple[tuple[int, ...], tuple[int, ...]],
    right: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: DType = DType.F32,
    limits: Any = LIMITS,
) -> list[Any]:
    """The plan for operands of (shape, strides), which begin at 5 and 7, and an output that begins at 3."""
    params = params_of(left[0], right[0])
    shape = (*left[0][:-2], params.m, params.n)
    operands = [
        Operand(dtype, *left, 5), Operand(dtype, *right, 7), Operand(dtype, shape, row_major(shape), 3),
    ]  # fmt: skip
    return list(product_of(dtype).dispatches(operands, params, limits))


def dense(*shape: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape, row_major(shape)


def turned(*shape: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Row-major but for the last two axes, which are exchanged."""
    *lead, rows, columns = shape
    strides = row_major((*lead, columns, rows))
    return shape, (*strides[:-2], strides[-1], strides[-2])


# --- plans --------------------------------------------------------------------------------------------------


def test_a_dense_product_is_one_call() -> None:
    (found,) = planned(dense(4, 6), dense(6, 5))
    assert isinstance(found, Gemm)
    assert (found.sizes, found.batches, found.beta) == ((4, 5, 6), 1, 0.0)
    assert [(one.place, one.offset, one.operation, one.leading) for one in (found.left, found.right, found.target)] == [
        (0, 5, AS_IT_LIES, 6), (1, 7, AS_IT_LIES, 5), (2, 3, AS_IT_LIES, 5),
    ]  # fmt: skip
    assert (found.operands, found.reads, found.writes) == ((0, 1, 2), (0, 1), (2,))


def test_operands_may_be_transposed_and_parts_of_larger_ones() -> None:
    (found,) = planned(turned(4, 6), ((6, 5), (100, 1)))
    assert (found.left.operation, found.left.leading) == (TRANSPOSED, 4)
    assert (found.right.operation, found.right.leading) == (AS_IT_LIES, 100)


@pytest.mark.parametrize(
    ("dtype", "data", "compute"), [(DType.F32, 0, 69), (DType.F64, 1, 70), (DType.F16, 2, 68), (DType.BF16, 14, 68)]
)
def test_halves_are_summed_in_float32_and_float32_is_no_tf32(dtype: DType, data: int, compute: int) -> None:
    (found,) = planned(dense(4, 6), dense(6, 5), dtype)
    assert (found.data_type, found.compute_type) == (data, compute)


def test_batches_that_share_the_right_are_more_rows() -> None:
    (found,) = planned(dense(3, 4, 6), dense(1, 6, 5))
    assert (found.sizes, found.batches) == ((12, 5, 6), 1)
    (found,) = planned(((3, 1, 6), (6, 1, 1)), dense(1, 6, 5))
    assert (found.sizes, found.batches) == ((3, 5, 6), 1)
    # Columns in one piece: the next batch is no next row.
    (found,) = planned(turned(3, 4, 6), dense(1, 6, 5))
    assert (found.sizes, found.batches, found.left.batch, found.right.batch) == ((4, 5, 6), 3, 24, 0)


def test_grouped_heads_are_more_rows_where_they_lie_so_and_calls_where_not() -> None:
    (found,) = planned(dense(2, 8, 4, 6), dense(2, 2, 6, 5))
    assert (found.sizes, found.batches) == ((16, 5, 6), 4)
    calls = planned(turned(3, 8, 4, 6), dense(3, 2, 6, 5))
    assert [(one.sizes, one.batches) for one in calls] == [((4, 5, 6), 6)] * 4
    assert [(one.left.batch, one.right.batch) for one in calls] == [(96, 30)] * 4
    # Every matrix of the output is written once.
    starts = [one.target.offset - 3 + batch * one.target.batch for one in calls for batch in range(one.batches)]
    assert sorted(starts) == [20 * number for number in range(24)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (((4, 6), (12, 2)), dense(6, 5)),  # neither rows nor columns in one piece
        (dense(4, 6), ((6, 5), (-5, 1))),  # backwards
        (((4, 6), (0, 1)), dense(6, 5)),  # rows that are one
        (((4, 6), (3, 1)), dense(6, 5)),  # rows that overlap
    ],
)
def test_other_operands_are_read_by_a_kernel_of_grids(left: Any, right: Any) -> None:
    assert all(isinstance(one, Dispatch) for one in planned(left, right))


def test_integers_empty_sums_and_devices_without_the_library_have_the_kernels_of_grids() -> None:
    for found in (
        planned(dense(4, 6), dense(6, 5), DType.I8),
        planned(dense(4, 0), dense(0, 5)),
        planned(dense(4, 6), dense(6, 5), limits=WITHOUT),
    ):
        assert found
        assert all(isinstance(one, Dispatch) for one in found)


def test_many_calls_are_one_kernel_of_grids() -> None:
    size = MOST_CALLS + 1
    left, right = (dense(size, 2, size, 2, 3, 3)), ((size, 2, size, 2, 3, 3), row_major((size, 2, size, 2, 3, 3)))
    scattered = left[0], (10_000_000, 18, 40_000, 9, 3, 1)
    assert len(planned(left, right)) == 1
    assert all(isinstance(one, Dispatch) for one in planned(scattered, right))


def test_nothing_is_no_call_and_shapes_are_checked() -> None:
    assert planned(dense(0, 6), dense(6, 5)) == []
    with pytest.raises(KernelArgumentError, match="batch dims"):
        planned(dense(3, 2, 2), dense(2, 2, 2))


# --- results ------------------------------------------------------------------------------------------------


def by_library(rig: SourceRig) -> bool:
    """Whether the last thing that was run is a call of cuBLAS."""
    last: Any = rig.dispatches[-1]
    return isinstance(last, Gemm)


def _matrices(chance: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    """Matrices over larger memory: rows or columns in one piece, some batches repeated."""
    *lead, rows, columns = shape
    more = [size + int(chance.integers(0, 2)) for size in lead]
    gap = int(chance.integers(0, 3))
    if chance.random() < 0.5:
        base = chance.normal(size=(*more, rows, columns + gap)).astype(kind)
        found = base[..., :columns]
    else:
        base = chance.normal(size=(*more, columns, rows + gap)).astype(kind)
        found = np.swapaxes(base, -1, -2)[..., :rows, :]
    return found[tuple(slice(size) for size in lead)]


@compiles
@pytest.mark.parametrize("biased", [False, True], ids=["matmul", "linear"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products_are_those_of_numpy(dtype: DType, biased: bool) -> None:
    chance, rig, kind = np.random.default_rng(dtype.code), SourceRig(), dtype.require_np()
    for _ in range(30):
        m, n, k = (int(size) for size in chance.integers(1, 9, 3))
        rank = int(chance.integers(0, 3))
        ours = tuple(int(size) for size in chance.integers(1, 4, rank) * chance.integers(1, 3, rank))
        theirs = tuple(
            int(chance.choice([part for part in (1, size // 2, size) if part and not size % part])) for size in ours
        )
        left, right = _matrices(chance, (*ours, m, k), kind), _matrices(chance, (*theirs, k, n), kind)
        bias = [chance.normal(size=n).astype(kind)] if biased else []
        shape, kernel = (*ours, m, n), product_of(dtype, biased=biased)
        got = rig.run(kernel, [left, right, *bias], shape, params_of(left.shape, right.shape))
        wide = right.astype(np.float64)
        for axis, (size, part) in enumerate(zip(ours, theirs, strict=True)):
            wide = np.repeat(wide, size // part, axis)
        wanted = left.astype(np.float64) @ wide + (bias[0].astype(np.float64) if biased else 0)
        assert by_library(rig)
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype])


@compiles
def test_both_ways_give_one_result() -> None:
    chance, rig = np.random.default_rng(2), SourceRig()
    left, right = (chance.normal(size=shape).astype(np.float32) for shape in ((3, 17, 33), (3, 33, 20)))
    bias, params = chance.normal(size=20).astype(np.float32), params_of(left.shape, right.shape)
    for kernel, inputs in (
        (product_of(DType.F32), [left, right]),
        (product_of(DType.F32, biased=True), [left, right, bias]),
    ):
        first = rig.run(kernel, inputs, (3, 17, 20), params)
        assert by_library(rig)
        second = rig.run(kernel, inputs, (3, 17, 20), params, limits=WITHOUT)
        assert not by_library(rig)
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)
