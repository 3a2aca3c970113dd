"""Running sums along any axis."""

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

OP = OpKind.CumSum
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
#: Shapes and axes that are added element by element, and step by step across the others.
CASES = [
    ((1,), 0), ((9,), 0), ((5, 4, 3), 0), ((5, 4, 3), 1), ((5, 4, 3), 2), ((1, 6), 0), ((6, 1), 1),
    ((6, 300), 0), ((300, 6), 1), ((40, 30, 20), 0), ((40, 30, 20), 1), ((40, 30, 20), 2), ((400, 300), 1),
]  # fmt: skip

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def cumsum(call: Call, x: Array, axis: int) -> Array:
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return call(OP, [x], x.shape, OpParams.CumSum(outer, x.shape[axis], inner, axis))


@every_dtype
@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_elements_are_added_one_after_the_other(
    shape: tuple[int, ...], axis: int, dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]
) -> None:
    x = np.random.default_rng(0).normal(0, 1, shape).astype(dtype)
    compute = np.float32 if dtype.itemsize == 2 else dtype
    wanted = np.moveaxis(x.astype(compute), axis, 0).copy()
    for place in range(1, len(wanted)):
        wanted[place] += wanted[place - 1]
    exact = np.ascontiguousarray(np.moveaxis(wanted, 0, axis)).astype(dtype)
    for operand in (x, strided(x), np.ascontiguousarray(x.T).T):
        assert cumsum(call, operand, axis).tobytes() == exact.tobytes()


@every_dtype
def test_nan_stays_from_its_place_on(dtype: np.dtype[Any], call: Call) -> None:
    got = cumsum(call, np.array([1, 2, math.nan, 3], dtype), 0).astype(float)
    assert got.tolist()[:2] == [1, 3]
    assert np.isnan(got[2:]).all()


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
@pytest.mark.parametrize("shape", [(4096,), (4096, 300)], ids=str)
def test_halves_accumulate_in_float32(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call) -> None:
    assert (cumsum(call, np.ones(shape, dtype), 0)[-1].astype(float) == 4096).all()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)], ids=str)
@every_dtype
def test_nothing_has_no_sums(shape: tuple[int, ...], dtype: np.dtype[Any], call: Call) -> None:
    for axis in range(len(shape)):
        assert cumsum(call, np.empty(shape, dtype), axis).shape == shape


@every_dtype
def test_operands_that_do_not_fit_are_refused(dtype: np.dtype[Any], call: Call) -> None:
    x = np.ones((2, 3), dtype)
    with pytest.raises(KernelArgumentError, match="axis"):
        call(OP, [x], (2, 3), OpParams.CumSum(2, 3, 1, 2))
    with pytest.raises(KernelArgumentError, match="dim_size"):
        call(OP, [x], (2, 3), OpParams.CumSum(2, 2, 1, 1))
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(OP, [x], (3, 2), OpParams.CumSum(2, 3, 1, 1))
