"""Layouts against numpy: every view op does to shape, strides and offset what numpy does to a real array."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fuel_async.errors import ShapeMismatch
from fuel_async.ir import Layout

Array: TypeAlias = npt.NDArray[np.int64]

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
SOLID_SHAPES = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def layout_of(array: Array, base: Array) -> Layout:
    """The layout of a view of `base`, read off numpy."""
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return Layout(array.shape, tuple(stride // 8 for stride in array.strides), start // 8)


def values(layout: Layout, base: Array) -> Array:
    """The elements that `layout` describes over `base`, one by one."""
    flat = base.reshape(-1)
    found = [
        flat[layout.offset + sum(i * stride for i, stride in zip(at, layout.strides, strict=True))]
        for at in np.ndindex(*layout.shape)
    ]
    return np.array(found, np.int64).reshape(layout.shape)


def assert_same(layout: Layout, array: Array, base: Array) -> None:
    """Equal in every field; in shape alone when there are no elements: strides and offset mean nothing."""
    assert layout.shape == array.shape
    assert layout.is_contiguous == array.flags.c_contiguous
    if array.size:
        assert layout == layout_of(array, base)
        assert np.array_equal(values(layout, base), array)


@st.composite
def views(draw: st.DrawFn, shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES) -> tuple[Layout, Array, Array]:
    """A layout, the numpy view it must agree with, and the array below both, after a few view ops."""
    base = np.arange(math.prod(shape := draw(shapes)), dtype=np.int64).reshape(shape)
    layout, array = Layout.contiguous(shape), base
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=4)):
        layout, array = step(draw, layout, array)
    return layout, array, base


def permuted(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    axes = draw(st.permutations(range(array.ndim)))
    return layout.permute(axes), array.transpose(axes)


def flipped(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    axes = draw(st.sets(st.integers(0, array.ndim - 1))) if array.ndim else set()
    key: Any = tuple(slice(None, None, -1 if axis in axes else 1) for axis in range(array.ndim))
    return layout.flip(sorted(axes)), array[(*key, ...)]


def narrowed(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    if not array.ndim:
        return layout, array
    dim = draw(st.integers(0, array.ndim - 1))
    step = draw(st.sampled_from([1, 2, -1, -2]))
    picked = range(array.shape[dim])[draw(st.slices(array.shape[dim]))][:: abs(step)]
    picked = picked if step > 0 else picked[::-1]
    cut = slice(picked.start, picked.stop if picked.stop >= 0 else None, picked.step) if picked else slice(0, 0)
    key = (*(slice(None),) * dim, cut)
    return layout.narrow(dim, picked.start if picked else 0, len(picked), picked.step), array[key]


def expanded(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    axis = draw(st.integers(-array.ndim - 1, array.ndim))
    key = (*(slice(None),) * (axis % (array.ndim + 1)), None, ...)  # expand_dims() itself reshapes
    return layout.expand_dims(axis), array[key]


def squeezed(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    axes = tuple(axis for axis, size in enumerate(array.shape) if size == 1)
    return layout.squeeze(axes), np.squeeze(array, axes)


def broadcast(draw: st.DrawFn, layout: Layout, array: Array) -> tuple[Layout, Array]:
    lead = draw(st.lists(st.integers(1, 3), max_size=1))
    shape = (*lead, *(draw(st.integers(1, 3)) if size == 1 else size for size in array.shape))
    return layout.broadcast_to(shape), np.broadcast_to(array, shape)


STEPS: list[Any] = [permuted, flipped, narrowed, expanded, squeezed, broadcast]


@given(views())
def test_any_chain_of_view_ops_agrees_with_numpy(case: tuple[Layout, Array, Array]) -> None:
    assert_same(*case)


@given(views())
def test_the_span_is_exactly_the_lowest_and_highest_element_touched(
    case: tuple[Layout, Array, Array],
) -> None:
    layout, array, _ = case
    touched = values(layout, np.arange(10**4, dtype=np.int64)) if array.size else None
    assert layout.span() == (None if touched is None else (touched.min(), touched.max()))
    assert layout.count == array.size
    assert layout.rank == array.ndim


@given(views(SOLID_SHAPES), st.data())
def test_reshape_copies_exactly_when_numpy_does(case: tuple[Layout, Array, Array], data: st.DataObject) -> None:
    layout, array, base = case
    assume(array.size)
    shape = data.draw(factorings(array.size))
    reshaped, by_numpy = layout.reshape(shape), array.reshape(shape)
    assert (reshaped is None) == (not np.shares_memory(by_numpy, base))
    if reshaped is not None:
        assert np.array_equal(values(reshaped, base), by_numpy)
        # A dimension of size 1 is never stepped over, so its stride is free.
        assert _solid(reshaped) == _solid(layout_of(by_numpy, base))


def _solid(layout: Layout) -> list[tuple[int, int]]:
    return [(n, stride) for n, stride in zip(layout.shape, layout.strides, strict=True) if n > 1]


@st.composite
def factorings(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """A shape of `count` elements with a few ones thrown in."""
    shape = []
    while count > 1:
        divisors = [n for n in range(2, count + 1) if count % n == 0]
        shape.append(draw(st.sampled_from(divisors)))
        count //= shape[-1]
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


@given(views(), st.data())
def test_flipping_twice_gives_the_layout_back(case: tuple[Layout, Array, Array], data: st.DataObject) -> None:
    layout = case[0]
    axes = sorted(data.draw(st.sets(st.integers(0, layout.rank - 1)))) if layout.rank else []
    assert layout.flip(axes).flip(axes) == layout


def test_transpose_permute_slice_and_broadcast_have_the_stated_strides() -> None:
    assert Layout.contiguous((2, 3)).permute((1, 0)) == Layout((3, 2), (1, 3))
    assert Layout.contiguous((2, 3, 4)).permute((2, 0, 1)) == Layout((4, 2, 3), (1, 12, 4))
    assert Layout.contiguous((5,)).narrow(0, 1, 3) == Layout((3,), (1,), 1)
    assert Layout.contiguous((3,)).broadcast_to((4, 3)) == Layout((4, 3), (0, 1))


def test_flip_negates_the_stride_and_starts_at_the_last_element() -> None:
    assert Layout.contiguous((3, 4)).flip(0) == Layout((3, 4), (-4, 1), 8)


def test_flip_of_a_size_1_axis_keeps_the_offset() -> None:
    assert Layout.contiguous((1, 4)).flip(0).offset == 0


def test_contiguity_says_nothing_about_the_offset() -> None:
    assert Layout.contiguous((2, 2)).at_offset(7).is_contiguous


def test_dimensions_of_size_1_and_empty_layouts_are_contiguous_whatever_their_strides() -> None:
    assert Layout((1, 3), (99, 1)).is_contiguous
    assert Layout((2, 0, 3), (5, -7, 9)).is_contiguous
    assert not Layout((2, 3), (99, 1)).is_contiguous


def test_an_empty_layout_touches_nothing() -> None:
    assert Layout.contiguous((3, 0)).span() is None
    assert Layout.contiguous(()).span() == (0, 0)


def test_reshape_of_an_empty_layout_is_free() -> None:
    assert Layout.contiguous((0, 3)).permute((1, 0)).reshape((0, 7)) == Layout.contiguous((0, 7))


def test_reshape_to_the_same_shape_keeps_the_layout_itself() -> None:
    layout = Layout.contiguous((2, 3)).permute((1, 0))
    assert layout.reshape((3, 2)) is layout


def test_reshape_of_a_transpose_needs_a_copy() -> None:
    assert Layout.contiguous((2, 3)).permute((1, 0)).reshape((6,)) is None


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Layout((2,), (1, 1)),
        lambda: Layout((-1,), (1,)),
        lambda: Layout.contiguous((4,)).narrow(0, 2, 3),
        lambda: Layout.contiguous((4,)).narrow(0, 0, 2, 4),
        lambda: Layout.contiguous((4,)).narrow(0, 1, 3, -1),
        lambda: Layout.contiguous((4,)).narrow(0, -1, 2),
        lambda: Layout.contiguous((4,)).narrow(0, 0, -1),
        lambda: Layout.contiguous((4,)).narrow(0, 5, 0),
        lambda: Layout.contiguous((4,)).narrow(0, 0, 2, 0),
        lambda: Layout.contiguous((4,)).narrow(1, 0, 2),
        lambda: Layout.contiguous((2, 3)).permute((0,)),
        lambda: Layout.contiguous((2, 3)).permute((0, 0)),
        lambda: Layout.contiguous((2, 3)).permute((0, 2)),
        lambda: Layout.contiguous((2, 3)).expand_dims(3),
        lambda: Layout.contiguous((2, 3)).squeeze(0),
        lambda: Layout.contiguous((1, 1)).squeeze((0, -2)),
        lambda: Layout.contiguous((2, 3)).flip(2),
        lambda: Layout.contiguous((2, 3)).broadcast_to((3,)),
        lambda: Layout.contiguous((2, 3)).broadcast_to((2, 4)),
        lambda: Layout.contiguous((2, 3)).reshape((5,)),
        lambda: Layout.contiguous((2, 3)).reshape((-1, 2)),
        lambda: Layout.contiguous((2, 3)).reshape((-2, -3)),
    ],
)
def test_what_numpy_would_refuse_is_a_typed_error(refused: Any) -> None:
    with pytest.raises(ShapeMismatch):
        refused()
