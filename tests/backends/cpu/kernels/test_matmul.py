"""Matrix products: values, batches and groups, operands read in place, the half types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.dispatch import MatmulParams, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]
Matmul = Callable[[Array, Array], Array]

MATMUL = OpKind.MatMul
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]


def params_of(left: Array, right: Array) -> MatmulParams:
    return OpParams.Matmul(left.shape[:-2], right.shape[:-2], left.shape[-2], right.shape[-1], left.shape[-1])


def exact(left: Array, right: Array) -> npt.NDArray[np.float64]:
    """By the definition: batch i of the left meets batch i // ratio of the right."""
    wide, narrow = left.astype(np.float64), right.astype(np.float64)
    for axis, (many, few) in enumerate(zip(left.shape[:-2], right.shape[:-2], strict=True)):
        if few:
            narrow = np.repeat(narrow, many // few, axis)
    result: npt.NDArray[np.float64] = wide @ narrow
    return result


@pytest.fixture
def matmul(call: Call) -> Matmul:
    def run(left: Array, right: Array) -> Array:
        params = params_of(left, right)
        return call(MATMUL, [left, right], (*left.shape[:-1], right.shape[-1]), params)

    return run


def integers(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> Array:
    """Small whole numbers: every product and sum of them is exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def test_the_reference_examples(matmul: Matmul) -> None:
    def f32(values: list[float], *shape: int) -> Array:
        return np.array(values, np.float32).reshape(shape)

    assert matmul(f32([1, 2, 3, 4, 5, 6], 2, 3), f32([7, 8, 9, 10, 11, 12], 3, 2)).reshape(-1).tolist() == [
        58, 64, 139, 154,
    ]  # fmt: skip
    batched = matmul(f32([1, 2, 3, 4] * 2, 2, 2, 2), f32([5, 6, 7, 8, 10, 0, 0, 10], 2, 2, 2))
    assert batched.reshape(-1).tolist() == [19, 22, 43, 50, 10, 20, 30, 40]
    grouped = matmul(f32([1, 2, 3, 4, 5, 6, 7, 8], 4, 1, 2), f32([1, 0, 0, 1], 2, 2, 1))
    assert (grouped.shape, grouped.reshape(-1).tolist()) == ((4, 1, 1), [1, 3, 6, 8])
    turned = matmul(f32([1, 2, 3, 4], 2, 2), f32([5, 6, 7, 8], 2, 2).T)
    assert turned.reshape(-1).tolist() == [17, 23, 39, 53]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("left_batch", "right_batch"),
    [
        ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((6,), (3,)), ((6,), (1,)), ((2, 6), (2, 3)),
        ((2, 6), (1, 3)), ((4, 6), (2, 6)), ((4, 6), (2, 1)), ((4, 6), (1, 1)), ((4, 6), (1, 6)),
        ((4, 3, 6), (2, 3, 2)), ((1, 8), (1, 2)),
    ],
)  # fmt: skip
def test_batches_and_groups(
    left_batch: tuple[int, ...], right_batch: tuple[int, ...], dtype: np.dtype[Any], matmul: Matmul
) -> None:
    left, right = integers((*left_batch, 5, 4), dtype), integers((*right_batch, 4, 3), dtype, 1)
    wanted = exact(left, right)
    np.testing.assert_array_equal(matmul(left, right).astype(float), wanted)
    # As transposed views, and as heads taken out of a row of features: the strides of attention.
    turned = np.ascontiguousarray(np.moveaxis(left, -1, 0))
    np.testing.assert_array_equal(matmul(np.moveaxis(turned, 0, -1), right).astype(float), wanted)
    across = np.ascontiguousarray(right.swapaxes(-1, -2)).swapaxes(-1, -2)
    np.testing.assert_array_equal(matmul(left, across).astype(float), wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 5, 3), (5, 1, 3), (64, 48, 32)]
)
def test_sizes(m: int, n: int, k: int, dtype: np.dtype[Any], matmul: Matmul) -> None:
    left, right = integers((m, k), dtype), integers((k, n), dtype, 1)
    np.testing.assert_array_equal(matmul(left, right).astype(float), exact(left, right))
    batched = integers((0, m, k), dtype), integers((0, k, n), dtype)
    assert matmul(*batched).shape == (0, m, n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operands_that_blas_cannot_read(dtype: np.dtype[Any], matmul: Matmul, strided: Callable[..., Array]) -> None:
    left, right = integers((2, 33, 20), dtype), integers((2, 20, 17), dtype, 1)
    wanted = exact(left, right)
    for one in (strided(left), left[:, ::-1].copy()[:, ::-1]):
        for other in (strided(right), right[..., ::-1].copy()[..., ::-1]):
            np.testing.assert_array_equal(matmul(one, other).astype(float), wanted)
    row = np.broadcast_to(integers((1, 20), dtype), (33, 20))
    np.testing.assert_array_equal(matmul(row, right[0]).astype(float), exact(row, right[0]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [(2,), (60,), (7, 9), (2, 1, 31)], ids=str)
def test_batches_of_small_matrices_that_are_not_row_major(
    batch: tuple[int, ...], dtype: np.dtype[Any], matmul: Matmul
) -> None:
    """The strides of attention: heads next to each other in a row of features, the right one transposed."""
    left, right = integers((*batch, 40, 64), dtype), integers((*batch, 64, 48), dtype, 1)
    wanted = exact(left, right)
    features = np.ascontiguousarray(np.moveaxis(right, -2, -3))
    for view in (np.moveaxis(features, -3, -2), right.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
        np.testing.assert_array_equal(matmul(left, view).astype(float), wanted)


def test_a_weight_broadcast_over_batches_by_a_zero_stride(matmul: Matmul) -> None:
    left, weight = integers((4, 5, 6), DTYPES[0]), integers((6, 7), DTYPES[0], 1)
    np.testing.assert_array_equal(matmul(left, np.broadcast_to(weight, (4, 6, 7))), exact(left, weight[None]))


def test_errors_of_large_products_are_those_of_float32(matmul: Matmul) -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(128, 128)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(matmul(left, right), exact(left, right), rtol=0, atol=3e-5)


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_halves_accumulate_in_float32(dtype: np.dtype[Any], matmul: Matmul) -> None:
    ones = np.ones((1, 4096), dtype)
    assert matmul(ones, ones.T.copy()).astype(float).tolist() == [[4096]]


@pytest.mark.parametrize(
    ("left", "right", "shape", "params"),
    [
        ((4, 2, 3), (3, 3, 2), (4, 2, 2), OpParams.Matmul((4,), (3,), 2, 2, 3)),
        ((2, 2, 3), (4, 3, 2), (2, 2, 2), OpParams.Matmul((2,), (4,), 2, 2, 3)),
        ((2, 3), (4, 2), (2, 2), OpParams.Matmul((), (), 2, 2, 3)),
        ((2, 3), (3, 2), (2, 3), OpParams.Matmul((), (), 2, 2, 3)),
        ((1, 2, 3), (3, 2), (1, 2, 2), OpParams.Matmul((1,), (), 2, 2, 3)),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    left: tuple[int, ...], right: tuple[int, ...], shape: tuple[int, ...], params: MatmulParams, call: Call
) -> None:
    with pytest.raises(KernelArgumentError, match="matmul"):
        call(MATMUL, [np.ones(left, np.float32), np.ones(right, np.float32)], shape, params)
