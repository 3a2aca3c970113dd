"""What no op takes: each wrong call is refused where it is made, by an error that names op, operands and mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import BY_NAME, OPS, DType, Form, Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F32, I32, U8, U32 = DType.F32, DType.I32, DType.U8, DType.U32


class Wrong(NamedTuple):
    """A call, and what its error says besides: its type and the beginning of its text."""

    op: str
    build: Callable[[Graph], object]
    error: type[GraphError]
    text: str


#: What is called wrongly on purpose is not for the type checker.
fuel: Any = fa


def x(g: Graph, *shape: int, dtype: DType = F32) -> Any:
    return g.input(f"x{len(g)}", shape, dtype)


def node(g: Any, op: str, *operands: Any, attrs: tuple[Any, ...] = (), shape: Any = None) -> object:
    """A node as graph text makes it, with the fields of its parameters."""
    kind: Any = BY_NAME[op].attrs
    return g.node(BY_NAME[op], operands, None if kind is None else kind(*attrs), shape)


PAIRS = ("add", "sub", "mul", "div", "pow", "rem", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
FLOATING = (
    "sqrt", "rsqrt", "recip", "exp", "log", "sin", "cos", "tanh", "sigmoid", "gelu", "gelu_erf", "silu", "erf",
)  # fmt: skip
ANY_NUMBERS = ("neg", "abs", "sqr", "relu", "step", "floor", "ceil", "round", "sign")
FOLDS = ("sum", "mean", "max", "min")


def each(ops: Iterable[str], build: Callable[[Any, str], object], error: type[GraphError], text: str) -> list[Wrong]:
    """The same mistake with several ops; the text goes on after the op's name."""
    return [Wrong(op, _with(build, op), error, f"{op}{text}") for op in ops]


def _with(build: Callable[[Any, str], object], op: str) -> Callable[[Graph], object]:
    return lambda g: build(g, op)


def numbers(g: Any, op: str) -> object:
    return node(g, op, x(g, 2, dtype=I32))


def pair(g: Any, op: str) -> object:
    return node(g, op, x(g, 2), x(g, 3))


def mixed_pair(g: Any, op: str) -> object:
    return node(g, op, x(g, 2), x(g, 2, dtype=I32))


def two_for_one(g: Any, op: str) -> object:
    return node(g, op, x(g, 2), x(g, 2))


def folded(axis: object, *shape: int) -> Callable[[Any, str], object]:
    return lambda g, op: getattr(x(g, *shape), op)(axis)


def folded_by_node(g: Any, op: str) -> object:
    return node(g, op, x(g, 2), attrs=((1,), False))


