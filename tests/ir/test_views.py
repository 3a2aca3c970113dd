"""Views: result shapes and values are numpy's, symbolic dimensions included, and what cannot be is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir import Dim, Graph, Tensor, UnboundSymbol, symbol
from fuel_async.testing import reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N, K = symbol("n"), symbol("k")
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def computed(view: Callable[[Tensor], Tensor], array: NDArray[Any]) -> NDArray[Any]:
    """The value of a view of an input."""
    graph = Graph()
    made = view(graph.input("x", array.shape))
    graph.output("y", made)
    result = reference(graph, {"x": array})["y"]
    assert result.shape == made.shape
    return result


def numbered(shape: tuple[int, ...]) -> NDArray[Any]:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


# --- indexing -----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data(), SHAPES)
def test_indexing_is_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    index = data.draw(npst.basic_indices(shape, allow_newaxis=True, max_dims=6))
    array = numbered(shape)
    assert np.array_equal(computed(lambda x: x[index], array), array[index])


@pytest.mark.parametrize(
    "index",
    [
        slice(None, None, -1),
        slice(3, 0, -2),
        slice(-1, None, -5),
        slice(0, 100),
        slice(100, None),
        slice(2, 2),
        slice(3, 1),
        np.int64(2),
        slice(np.int64(1), np.int64(3)),
        (..., None),
        (None, 1, None),
    ],
)
def test_bounds_are_clipped_as_numpy_does(index: Any) -> None:
    array = numbered((4, 3))
    assert np.array_equal(computed(lambda x: x[index], array), array[index])


def test_an_index_that_takes_everything_adds_no_node() -> None:
    graph = Graph()
    x = graph.input("x", ("n", 3))
    for index in (..., slice(None), (slice(None), slice(0, 3)), (slice(0, None), ...), ()):
        assert x[index] is x
    assert len(graph) == 1


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (4, r"index of f32\[4, 3\]: 4 is out of range for axis 0 of size 4"),
        ((0, -4), "-4 is out of range for axis 1 of size 3"),
        ((0, 0, 0), "3 indices do not fit 2 dimensions"),
        ((..., ...), "2 indices do not fit"),
        (slice(None, None, 0), "the step is 0"),
        (1.0, "got float; pick with take"),
        (True, "got bool"),
        ([0, 1], "got list"),
        (np.array([0]), "got ndarray"),
        ("a", "got str"),
        (slice(0.0, 2), "wanted an integer as bound"),
        (slice(0, 2, 1.5), "wanted an integer as step"),
    ],
)
def test_other_indices_are_refused(index: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        Graph().input("x", (4, 3))[index]


def test_a_tensor_is_no_index() -> None:
    x = Graph().input("x", (4,))
    with pytest.raises(GraphError, match="got Tensor; pick with take"):
        x[x]  # type: ignore[index]


@pytest.mark.parametrize(
    ("index", "length"),
    [
        (slice(None), N),
        (slice(1, None), N - 1),
        (slice(None, -1), N - 1),
        (slice(-2, None), 2),
        (slice(2, 5), 3),
        (slice(5, 2), 0),
        (slice(-1, -3), 0),
        (slice(None, K), K),
        (slice(K, None), N - K),
        (slice(K, K + 4), 4),
        (slice(None, None, 1), N),
        (slice(N, None), 0),
    ],
)
def test_slices_of_a_symbolic_dimension_have_symbolic_lengths(index: slice, length: Dim) -> None:
    x = Graph().input("x", ("n", 3))
    assert x[index].shape == (length, 3)


def test_a_step_along_a_symbolic_dimension_is_refused() -> None:
    with pytest.raises(ShapeMismatch, match="a step along the symbolic axis 0"):
        Graph().input("x", ("n",))[::2]


@pytest.mark.parametrize(
    ("index", "sizes", "expected"),
    [
        (slice(1, -1), {"n": 4}, [1, 2]),
        (slice(-3, None), {"n": 4}, [1, 2, 3]),
        (slice(None, K), {"n": 4, "k": 3}, [0, 1, 2]),
        (slice(K, K + 2), {"n": 4, "k": 2}, [2, 3]),
        (0, {"n": 4}, 0),
        (-1, {"n": 4}, 3),
        (K, {"n": 4, "k": 2}, 2),
        (K - 1, {"n": 4, "k": 1}, 0),
        (slice(N, None), {"n": 4}, []),
        (slice(1, 1), {"n": 0}, []),
    ],
)
def test_slices_are_bound_with_the_symbols(index: Any, sizes: dict[str, int], expected: Any) -> None:
    graph = Graph()
    graph.output("y", graph.input("x", ("n",))[index])
    graph.output("s", graph.input("length", ("k",)).sum())
    frozen = graph.freeze().bind({"k": 0, **sizes})
    feeds = {"x": numbered((sizes["n"],)), "length": np.zeros(sizes.get("k", 0), np.float32)}
    assert reference(frozen, feeds)["y"].tolist() == expected


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        (slice(2, 5), {"n": 4}),
        (slice(-3, None), {"n": 2}),
        (slice(None, K), {"n": 4, "k": 5}),
        (slice(K, K + 4), {"n": 4, "k": 1}),
        (4, {"n": 4}),
        (-1, {"n": 0}),
        (K, {"n": 4, "k": 4}),
        (slice(K, None), {"n": 3, "k": 4}),
        (slice(N, N + N), {"n": 2}),
    ],
)
def test_slices_that_leave_the_bound_dimension_are_refused(index: Any, sizes: dict[str, int]) -> None:
    graph = Graph()
    graph.output("y", graph.input("x", ("n",))[index])
    with pytest.raises(ShapeMismatch, match=r"node %\d \w+.*test_views\.py"):
        graph.freeze().bind({"k": 0, **sizes})


def test_a_static_dimension_can_be_cut_by_a_symbol() -> None:
    graph = Graph()
    x = graph.input("x", (4, 3))
    graph.output("y", x[:K, K])
    frozen = graph.freeze()
    assert frozen.symbols == ("k",)
    assert frozen.bind({"k": 2}).types[frozen.outputs["y"]].shape == (2,)
    with pytest.raises(ShapeMismatch, match="1 entries from 3 by 1 are not inside axis 1 of size 3"):
        frozen.bind({"k": 3})
    with pytest.raises(UnboundSymbol):
        frozen.bind({})


# --- shapes -------------------------------------------------------------------------------------------------


@given(st.data(), SHAPES)
def test_reshape_is_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array = numbered(shape)
    target = list(data.draw(SHAPES))
    if data.draw(st.booleans()) and target:
        target[data.draw(st.integers(0, len(target) - 1))] = -1
    try:
        expected = array.reshape(target)
    except ValueError:
        with pytest.raises(ShapeMismatch):
            Graph().input("x", shape).reshape(target)
    else:
        assert np.array_equal(computed(lambda x: x.reshape(target), array), expected)


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        (("n", 6), ("n", 2, 3), (N, 2, 3)),
        (("n", 6), (-1,), (6 * N,)),
        (("n", 6), (-1, 3), (2 * N, 3)),
        (("n", 6), (2, -1), (2, 3 * N)),
        (("n", "k"), (N * K,), (K * N,)),
        (("n", "k"), ("k", -1), (K, N)),
        ((N + 2, 4), (-1, 2), (2 * N + 4, 2)),
        ((N + 2, "k"), (-1, N + 2), (K, N + 2)),
        (("n", 0), ("n", -1), (N, 0)),
        ((4,), (np.int64(2), 2), (2, 2)),
    ],
)
def test_reshape_calculates_with_symbols(shape: Any, target: Any, expected: tuple[Dim, ...]) -> None:
    made = Graph().input("x", shape).reshape(target)
    assert made.shape == expected
    assert not any(isinstance(dim, np.integer) for dim in made.shape)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((6,), (4,)),
        ((6,), (-1, 4)),
        ((6,), (-1, -1)),
        ((6,), (-2, -3)),
        ((0,), (0, -1)),
        (("n",), (3,)),
        (("n",), (4, -1)),
        (("n", 3), (0, -1)),
        (("n",), ("k",)),
    ],
)
def test_reshape_keeps_the_number_of_elements(shape: Any, target: Any) -> None:
    with pytest.raises(ShapeMismatch, match="reshape of f32"):
        Graph().input("x", shape).reshape(target)


def test_reshape_takes_a_sequence_of_dimensions() -> None:
    x = Graph().input("x", (2, 3))
    for shape in (6, "ab", (2.0, 3)):
        with pytest.raises(GraphError, match="wanted"):
            x.reshape(shape)  # type: ignore[arg-type]
    assert x.reshape((2, 3)) is x


@given(SHAPES, SHAPES)
def test_broadcast_to_is_numpys(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    array = numbered(shape)
    try:
        expected = np.broadcast_to(array, target)
    except ValueError:
        with pytest.raises(ShapeMismatch):
            Graph().input("x", shape).broadcast_to(target)
    else:
        assert np.array_equal(computed(lambda x: x.broadcast_to(target), array), expected)


def test_broadcast_to_symbols() -> None:
    x = Graph().input("x", (1, 3))
    assert x.broadcast_to(("n", 3)).shape == (N, 3)
    assert x.broadcast_to(("k", "n", 3)).shape == (K, N, 3)
    assert x.broadcast_to((1, 3)) is x
    for target in ((-1, 3), ("n", 4), (3,), ("n", "k")):
        with pytest.raises(ShapeMismatch, match="broadcast of f32"):
            x.broadcast_to(target)


@given(st.data(), SHAPES)
def test_permutations_and_flips_are_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array, rank = numbered(shape), len(shape)
    axes = data.draw(st.permutations(range(rank)))
    axes = [axis - rank if data.draw(st.booleans()) else axis for axis in axes]
    assert np.array_equal(computed(lambda x: x.permute_dims(axes), array), array.transpose(axes))
    flipped = data.draw(st.none() | st.sets(st.sampled_from(range(rank))).map(tuple) if rank else st.none())
    assert np.array_equal(computed(lambda x: x.flip(flipped), array), np.flip(array, flipped))


@given(st.data(), SHAPES)
def test_expand_dims_and_squeeze_are_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array, rank = numbered(shape), len(shape)
    axes = data.draw(st.sets(st.integers(0, rank + 1), min_size=2, max_size=2).map(tuple))
    expanded = np.expand_dims(array, axes)
    assert np.array_equal(computed(lambda x: x.expand_dims(axes), array), expanded)
    assert np.array_equal(computed(lambda x: x.squeeze(axes), expanded), array)
    axis = data.draw(st.integers(-rank - 1, rank))
    assert np.array_equal(computed(lambda x: x.expand_dims(axis), array), np.expand_dims(array, axis))


def test_transposes() -> None:
    array = numbered((2, 3))
    assert np.array_equal(computed(lambda x: x.T, array), array.T)
    batch = numbered((4, 2, 3))
    assert np.array_equal(computed(lambda x: x.mT, batch), batch.mT)
    for shape, attribute in (((2,), "T"), ((4, 2, 3), "T"), ((2,), "mT"), ((), "mT")):
        with pytest.raises(ShapeMismatch, match="wanted a matrix"):
            getattr(Graph().input("x", shape), attribute)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (lambda x: x.permute_dims((0,)), r"permute of f32\[2, 1\]: axes \(0,\) are no permutation"),
        (lambda x: x.permute_dims((0, 0)), "no permutation"),
        (lambda x: x.permute_dims((0, 2)), "axis 2 is out of range"),
        (lambda x: x.squeeze(0), r"squeeze of f32\[2, 1\]: axis 0 has size 2, not 1"),
        (lambda x: x.squeeze(2), "axis 2 is out of range"),
        (lambda x: x.expand_dims(4), "axis 4 is out of range for 3 dimensions"),
        (lambda x: x.expand_dims((0, 0)), "one axis twice"),
        (lambda x: x.flip(-3), "axis -3 is out of range"),
        (lambda x: x.flip("a"), "wanted an integer as axis"),
    ],
)
def test_views_that_cannot_be_are_refused(view: Callable[[Tensor], Tensor], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        view(Graph().input("x", (2, 1)))


def test_views_that_change_nothing_add_no_node() -> None:
    graph = Graph()
    x = graph.input("x", (2, 1))
    assert all(same is x for same in (x.squeeze(()), x.expand_dims(()), x.flip(()), x.broadcast_to((2, 1))))
    assert x.contiguous() is not x  # whether it changes the layout is not known here
