"""Matrix product plus bias, and matrix products of 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.matmul_integer import TERMS
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]

LINEAR, MATMUL = OpKind.FusedLinear, OpKind.MatMul
FLOATS = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
INTEGERS = [np.dtype(np.int8), np.dtype(np.uint8)]
#: Batches of the left and of the right.
BATCHES = [((), ()), ((3,), (3,)), ((6,), (1,)), ((4, 6), (4, 2)), ((0,), (0,))]

every_batch = pytest.mark.parametrize("batches", BATCHES, ids=str)


def params(left: Array, right: Array) -> OpParams:
    return OpParams.Matmul(left.shape[:-2], right.shape[:-2], left.shape[-2], right.shape[-1], left.shape[-1])


def linear(call: Call, left: Array, right: Array, bias: Array) -> Array:
    return call(LINEAR, [left, right, bias], (*left.shape[:-1], right.shape[-1]), params(left, right))


def matmul(call: Call, left: Array, right: Array) -> Array:
    return call(MATMUL, [left, right], (*left.shape[:-1], right.shape[-1]), params(left, right))


def served(right: Array, left: Array) -> Array:
    for axis, size in enumerate(left.shape[:-2]):
        right = np.repeat(right, size // right.shape[axis] if size else 1, axis=axis)
    return right


def whole(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Small integers, whose sums every dtype here holds exactly."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@every_batch
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_linear(batches: Any, dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    left, right = whole((*batches[0], 5, 7), dtype, 0), whole((*batches[1], 7, 4), dtype, 1)
    bias = whole((4,), dtype, 2)
    wanted = left.astype(float) @ served(right, left).astype(float) + bias.astype(float)
    for operands in ((left, right, bias), [strided(part) for part in (left, right, bias)]):
        np.testing.assert_array_equal(linear(call, *operands).astype(float), wanted)


def test_large_batches_of_transposed_weights(call: Call) -> None:
    left = whole((20, 30, 40), FLOATS[0], 0)
    right = whole((20, 50, 40), FLOATS[0], 1).swapaxes(1, 2)
    bias = whole((50,), FLOATS[0], 2)
    np.testing.assert_array_equal(linear(call, left, right, bias), left @ right + bias)


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_half_results_are_narrowed_once(dtype: np.dtype[Any], call: Call) -> None:
    one, small = np.array([[1]], dtype), np.array([2.0 ** -(11 if dtype == np.float16 else 8)], dtype)
    # 1 + 2^-11 is not a float16; with 2^-12 more it rounds up, which a sum of narrowed terms would not.
    left = np.array([[1, small.item() / 2]], dtype)
    right = np.array([[1], [1]], dtype)
    assert linear(call, left, right, small).astype(float).item() > linear(call, one, one, small).astype(float).item()


@pytest.mark.parametrize("k", [0, 1])
def test_linear_of_nothing_is_the_bias(k: int, call: Call) -> None:
    got = linear(call, np.zeros((3, k), np.float32), np.zeros((k, 2), np.float32), np.array([1, 2], np.float32))
    assert got.tolist() == [[1, 2]] * 3


def test_the_reference_examples(call: Call) -> None:
    left = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    right = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    assert linear(call, left, right, np.array([10, 20], np.float32)).tolist() == [[14, 25], [20, 31]]


def test_biases_that_do_not_fit_are_refused(call: Call) -> None:
    for dtype in FLOATS:
        left, right = np.ones((2, 3), dtype), np.ones((3, 4), dtype)
        with pytest.raises(KernelArgumentError, match=r"fused_linear: the bias's shape is \(1,\)"):
            linear(call, left, right, np.ones(1, dtype))
        with pytest.raises(KernelArgumentError, match="fused_linear: the shape of the right"):
            call(LINEAR, [left, left, np.ones(4, dtype)], (2, 4), params(left, right))


# --- 8-bit integers ------------------------------------------------------------------------------------------


def saturated(left: Array, right: Array) -> Array:
    limits = np.iinfo(left.dtype)
    product = left.astype(np.int64) @ served(right, left).astype(np.int64)
    return np.clip(product, limits.min, limits.max).astype(left.dtype)


@every_batch
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 7, 258, 259, 1024, 1025, 2500])
def test_integers(k: int, batches: Any, dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    rng, limits = np.random.default_rng(k), np.iinfo(dtype)
    spread = 3 if k > 50 else 20
    left = rng.integers(max(limits.min, -spread), spread, (*batches[0], 3, k)).astype(dtype)
    right = rng.integers(max(limits.min, -spread), spread, (*batches[1], k, 4)).astype(dtype)
    wanted = saturated(left, right)
    np.testing.assert_array_equal(matmul(call, left, right), wanted)
    np.testing.assert_array_equal(matmul(call, strided(left), strided(right)), wanted)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_results_are_limited_to_the_range(dtype: np.dtype[Any], call: Call) -> None:
    limits = np.iinfo(dtype)
    ones, most = np.full((1, 2), 1, dtype), np.full((2, 1), limits.max, dtype)
    assert matmul(call, ones, most).item() == limits.max
    if limits.min:
        assert matmul(call, ones, np.full((2, 1), limits.min, dtype)).item() == limits.min
        assert matmul(call, np.full((1, 2), -1, dtype), most).item() == limits.min


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_beyond_32_bits_are_limited(dtype: np.dtype[Any], call: Call) -> None:
    limits, k = np.iinfo(dtype), 300_000
    most = limits.min or limits.max
    assert matmul(call, np.full((1, k), most, dtype), np.full((k, 1), most, dtype)).item() == limits.max


def test_sums_that_leave_32_bits_on_the_way_are_exact(call: Call) -> None:
    k = 400_000
    left, right = np.full((1, k), -128, np.int8), np.full((k, 1), 127, np.int8)
    right[k // 2 :] = -127  # the second half takes back what the first one sums up
    left[0, [0, -1]], right[0, 0] = (5, 0), 9
    assert matmul(call, left, right).item() == 45


def test_the_pieces_are_as_long_as_float32_is_exact() -> None:
    for dtype, terms in TERMS.items():
        limits = np.iinfo(dtype.require_np())
        largest = max(abs(int(limits.min)), int(limits.max)) ** 2
        assert terms * largest <= 2**24 < (terms + 1) * largest
    assert TERMS.keys() == {DType.I8, DType.U8}
