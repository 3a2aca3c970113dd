"""Reductions over any axes, of anything from nothing to large operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
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

SUM, MEAN, MAX, MIN = OpKind.SumReduce, OpKind.MeanReduce, OpKind.MaxReduce, OpKind.MinReduce
NUMPYS: dict[OpKind, Callable[..., Any]] = {SUM: np.sum, MEAN: np.mean, MAX: np.max, MIN: np.min}
AXES = [axes for count in range(4) for axes in combinations(range(3), count)]
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]

every_op = pytest.mark.parametrize("op", NUMPYS, ids=lambda op: op.value)


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    kept = enumerate(shape)
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in kept)
    return tuple(size for axis, size in kept if axis not in axes)


@every_op
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_any_axes(
    op: OpKind,
    axes: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype[Any],
    call: Call,
    strided: Callable[..., Array],
) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (4, 8, 2)).astype(dtype)
    exact = NUMPYS[op](x.astype(float), axis=axes, keepdims=keepdims)
    shape = reduced(x.shape, axes, keepdims)
    for operand in (x, strided(x), np.ascontiguousarray(x.T).T, np.broadcast_to(x[:1], x.shape)):
        exact = NUMPYS[op](operand.astype(float), axis=axes, keepdims=keepdims)
        got = call(op, [operand], shape, OpParams.Reduce(axes, keepdims))
        np.testing.assert_array_equal(got.astype(float), np.asarray(exact).astype(dtype).astype(float))


def test_the_reference_examples(call: Call) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    assert call(SUM, [x], (2,), OpParams.Reduce((1,))).tolist() == [6, 15]
    cube = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    assert call(SUM, [cube], (), OpParams.Reduce((0, 1, 2))).tolist() == 300


@every_op
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_anywhere_gives_nan(op: OpKind, dtype: np.dtype[Any], call: Call) -> None:
    x = np.ones((2, 100), dtype)
    x[1, 63] = math.nan
    got = call(op, [x], (2,), OpParams.Reduce((1,))).astype(float)
    assert not math.isnan(got[0])
    assert math.isnan(got[1])


@pytest.mark.parametrize("op", [MAX, MIN], ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_extremes_of_every_half(op: OpKind, dtype: np.dtype[Any], call: Call) -> None:
    every = np.arange(2**16).astype(np.uint16)
    x = np.stack([every, np.random.default_rng(0).permutation(every), every ^ 0x8000], 1).view(dtype)
    got = call(op, [x], (2**16,), OpParams.Reduce((1,)))
    np.testing.assert_array_equal(got.astype(float), NUMPYS[op](x.astype(float), axis=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_sum_of_nothing_is_zero_and_its_mean_nan(dtype: np.dtype[Any], call: Call) -> None:
    x = np.empty((3, 0, 2), dtype)
    assert call(SUM, [x], (3, 2), OpParams.Reduce((1,))).astype(float).tolist() == [[0, 0]] * 3
    assert np.isnan(call(MEAN, [x], (3, 2), OpParams.Reduce((1,))).astype(float)).all()
    assert call(SUM, [x], (0, 2), OpParams.Reduce((0,))).shape == (0, 2)


@pytest.mark.parametrize("op", [MAX, MIN], ids=lambda op: op.value)
def test_the_extreme_of_nothing_is_refused(op: OpKind, call: Call) -> None:
    x = np.empty((3, 0, 2), np.float32)
    with pytest.raises(KernelArgumentError, match="at least 1"):
        call(op, [x], (3, 2), OpParams.Reduce((1,)))
    assert call(op, [x], (0, 2), OpParams.Reduce((0,))).shape == (0, 2)
    assert call(op, [x[..., :0]], (3, 0), OpParams.Reduce((1,))).shape == (3, 0)


@every_op
def test_wrong_axes_and_shapes_are_refused(op: OpKind, call: Call) -> None:
    x = np.ones((2, 3), np.float32)
    for dims in ((2,), (-1,), (0, 0)):
        with pytest.raises(KernelArgumentError, match="dims"):
            call(op, [x], (3,), OpParams.Reduce(dims))
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(op, [x], (2,), OpParams.Reduce((0,)))


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_halves_accumulate_in_float32(dtype: np.dtype[Any], call: Call) -> None:
    x = np.ones((4096, 2), dtype)  # a half accumulator stops at 2048 or 256
    assert call(SUM, [x], (2,), OpParams.Reduce((0,))).astype(float).tolist() == [4096, 4096]
    assert call(MEAN, [x], (), OpParams.Reduce((0, 1))).astype(float).tolist() == 1


def test_a_long_sum_is_pairwise(call: Call) -> None:
    x = np.full(1_000_000, 0.1, np.float32)
    got = float(call(SUM, [x], (), OpParams.Reduce((0,)))[()])
    assert abs(got - x.astype(float).sum()) / 1e5 < 1e-6
