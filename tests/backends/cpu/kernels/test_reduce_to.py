"""Reductions to a shape that broadcasts to the operand's, and the gradient of the maximum."""

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
Call = Callable[..., Array]
Shape = tuple[int, ...]

SUM, MAX, BACKWARD = OpKind.ReduceSumTo, OpKind.ReduceMaxTo, OpKind.ReduceMaxToBackward
NAN, INF = math.nan, math.inf
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
#: Shape of the operand, shapes that broadcast to it.
SHAPES: list[tuple[Shape, Shape]] = [
    ((4, 8, 2), to)
    for to in [(4, 8, 2), (1, 8, 2), (8, 2), (4, 1, 2), (4, 1, 1), (1, 1, 1), (2,), (1,), (), (1, 2), (8, 1)]
] + [((), ()), ((5,), ()), ((1,), (1,)), ((300, 700), (700,)), ((300, 700), (300, 1))]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_shape = pytest.mark.parametrize(("shape", "to"), SHAPES, ids=str)


def fold(call: Call, op: OpKind, x: Array, to: Shape) -> Array:
    params = OpParams.ReduceSumTo(x.shape, to) if op is SUM else OpParams.ReduceMaxTo(x.shape, to)
    return call(op, [x], to, params)


def gradient(call: Call, x: Array, g: Array) -> Array:
    return call(BACKWARD, [x, g], x.shape, OpParams.ReduceMaxToBackward(x.shape, g.shape))


def folded(function: Callable[..., Any], x: Array, to: Shape) -> Any:
    missing = x.ndim - len(to)
    axes = tuple(i for i in range(x.ndim) if i < missing or to[i - missing] != x.shape[i])
    return np.asarray(function(x, axis=axes, keepdims=True)).reshape(to) if axes else x.reshape(to)


@every_dtype
@every_shape
def test_any_shape(shape: Shape, to: Shape, dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = np.random.default_rng(0).integers(-8, 8, shape).astype(dtype)
    for op, function in ((SUM, np.sum), (MAX, np.max)):
        wanted = folded(function, x.astype(float), to).astype(dtype)
        for operand in (x, strided(x), np.ascontiguousarray(x.T).T):
            np.testing.assert_array_equal(fold(call, op, operand, to).astype(float), wanted.astype(float))


@every_dtype
@every_shape
def test_the_gradient_goes_to_the_maxima_in_equal_parts(
    shape: Shape, to: Shape, dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]
) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    g = np.random.default_rng(1).normal(0, 1, to).astype(dtype)
    top = np.broadcast_to(folded(np.max, x.astype(float), to), shape)
    true = x.astype(float) == top
    counts = np.broadcast_to(folded(np.sum, true.astype(float), to), shape)
    wanted = np.where(true, g.astype(float) / counts, 0)
    got = gradient(call, x, g)
    np.testing.assert_allclose(got.astype(float), wanted, rtol={2: 8e-3, 4: 1e-6, 8: 1e-14}[dtype.itemsize])
    assert gradient(call, strided(x), strided(g)).tobytes() == got.tobytes()