WRONG: list[Wrong] = [
    *each(PAIRS, pair, ShapeMismatch, " of f32[2], f32[3]: shapes do not broadcast"),
    *each(PAIRS, mixed_pair, DTypeMismatch, " of f32[2], i32[2]: "),
    *each(FLOATING, numbers, DTypeMismatch, " of i32[2]: wanted a floating dtype"),
    *each((*FLOATING, *ANY_NUMBERS), two_for_one, GraphError, " of f32[2], f32[2]: takes 1 operands, got 2"),
    *each(FOLDS, folded(2, 2, 3), ShapeMismatch, " of f32[2, 3]: axis 2 is out of range"),
    *each(FOLDS, folded((0, -2), 2, 3), ShapeMismatch, " of f32[2, 3]: axes (0, -2) name one axis twice"),
    *each(FOLDS, folded("0", 2), GraphError, ": wanted an integer as axis, got '0'"),
    *each(FOLDS, folded_by_node, ShapeMismatch, " of f32[2]: (1,) are no sorted axes"),
    *each(("max", "min"), folded(None, 0), ShapeMismatch, " of f32[0]: "),
    Wrong("input", lambda g: x(g, 2, -1), ShapeMismatch, "input: a dimension of 'x0' is negative: (2, -1)"),
    Wrong("input", lambda g: fuel.Graph.input(g, "x", 5), GraphError, "input: wanted a sequence of dimensions, got 5"),
    Wrong("input", lambda g: g.input("x", ("a b",)), GraphError, "input: wanted an identifier to name a dimension"),
    Wrong(
        "input",
        lambda g: fuel.Graph.input(g, "x", (1.5,)),
        GraphError,
        "input: wanted an integer as dimension, got 1.5",
    ),
    Wrong("input", lambda g: g.input("x", (), DType.F4), DTypeMismatch, "input: no array can hold f4"),
    Wrong("constant", lambda g: g.constant([1], DType.F4), DTypeMismatch, "constant: no array can hold f4"),
    Wrong("constant", lambda g: g.constant([[1], [1, 2]]), GraphError, "constant: numpy makes no array of it"),
    Wrong("add", lambda g: x(g, 2) + "1", GraphError, "add of f32[2]: wanted a Tensor or a number, got str"),
    Wrong("add", lambda g: x(g, 2, dtype=U8) + 300, DTypeMismatch, "add of u8[2]: 300 is beyond its range"),
    Wrong("mul", lambda g: x(g, 2, dtype=U8) * 0.5, DTypeMismatch, "mul of u8[2]: 0.5 is no integer"),
    Wrong("gelu", lambda g: x(g, 2).gelu("erf"), GraphError, "gelu of f32[2]: wanted approximate"),
    Wrong(
        "where", lambda g: fuel.where(x(g, 2), x(g, 2), 1), DTypeMismatch, "where of f32[2], f32[2], f32[]: wanted a"
    ),
    Wrong(
        "where",
        lambda g: fuel.where(x(g, 2, dtype=U8), x(g, 3), 1),
        ShapeMismatch,
        "where of u8[2], f32[3], f32[]: shapes",
    ),
    Wrong("clamp", lambda g: x(g, 2).clip(2, 1), GraphError, "clamp of f32[2]: min 2.0 is not at most max 1.0"),
    Wrong("clamp", lambda g: x(g, 2).clip(float("nan"), 1), GraphError, "clamp of f32[2]: min nan is not"),
    Wrong("clamp", lambda g: node(g, "clamp", x(g, 2), attrs=("a", 1)), GraphError, "clamp of f32[2]: cannot take"),
    Wrong("cast", lambda g: x(g, 2).astype("f32"), DTypeMismatch, "cast: wanted a DType such as DType.F32, got 'f32'"),
    Wrong("cast", lambda g: x(g, 2).astype(DType.F4), DTypeMismatch, "cast: no array can hold f4"),
    Wrong("cast", lambda g: node(g, "cast", x(g, 2), attrs=(16,)), DTypeMismatch, "cast of f32[2]: wanted the code of"),
    Wrong("cast", lambda g: node(g, "cast", x(g, 2), attrs=(-1,)), DTypeMismatch, "cast of f32[2]: wanted the code of"),
    Wrong("softmax", lambda g: node(g, "softmax", x(g)), ShapeMismatch, "softmax of f32[]: wanted at least one"),
    Wrong("softmax", lambda g: x(g, 2).softmax(1), ShapeMismatch, "softmax of f32[2]: axis 1 is out of range for 1"),
    Wrong("softmax", lambda g: x(g, 2, dtype=I32).softmax(), DTypeMismatch, "softmax of i32[2]: wanted a floating"),
    Wrong("layer_norm", lambda g: x(g).layer_norm(), ShapeMismatch, "layer_norm of f32[]: wanted at least one"),
    Wrong(
        "layer_norm", lambda g: x(g, 2, dtype=U8).layer_norm(), DTypeMismatch, "layer_norm of u8[2]: wanted a floating"
    ),
    Wrong(
        "matmul", lambda g: x(g, 2, 3) @ x(g, 2, 3), ShapeMismatch, "matmul of f32[2, 3], f32[2, 3]: inner dimensions"
    ),
    Wrong("matmul", lambda g: x(g) @ x(g, 2), ShapeMismatch, "matmul of f32[], f32[2]: wanted at least one dimension"),
    Wrong(
        "matmul", lambda g: node(g, "matmul", x(g, 2), x(g, 2)), ShapeMismatch, "matmul of f32[2], f32[2]: wanted two"
    ),
    Wrong("matmul", lambda g: x(g, 2, 3) @ np.ones((3, 2)), GraphError, "matmul: wanted a Tensor, got ndarray"),
    Wrong(
        "permute", lambda g: x(g, 2, 3).permute_dims((0, 0)), ShapeMismatch, "permute of f32[2, 3]: axes (0, 0) are no"
    ),
    Wrong("permute", lambda g: x(g, 2, 3).permute_dims((0,)), ShapeMismatch, "permute of f32[2, 3]: axes (0,) are no"),
    Wrong("permute", lambda g: x(g, 2).permute_dims(0), GraphError, "permute of f32[2]: wanted an axis for each"),
    Wrong(
        "permute",
        lambda g: node(g, "permute", x(g, 2), attrs=(("a",),)),
        ShapeMismatch,
        "permute of f32[2]: axes ('a',)",
    ),
    Wrong("slice", lambda g: x(g, 4)[::0], ShapeMismatch, "slice of f32[4]: the step is 0"),
    Wrong(
        "slice",
        lambda g: node(g, "slice", x(g, 4), attrs=((0,), (1,)), shape=(5,)),
        ShapeMismatch,
        "slice of f32[4]: 5 entries from 0 by 1 are not inside axis 0 of size 4",
    ),
    Wrong(
        "slice",
        lambda g: node(g, "slice", x(g, 4), attrs=((0,), (1,)), shape=(-1,)),
        ShapeMismatch,
        "slice of f32[4]: (-1,) has a negative dimension",
    ),
    Wrong("broadcast", lambda g: x(g, 4).broadcast_to((5,)), ShapeMismatch, "broadcast of f32[4], (5,): shapes do not"),
    Wrong(
        "broadcast", lambda g: x(g, 1).broadcast_to((-5,)), ShapeMismatch, "broadcast of f32[1]: (-5,) has a negative"
    ),
    Wrong(
        "expand_dims", lambda g: x(g, 4).expand_dims(2), ShapeMismatch, "expand_dims of f32[4]: axis 2 is out of range"
    ),
    Wrong("squeeze", lambda g: x(g, 4).squeeze(0), ShapeMismatch, "squeeze of f32[4]: axis 0 has size 4, not 1"),
    Wrong(
        "squeeze", lambda g: node(g, "squeeze", x(g, 1), attrs=((1,),)), ShapeMismatch, "squeeze of f32[1]: (1,) are"
    ),
    Wrong("flip", lambda g: x(g, 4).flip(1), ShapeMismatch, "flip of f32[4]: axis 1 is out of range for 1 dimensions"),
    Wrong("reshape", lambda g: x(g, 6).reshape((4, 2)), ShapeMismatch, "reshape of f32[6]: (4, 2) has another number"),
    Wrong("reshape", lambda g: x(g, 6).reshape((-2, 3)), ShapeMismatch, "reshape of f32[6]: (-2, 3) has a negative"),
    Wrong("reshape", lambda g: x(g, 6).reshape("6"), GraphError, "reshape of f32[6]: wanted a sequence of dimensions"),
    Wrong(
        "contiguize",
        lambda g: node(g, "contiguize", x(g, 6), x(g, 6)),
        GraphError,
        "contiguize of f32[6], f32[6]: takes 1",
    ),
    Wrong(
        "copy",
        lambda g: node(g, "copy", x(g, 6), x(g, 6)),
        GraphError,
        "copy of f32[6], f32[6]: takes 1 operands, got 2",
    ),
    Wrong(
        "concat",
        lambda g: fuel.concat([x(g, 2), x(g, 2, 1)]),
        ShapeMismatch,
        "concat of f32[2], f32[2, 1]: shapes differ",
    ),
    Wrong(
        "concat", lambda g: fuel.concat([x(g, 2)], axis=1), ShapeMismatch, "concat of f32[2]: axis 1 is out of range"
    ),
    Wrong("concat", lambda g: fuel.concat(x(g, 2).shape), GraphError, "concat: wanted a Tensor, got int"),
    Wrong("concat", lambda g: fuel.concat(3), GraphError, "concat: wanted several Tensors, got int"),
    Wrong("concat", lambda g: node(g, "concat", x(g, 2), attrs=(1,)), ShapeMismatch, "concat of f32[2]: (1,) are no"),
    Wrong(
        "index_select",
        lambda g: x(g, 4).take(x(g, 1, 1, dtype=U32)),
        DTypeMismatch,
        "index_select of f32[4], u32[1, 1]: wanted an index of dtype u32 and one dimension",
    ),
    Wrong(
        "index_select",
        lambda g: x(g, 4).take(x(g, 1, dtype=I32)),
        DTypeMismatch,
        "index_select of f32[4], i32[1]: wanted an index of dtype u32",
    ),
    Wrong(
        "index_select",
        lambda g: node(g, "index_select", x(g, 4), x(g, 1, dtype=U32), attrs=(1,)),
        ShapeMismatch,
        "index_select of f32[4], u32[1]: (1,) are no sorted axes of 1",
    ),
    Wrong(
        "gather",
        lambda g: fuel.gather(x(g, 3, 3), x(g, 3, dtype=U32)),
        ShapeMismatch,
        "gather of f32[3, 3], u32[3]: wanted",
    ),
    Wrong(
        "gather",
        lambda g: fuel.gather(x(g, 3), x(g, 3, dtype=I32)),
        DTypeMismatch,
        "gather of f32[3], i32[3]: wanted an index",
    ),
    Wrong(
        "gather",
        lambda g: fuel.gather(x(g, 3), x(g, 3, dtype=U32), axis=1),
        ShapeMismatch,
        "gather of f32[3], u32[3]: axis 1",
    ),
    Wrong(
        "gather",
        lambda g: fuel.gather(x(g, 3, 3), x(g, 3, 4, dtype=U32)),
        ShapeMismatch,
        "gather of f32[3, 3], u32[3, 4]: wanted at most 3 entries of the index along axis 1, got 4",
    ),
    Wrong(
        "gather",
        lambda g: node(g, "gather", x(g, 3), x(g, 3, dtype=U32), attrs=(-1,)),
        ShapeMismatch,
        "gather of f32[3], u32[3]: (-1,) are no sorted axes",
    ),
    Wrong("gather", lambda g: fuel.gather(x(g, 3), np.zeros(1)), GraphError, "gather: wanted a Tensor, got ndarray"),
    Wrong(
        "index_add",
        lambda g: fuel.index_add(x(g, 3, 3), x(g, 2, dtype=U32), x(g, 3, 3)),
        ShapeMismatch,
        "index_add of f32[3, 3], u32[2], f32[3, 3]: wanted a source of shape (2, 3), got (3, 3)",
    ),
    Wrong(
        "index_add",
        lambda g: fuel.index_add(x(g, 3), x(g, 2, 1, dtype=U32), x(g, 2)),
        ShapeMismatch,
        "index_add of f32[3], u32[2, 1], f32[2]: wanted an index of rank 1, got 2",
    ),
    Wrong(
        "index_add",
        lambda g: fuel.index_add(x(g, 3), x(g, 2, dtype=U32), x(g, 2, dtype=I32)),
        DTypeMismatch,
        "index_add of f32[3], i32[2]: f32 and i32 have no common dtype",
    ),
    Wrong(
        "index_add",
        lambda g: node(g, "index_add", x(g, 3), x(g, 3, dtype=U32), x(g, 3, dtype=I32), attrs=(0,)),
        DTypeMismatch,
        "index_add of f32[3], u32[3], i32[3]: wanted base and source of one dtype",
    ),
    Wrong(
        "scatter_add",
        lambda g: fuel.scatter_add(x(g, 3, 3), x(g, 2, 2, dtype=U32), x(g, 2, 3)),
        ShapeMismatch,
        "scatter_add of f32[3, 3], u32[2, 2], f32[2, 3]: wanted a source of shape (2, 2), got (2, 3)",
    ),
    Wrong(
        "scatter_add",
        lambda g: fuel.scatter_add(x(g, 3, 3), x(g, 2, 4, dtype=U32), x(g, 2, 4)),
        ShapeMismatch,
        "scatter_add of f32[3, 3], u32[2, 4], f32[2, 4]: wanted at most 3 entries of the index along axis 1",
    ),
    Wrong("roll", lambda g: fuel.roll(np.ones(3), 1), GraphError, "roll: wanted a Tensor, got ndarray"),
    Wrong(
        "index_add", lambda g: fuel.index_add(np.ones(3), 1, 1), GraphError, "index_add: wanted a Tensor, got ndarray"
    ),
    Wrong("roll", lambda g: fuel.roll(x(g, 3), 1, axis=1), ShapeMismatch, "roll of f32[3]: axis 1 is out of range"),
    Wrong("roll", lambda g: fuel.roll(x(g, 3), 0.5, axis=0), GraphError, "roll: wanted an integer or several as shift"),
    Wrong(
        "roll",
        lambda g: fuel.roll(x(g, 3, 3), (1, 2, 3), axis=(0, 1)),
        GraphError,
        "roll of f32[3, 3]: wanted one shift",
    ),
    Wrong(
        "roll", lambda g: node(g, "roll", x(g, 3), attrs=(1, 1)), ShapeMismatch, "roll of f32[3]: (1,) are no sorted"
    ),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 3), -1), ShapeMismatch, "pad of f32[3]: wanted a number from 0, a pair of them"
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3, 3), [(1, 1)]),
        ShapeMismatch,
        "pad of f32[3, 3]: wanted a number from 0, a pair",
    ),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 3, 3), [(1, 1), 1]), ShapeMismatch, "pad of f32[3, 3]: wanted a number from 0"
    ),
    Wrong("pad", lambda g: fuel.pad(x(g, 3), "1"), ShapeMismatch, "pad of f32[3]: wanted a number from 0, a pair"),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 3), 1, "wrap"), GraphError, "pad of f32[3]: wanted a mode of constant, reflect"
    ),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 3), 1, "reflect", 1), GraphError, "pad of f32[3]: wanted no number to fill with"
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3), 1, fill="0"),
        GraphError,
        "pad of f32[3]: wanted a number to fill with, got str",
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3, dtype=U8), 1, fill=256),
        DTypeMismatch,
        "pad of u8[3]: wanted a number from 0 to",
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3, dtype=U8), 1, fill=0.5),
        DTypeMismatch,
        "pad of u8[3]: wanted an integer to fill",
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3, dtype=DType.F16), 1, fill=1e9),
        DTypeMismatch,
        "pad of f16[3]: wanted a number to",
    ),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 3), 1, fill=10**400), DTypeMismatch, "pad of f32[3]: wanted a number to fill f32"
    ),
    Wrong(
        "pad",
        lambda g: fuel.pad(x(g, 3), 3, "reflect"),
        ShapeMismatch,
        "pad of f32[3]: wanted at least 4 elements along",
    ),
    Wrong(
        "pad", lambda g: fuel.pad(x(g, 0), 1, "replicate"), ShapeMismatch, "pad of f32[0]: wanted at least 1 elements"
    ),
    Wrong(
        "pad", lambda g: node(g, "pad", x(g, 3), attrs=((1,), (1,), 3, 0.0)), GraphError, "pad of f32[3]: wanted a mode"
    ),
    Wrong(
        "pad",
        lambda g: node(g, "pad", x(g, 3), attrs=((1,), (), 0, 0.0)),
        ShapeMismatch,
        "pad of f32[3]: wanted a number",
    ),
    Wrong(
        "pad_backward",
        lambda g: fuel.pad_backward(x(g, 3), 2),
        ShapeMismatch,
        "pad_backward of f32[3]: (-1,) has a negative",
    ),
    Wrong(
        "pad_backward",
        lambda g: fuel.pad_backward(x(g, 3, dtype=U8), 1),
        DTypeMismatch,
        "pad_backward of u8[3]: wanted a",
    ),
    Wrong(
        "pad_backward",
        lambda g: fuel.pad_backward(x(g, 3), 1, "reflect"),
        ShapeMismatch,
        "pad_backward of f32[3]: wanted at",
    ),
    Wrong(
        "pad_backward",
        lambda g: node(g, "pad_backward", x(g, 3), attrs=((1,), (1,), -1)),
        GraphError,
        "pad_backward of f32[3]: wanted a mode from 0 to 2, got -1",
    ),
    Wrong("triu", lambda g: fuel.triu(x(g, 3)), ShapeMismatch, "triu of f32[3]: wanted at least two dimensions"),
    Wrong("triu", lambda g: fuel.triu(x(g, 3, 3), k=0.5), GraphError, "triu: wanted an integer as k, got 0.5"),
    Wrong("tril", lambda g: fuel.tril(x(g)), ShapeMismatch, "tril of f32[]: wanted at least two dimensions"),
    Wrong(
        "masked_fill",
        lambda g: fuel.masked_fill(x(g, 3), x(g, 3), 0),
        DTypeMismatch,
        "masked_fill of f32[3], f32[3]: wanted a uint8 (or bool) mask",
    ),
    Wrong(
        "masked_fill",
        lambda g: fuel.masked_fill(x(g, 3), x(g, 2, dtype=U8), 0),
        ShapeMismatch,
        "masked_fill of f32[3], u8[2]: shapes do not broadcast",
    ),
    Wrong(
        "masked_fill",
        lambda g: fuel.masked_fill(x(g, 3, dtype=U32), x(g, 3, dtype=U8), -1),
        DTypeMismatch,
        "masked_fill of u32[3], u8[3]: wanted a number from 0 to 4294967295 to fill u32 with, got -1",
    ),
    Wrong(
        "masked_fill",
        lambda g: node(g, "masked_fill", x(g, 3), x(g, 3, dtype=U8), attrs=("a",)),
        GraphError,
        "masked_fill of f32[3], u8[3]: wanted a number to fill with, got str",
    ),
]


