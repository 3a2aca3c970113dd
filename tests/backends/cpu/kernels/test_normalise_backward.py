"""Log-softmax and root-mean-square normalisation, and the gradients of all ops that normalise rows."""

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

SOFTMAX, LOG_SOFTMAX = OpKind.SoftmaxLastDim, OpKind.LogSoftmaxLastDim
LAYER_NORM, RMS_NORM = OpKind.LayerNormLastDim, OpKind.RmsNormLastDim
BACKWARD = {
    SOFTMAX: OpKind.SoftmaxLastDimBackward,
    LOG_SOFTMAX: OpKind.LogSoftmaxLastDimBackward,
    LAYER_NORM: OpKind.LayerNormLastDimBackward,
    RMS_NORM: OpKind.RmsNormLastDimBackward,
}
#: Gradients of these are taken of the result, of the others of the operand.
BY_RESULT = (SOFTMAX, LOG_SOFTMAX)
NAN, INF = math.nan, math.inf
F64 = np.dtype(np.float64)
#: dtype -> tolerance of one result, which is of the order of 1.
DTYPES = {
    np.dtype(np.float32): 1e-5,
    F64: 1e-13,
    np.dtype(np.float16): 5e-3,
    np.dtype(ml_dtypes.bfloat16): 4e-2,
}
SHAPES = [(64,), (1, 1), (5, 1), (3, 7), (2, 3, 64), (600, 200), (3, 60_000), (2, 3, 0), (0, 4)]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
every_op = pytest.mark.parametrize("op", BACKWARD, ids=lambda op: op.value)


def params(op: OpKind, shape: tuple[int, ...], eps: float = 1e-5) -> OpParams:
    rows = math.prod(shape[:-1])
    match op:
        case OpKind.SoftmaxLastDim:
            return OpParams.SoftmaxLastDim(rows, shape[-1])
        case OpKind.LogSoftmaxLastDim:
            return OpParams.LogSoftmaxLastDim(rows, shape[-1])
        case _:
            return OpParams.NormLastDim(rows, shape[-1], eps)


def forward(call: Call, op: OpKind, x: Array, eps: float = 1e-5) -> Array:
    return call(op, [x], x.shape, params(op, x.shape, eps))


def backward(call: Call, op: OpKind, x: Array, g: Array, eps: float = 1e-5) -> Array:
    return call(BACKWARD[op], [x, g], x.shape, params(op, x.shape, eps))


def values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0.5, 1.5, shape).astype(dtype)


def exact(op: OpKind, x: Wide, g: Wide, eps: float) -> Wide:
    """The gradient by the operand, written with matrices of derivatives: one row at a time."""
    result = np.empty_like(x)
    for row in np.ndindex(x.shape[:-1]):
        v, n = x[row], x.shape[-1]
        if not n:
            continue
        unit, mean = np.eye(n), np.full((n, n), 1 / n)
        match op:
            case OpKind.SoftmaxLastDim:
                jacobian = np.diag(v) - np.outer(v, v)
            case OpKind.LogSoftmaxLastDim:
                jacobian = unit - np.outer(np.ones(n), np.exp(v))
            case OpKind.RmsNormLastDim:
                square = v @ v / n + eps
                jacobian = unit / square**0.5 - np.outer(v, v) / n / square**1.5
            case _:
                centred = v - v.mean()
                variance = centred @ centred / n + eps
                jacobian = (unit - mean) / variance**0.5 - np.outer(centred, centred) / n / variance**1.5
        result[row] = g[row] @ jacobian
    return result


