"""Building ops that may write over their operand: what they say of types, and what they refuse."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import BY_NAME, DType, Form, Graph, Symbolic, Tensor, from_text, to_text
from fuel_async.ir.inplace import InPlace
from fuel_async.ir.ops.inplace import IN_PLACE, INPLACE, WriteSlice, WriteSliceDoff, WriteSliceRotating

if TYPE_CHECKING:
    from collections.abc import Callable

F32, I64, U32 = DType.F32, DType.I64, DType.U32

ARGUMENTS: dict[str, tuple[Any, ...]] = {"affine": (2.0, 1.0), "powi": (3,), "clip": (0, 1)}
#: Methods in place whose functional form is no method of that name.
OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {"neg": lambda t: -t, "abs": abs}


@pytest.mark.parametrize("name", [name for name, _ in inspect.getmembers(InPlace) if name.endswith("_inplace")])
def test_a_method_in_place_builds_what_the_method_without_the_suffix_builds(name: str) -> None:
    g = Graph()
    t, stem = g.input("t", (2, 3)), name.removesuffix("_inplace")
    made = getattr(t, name)(*ARGUMENTS.get(stem, ()))
    plain = OPERATORS[stem](t) if stem in OPERATORS else getattr(t, stem)(*ARGUMENTS.get(stem, ()))
    node, other = g.node_at(made.index), g.node_at(plain.index)
    assert node.op is IN_PLACE[other.op.name]
    assert (node.args, node.attrs, node.type) == (other.args, other.attrs, other.type)


def test_all_of_them_have_a_method() -> None:
    g = Graph()
    t = g.input("t", (2, 3))
    methods = [name for name, _ in inspect.getmembers(InPlace) if name.endswith("_inplace")]
    for name in methods:
        getattr(t, name)(*ARGUMENTS.get(name.removesuffix("_inplace"), ()))
    t.gelu_inplace("tanh")
    assert {op.name for op in g.snapshot().ops} == {"input", *[op.name for op in IN_PLACE.values()]}
    assert len(IN_PLACE) == 24


def test_writes_give_the_type_of_what_they_write_into() -> None:
    g = Graph()
    dest, source = g.input("dest", (6, "n")), g.input("source", (2, "n"))
    offset, position = g.input("offset", (), I64), g.input("position", (), U32)
    made = [
        dest.write_slice(source, (4, 0)),
        dest.write_slice_at(source, offset),
        dest.write_slice_rotating(source, position),
        dest.zero_fill(),
    ]
    assert [t.type for t in made] == [dest.type] * 4
    assert [g.node_at(t.index).attrs for t in made[:3]] == [
        WriteSlice((4, 0)), WriteSliceDoff(0, (0, 0)), WriteSliceRotating(0, 6, (0, 0)),
    ]  # fmt: skip


def test_a_graph_knows_whether_anything_may_be_written_over() -> None:
    g = Graph()
    x = g.input("x", (3,))
    g.output("y", x.exp())
    assert not g.freeze().destructive
    dead = x.exp_inplace()
    assert not g.freeze().destructive  # nobody needs it
    g.output("z", dead)
    assert g.freeze().destructive
    assert g.freeze().bind({}).without_constants().destructive
    assert from_text(to_text(g)).freeze().destructive


def test_a_release_is_there_wherever_its_operand_is() -> None:
    g = Graph()
    x = g.input("x", (3,))
    used, unused = x.exp(), x.sin()
    g.output("y", used)
    marker, _ = used.release(), unused.release()
    assert (marker.shape, marker.dtype) == ((0,), F32)
    frozen = g.freeze()
    assert [op.name for op in frozen.ops] == ["input", "exp", "release"]
    assert frozen.args[2] == (1,)


def test_a_move_is_pinned() -> None:
    g = Graph()
    moved = g.input("x", (3,)).exp().move("cpu:0")
    g.output("y", moved)
    assert [str(device) for device in g.freeze().pins.values()] == ["cpu:0"]


def test_the_text_of_a_graph_has_them() -> None:
    g = Graph("writes")
    dest = g.input("dest", (6, 2)).exp_inplace()
    ring = dest.write_slice_rotating(g.input("s", (2, 1)), g.input("p", (), U32), axis=1, modulus=1)
    at = ring.write_slice_at(g.input("t", (2, 1)), g.input("o", (), I64), axis=0)
    g.output("y", at.write_slice(at[:1], (5, 0)).affine_inplace(2, 0.5))
    text = to_text(g)
    assert "write_slice_rotating %1 %2 %3 axis=1 modulus=1 starts=[0, 0]" in text
    assert from_text(text).freeze().digest == g.freeze().digest


# --- refusals ---


class Wrong(NamedTuple):
    op: str
    build: Callable[[Any], object]
    error: type[GraphError]
    text: str


def x(g: Any, *shape: int | str, dtype: DType = F32) -> Any:
    return g.input(f"x{len(g)}", shape, dtype)


FLOATING = ("exp", "log", "sqrt", "rsqrt", "recip", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "gelu_erf", "erf")

WRONG = [
    *[
        Wrong(
            f"{name}_inplace",
            lambda g, name=name: g.node(IN_PLACE[name], (x(g, 2, dtype=I64),)),  # type: ignore[misc]
            DTypeMismatch,
            f"{name}_inplace of i64[2]: wanted a floating dtype",
        )
        for name in FLOATING
    ],
    *[
        Wrong(op.name, lambda g, op=op: g.node(op, (x(g, 2),), ("?",)), GraphError, f"{op.name}")  # type: ignore[misc]
        for op in INPLACE
    ],
    Wrong("clamp_inplace", lambda g: x(g, 2).clip_inplace(2, 1), GraphError, "clamp_inplace of f32[2]: min 2"),
    Wrong("clamp_inplace", lambda g: x(g, 2).clip_inplace("a"), GraphError, "clamp_inplace: wanted a number"),
    Wrong("powi_inplace", lambda g: x(g, 2).powi_inplace(2**31), GraphError, "powi_inplace of f32[2]: exp 2147483648"),
    Wrong("powi_inplace", lambda g: x(g, 2).powi_inplace(0.5), GraphError, "powi_inplace: wanted an integer as exp"),
    Wrong("inplace_affine", lambda g: x(g, 2).affine_inplace(1e300, 0), GraphError, "inplace_affine of f32[2]: mul"),
    Wrong("inplace_affine", lambda g: x(g, 2).affine_inplace(1, None), GraphError, "inplace_affine: wanted a number"),
    Wrong(
        "write_slice",
        lambda g: x(g, 4, 2).write_slice(x(g, 2, 2), (3, 0)),
        ShapeMismatch,
        "write_slice of f32[4, 2], f32[2, 2]: wanted at most 4 places along axis 0, got 2 from 3 on",
    ),
    Wrong(
        "write_slice",
        lambda g: x(g, 4).write_slice(x(g, 2, 2), (0,)),
        ShapeMismatch,
        "write_slice of f32[4], f32[2, 2]: wanted a source of rank 1, got 2",
    ),
    Wrong(
        "write_slice",
        lambda g: x(g, 4).write_slice(x(g, 2, dtype=I64), (0,)),
        DTypeMismatch,
        "write_slice of f32[4], i64[2]: wanted two operands of one dtype",
    ),
    Wrong(
        "write_slice",
        lambda g: x(g, 4).write_slice(x(g, 2), (-1,)),
        ShapeMismatch,
        "write_slice of f32[4], f32[2]: wanted a first place from 0 for each of 1 axes, got (-1,)",
    ),
    Wrong(
        "write_slice",
        lambda g: x(g, 4).write_slice(x(g, 2), 1),
        ShapeMismatch,
        "write_slice: wanted a first place for each axis, got 1",
    ),
    Wrong(
        "write_slice_doff",
        lambda g: x(g, 4).write_slice_at(x(g, 5), x(g, dtype=I64)),
        ShapeMismatch,
        "write_slice_doff of f32[4], f32[5], i64[]: wanted at most 4 places",
    ),
    Wrong(
        "write_slice_doff",
        lambda g: x(g, 4).write_slice_at(x(g, 2), x(g, dtype=U32)),
        DTypeMismatch,
        "write_slice_doff of f32[4], f32[2], u32[]: wanted a place of dtype i64 and no dimensions",
    ),
    Wrong(
        "write_slice_doff",
        lambda g: x(g, 4).write_slice_at(x(g, 2), x(g, dtype=I64), axis=1),
        ShapeMismatch,
        "write_slice_doff of f32[4]: axis 1 is out of range",
    ),
    Wrong(
        "write_slice_doff",
        lambda g: g.node(BY_NAME["write_slice_doff"], (x(g, 4), x(g, 2), x(g, dtype=I64)), WriteSliceDoff(0, (1,))),
        GraphError,
        "write_slice_doff of f32[4], f32[2], i64[]: the place along axis 0 is operand 2: wanted 0",
    ),
    Wrong(
        "write_slice_doff",
        lambda g: g.node(BY_NAME["write_slice_doff"], (x(g, 4), x(g, 2), x(g, dtype=I64)), WriteSliceDoff(1, (0,))),
        ShapeMismatch,
        "write_slice_doff of f32[4], f32[2], i64[]: (1,) are no sorted axes",
    ),
    Wrong(
        "write_slice_rotating",
        lambda g: x(g, 4).write_slice_rotating(x(g, 2), x(g, dtype=U32), modulus=5),
        ShapeMismatch,
        "write_slice_rotating of f32[4], f32[2], u32[]: wanted a modulus from 1 to 4, got 5",
    ),
    Wrong(
        "write_slice_rotating",
        lambda g: x(g, 4).write_slice_rotating(x(g, 3), x(g, dtype=U32), modulus=2),
        ShapeMismatch,
        "write_slice_rotating of f32[4], f32[3], u32[]: wanted at most 2 places",
    ),
    Wrong(
        "write_slice_rotating",
        lambda g: x(g, "n").write_slice_rotating(x(g, 3), x(g, dtype=U32)),
        GraphError,
        "write_slice_rotating of f32[n]: wanted a modulus, since axis 0 has the symbolic size n",
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.op)
def test_a_wrong_call_is_refused(wrong: Wrong) -> None:
    g = Graph()
    with pytest.raises(GraphError) as caught:
        wrong.build(g)
    assert type(caught.value) is wrong.error
    assert caught.value.op == wrong.op
    assert str(caught.value).startswith(wrong.text)
    assert all(op.form is Form.LEAF for op in g.snapshot().ops), "something was built"


def test_every_op_refuses_something() -> None:
    assert {wrong.op for wrong in WRONG} == {op.name for op in INPLACE}


def test_a_slice_that_leaves_a_symbolic_value_is_refused_when_the_symbol_is_bound() -> None:
    g = Graph()
    dest = g.input("dest", ("n",))
    g.output("y", dest.write_slice(g.input("source", (2,)), (3,)))
    assert isinstance(dest.shape[0], Symbolic)
    assert g.freeze().bind({"n": 5}).symbols == ()
    with pytest.raises(ShapeMismatch, match="wanted at most 4 places along axis 0, got 2 from 3 on"):
        g.freeze().bind({"n": 4})
