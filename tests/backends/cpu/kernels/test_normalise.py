"""Softmax and layer normalisation along the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import OpKind

Array = npt.NDArray[Any]
Wide = npt.NDArray[np.float64]
Call = Callable[..., Array]

SOFTMAX, LAYER_NORM = OpKind.SoftmaxLastDim, OpKind.LayerNormLastDim
NAN, INF = math.nan, math.inf
#: dtype -> tolerance of one result, which is of the order of 1.
DTYPES = {
    np.dtype(np.float32): 3e-6,
    np.dtype(np.float64): 1e-14,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 2e-2,
}
SHAPES = [
    (64,),
    (1, 1),
    (5, 1),
    (3, 7),
    (2, 3, 64),
    (600, 200),
    (3, 60_000),
    (2, 3, 0),
    (0, 4),
    (1, 2, 1, 30),
]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def exact_softmax(x: Array) -> Wide:
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True, initial=-INF))
    result: Wide = powers / powers.sum(axis=-1, keepdims=True)
    return result


def exact_layer_norm(x: Array, eps: float) -> Wide:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True) if x.size else wide
    result: Wide = centred / np.sqrt((centred * centred).sum(axis=-1, keepdims=True) / max(x.shape[-1], 1) + eps)
    return result


def softmax(call: Call, x: Array) -> Array:
    return call(SOFTMAX, [x], x.shape, OpParams.SoftmaxLastDim(math.prod(x.shape[:-1]), x.shape[-1]))


def layer_norm(call: Call, x: Array, eps: float = 1e-5) -> Array:
    return call(LAYER_NORM, [x], x.shape, OpParams.NormLastDim(math.prod(x.shape[:-1]), x.shape[-1], eps))


def operand(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.random.default_rng(0).normal(1, 3, shape).astype(dtype)


@every_dtype
@every_shape
def test_softmax(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = operand(shape, dtype)
    got = softmax(call, x)
    np.testing.assert_allclose(got.astype(float), exact_softmax(x), rtol=0, atol=DTYPES[dtype])
    assert softmax(call, strided(x)).tobytes() == got.tobytes()


@every_dtype
@every_shape
def test_layer_norm(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = operand(shape, dtype)
    got = layer_norm(call, x)
    np.testing.assert_allclose(
        got.astype(float), exact_layer_norm(x, 1e-5), rtol=2e-2 * DTYPES[dtype], atol=2 * DTYPES[dtype]
    )
    assert layer_norm(call, strided(x)).tobytes() == got.tobytes()


@every_dtype
def test_transposed_operands_in_several_blocks(dtype: np.dtype[Any], call: Call) -> None:
    x = operand((300, 700), dtype)
    turned = np.ascontiguousarray(x.T).T
    for function in (softmax, layer_norm):
        assert function(call, turned).tobytes() == function(call, x).tobytes()


def test_softmax_of_equal_scores_is_even(call: Call) -> None:
    assert softmax(call, np.full((1, 4), 7, np.float32)).tolist() == [[0.25] * 4]


@every_dtype
def test_softmax_special_rows(dtype: np.dtype[Any], call: Call) -> None:
    x = np.array([[-INF, -INF, -INF], [0, -INF, 0], [NAN, 0, 1], [INF, 0, 0], [3e4, 3e4, -3e4], [1, NAN, INF]], dtype)
    got = softmax(call, x).astype(float)
    assert np.isnan(got[[0, 2, 5]]).all()
    assert got[1].tolist() == [0.5, 0, 0.5]
    assert np.isnan(got[3][0])  # ∞ − ∞
    assert got[4].tolist() == [0.5, 0.5, 0]


def test_rows_do_not_depend_on_their_neighbours(call: Call) -> None:
    x = operand((700, 90), np.dtype(np.float32))
    whole = softmax(call, x), layer_norm(call, x)
    for row in (0, 545, 699):
        assert softmax(call, x[row : row + 1]).tobytes() == whole[0][row].tobytes()
        assert layer_norm(call, x[row : row + 1]).tobytes() == whole[1][row].tobytes()


def test_layer_norm_has_mean_zero_and_variance_one(call: Call) -> None:
    got = layer_norm(call, np.array([[1, 2, 3, 4]], np.float32), eps=0.0)
    assert abs(got.mean()) < 1e-7
    assert abs(got.var() - 1) < 1e-6


def test_layer_norm_of_a_constant_row_is_zero_and_of_nan_nan(call: Call) -> None:
    got = layer_norm(call, np.array([[2, 2, 2], [1, NAN, 1]], np.float32))
    assert got[0].tolist() == [0, 0, 0]
    assert np.isnan(got[1]).all()


def test_layer_norm_far_from_zero_keeps_its_digits(call: Call) -> None:
    x = operand((4, 512), np.dtype(np.float32)) + np.float32(1000)
    np.testing.assert_allclose(layer_norm(call, x), exact_layer_norm(x, 1e-5), rtol=0, atol=1e-4)


@pytest.mark.parametrize("op", [SOFTMAX, LAYER_NORM], ids=lambda op: op.value)
def test_operands_that_do_not_fit_are_refused(op: OpKind, call: Call) -> None:
    def params(last: int) -> OpParams:
        return OpParams.SoftmaxLastDim(1, last) if op is SOFTMAX else OpParams.NormLastDim(1, last, 1e-5)

    with pytest.raises(KernelArgumentError, match="rank 1 or more"):
        call(op, [np.array(1, np.float32)], (), params(1))
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(op, [np.ones((2, 3), np.float32)], (3, 2), params(3))
    with pytest.raises(KernelArgumentError, match="last_dim"):
        call(op, [np.ones((2, 3), np.float32)], (2, 3), params(4))