@every_dtype
@every_shape
def test_log_softmax(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = values(shape, dtype)
    got = forward(call, LOG_SOFTMAX, x)
    wide = x.astype(F64)
    wanted = wide - np.logaddexp.reduce(wide, -1, keepdims=True)
    np.testing.assert_allclose(got.astype(F64), wanted, rtol=8 * DTYPES[dtype], atol=DTYPES[dtype])
    assert forward(call, LOG_SOFTMAX, strided(x)).tobytes() == got.tobytes()
    if x.size and dtype in (np.dtype(np.float32), F64):
        np.testing.assert_allclose(np.exp(got.astype(F64)).sum(-1), 1, rtol=1e-5)


@every_dtype
@every_shape
def test_rms_norm(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = values(shape, dtype)
    got = forward(call, RMS_NORM, x, 1e-3)
    wide = x.astype(F64)
    wanted = wide / np.sqrt((wide * wide).sum(-1, keepdims=True) / max(shape[-1], 1) + 1e-3)
    np.testing.assert_allclose(got.astype(F64), wanted, rtol=DTYPES[dtype], atol=DTYPES[dtype])
    assert forward(call, RMS_NORM, strided(x), 1e-3).tobytes() == got.tobytes()


def test_rms_norm_of_three_and_four(call: Call) -> None:
    got = forward(call, RMS_NORM, np.array([3, 4], np.float32), 0.0)
    np.testing.assert_allclose(got, np.array([3, 4]) / math.sqrt(12.5), rtol=1e-6)


@every_op
@every_dtype
@pytest.mark.parametrize("shape", [(64,), (1, 1), (5, 1), (3, 7), (2, 3, 64), (2, 3, 0), (0, 4)], ids=str)
def test_gradients_are_those_of_the_matrices_of_derivatives(
    op: OpKind, shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]
) -> None:
    x, g = values(shape, dtype), values(shape, dtype, 1)
    x = forward(call, op, x) if op in BY_RESULT else x
    got = backward(call, op, x, g, 1e-3)
    wanted = exact(op, x.astype(F64), g.astype(F64), 1e-3)
    np.testing.assert_allclose(got.astype(F64), wanted, rtol=DTYPES[dtype], atol=8 * DTYPES[dtype])
    assert backward(call, op, strided(x), strided(g), 1e-3).tobytes() == got.tobytes()


@every_op
def test_gradients_are_difference_quotients(op: OpKind, call: Call) -> None:
    x, g = values((4, 6), F64), values((4, 6), F64, 1)
    step, wanted = 1e-6, np.empty_like(x)
    for place in np.ndindex(x.shape):
        moved = [x.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        above, below = (forward(call, op, m, 1e-2) for m in moved)
        wanted[place] = ((above - below) * g).sum() / (2 * step)
    taken = forward(call, op, x) if op in BY_RESULT else x
    np.testing.assert_allclose(backward(call, op, taken, g, 1e-2), wanted, rtol=1e-6, atol=1e-8)


@every_op
@pytest.mark.parametrize("shape", [(600, 200), (3, 60_000)], ids=str)
def test_rows_of_several_blocks_do_not_depend_on_their_neighbours(
    op: OpKind, shape: tuple[int, ...], call: Call
) -> None:
    x, g = values(shape, np.dtype(np.float32)), values(shape, np.dtype(np.float32), 1)
    x = forward(call, op, x) if op in BY_RESULT else x
    whole = backward(call, op, x, g)
    for row in (0, shape[0] // 2, shape[0] - 1):
        one = slice(row, row + 1)
        assert backward(call, op, x[one], g[one]).tobytes() == whole[one].tobytes()
        assert forward(call, op, x[one]).tobytes() == forward(call, op, x)[one].tobytes()


@every_dtype
def test_log_softmax_of_odd_rows(dtype: np.dtype[Any], call: Call) -> None:
    x = np.array([[-INF, -INF, -INF], [0, -INF, 0], [NAN, 0, 1], [INF, 0, 0], [3e4, 3e4, -3e4]], dtype)
    got = forward(call, LOG_SOFTMAX, x).astype(float)
    assert np.isnan(got[[0, 2]]).all()
    assert got[1, 1] == -INF
    np.testing.assert_allclose(got[1, [0, 2]], -math.log(2), rtol=1e-2)
    assert np.isnan(got[3][0])  # ∞ − ∞
    np.testing.assert_allclose(got[4, :2], -math.log(2), rtol=1e-2)


@every_dtype
def test_normalising_odd_rows(dtype: np.dtype[Any], call: Call) -> None:
    x = np.array([[0, 0, 0], [1, NAN, 1], [INF, 1, 1]], dtype)
    got = forward(call, RMS_NORM, x).astype(float)
    assert got[0].tolist() == [0, 0, 0]
    assert np.isnan(got[1]).all()
    assert np.isnan(got[2, 0])
    assert got[2, 1:].tolist() == [0, 0]
    flat = np.full((1, 3), 2, dtype)
    assert backward(call, LAYER_NORM, flat, flat).astype(float).tolist() == [[0, 0, 0]]


@every_op
def test_operands_that_do_not_fit_are_refused(op: OpKind, call: Call) -> None:
    x, g = np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        backward(call, op, x, g)
    with pytest.raises(KernelArgumentError, match="last_dim"):
        call(BACKWARD[op], [x, x], (2, 3), params(op, (2, 4)))
    with pytest.raises(KernelArgumentError, match="rank 1 or more"):
        call(BACKWARD[op], [np.array(1, np.float32)] * 2, (), params(op, (1,)))
