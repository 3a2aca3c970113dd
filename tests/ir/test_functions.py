"""Functions over several tensors: where, concat, extremes, and their refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import (
    DType,
    Graph,
    concat,
    matmul,
    maximum,
    minimum,
    permute_dims,
    symbol,
    take,
    where,
)

N = symbol("n")


def test_where_broadcasts_and_promotes() -> None:
    graph = Graph()
    x, y = graph.input("x", ("n", 3)), graph.input("y", (3,), DType.F64)
    assert str(where(x > 0, x, y).type) == "f64[n, 3]"
    assert str(where(x > 0, x, 0).type) == "f32[n, 3]"
    assert str(where(x > 0, 1.5, y).type) == "f64[n, 3]"
    assert str(where(graph.input("c", (4, 1), DType.U8), y, y).type) == "f64[4, 3]"


def test_where_refuses_other_operands() -> None:
    graph = Graph()
    x = graph.input("x", (3,))
    condition = x > 0
    with pytest.raises(GraphError, match="where: wanted a Tensor, got bool"):
        where(True, x, x)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="at least one of the two values"):
        where(condition, 1, 2)
    with pytest.raises(GraphError, match="wanted a Tensor or a number, got ndarray"):
        where(condition, x, np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(DTypeMismatch, match=r"where of f32\[3\], f32\[3\], f32\[3\]: wanted a uint8"):
        where(x, x, x)
    with pytest.raises(DTypeMismatch, match="no common dtype"):
        where(condition, x, graph.input("i", (3,), DType.I32))
    with pytest.raises(ShapeMismatch, match=r"where of u8\[3\], f32\[3\], f32\[4\]: shapes do not broadcast"):
        where(condition, x, graph.input("z", (4,)))


def test_concat_adds_dimensions_up() -> None:
    graph = Graph()
    x, y, z = graph.input("x", ("n", 3)), graph.input("y", (2, 3)), graph.input("z", (2, 3), DType.F64)
    assert concat([x, y, x]).shape == (2 * N + 2, 3)
    assert concat((y, y), axis=-1).shape == (2, 6)
    assert concat([y]).shape == (2, 3)
    assert str(concat([y, z]).type) == "f64[4, 3]"
    assert concat([graph.constant(np.zeros((0, 3), np.float32)), y]).shape == (2, 3)


def test_concat_refuses_what_does_not_fit() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    for operands, reason in (
        ([x, graph.input("y", (2, 4))], r"concat of f32\[2, 3\], f32\[2, 4\]: shapes differ in another axis"),
        ([x, graph.input("z", (3,))], "shapes differ in another axis than 0"),
    ):
        with pytest.raises(ShapeMismatch, match=reason):
            concat(operands)
    with pytest.raises(GraphError, match="at least one Tensor"):
        concat([])
    with pytest.raises(GraphError, match="wanted a Tensor, got ndarray"):
        concat([x, np.ones((2, 3))])  # type: ignore[list-item]
    with pytest.raises(ShapeMismatch, match="axis 2 is out of range for 2 dimensions"):
        concat([x, x], axis=2)
    with pytest.raises(ShapeMismatch, match="axis 0 is out of range for 0 dimensions"):
        concat([graph.input("s", ())])
    with pytest.raises(DTypeMismatch, match="no common dtype"):
        concat([x, graph.input("i", (2, 3), DType.I64)])


def test_the_others_are_the_methods() -> None:
    graph = Graph()
    x, index = graph.input("x", (2, 3)), graph.constant(np.array([1], np.uint32))
    assert maximum(x, 0).shape == minimum(0.5, x).shape == (2, 3)
    assert matmul(x, x.T).shape == (2, 2)
    assert permute_dims(x, (1, 0)).shape == (3, 2)
    assert take(x, index, axis=1).shape == (2, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda array: matmul(array, array),
        lambda array: permute_dims(array, (0,)),
        lambda array: take(array, array),
        lambda array: maximum(array, array),
    ],
)
def test_arrays_are_no_tensors(call: Any) -> None:
    with pytest.raises(GraphError, match="wanted a"):
        call(np.ones(2))
