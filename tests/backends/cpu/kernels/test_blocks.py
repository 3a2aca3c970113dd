"""Blocks cover a shape once; bodies bound over them see the same operands as one whole call would."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.backends.cpu.kernels import blocks
from fuel_async.backends.cpu.kernels.blocks import Blocks, bind_body, broadcast_index, carve, scratch_nbytes

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


@given(shapes, st.integers(1, 60), st.integers(0, 2))
def test_blocks_cover_every_element_once_in_order(shape: tuple[int, ...], limit: int, whole_axes: int) -> None:
    whole_axes = min(whole_axes, len(shape))
    numbers = np.arange(math.prod(shape)).reshape(shape)
    cut = Blocks(shape, limit, whole_axes)
    seen = []
    for index, part in cut.pieces():
        block = numbers[index]
        assert block.shape == part
        assert part in cut.part_shapes()
        assert block.size <= max(limit, math.prod(shape[len(shape) - whole_axes :]) if whole_axes else 1)
        assert whole_axes == 0 or part[-whole_axes:] == shape[-whole_axes:]
        seen.append(block.reshape(-1))
    assert np.concatenate(seen).tolist() == numbers.reshape(-1).tolist()
    assert len(cut.part_shapes()) <= 2


@given(shapes, st.data())
def test_a_broadcast_operand_is_cut_like_the_output(shape: tuple[int, ...], data: st.DataObject) -> None:
    of = tuple(data.draw(st.sampled_from((1, size))) for size in shape)[data.draw(st.integers(0, len(shape))) :]
    operand = np.arange(math.prod(of)).reshape(of)
    full = np.broadcast_to(operand, shape)
    for index, part in Blocks(shape, 5).pieces():
        block = operand[broadcast_index(index, shape, of)]
        assert isinstance(block, np.ndarray)
        assert np.broadcast_to(block, part).tolist() == full[index].tolist()


def test_planes_lie_apart_and_aligned_in_the_scratch() -> None:
    planes = (F32, F64, np.dtype(np.bool_))
    (nbytes,) = scratch_nbytes(planes, (5, 3))
    scratch = np.zeros(nbytes, np.uint8)
    made = carve(planes, (5, 3), scratch)
    for number, plane in enumerate(made):
        plane[...] = number
    assert [set(plane.reshape(-1).tolist()) for plane in made] == [{0.0}, {1.0}, {True}]
    start = scratch.ctypes.data
    assert all((plane.ctypes.data - start) % blocks.PLANE_ALIGN == 0 for plane in made)


def test_no_planes_need_no_scratch() -> None:
    assert scratch_nbytes((), (1000,)) == ()


def test_a_long_operand_needs_no_more_scratch_than_one_block() -> None:
    assert scratch_nbytes((F32,), (10**9,)) == (blocks.BLOCK_NBYTES,)
    assert scratch_nbytes((F32, F64), (10**9,)) == (blocks.BLOCK_NBYTES // 2 + blocks.BLOCK_NBYTES,)


@pytest.mark.parametrize("shape", [(100_000,), (3, 50_001), (401, 401), (2, 3, 40_000), (1, 1, 200_001)])
def test_a_blocked_call_equals_the_whole_one(shape: tuple[int, ...]) -> None:
    def body(a: np.ndarray, b: np.ndarray, out: np.ndarray, plane: np.ndarray) -> None:
        np.multiply(a, b, plane)
        np.add(plane, a, out)

    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape).astype(np.float32)
    for b in (rng.standard_normal(shape).astype(np.float32), a[..., :1].copy(), np.array(2, np.float32)):
        out = np.empty(shape, np.float32)
        scratch = [np.empty(nbytes, np.uint8) for nbytes in scratch_nbytes((F32,), shape)]
        call, args = bind_body(body, (a, b), out, (F32,), scratch)
        call(*args)
        np.testing.assert_array_equal(out, a * b + a)


def test_constants_are_read_only_and_have_no_dimension() -> None:
    one, two = blocks.constants(np.float32, 1, 2)
    assert (one.shape, two.dtype) == ((), F32)
    with pytest.raises(ValueError, match="read-only"):
        one[...] = 3
