"""Rotary position embedding."""

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

OP = OpKind.Rope
DTYPES = {
    np.dtype(np.float32): 1e-6,
    np.dtype(np.float64): 1e-15,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 2e-2,
}

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def rope(call: Call, x: Array, cos: Array, sin: Array) -> Array:
    return call(OP, [x, cos, sin], x.shape, OpParams.Rope(math.prod(x.shape[:-2]), *x.shape[-2:]))


def operands(shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, of).astype(dtype) for of in (shape, shape[-2:], shape[-2:])]


@every_dtype
@pytest.mark.parametrize(
    "shape", [(1, 2), (3, 8), (2, 3, 4, 6), (5, 700, 64), (40, 3, 200, 2), (2, 0, 4), (2, 3, 0)], ids=str
)
def test_halves_of_a_head_turn_together(
    shape: tuple[int, ...], dtype: np.dtype[Any], call: Call, strided: Callable[..., Array]
) -> None:
    x, cos, sin = operands(shape, dtype)
    wide, wide_cos, wide_sin = (part.astype(np.float64) for part in (x, cos, sin))
    half = shape[-1] // 2
    turned = np.concatenate([-wide[..., half:], wide[..., :half]], -1)
    got = rope(call, x, cos, sin)
    np.testing.assert_allclose(got.astype(float), wide * wide_cos + turned * wide_sin, rtol=0, atol=2 * DTYPES[dtype])
    assert rope(call, strided(x), strided(cos), strided(sin)).tobytes() == got.tobytes()


@every_dtype
def test_lengths_of_pairs_are_kept(dtype: np.dtype[Any], call: Call) -> None:
    x = operands((2, 5, 8), dtype)[0]
    angles = np.tile(np.random.default_rng(1).uniform(0, 6, (5, 4)), 2)
    got = rope(call, x, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)).astype(float)
    before, after = (np.hypot(v[..., :4], v[..., 4:]) for v in (x.astype(float), got))
    np.testing.assert_allclose(after, before, rtol=0, atol=4 * DTYPES[dtype])


def test_the_reference_example(call: Call) -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    assert rope(call, x, np.zeros_like(x), np.ones_like(x)).tolist() == [[-3, -4, 1, 2]]


@pytest.mark.parametrize(
    ("shape", "cos", "sin", "argument"),
    [
        ((4,), (4,), (4,), "the shape of the operand"),
        ((2, 3), (2, 3), (2, 3), "the shape of the operand"),
        ((2, 4), (2, 2), (2, 4), "the shape of the cosines"),
        ((5, 2, 4), (2, 4), (5, 2, 4), "the shape of the sines"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shape: Any, cos: Any, sin: Any, argument: str, call: Call) -> None:
    arrays = [np.ones(of, np.float32) for of in (shape, cos, sin)]
    with pytest.raises(KernelArgumentError, match=argument):
        call(OP, arrays, shape, OpParams.Rope(1, 2, shape[-1]))


def test_parameters_and_outputs_that_do_not_fit_are_refused(call: Call) -> None:
    arrays = [np.ones((2, 4), np.float32)] * 3
    with pytest.raises(KernelArgumentError, match=r"\(seq, head_dim\)"):
        call(OP, arrays, (2, 4), OpParams.Rope(1, 2, 6))
    with pytest.raises(KernelArgumentError, match="the output's shape"):
        call(OP, arrays, (4, 2), OpParams.Rope(1, 2, 4))
