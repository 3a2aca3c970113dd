"""Shape rules: broadcasting as numpy does it, axes, and what users pass as dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir import Shape, symbol
from fuel_async.ir.shape import broadcast, check_axes, normal_axes, normal_axis, normal_dims, show

N, M = symbol("n"), symbol("m")
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcasting_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeMismatch, match="do not broadcast"):
            broadcast("op", shapes)
    else:
        assert broadcast("op", shapes) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(N, 3), (1, 3)], (N, 3)),
        ([(N,), (N,)], (N,)),
        ([(M, 1), (N,)], (M, N)),
        ([(), (N,)], (N,)),
    ],
)
def test_symbols_broadcast_against_1_and_themselves(shapes: list[Shape], expected: Shape) -> None:
    assert broadcast("op", shapes) == expected


@pytest.mark.parametrize("shapes", [[(N,), (M,)], [(N,), (3,)], [(2 * N,), (N,)]])
def test_different_dimensions_never_broadcast(shapes: list[Shape]) -> None:
    with pytest.raises(ShapeMismatch) as caught:
        broadcast("op", shapes)
    assert all(show(shape) in str(caught.value) for shape in shapes)


@pytest.mark.parametrize(("shape", "text"), [((), "()"), ((3,), "(3,)"), ((N, 4), "(n, 4)")])
def test_shapes_are_shown_as_python_writes_them(shape: Shape, text: str) -> None:
    assert show(shape) == text


def test_axes_are_counted_from_the_front_and_sorted() -> None:
    assert normal_axis("op", -1, 3) == 2
    assert normal_axes("op", (-1, 0), 3) == (0, 2)
    assert normal_axes("op", None, 3) == (0, 1, 2)
    assert normal_axes("op", np.int64(1), 3) == (1,)  # type: ignore[arg-type]
    assert normal_axes("op", [], 3) == ()


def test_axes_that_do_not_exist_or_repeat_are_refused() -> None:
    with pytest.raises(ShapeMismatch, match="op of f32: axis 3 is out of range for 3 dimensions"):
        normal_axis("op", 3, 3, ["f32"])
    with pytest.raises(ShapeMismatch, match="name one axis twice"):
        normal_axes("op", (0, -3), 3)
    with pytest.raises(GraphError, match="wanted an integer as axis"):
        normal_axis("op", 1.0, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("axes", [(1, 0), (0, 0), (-1,), (3,)])
def test_parameters_must_be_sorted_axes(axes: tuple[int, ...]) -> None:
    with pytest.raises(ShapeMismatch, match="no sorted axes"):
        check_axes("op", axes, 3, [])


def test_dimensions_become_plain_numbers_and_symbols() -> None:
    dims = normal_dims("op", (np.int64(3), "n", N * 2, True))
    assert dims == (3, N, 2 * N, 1)
    assert [type(dim) for dim in dims if not isinstance(dim, type(N))] == [int, int]
    assert normal_dims("op", np.array([2, 3])) == (2, 3)


@pytest.mark.parametrize("shape", ["nm", 3, None, (2.0,), (None,), N])
def test_what_is_no_shape_is_refused(shape: object) -> None:
    with pytest.raises(GraphError, match="wanted"):
        normal_dims("op", shape)
