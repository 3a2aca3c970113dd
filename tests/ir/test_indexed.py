"""Gather, take_along_axis, index_add and scatter_add as users build them."""

from __future__ import annotations

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import ShapeMismatch
from fuel_async.ir import Graph, symbol
from fuel_async.testing import reference

N = symbol("n")


def test_a_gather_has_the_shape_of_its_index() -> None:
    g = Graph()
    x, index = g.input("x", (4, 3), fa.i16), g.input("i", (7, 2), fa.u32)
    assert str(fa.gather(x, index).type) == "i16[7, 2]"
    assert str(fa.gather(x, g.input("j", (4, 9), fa.u32), axis=-1).type) == "i16[4, 9]"


def test_symbolic_sizes_are_checked_when_they_are_bound() -> None:
    g = Graph()
    x, index = g.input("x", (2, 3)), g.input("i", (5, "n"), fa.u32)
    g.output("y", fa.gather(x, index))
    g.output("z", fa.scatter_add(x, index, g.input("s", (5, "n"))))
    assert g.freeze().bind({"n": 3})
    with pytest.raises(ShapeMismatch, match="wanted at most 3 entries of the index along axis 1, got 4"):
        g.freeze().bind({"n": 4})


def test_take_along_axis_broadcasts_both() -> None:
    g = Graph()
    x, row = g.input("x", ("n", 3)), g.input("row", (1, 3))
    each, one = g.input("each", ("n", 2), fa.u32), g.input("one", (1, 2), fa.u32)
    assert fa.take_along_axis(x, each).shape == (N, 2)
    assert fa.take_along_axis(x, one).shape == (N, 2)
    assert fa.take_along_axis(row, each).shape == (N, 2)
    g.output("y", fa.take_along_axis(x, one))
    value, picks = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[2, 0]], np.uint32)
    feeds = {"x": value, "row": value[:1], "each": np.repeat(picks, 2, 0), "one": picks}
    assert reference(g, feeds)["y"].tolist() == np.take_along_axis(value, np.repeat(picks, 2, 0), 1).tolist()


def test_take_along_axis_refuses_what_does_not_broadcast() -> None:
    g = Graph()
    x = g.input("x", (4, 3))
    with pytest.raises(ShapeMismatch, match=r"f32\[4, 3\], u32\[2, 2\]: dimensions 4 and 2 of axis 0 do not broadcast"):
        fa.take_along_axis(x, g.input("i", (2, 2), fa.u32))
    with pytest.raises(ShapeMismatch, match="wanted indices of rank 2, got 1"):
        fa.take_along_axis(x, g.input("j", (2,), fa.u32))


def test_sums_have_the_type_of_the_base_and_promote() -> None:
    g = Graph()
    base, index = g.input("b", ("n", 3)), g.input("i", (5,), fa.u32)
    assert str(fa.index_add(base, index, g.input("s", (5, 3))).type) == "f32[n, 3]"
    assert str(fa.index_add(base, index, g.input("t", ("n", 5), fa.f64), axis=1).type) == "f64[n, 3]"
    wide = g.input("j", (5, 3), fa.u32)
    assert str(fa.scatter_add(base, wide, g.input("u", (5, 3), fa.f16)).type) == "f32[n, 3]"


def test_known_values() -> None:
    g = Graph()
    zeros = fa.zeros(g, (3, 2))
    index = g.constant(np.array([[0, 1], [2, 0]], np.uint32))
    source = g.constant([[1.0, 2], [3, 4]])
    g.output("scattered", fa.scatter_add(zeros, index, source))
    g.output("picked", fa.gather(source, g.constant(np.array([[1, 0]], np.uint32))))
    first = g.constant(np.zeros(2, np.uint32))
    g.output("added", fa.index_add(g.constant([10.0, 20, 30]), first, g.constant([1.0, 2])))
    got = reference(g, {})
    assert got["scattered"].tolist() == [[1, 4], [0, 2], [3, 0]]
    assert got["picked"].tolist() == [[3, 2]]
    assert got["added"].tolist() == [13, 20, 30]
