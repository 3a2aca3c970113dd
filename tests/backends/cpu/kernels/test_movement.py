"""Copy, cast and concat."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.base import T9, T11
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]

PAIRS = [(source, to) for source in T11 for to in T11 if source is not to]


def cast(call: Call, x: Array, to: DType) -> Array:
    return call(OpKind.Cast, [x], x.shape, OpParams.Cast(), dtype=to)


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=lambda dtype: str(dtype))
def test_casts_keep_small_whole_numbers(source: DType, to: DType, call: Call, strided: Callable[..., Array]) -> None:
    numbers = np.array([[0, 1, 2, 3], [8, 16, 64, 96]], np.int64)
    x = numbers.astype(source.require_np())
    for operand in (x, strided(x), x.T.copy().T):
        got = cast(call, operand, to)
        assert got.dtype == to.np
        assert got.astype(np.float64).tolist() == numbers.tolist()


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=lambda dtype: str(dtype))
def test_casts_are_numpys(source: DType, to: DType, call: Call) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 30, 300).astype(source.require_np())
    if source.is_float and not to.is_int:
        x[:4] = np.array([math.nan, -0.0, 448, -3]).astype(x.dtype)
    if source.is_float and to.is_int:
        x = np.abs(x.astype(np.float32)).astype(x.dtype)  # what an unsigned type cannot hold is undefined
    np.testing.assert_array_equal(cast(call, x, to).view(np.uint8), x.astype(to.require_np()).view(np.uint8))


def test_casts_round_half_to_even_and_saturate_to_infinity(call: Call) -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, 1e-45], np.float32)
    assert cast(call, x, DType.BF16).astype(float).tolist() == [1, 1 + 2**-6, math.inf, 0]
    assert cast(call, np.array([65519, 65520, 2**-25], np.float32), DType.F16).astype(float).tolist() == [
        65504,
        math.inf,
        0,
    ]
    assert np.isnan(cast(call, np.array([500.0], np.float32), DType.F8E4M3).astype(float)).all()


def test_a_round_trip_keeps_what_the_narrow_type_holds(call: Call) -> None:
    x = np.array([1, 2, -3, 0.5], np.float32)
    assert cast(call, cast(call, x, DType.BF16), DType.F32).tolist() == x.tolist()
    assert cast(call, x, DType.F64).tolist() == x.tolist()


def test_floats_become_integers_towards_zero(call: Call) -> None:
    assert cast(call, np.array([1.9, -1.9, 0.5, -0.5], np.float32), DType.I32).tolist() == [1, -1, 0, 0]


@pytest.mark.parametrize("dtype", T9, ids=str)
def test_copy_makes_any_layout_row_major(dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype.require_np())
    views = [
        x,
        x.transpose(2, 0, 1),
        x[:, ::-1, 1:],
        np.broadcast_to(x[:1], x.shape),
        strided(x),
        x[1, 2, 3],
        x[:0],
    ]
    for view in map(np.asarray, views):
        got = call(OpKind.Copy, [view], view.shape)
        assert got.flags.c_contiguous
        assert got.tobytes() == np.ascontiguousarray(view).tobytes()


def test_copy_keeps_the_bits_of_nan(call: Call) -> None:
    bits = np.array([0x7FC00001, 0xFF800123, 0x80000000], np.uint32)
    assert call(OpKind.Copy, [bits.view(np.float32)], (3,)).view(np.uint32).tolist() == bits.tolist()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int64])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat_along_any_axis(axis: int, dtype: type[Any], call: Call, strided: Callable[..., Array]) -> None:
    shapes = [tuple(size if at == axis else 3 for at in range(3)) for size in (2, 0, 1, 4)]
    parts = [np.arange(math.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]
    wanted = np.concatenate(parts, axis)
    params = OpParams.Concat(3**axis, tuple(shape[axis] for shape in shapes), 3 ** (2 - axis), axis)
    for inputs in (parts, [strided(part) for part in parts]):
        assert call(OpKind.Concat, inputs, wanted.shape, params).tobytes() == wanted.tobytes()
    alone = OpParams.Concat(3**axis, (4,), 3 ** (2 - axis), axis)
    assert call(OpKind.Concat, parts[3:], shapes[3], alone).tobytes() == parts[3].tobytes()


@pytest.mark.parametrize(
    ("shapes", "shape", "axis"),
    [
        (((2, 3), (2, 3)), (4, 3), 2),
        (((2, 3), (2, 4)), (4, 3), 0),
        (((2, 3), (2, 3)), (5, 3), 0),
        (((2, 3), (2,)), (4, 3), 0),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    shapes: tuple[tuple[int, ...], ...], shape: tuple[int, ...], axis: int, call: Call
) -> None:
    parts = [np.ones(of, np.float32) for of in shapes]
    with pytest.raises(KernelArgumentError, match="concat"):
        call(OpKind.Concat, parts, shape, OpParams.Concat(1, (2, 2), 3, axis))
