"""Affine, integer powers with their gradient, and remainders."""

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

AFFINE, POWI, BACKWARD = OpKind.Affine, OpKind.PowIElementwise, OpKind.PowIElementwiseBackward
REM = OpKind.RemElementwise
INF, NAN = math.inf, math.nan
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
EXPONENTS = [-70, -65, -64, -3, -2, -1, 0, 1, 2, 3, 7, 15, 31, 63, 64, 65, 70, 101]


def values(shape: tuple[int, ...], dtype: np.dtype[Any], low: float = 0.5, high: float = 1.5) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray(rng.uniform(low, high, shape) * rng.choice([-1, 1], shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [F32, F64, *HALVES], ids=str)
def test_affine_rounds_after_each_step(dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]) -> None:
    x = values((300, 401), dtype)
    got = call(AFFINE, [x], x.shape, OpParams.Affine(1 / 3, -0.7))
    compute = F32 if dtype in HALVES else dtype
    wide = x.astype(compute) * np.asarray(1 / 3, compute) + np.asarray(-0.7, compute)
    assert got.tobytes() == wide.astype(dtype).tobytes()
    assert call(AFFINE, [strided(x)], x.shape, OpParams.Affine(1 / 3, -0.7)).tobytes() == got.tobytes()


def test_affine_of_odd_numbers(call: Call) -> None:
    x = np.array([1, -0.0, NAN, INF], np.float32)
    assert call(AFFINE, [x], (4,), OpParams.Affine(10, INF)).tolist()[:2] == [INF, INF]
    got = call(AFFINE, [x], (4,), OpParams.Affine(0, 1)).tolist()
    assert got[:2] == [1, 1]
    assert np.isnan(got[2:]).all()  # infinity times 0
    assert call(AFFINE, [x], (4,), OpParams.Affine(1e39, 0)).tolist()[0] == INF
    assert call(AFFINE, [np.array(2.0, np.float32)], (), OpParams.Affine(3, 1)).item() == 7


@pytest.mark.parametrize("exp", EXPONENTS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_powers_are_near_the_exact_ones(exp: int, dtype: np.dtype[Any], call: Call, ulps: Callable[..., float]) -> None:
    x = values((20_000,), dtype, 0.7, 1.4)
    got = call(POWI, [x], x.shape, OpParams.PowI(exp))
    exact = np.array([float(np.longdouble(v) ** exp) for v in x.tolist()], F64)
    assert ulps(got, exact) <= min(abs(exp), 64) + 2  # a unit each product at most


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("exp", [-2, 0, 1, 3, 70])
def test_half_powers_are_narrowed_once(exp: int, dtype: np.dtype[Any], call: Call) -> None:
    x = values((500,), dtype)
    exact = call(POWI, [x.astype(np.float32)], x.shape, OpParams.PowI(exp)).astype(dtype)
    assert call(POWI, [x], x.shape, OpParams.PowI(exp)).tobytes() == exact.tobytes()


@pytest.mark.parametrize("exp", [-66, -65, -2, -1, 0, 1, 2, 3, 65, 66, 2**31 - 1, -(2**31)])
def test_powers_of_odd_values_are_those_of_the_standard(exp: int, call: Call) -> None:
    """As IEEE 754 defines pown, which numpy's power of a float exponent follows."""
    x = np.array([0.0, -0.0, INF, -INF, NAN, 1, -1, 1e-30, -1e30], F64)
    with np.errstate(all="ignore"):
        wanted = np.power(x, float(exp))
    got = call(POWI, [x], x.shape, OpParams.PowI(exp))
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert np.array_equal(np.signbit(got[~np.isnan(x)]), np.signbit(wanted[~np.isnan(x)]))


@pytest.mark.parametrize("exp", [-3, -1, 0, 1, 2, 3, 5, 70])
@pytest.mark.parametrize("shape", [(), (0, 3), (200, 301)], ids=str)
def test_the_gradient_of_powers_is_a_difference_quotient(exp: int, shape: tuple[int, ...], call: Call) -> None:
    x, g = values(shape, F64, 0.7, 1.3), values(shape, F64)
    step = 1e-6
    above, below = (call(POWI, [np.asarray(x + s)], shape, OpParams.PowI(exp)) for s in (step, -step))
    got = call(BACKWARD, [x, g], shape, OpParams.PowI(exp))
    np.testing.assert_allclose(got, g * (above - below) / (2 * step), rtol=1e-5, atol=1e-7)


def test_the_gradient_of_the_power_zero_is_zero_whatever_it_meets(call: Call) -> None:
    x, g = np.array([0, NAN, INF], np.float32), np.array([INF, 1, NAN], np.float32)
    assert call(BACKWARD, [x, g], (3,), OpParams.PowI(0)).tolist() == [0, 0, 0]
    assert call(BACKWARD, [x, np.ones_like(g)], (3,), OpParams.PowI(1)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [F32, F64, *HALVES], ids=str)
def test_remainders_have_the_sign_of_the_divisor(dtype: np.dtype[Any], call: Call) -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 0.5, 1e-30], dtype)
    b = np.array([3, 3, -3, -3, 3, 3, -2, 1], dtype)
    got = call(REM, [a, b], a.shape).astype(float)
    assert got.tolist()[:7] == [1, 2, -2, -1, 0, 0, -1.5]
    special = call(REM, [np.array([1, INF, NAN, 1, -1], dtype), np.array([0, 2, 2, INF, INF], dtype)], (5,))
    assert np.isnan(special[:3].astype(float)).all()
    assert special[3:].astype(float).tolist() == [1, INF]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_remainders_are_exact(dtype: np.dtype[Any], call: Call) -> None:
    rng = np.random.default_rng(0)
    a = (rng.normal(0, 1, 4000) * 10.0 ** rng.integers(-3, 9, 4000)).astype(dtype)
    b = values((4000,), dtype)
    exact = [math.fmod(p, q) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    wanted = [r + q if r and (r < 0) != (q < 0) else r for r, q in zip(exact, b.tolist(), strict=True)]
    np.testing.assert_array_equal(call(REM, [a, b], a.shape), np.array(wanted, F64).astype(dtype))


@pytest.mark.parametrize("op", [AFFINE, POWI, BACKWARD], ids=lambda op: op.value)
def test_shapes_that_do_not_fit_are_refused(op: OpKind, call: Call) -> None:
    x = np.ones((2, 3), np.float32)
    params = OpParams.Affine(1, 0) if op is AFFINE else OpParams.PowI(2)
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(op, [x] * (2 if op is BACKWARD else 1), (3, 2), params)
