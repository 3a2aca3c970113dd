"""The graph under construction: ports, node checks, and the user's line."""

from __future__ import annotations

import sys
from typing import cast

import numpy as np
import pytest

import fuel_async.ir as fa
from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import BY_NAME, DType, Graph, symbol
from fuel_async.ir.ops.movement import Slice

# --- ports --------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_are_listed_in_order() -> None:
    graph = Graph("ports")
    second = graph.input("b", (2,), DType.F64)
    first = graph.input("a", ("n", 3))
    graph.output("y", first)
    graph.output("a", second)
    assert {name: str(kind) for name, kind in graph.inputs.items()} == {"b": "f64[2]", "a": "f32[n, 3]"}
    assert [(name, str(kind)) for name, kind in graph.outputs.items()] == [
        ("y", "f32[n, 3]"),
        ("a", "f64[2]"),
    ]
    assert repr(graph) == "<Graph 'ports': 2 nodes, 2 inputs, 2 outputs>"


@pytest.mark.parametrize("name", ["on_device", "precision", "timeout_s", "priority"])
def test_names_of_run_options_are_reserved_for_inputs_only(name: str) -> None:
    graph = Graph()
    with pytest.raises(GraphError, match="reserved"):
        graph.input(name, ())
    graph.output(name, graph.input("x", ()))


def test_names_are_unique_strings() -> None:
    graph = Graph()
    x = graph.input("x", ())
    graph.output("y", x)
    with pytest.raises(GraphError, match="'x' is taken"):
        graph.input("x", ())
    with pytest.raises(GraphError, match="'y' is taken"):
        graph.output("y", x)
    for name, reason in (("", "empty"), (3, "wanted a string")):
        with pytest.raises(GraphError, match=reason):
            graph.input(name, ())  # type: ignore[arg-type]
        with pytest.raises(GraphError, match=reason):
            graph.output(name, x)  # type: ignore[arg-type]
    assert len(graph) == 1


def test_input_dimensions_are_integers_or_symbols() -> None:
    graph = Graph()
    x = graph.input("x", (np.int64(2), "n", symbol("m") * 2))  # type: ignore[arg-type]
    assert x.shape == (2, symbol("n"), 2 * symbol("m"))
    assert type(x.shape[0]) is int
    assert graph.input("scalar", ()).shape == ()
    with pytest.raises(ShapeMismatch, match="negative"):
        graph.input("y", (2, -1))
    for shape in ((2.0,), "ab", 3):
        with pytest.raises(GraphError, match="wanted"):
            graph.input("y", shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [DType.F4, DType.F6E2M3, DType.F6E3M2, DType.F8E6M2])
def test_dtypes_that_no_array_can_hold_are_refused(dtype: DType) -> None:
    graph = Graph()
    with pytest.raises(DTypeMismatch, match=f"no array can hold {dtype}"):
        graph.input("x", (), dtype)
    with pytest.raises(DTypeMismatch, match=f"no array can hold {dtype}"):
        graph.constant([1.0], dtype)
    with pytest.raises(DTypeMismatch, match=f"no array can hold {dtype}"):
        graph.input("x", ()).astype(dtype)


def test_a_numpy_dtype_is_no_dtype() -> None:
    graph, dtype = Graph(), cast("DType", np.float32)
    with pytest.raises(DTypeMismatch, match="wanted a DType"):
        graph.input("x", (), dtype)
    with pytest.raises(DTypeMismatch, match="wanted a DType"):
        graph.constant(1, dtype)
    with pytest.raises(DTypeMismatch, match="wanted a DType"):
        graph.input("x", ()).astype(dtype)


# --- nodes --------------------------------------------------------------------------------------------------


