"""Bundles as values: how slots are packed, and the types of nodes that have several outputs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.errors import BundleMisuse
from fuel_async.ir import BundleType, DType, Graph, OutputView, bundle_type, compose_bundle, symbol

F32, F64, U8 = DType.F32, DType.F64, DType.U8
HELD = [dtype for dtype in DType if dtype.np is not None]

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
slots = st.lists(st.tuples(st.sampled_from(HELD), shapes), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("packed", "offsets", "total"),
    [
        ([(F32, (2, 3))], [0], 24),
        ([(F32, (2, 3)), (F64, (3,))], [0, 24], 48),
        ([(F32, (1,)), (F64, (1,))], [0, 8], 16),
        ([(F32, (1,)), (U8, (3,)), (F32, ())], [0, 4, 8], 12),
        ([(F32, (0,)), (F64, (2,))], [0, 0], 16),
    ],
)
def test_slots_follow_each_other_at_multiples_of_their_dtype(
    packed: list[tuple[DType, tuple[int, ...]]], offsets: list[int], total: int
) -> None:
    found, views = compose_bundle(packed)
    assert (found, [view.offset for view in views]) == (total, offsets)
    assert [(view.dtype, view.shape) for view in views] == packed


@given(slots)
def test_packing(packed: list[tuple[DType, tuple[int, ...]]]) -> None:
    """aligned, in order, apart from each other, without more room between them than alignment asks for"""
    total, views = compose_bundle(packed)
    end = 0
    for view, (dtype, shape) in zip(views, packed, strict=True):
        assert (view.dtype, view.shape) == (dtype, shape)
        assert view.offset % dtype.nbytes == 0
        assert end <= view.offset < end + dtype.nbytes
        assert view.end == view.offset + math.prod(shape) * dtype.nbytes
        layout = view.layout
        assert (layout.shape, layout.offset * dtype.nbytes) == (shape, view.offset)
        assert layout.is_contiguous
        end = view.end
    assert total == end


def test_what_cannot_be_packed() -> None:
    with pytest.raises(BundleMisuse, match="at least one slot"):
        compose_bundle([])
    with pytest.raises(BundleMisuse, match="no array can hold f4"):
        compose_bundle([(F32, (2,)), (DType.F4, (2,))])


def test_the_type_of_a_bundle_is_that_of_slot_0() -> None:
    g = Graph()
    kind = bundle_type([g.type_of((2, 3), F32), g.type_of((3,), F64)])
    assert isinstance(kind, BundleType)
    assert (kind.shape, kind.dtype, kind.nbytes, kind.total_nbytes) == ((2, 3), F32, 24, 48)
    assert str(kind) == "(f32[2, 3], f64[3])"
    assert kind.views[1] == OutputView(F64, (3,), 24)


def test_offsets_are_unknown_while_sizes_are() -> None:
    g, n = Graph(), symbol("n")
    kind = bundle_type([g.type_of((n, 3), F32), g.type_of((3,), F64)])
    assert (kind.nbytes, kind.total_nbytes, [view.offset for view in kind.views]) == (-1, -1, [-1, -1])
    assert str(kind) == "(f32[n, 3], f64[3])"


def test_types_of_bundles_are_interned() -> None:
    g = Graph()
    parts = [g.type_of((2, 3), F32), g.type_of((3,), F64)]
    assert g.bundle_of(parts) is g.bundle_of(tuple(parts))
    assert g.bundle_of(parts) is not g.bundle_of(parts[::-1])