def check(wrong: Wrong) -> None:
    """The call is refused as said, and nothing is built."""
    g = Graph()
    with pytest.raises(GraphError) as caught:
        wrong.build(g)
    assert type(caught.value) is wrong.error
    assert caught.value.op == wrong.op
    assert str(caught.value).startswith(wrong.text)
    assert all(op.form is Form.LEAF for op in g.snapshot().ops), "something was built"


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.op)
def test_a_wrong_call_is_refused(wrong: Wrong) -> None:
    check(wrong)


#: Ops whose refusals are in `test_slots`, and in `test_refusals_of_rows`.
OF_BUNDLES = {"selective_scan", "view_slot", "view_owned"}
ELSEWHERE = OF_BUNDLES | {
    "affine", "powi", "powi_backward", "argmax", "argmin", "reduce_sum_to", "reduce_max_to", "reduce_max_to_backward",
    "cumsum", "log_softmax", "rms_norm", "softmax_backward", "log_softmax_backward", "layer_norm_backward",
    "rms_norm_backward", "fused_softmax_cross_entropy", "fused_linear", "rope",
}  # fmt: skip


def test_every_op_refuses_something() -> None:
    """those that write over an operand have tests of their own"""
    assert {wrong.op for wrong in WRONG} | ELSEWHERE == {op.name for op in OPS if op.destroys is None}


def test_parameters_that_cannot_be_hashed_are_refused() -> None:
    g = Graph()
    with pytest.raises(GraphError, match=r"sum of f32\[2\]: wanted hashable parameters, got Reduce\(axes=\[0\]"):
        node(g, "sum", x(g, 2), attrs=([0], False))