def test_nodes_are_checked_when_they_are_built() -> None:
    graph, add = Graph(), BY_NAME["add"]
    x = graph.input("x", (2, 3))
    with pytest.raises(GraphError, match=r"add of f32\[2, 3\]: takes 2 operands, got 1"):
        graph.node(add, (x,))
    with pytest.raises(GraphError, match="concat: takes one or more operands, got 0"):
        graph.node(BY_NAME["concat"], ())
    with pytest.raises(GraphError, match="takes other parameters than None"):
        graph.node(BY_NAME["permute"], (x,))
    with pytest.raises(GraphError, match="takes other parameters"):
        graph.node(add, (x, x), (1,))
    with pytest.raises(GraphError, match="wanted the shape exactly where"):
        graph.node(add, (x, x), shape=(2, 3))
    with pytest.raises(GraphError, match="wanted the shape exactly where"):
        graph.node(BY_NAME["reshape"], (x,))
    with pytest.raises(ShapeMismatch, match=r"slice of f32\[2, 3\]: Slice\(.*\) does not fit \(2,\)"):
        graph.node(BY_NAME["slice"], (x,), Slice((0,), (1,)), shape=(2,))
    with pytest.raises(ShapeMismatch, match=r"broadcast of f32\[2, 3\]: does not broadcast to \(3,\)"):
        graph.node(BY_NAME["broadcast"], (x,), shape=(3,))
    with pytest.raises(DTypeMismatch, match=r"matmul of f32\[2, 3\], f64\[\]: operands differ in dtype"):
        graph.node(BY_NAME["matmul"], (x, graph.scalar(1.0, DType.F64)))
    with pytest.raises(GraphError, match="wanted a Tensor, got float"):
        graph.node(add, (x, 1.0))  # type: ignore[arg-type]
    assert len(graph) == 2  # the scalar


def test_tensors_of_another_graph_are_refused_and_nothing_is_added_there() -> None:
    graph, other = Graph("one"), Graph("other")
    x, y = graph.input("x", (2,)), other.input("y", (2,), DType.F64)
    for attempt in (
        lambda: x + y,
        lambda: x @ y,
        lambda: fa.where(x > 0, x, y),
        lambda: fa.concat([x, y]),
        lambda: x.take(y),
        lambda: graph.output("z", y),
    ):
        with pytest.raises(GraphError, match="a tensor of <Graph 'other'"):
            attempt()
    assert len(other) == 1


def test_equal_types_are_one_object() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    assert x.exp().type is x.type
    assert graph.input("y", (2, 3)).type is x.type
    assert (x.sum(0) + 1).type is graph.input("z", (3,)).type
    assert x.type.nbytes == 24
    assert graph.input("s", ("n",)).type.nbytes == -1


# --- the user's line ----------------------------------------------------------------------------------------


def here() -> int:
    """The line that calls this."""
    return sys._getframe(1).f_lineno


def test_each_node_remembers_the_users_line() -> None:
    graph = Graph()
    x, at_input = graph.input("x", (4, 3)), here()
    index = graph.constant(np.array([0, 1], np.uint32))
    built = {
        at_input: x,
        here(): 2 - x,
        here(): x.softmax(axis=0),
        here(): x.layer_norm(graph.input("w", (3,)), graph.input("b", (3,))),
        here(): fa.concat([x, x], axis=1),
        here(): fa.where(x > 0, x, -1),
        here(): x.reshape((3, 4)),
        here(): x[1:, None, ::-1],
        here(): x.mT,
        here(): x @ x.T,
        here(): x[0] @ x[1],
        here(): fa.maximum(1.5, x),
        here(): x.take(index, axis=1),
        here(): x.broadcast_to((2, 4, 3)),
        here(): abs(x),
        here(): x == 3,
    }
    lines = {tensor.index: line for line, tensor in built.items()}
    for line, tensor in built.items():
        graph.output(f"at {line}", tensor)
    frozen = graph.freeze()
    assert len(frozen) == len(graph) == len(frozen.codes)
    for node in range(len(frozen)):
        file, _, line_of_node = frozen.line(node).rpartition(":")
        assert file == __file__
        if node in lines:
            assert int(line_of_node) == lines[node]
    # Composite methods leave no line of their own behind.
    assert {int(frozen.line(node).rpartition(":")[2]) for node in range(len(frozen))} <= {
        *built,
        at_input + 1,
    }


def test_a_description_names_op_types_operands_and_line() -> None:
    graph = Graph()
    x = graph.input("x", ("n", 3))
    y, line = x.sum(1).astype(DType.F64), here()
    graph.output("y", y)
    frozen = graph.freeze()
    assert frozen.describe(x.index).startswith("node %0 input 'x'() -> f32[n, 3], built at ")
    assert frozen.describe(y.index) == f"node %2 cast(%1 f32[n]) Cast(f64) -> f64[n], built at {__file__}:{line}"
    assert "Reduce(axes=(1,), keepdims=False)" in frozen.describe(1)


def test_errors_come_from_the_line_that_builds_the_node() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    with pytest.raises(ShapeMismatch, match=r"add of f32\[2, 3\], f32\[4\]: shapes do not broadcast") as caught:
        x + graph.input("y", (4,))
    assert str(caught.traceback[0].path) == __file__
    assert (caught.value.op, caught.value.reason) == ("add", "shapes do not broadcast")
