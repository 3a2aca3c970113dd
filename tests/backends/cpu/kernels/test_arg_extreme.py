"""Where extremes are: along any axis, of any layout, with ties and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels import arg_extreme
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]

MAX, MIN = OpKind.ArgMaxDim, OpKind.ArgMinDim
NUMPYS: dict[OpKind, Callable[..., Any]] = {MAX: np.argmax, MIN: np.argmin}
NAN, INF = math.nan, math.inf
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]

every_op = pytest.mark.parametrize("op", NUMPYS, ids=lambda op: op.value)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def places(call: Call, op: OpKind, x: Array, axis: int, keepdims: bool = False) -> Array:
    shape = (*x.shape[:axis], *((1,) if keepdims else ()), *x.shape[axis + 1 :])
    return call(op, [x], shape, OpParams.Reduce((axis,), keepdims), dtype=DType.U32)


@every_op
@every_dtype
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((9,), 0), *(((4, 8, 3), axis) for axis in range(3)), ((700, 300), 0), ((700, 300), 1)],
    ids=str,
)
def test_any_axis(
    shape: tuple[int, ...],
    axis: int,
    keepdims: bool,
    dtype: np.dtype[Any],
    op: OpKind,
    call: Call,
    strided: Callable[..., Array],
) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)  # with ties
    for operand in (x, strided(x), np.ascontiguousarray(x.T).T, np.broadcast_to(x[:1], x.shape)):
        got = places(call, op, operand, axis, keepdims)
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got, NUMPYS[op](operand.astype(float), axis=axis, keepdims=keepdims))


@every_op
@every_dtype
def test_rows_longer_than_a_block(
    dtype: np.dtype[Any], op: OpKind, call: Call, strided: Callable[..., Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arg_extreme, "BLOCK_NBYTES", 64)
    x = np.random.default_rng(0).integers(-9, 9, (6, 50)).astype(dtype)
    x[1, [3, 40]] = 10
    x[2, [20, 45]] = -10
    x[3, [30, 49]] = NAN
    x[4] = 1
    for operand in (x, strided(x), np.ascontiguousarray(x.T).T):
        np.testing.assert_array_equal(places(call, op, operand, 1), NUMPYS[op](x.astype(float), axis=1))
        turned = operand.T
        np.testing.assert_array_equal(places(call, op, turned, 0), NUMPYS[op](x.astype(float), axis=1))
    np.testing.assert_array_equal(places(call, op, x[0], 0), NUMPYS[op](x[0].astype(float)))


@every_op
@every_dtype
@pytest.mark.parametrize("keepdims", [False, True])
def test_more_rows_than_a_block_has_places(
    keepdims: bool, dtype: np.dtype[Any], op: OpKind, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arg_extreme, "BLOCK_NBYTES", 64)
    x = np.random.default_rng(0).integers(-9, 9, (7, 5, 3)).astype(dtype)
    wanted = NUMPYS[op](x.astype(float), axis=2, keepdims=keepdims)
    np.testing.assert_array_equal(places(call, op, x, 2, keepdims), wanted)


@every_op
@every_dtype
def test_the_first_of_equals_and_the_first_nan(dtype: np.dtype[Any], op: OpKind, call: Call) -> None:
    x = np.array([[2, 5, 5, 2], [1, NAN, 7, NAN], [-0.0, 0.0, 0.0, -0.0], [INF, -INF, INF, -INF]], dtype)
    assert places(call, op, x, 1).tolist() == ([1, 1, 0, 0] if op is MAX else [0, 1, 0, 1])


def test_the_reference_example(call: Call) -> None:
    x = np.array([[1, 5, 2], [9, 0, 4]], np.float32)
    assert places(call, MAX, x, 1).tolist() == [1, 0]


@every_op
def test_nothing_has_no_extreme(op: OpKind, call: Call) -> None:
    x = np.empty((3, 0), np.float32)
    with pytest.raises(KernelArgumentError, match="from 1 to"):
        places(call, op, x, 1)
    assert places(call, op, x, 0).shape == (0,)


@every_op
def test_axes_and_shapes_that_do_not_fit_are_refused(op: OpKind, call: Call) -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(KernelArgumentError, match="dims"):
        call(op, [x], (3,), OpParams.Reduce((2,)), dtype=DType.U32)
    with pytest.raises(KernelArgumentError, match="one axis"):
        call(op, [x], (), OpParams.Reduce((0, 1)), dtype=DType.U32)
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(op, [x], (2,), OpParams.Reduce((0,)), dtype=DType.U32)