def test_the_gradient_is_a_difference_quotient_where_there_is_one_maximum(call: Call) -> None:
    rng = np.random.default_rng(0)
    x, g, step = rng.permutation(24).reshape(2, 3, 4).astype(float), rng.normal(0, 1, (3, 1)), 1e-3
    wanted = np.empty_like(x)
    for place in np.ndindex(x.shape):
        moved = [x.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        above, below = (fold(call, MAX, m, g.shape) for m in moved)
        wanted[place] = ((above - below) * g).sum() / (2 * step)
    np.testing.assert_allclose(gradient(call, x, g), wanted, rtol=1e-9, atol=1e-12)


@every_dtype
def test_a_gradient_and_its_parts_add_up(dtype: np.dtype[Any], call: Call) -> None:
    x = np.random.default_rng(0).integers(0, 2, (40, 60)).astype(dtype)
    g = np.full((60,), 1, dtype)
    total = gradient(call, x, g).astype(float).sum(0)
    np.testing.assert_allclose(total, 1, rtol=2e-2)


@every_dtype
def test_nan_wins_and_takes_the_gradient_of_its_group(dtype: np.dtype[Any], call: Call) -> None:
    x = np.array([[1, NAN, 3], [4, 2, 6]], dtype)
    assert np.isnan(fold(call, MAX, x, (2, 1)).astype(float)).tolist() == [[True], [False]]
    assert np.isnan(fold(call, SUM, x, (3,)).astype(float)).tolist() == [False, True, False]
    got = gradient(call, x, np.ones((2, 1), dtype)).astype(float)
    assert np.isnan(got[0]).all()
    assert got[1].tolist() == [0, 0, 1]
    low = np.full((2, 2), -INF, dtype)
    assert gradient(call, low, np.ones((2, 1), dtype)).astype(float).tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_the_gradient_of_every_half(dtype: np.dtype[Any], call: Call) -> None:
    rng, every = np.random.default_rng(0), np.arange(2**16).astype(np.uint16)
    x = np.stack([every, every ^ 0x8000, *[rng.permutation(every) for _ in range(5)]], 1).view(dtype)
    x[0] = [0, -0.0, -1, 0, -1, -INF, -INF]
    g = rng.normal(0, 1, (2**16, 1)).astype(dtype)
    wide = x.astype(np.float32)
    top = wide == wide.max(1, keepdims=True)
    wanted = (top * (g.astype(np.float32) / top.sum(1, dtype=np.float32, keepdims=True))).astype(dtype)
    for few in (2**16, 9):  # of several blocks, and of one
        got = gradient(call, x[:few], g[:few])
        np.testing.assert_array_equal(got.astype(float), wanted[:few].astype(float))


def test_nothing_sums_to_zero_and_has_no_maximum(call: Call) -> None:
    x = np.empty((3, 0), np.float32)
    assert fold(call, SUM, x, (3, 1)).tolist() == [[0]] * 3
    with pytest.raises(KernelArgumentError, match="at least 1"):
        fold(call, MAX, x, (3, 1))
    with pytest.raises(KernelArgumentError, match="at least 1"):
        gradient(call, x, np.ones((3, 1), np.float32))
    assert fold(call, MAX, x, (1, 0)).shape == (1, 0)
    assert fold(call, MAX, np.empty((0, 0), np.float32), (0, 1)).shape == (0, 1)
    assert gradient(call, x, np.empty((1, 0), np.float32)).shape == (3, 0)


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_halves_accumulate_in_float32(dtype: np.dtype[Any], call: Call) -> None:
    x = np.ones((4096, 2), dtype)
    assert fold(call, SUM, x, (2,)).astype(float).tolist() == [4096, 4096]
    assert gradient(call, x, np.full((2,), 4096, dtype)).astype(float).tolist() == [[1, 1]] * 4096


def test_the_reference_examples(call: Call) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert fold(call, SUM, x, (3,)).tolist() == [5, 7, 9]
    assert fold(call, MAX, np.array([[1, 7, 3], [4, 2, 6]], np.float32), (3,)).tolist() == [4, 7, 6]
    assert fold(call, MAX, x, (2, 1)).tolist() == [[3], [6]]


@pytest.mark.parametrize("op", [SUM, MAX, BACKWARD], ids=lambda op: op.value)
def test_shapes_that_do_not_fit_are_refused(op: OpKind, call: Call) -> None:
    x = np.ones((2, 3), np.float32)
    kind: Any = {SUM: OpParams.ReduceSumTo, MAX: OpParams.ReduceMaxTo, BACKWARD: OpParams.ReduceMaxToBackward}[op]
    for to in ((2,), (3, 3), (1, 2, 3)):
        operands, shape = ([x, np.ones(to, np.float32)], (2, 3)) if op is BACKWARD else ([x], to)
        with pytest.raises(KernelArgumentError, match="the reduced shape"):
            call(op, operands, shape, kind((2, 3), to))
        with pytest.raises(KernelArgumentError, match="the shapes in the parameters"):
            call(op, operands, shape, kind((2, 3), (3,)))
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(BACKWARD, [x, np.ones(3, np.float32)], (3, 2), OpParams.ReduceMaxToBackward((2, 3), (3,)))
