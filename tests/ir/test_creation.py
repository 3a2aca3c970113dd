"""Zeros, other numbers, and counting."""

from __future__ import annotations

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import DType, Graph
from fuel_async.testing import reference


def test_a_value_of_one_number_holds_one_number() -> None:
    g = Graph()
    big = fa.zeros(g, (1_000, 1_000, 1_000))
    assert big.shape == (1_000,) * 3
    assert sum(array.nbytes for array in g.snapshot().constants.values()) == 4
    fa.full(g, (5,), 0)
    assert [op.name for op in g.snapshot().ops] == ["constant", "broadcast", "broadcast"]


def test_equal_numbers_are_one_constant() -> None:
    g = Graph()
    fa.zeros(g, (2,))
    fa.zeros(g, (3,))
    assert len(g.snapshot().constants) == 1


@pytest.mark.parametrize("dtype", [fa.f32, fa.bf16, fa.u8, fa.i64, fa.f8e4m3], ids=str)
def test_dtypes_and_shapes(dtype: DType) -> None:
    g = Graph()
    x = g.input("x", ("n", 2), dtype)
    assert fa.zeros_like(x).type is x.type
    assert fa.full_like(x, 3).type is x.type
    assert fa.full(g, ("n", 2), 3, dtype).type is x.type
    assert str(fa.zeros_like(x, dtype=fa.f64).type) == "f64[n, 2]"
    assert fa.zeros(g, (), dtype).shape == ()


def test_numbers() -> None:
    g = Graph()
    x = g.input("x", ("n",))
    g.output("zeros", fa.zeros_like(x))
    g.output("halves", fa.full_like(x, 0.5))
    g.output("count", fa.iota(g, 4) + fa.zeros(g, (4,)))
    got = reference(g, {"x": np.ones(3, np.float32)})
    assert got["zeros"].tolist() == [0, 0, 0]
    assert got["halves"].tolist() == [0.5] * 3
    assert got["count"].tolist() == [0, 1, 2, 3]


def test_iota_counts_in_any_dtype_that_can() -> None:
    g = Graph()
    assert str(fa.iota(g, 0).type) == "f32[0]"
    for dtype, most in ((fa.u8, 256), (fa.i8, 128), (fa.f16, 2_049), (fa.bf16, 257), (fa.f8e4m3, 17)):
        assert str(fa.iota(g, most, dtype).type) == f"{dtype}[{most}]"
        with pytest.raises(DTypeMismatch, match=f"iota: {dtype} lacks some of the numbers below {most + 1}"):
            fa.iota(g, most + 1, dtype)


@pytest.mark.parametrize("dtype", [fa.f32, fa.u32, fa.bf16], ids=str)
def test_iota_counts_to_a_symbol(dtype: DType) -> None:
    g = Graph()
    x = g.input("x", ("n",))
    g.output("y", fa.iota(g, "n", dtype))
    g.output("z", fa.iota(g, x.shape[0] * 2, dtype))
    got = reference(g, {"x": np.ones(3, np.float32)})
    assert got["y"].dtype == dtype.np
    assert got["y"].astype(float).tolist() == [0, 1, 2]
    assert got["z"].astype(float).tolist() == [0, 1, 2, 3, 4, 5]


def test_refusals() -> None:
    g = Graph()
    with pytest.raises(ShapeMismatch, match=r"zeros: wanted dimensions from 0, got \(2, -1\)"):
        fa.zeros(g, (2, -1))
    with pytest.raises(GraphError, match="full: wanted a Graph, got int"):
        fa.full(3, (2,), 0)  # type: ignore[arg-type]
    with pytest.raises(DTypeMismatch, match=r"full: wanted an integer to fill u8 with, got 0\.5"):
        fa.full(g, (2,), 0.5, fa.u8)
    with pytest.raises(DTypeMismatch, match="full_like: wanted a number from -128 to 127 to fill i8 with, got 128"):
        fa.full_like(g.input("x", (2,), fa.i8), 128)
    with pytest.raises(GraphError, match="zeros_like: wanted a Tensor, got ndarray"):
        fa.zeros_like(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(DTypeMismatch, match="zeros: no array can hold f4"):
        fa.zeros(g, (2,), DType.F4)
    with pytest.raises(ShapeMismatch, match="iota: wanted a length from 0, got -1"):
        fa.iota(g, -1)
    with pytest.raises(GraphError, match=r"iota: wanted an integer as dimension, got 2\.5"):
        fa.iota(g, 2.5)  # type: ignore[arg-type]
