"""erf and the GELU on it: error bounds, special values, and independence of how the operand lies in
memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.erf import erf, gelu_erf
from fuel_async.errors import KernelArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]

EXACT_ERF = np.vectorize(math.erf, otypes=[float])
EXACT_ERFC = np.vectorize(math.erfc, otypes=[float])


def exact_gelu(x: Array) -> npt.NDArray[np.float64]:
    wide = x.astype(np.float64)
    result: npt.NDArray[np.float64] = 0.5 * wide * EXACT_ERFC(-wide / math.sqrt(2))
    return result


@pytest.fixture(scope="module")
def points() -> Array:
    rng = np.random.default_rng(3)
    return np.concatenate([
        rng.uniform(-6, 6, 30_000), rng.normal(0, 1, 30_000),
        np.exp2(rng.uniform(-120, 3, 10_000)), -np.exp2(rng.uniform(-120, 3, 10_000)),
    ])  # fmt: skip


def test_erf_of_float32_is_within_its_bounds(points: Array) -> None:
    x = points.astype(np.float32)
    exact = EXACT_ERF(x)
    error = np.abs(erf(x) - exact)
    assert error.max() < 1.2e-7
    assert (error / np.abs(exact)).max() < 2.7e-7


def test_erf_of_float64_is_within_its_bound(points: Array) -> None:
    exact = EXACT_ERF(points)
    assert (np.abs(erf(points) - exact) / np.abs(exact)).max() < 6e-16  # math.erf's own error included


def test_gelu_of_float32_is_within_its_bounds(points: Array, ulps: Callable[[Array, Array], float]) -> None:
    x = points.astype(np.float32)
    positive, negative = x[x > 0], x[x < 0]
    assert ulps(gelu_erf(positive), exact_gelu(positive)) < 3.3
    assert np.abs(gelu_erf(negative) - exact_gelu(negative)).max() < 3e-7
    small = x[np.abs(x) < 1e-3]
    assert (np.abs(gelu_erf(small) - exact_gelu(small)) / np.abs(small)).max() < 2e-7


def test_gelu_of_float64_is_within_its_bound(points: Array) -> None:
    assert (np.abs(gelu_erf(points) - exact_gelu(points)) / np.abs(points)).max() < 4e-16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype: type[np.floating[Any]]) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 30, -30, 1e30, -1e30], dtype)
    got = erf(x)
    np.testing.assert_array_equal(got, np.array([0.0, -0.0, 1, -1, np.nan, 1, -1, 1, -1], dtype))
    assert np.signbit(got[:2]).tolist() == [False, True]
    # At −∞ the formula is −∞ · 0.
    wanted = [0.0, -0.0, np.inf, np.nan, np.nan, 30, -0.0, 1e30, -0.0]
    np.testing.assert_array_equal(gelu_erf(x), np.array(wanted, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denormal_and_tiny_values_keep_their_slope(dtype: type[np.floating[Any]]) -> None:
    least = float(np.finfo(dtype).smallest_subnormal)
    x = np.array([least, 100 * least, 1e-38, 1e-30, 1e-10], dtype)
    np.testing.assert_allclose(erf(x), 2 / math.sqrt(math.pi) * x.astype(float), rtol=3e-7, atol=2 * least)
    np.testing.assert_allclose(gelu_erf(x), 0.5 * x.astype(float), rtol=3e-7, atol=2 * least)


def test_erf_never_leaves_the_unit_interval_and_reaches_it() -> None:
    x = np.linspace(3, 10, 100_001, dtype=np.float32)
    got = erf(x)
    assert got.max() == 1
    assert (got[x > 4.3] == 1).all()
    np.testing.assert_array_equal(erf(-x), -got)


@pytest.mark.parametrize("function", [erf, gelu_erf])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (17, 5), (7, 30_000), (200_001,)])
def test_shapes_and_strides_do_not_change_the_bits(
    function: Callable[[Array], Array], shape: tuple[int, ...], strided: Callable[[Array], Array]
) -> None:
    x = np.asarray(np.random.default_rng(0).normal(0, 2, shape), np.float32)
    got = function(x)
    assert got.shape == shape
    assert got.dtype == np.float32
    np.testing.assert_array_equal(function(x.reshape(-1)), got.reshape(-1))
    np.testing.assert_array_equal(function(strided(x)), got)
    np.testing.assert_array_equal(function(x.T), got.T)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(KernelArgumentError, match="float32 or float64"):
        erf(np.arange(3))


def test_no_warning_is_raised_whatever_the_caller_has_set() -> None:
    with np.errstate(all="raise"):
        erf(np.array([np.inf, 1e300, 1.1314]))
        gelu_erf(np.array([np.inf, -np.inf, 1e38, -1e38, 1e-44], np.float32))
