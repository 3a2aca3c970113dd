"""Choices, triangles and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels import masks
from fuel_async.backends.cpu.kernels.base import T4, T6
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]

TRIANGLES: dict[OpKind, Callable[..., Array]] = {OpKind.Triu: np.triu, OpKind.Tril: np.tril}


def triangle(call: Call, op: OpKind, x: Array, diagonal: int) -> Array:
    *batch, rows, columns = x.shape
    return call(op, [x], x.shape, OpParams.Triangular(int(np.prod(batch)), rows, columns, diagonal))


@pytest.mark.parametrize("dtype", T6, ids=str)
@pytest.mark.parametrize("op", TRIANGLES, ids=str)
def test_triangles_are_numpys(op: OpKind, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    for shape in ((3, 3), (2, 3, 5), (2, 1, 5, 3), (1, 4), (4, 1)):
        x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype.require_np())
        for diagonal in range(-6, 7):
            wanted = TRIANGLES[op](x, diagonal).tobytes()
            for view in (x, strided(x), np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2)):
                assert triangle(call, op, view, diagonal).tobytes() == wanted


def test_three_by_three(call: Call) -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    assert triangle(call, OpKind.Triu, x, 0).tolist() == [[1, 2, 3], [0, 5, 6], [0, 0, 9]]
    assert triangle(call, OpKind.Tril, x, 0).tolist() == [[1, 0, 0], [4, 5, 0], [7, 8, 9]]


@pytest.mark.parametrize("op", TRIANGLES, ids=str)
def test_what_is_dropped_is_0_whatever_it_was_and_what_is_kept_keeps_its_bits(op: OpKind, call: Call) -> None:
    bits = np.array([[0x7FC00001, 0xFF800000], [0x7F800000, 0x80000000]], np.uint32)
    got = triangle(call, op, bits.view(np.float32), 0).view(np.uint32)
    assert got.tolist() == TRIANGLES[op](bits).tolist()


@pytest.mark.parametrize("diagonal", [10**30, -(10**30)])
def test_a_diagonal_far_away(diagonal: int, call: Call) -> None:
    x = np.ones((2, 3), np.float32)
    assert triangle(call, OpKind.Triu, x, diagonal).any() == (diagonal < 0)
    assert triangle(call, OpKind.Tril, x, diagonal).any() == (diagonal > 0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 2)])
def test_matrices_without_elements(shape: tuple[int, ...], call: Call) -> None:
    assert triangle(call, OpKind.Triu, np.ones(shape, np.float32), 0).shape == shape


@pytest.mark.parametrize("shape", [(3, 40_000), (40_000, 3), (30, 70, 80)])
def test_triangles_of_several_blocks(shape: tuple[int, ...], call: Call) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for op, wanted in TRIANGLES.items():
        assert triangle(call, op, x, -1).tobytes() == wanted(x, -1).tobytes()


@pytest.mark.parametrize("dtype", T4, ids=str)
def test_where_takes_any_nonzero_mask_as_true(dtype: DType, call: Call) -> None:
    mask = np.array([1, 0, 1, 0, 200], np.uint8)
    a, b = (np.array(values, dtype.require_np()) for values in ([1, 2, 3, 4, 5], [10, 20, 30, 40, 50]))
    assert call(OpKind.Where, [mask, a, b], (5,)).astype(float).tolist() == [1, 20, 3, 40, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_keeps_every_bit_of_what_it_takes(dtype: type[Any], call: Call) -> None:
    bits: type[Any] = np.uint32 if dtype is np.float32 else np.uint64
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, np.iinfo(bits).max, (200, 401), bits, endpoint=True) for _ in range(2))
    mask = rng.integers(0, 2, (200, 1)).astype(np.uint8)
    got = call(OpKind.Where, [mask, a.view(dtype), b.view(dtype)], a.shape)
    np.testing.assert_array_equal(got.view(bits), np.where(mask, a, b))


@pytest.mark.parametrize("count", [masks.FEW, masks.FEW + 1])
@pytest.mark.parametrize("dtype", T4, ids=str)
def test_small_and_large_choices_keep_every_bit(
    dtype: DType, count: int, call: Call, strided: Callable[[Array], Array]
) -> None:
    bits: Any = np.dtype(f"u{dtype.nbytes}")
    rng, kind = np.random.default_rng(0), dtype.require_np()
    a, b = (rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True) for _ in range(2))
    mask = np.arange(count).astype(np.uint8)  # every byte
    wanted = np.where(mask != 0, a, b).tobytes()
    operands = [mask, a.view(kind), b.view(kind)]
    assert call(OpKind.Where, operands, (count,)).tobytes() == wanted
    assert call(OpKind.Where, [strided(operand) for operand in operands], (count,)).tobytes() == wanted
    for place in (1, 2):
        over = [operand.copy() for operand in operands]
        assert call(OpKind.Where, over, (count,), out=over[place].view()).tobytes() == wanted
    params = OpParams.MaskedFill(b[:1].tobytes())
    filled = call(OpKind.MaskedFill, [a.view(kind), mask], (count,), params, dtype=dtype)
    assert filled.tobytes() == np.where(mask != 0, b[0], a).tobytes()


@pytest.mark.parametrize("dtype", T6, ids=str)
def test_a_mask_chooses_the_number(dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    kind = dtype.require_np()
    x = np.arange(24).reshape(4, 6).astype(kind)
    fill = np.asarray(9, kind)
    chosen_by = [np.arange(24, dtype=np.uint8).reshape(4, 6) % 3, np.array([[0], [1], [255], [0]], np.uint8)]
    chosen_by += [np.array([0, 2, 0, 1, 0, 0], np.uint8), np.array(1, np.uint8), np.array(0, np.uint8)]
    for mask in chosen_by:
        wanted = np.where(mask != 0, fill, x).tobytes()
        for values, chosen in ((x, mask), (strided(x), strided(mask))):
            got = call(OpKind.MaskedFill, [values, chosen], x.shape, OpParams.MaskedFill(fill.tobytes()), dtype=dtype)
            assert got.tobytes() == wanted


def test_masked_fill_of_four(call: Call) -> None:
    x, mask = np.array([1, 2, 3, 4], np.float32), np.array([0, 1, 0, 1], np.uint8)
    params = OpParams.MaskedFill(np.float32(-1000).tobytes())
    assert call(OpKind.MaskedFill, [x, mask], (4,), params, dtype=DType.F32).tolist() == [1, -1000, 3, -1000]


def test_a_value_that_is_broadcast_and_numbers_that_are_none(call: Call) -> None:
    x, mask = np.array(2, np.float32), np.array([0, 1], np.uint8)
    for number in (np.nan, np.inf, -0.0):
        params = OpParams.MaskedFill(np.float32(number).tobytes())
        got = call(OpKind.MaskedFill, [x, mask], (2,), params, dtype=DType.F32)
        assert got.tobytes() == np.array([2, number], np.float32).tobytes()
    odd = np.array([0x7FC00001, 0xFF800123], np.uint32).view(np.float32)
    got = call(OpKind.MaskedFill, [odd, mask], (2,), OpParams.MaskedFill(bytes(4)), dtype=DType.F32)
    assert got.view(np.uint32).tolist() == [0x7FC00001, 0]


@pytest.mark.parametrize(
    ("op", "shapes", "shape", "params", "text"),
    [
        (OpKind.Triu, [(3,)], (3,), OpParams.Triangular(1, 1, 3, 0), "of rank 2 or more"),
        (OpKind.Tril, [(3, 2)], (2, 3), OpParams.Triangular(1, 3, 2, 0), "the output's shape"),
        (OpKind.Tril, [(3, 2)], (3, 2), OpParams.Triangular(1, 2, 3, 0), "batch_count, rows and cols"),
        (OpKind.MaskedFill, [(3,), (2,)], (3,), OpParams.MaskedFill(bytes(4)), "the output's shape"),
        (OpKind.MaskedFill, [(3,), (3,)], (3,), OpParams.MaskedFill(bytes(2)), "fill_bytes"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    op: OpKind, shapes: list[tuple[int, ...]], shape: tuple[int, ...], params: OpParams, text: str, call: Call
) -> None:
    operands = [np.ones(of, kind) for of, kind in zip(shapes, (np.float32, np.uint8), strict=False)]
    with pytest.raises(KernelArgumentError, match=text) as caught:
        call(op, operands, shape, params, dtype=DType.F32)
    assert caught.value.op == op.value
