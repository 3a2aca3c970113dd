"""exp and log of the fixed kernels: how far they are off, and what is not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.cuda.sources import ENTRY, inlined, options
from fuel_async.testing.cuda_double.compiling import compiled
from tests.backends.cuda.demands import needs_compiler

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

pytestmark = needs_compiler

#: Numbers wider than float64 are what its functions are compared with.
wide_reference = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 on this machine"
)

TEXT = inlined("""
#include "elements.cuh"
#include "floats.cuh"
#include "exponentials.cuh"
extern "C" __global__ void kernel_main(const In *x, In *powers, In *logarithms, u32 count) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        powers[i] = exact_exp(x[i]);
        logarithms[i] = exact_log(x[i]);
    }
}
""")


def computed(x: Array) -> tuple[Array, Array]:
    """Powers and logarithms of floats or doubles."""
    powers, logarithms = np.empty_like(x), np.empty_like(x)
    function = compiled(TEXT, options("", [f"IN={8 * x.itemsize}"], ())).function(ENTRY)
    pointers = [int(array.ctypes.data) for array in (x, powers, logarithms)]
    function((-(-len(x) // 256),), (256,), [*pointers, np.uint32(len(x))])
    return powers, logarithms


def units_off(got: Array, expected: Array) -> float:
    """The largest error in units of the last place of what is expected, which is wider than what was got."""
    spacing = np.spacing(np.abs(expected).astype(got.dtype)).astype(expected.dtype)
    return float((np.abs(got.astype(expected.dtype) - expected) / spacing).max())


def points(kind: type[np.floating[Any]], *ranges: tuple[float, float]) -> Array:
    rng = np.random.default_rng(1)
    return np.concatenate([rng.uniform(low, high, 20_000) for low, high in ranges]).astype(kind)


def positive(kind: type[np.floating[Any]], exponent: int) -> Array:
    rng = np.random.default_rng(2)
    wide = 2.0 ** rng.uniform(-exponent, exponent, 20_000)
    return np.concatenate([wide, rng.uniform(0.5, 2, 20_000), rng.uniform(0.999, 1.001, 20_000)]).astype(kind)


def test_floats() -> None:
    x = points(np.float32, (-87, 88), (-1, 1), (-1e-3, 1e-3))
    assert units_off(computed(x)[0], np.exp(x.astype(np.float64))) < 1.1
    x = positive(np.float32, 126)
    assert units_off(computed(x)[1], np.log(x.astype(np.float64))) < 1.1


@wide_reference
def test_doubles() -> None:
    x = points(np.float64, (-708, 709), (-1, 1), (-1e-3, 1e-3))
    assert units_off(computed(x)[0], np.exp(x.astype(np.longdouble))) < 1.1
    x = positive(np.float64, 1022)
    assert units_off(computed(x)[1], np.log(x.astype(np.longdouble))) < 1.1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_not_finite_and_what_becomes_so(kind: type[np.floating[Any]]) -> None:
    large = {np.float32: 88.73, np.float64: 709.79}[kind]
    x = np.array([np.nan, np.inf, -np.inf, large, -800, 0, -0.0], kind)
    powers, logarithms = computed(x)
    np.testing.assert_array_equal(powers, np.array([np.nan, np.inf, 0, np.inf, 0, 1, 1], kind))
    assert np.isnan(logarithms[0])
    assert logarithms[1] == np.inf


@pytest.mark.parametrize(("kind", "low"), [(np.float32, -103.0), (np.float64, -744.0)])
def test_powers_below_the_normal_numbers(kind: type[np.floating[Any]], low: float) -> None:
    normal = np.log(float(np.finfo(kind).smallest_normal))
    x = np.linspace(low, normal, 1_000).astype(kind)
    least = float(np.finfo(kind).smallest_subnormal)
    got, expected = computed(x)[0].astype(np.longdouble), np.exp(x.astype(np.longdouble))
    assert float(np.abs(got - expected).max()) <= 1.1 * least
