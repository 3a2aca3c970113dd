"""Roll, pad, triangles and masks as users build them: shapes, dtypes, parameters, text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import ShapeMismatch
from fuel_async.ir import Graph, from_text, symbol, to_text
from fuel_async.ir.ops.borders import PAD_MODES, Pad, Roll
from fuel_async.ir.ops.masks import MaskedFill, Triangular
from fuel_async.testing import reference

if TYPE_CHECKING:
    from fuel_async.ir import Tensor

N = symbol("n")


def attrs_of(tensor: Tensor) -> Any:
    return tensor.graph.node_at(tensor.index).attrs


def ops_of(graph: Graph) -> list[str]:
    return [op.name for op in graph.snapshot().ops]


def test_a_roll_keeps_the_type_and_takes_any_shift() -> None:
    g = Graph()
    x = g.input("x", ("n", 3), fa.bf16)
    assert str(fa.roll(x, -7, axis=-1).type) == "bf16[n, 3]"
    assert attrs_of(fa.roll(x, -7, axis=-1)) == Roll(1, -7)


def test_a_roll_of_several_axes_is_one_of_each() -> None:
    g = Graph()
    x = g.input("x", (2, 3))
    both, one_shift = fa.roll(x, (1, 2), axis=(0, 1)), fa.roll(x, 1, axis=(0, 1))
    flat = fa.roll(x, 1)
    for name, tensor in (("both", both), ("one", one_shift), ("flat", flat)):
        g.output(name, tensor)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = reference(g, {"x": value})
    assert got["both"].tolist() == np.roll(value, (1, 2), (0, 1)).tolist()
    assert got["one"].tolist() == np.roll(value, 1, (0, 1)).tolist()
    assert got["flat"].tolist() == np.roll(value, 1).tolist()


def test_a_roll_without_an_axis_takes_scalars_and_symbols() -> None:
    g = Graph()
    assert fa.roll(g.input("x", ()), 3).shape == ()
    assert fa.roll(g.input("y", ("n", 2)), 3).shape == (N, 2)
    assert ops_of(Graph()) == []


@pytest.mark.parametrize(
    ("widths", "befores", "afters"),
    [
        (1, (1, 1), (1, 1)),
        ((1, 2), (1, 1), (2, 2)),
        (((1, 2), (0, 3)), (1, 0), (2, 3)),
        ([[1, 2], [0, 3]], (1, 0), (2, 3)),
        (np.int64(2), (2, 2), (2, 2)),
    ],
)
def test_widths_are_written_as_numpy_writes_them(widths: Any, befores: Any, afters: Any) -> None:
    g = Graph()
    padded = fa.pad(g.input("x", ("n", 3)), widths)
    assert attrs_of(padded) == Pad(befores, afters, 0, 0.0)
    assert padded.shape == (N + (befores[0] + afters[0]), 3 + befores[1] + afters[1])


def test_a_pad_fills_with_a_number_of_the_dtype() -> None:
    g = Graph()
    x, y = g.input("x", (2,)), g.input("y", (2,), fa.u8)
    assert repr(attrs_of(fa.pad(x, 1, fill=1)).value) == "1.0"
    assert repr(attrs_of(fa.pad(x, 1, fill=True)).value) == "1.0"
    assert repr(attrs_of(fa.pad(y, 1, fill=True)).value) == "1"
    assert repr(attrs_of(fa.pad(x, 1, fill=float("-inf"))).value) == "-inf"


@pytest.mark.parametrize("mode", PAD_MODES)
def test_a_gradient_has_the_shape_of_the_operand(mode: Any) -> None:
    g = Graph()
    x = g.input("x", ("n", 4), fa.f16)
    padded = fa.pad(x, ((1, 0), (2, 1)), mode)
    back = fa.pad_backward(padded, ((1, 0), (2, 1)), mode)
    assert back.type is x.type
    assert attrs_of(back).mode == PAD_MODES.index(mode)


@pytest.mark.parametrize(("mode", "least"), [("reflect", 3), ("replicate", 1)])
def test_symbolic_sizes_are_checked_when_they_are_bound(mode: Any, least: int) -> None:
    g = Graph()
    x = g.input("x", ("n",))
    g.output("y", fa.pad(x, (2, 1), mode))
    g.output("z", fa.pad_backward(g.input("u", (N + 3,)), (2, 1), mode))
    frozen = g.freeze()
    assert frozen.bind({"n": least}).types[frozen.outputs["y"]].shape == (least + 3,)
    with pytest.raises(ShapeMismatch, match=f"wanted at least {least} elements along axis 0 to {mode} 2 before and 1"):
        frozen.bind({"n": least - 1})


def test_triangles_and_masks() -> None:
    g = Graph()
    x, mask = g.input("x", ("n", 2, 3)), g.input("mask", (3,), fa.u8)
    assert fa.triu(x).type is x.type
    assert attrs_of(fa.tril(x, k=-2)) == Triangular(-2)
    assert str(fa.masked_fill(x, mask, -1).type) == "f32[n, 2, 3]"
    assert str(fa.masked_fill(mask, x > 0, 7).type) == "u8[n, 2, 3]"
    assert attrs_of(fa.masked_fill(x, x > 0, -1)) == MaskedFill(-1.0)


@pytest.mark.parametrize("number", [-0.0, float("nan"), float("inf"), 1e-7])
def test_numbers_survive_the_text(number: float) -> None:
    g = Graph()
    x = g.input("x", (2, 2))
    g.output("p", fa.pad(x, 1, fill=number))
    g.output("m", fa.masked_fill(x, x > 0, number))
    back = from_text(to_text(g)).snapshot()
    assert [repr(attrs) for attrs in back.attrs] == [repr(attrs) for attrs in g.snapshot().attrs]


def test_integers_survive_the_text() -> None:
    g = Graph()
    x = g.input("x", (2,), fa.i64)
    g.output("m", fa.masked_fill(x, g.input("mask", (2,), fa.u8), -(2**63)))
    assert f"value={-(2**63)} : i64[2]" in to_text(g)
    assert to_text(from_text(to_text(g))) == to_text(g)


def test_a_node_remembers_the_line_that_built_it() -> None:
    g = Graph()
    g.output("y", fa.triu(g.input("x", (2, 2))))
    frozen = g.freeze()
    assert "test_borders.py" in str(frozen.line(frozen.outputs["y"]))
