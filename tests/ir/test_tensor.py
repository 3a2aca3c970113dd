"""Tensor: operators, promotion, weak numbers, comparisons, reductions, and what a tensor refuses."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import DType, Graph, Tensor, symbol

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
}
COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.snapshot().ops]


def shown(tensor: Tensor) -> str:
    """How the node is built: `sub(%1, %0)`."""
    columns = tensor.graph.snapshot()
    operands = ", ".join(f"%{arg}" for arg in columns.args[tensor.index])
    return f"{columns.ops[tensor.index].name}({operands})"


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_take_tensors_and_numbers_on_either_side(name: str) -> None:
    graph = Graph()
    x, y = graph.input("x", (2, 3)), graph.input("y", (3,))
    combine = OPERATORS[name]
    assert shown(combine(x, y)) == f"{name}(%0, %1)"
    right = combine(x, 2)
    assert shown(right) == f"{name}(%0, %3)"
    assert shown(combine(2, x)) == f"{name}(%3, %0)"
    assert str(right.type) == "f32[2, 3]"


def test_signs() -> None:
    x = Graph().input("x", (2,))
    assert shown(-x) == "neg(%0)"
    assert shown(abs(x)) == "abs(%0)"
    assert +x is x


@pytest.mark.parametrize(
    "call",
    [
        *(["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil", "round", "sign"]),
        *(["relu", "sigmoid", "silu"]),
    ],
)
def test_elementwise_methods_keep_the_type(call: str) -> None:
    x = Graph().input("x", ("n", 2), DType.BF16)
    made = getattr(x, call)()
    assert shown(made) == f"{call}(%0)"
    assert made.type is x.type


def test_methods_with_another_name_than_their_op() -> None:
    x = Graph().input("x", (2,))
    assert [shown(made) for made in (x.reciprocal(), x.square(), x.gelu(), x.gelu("tanh"))] == [
        "recip(%0)",
        "sqr(%0)",
        "gelu_erf(%0)",
        "gelu(%0)",
    ]


# --- dtypes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (DType.F32, DType.F64, DType.F64),
        (DType.F16, DType.F32, DType.F32),
        (DType.BF16, DType.F32, DType.F32),
        (DType.U8, DType.I8, DType.I16),
        (DType.U32, DType.I32, DType.I64),
        (DType.I16, DType.I64, DType.I64),
    ],
)
def test_mixed_dtypes_are_cast_by_nodes(left: DType, right: DType, common: DType) -> None:
    graph = Graph()
    x, y = graph.input("x", (2,), left), graph.input("y", (2,), right)
    for made in (x + y, y + x, x.broadcast_to((2, 2)) - y):
        assert made.dtype is common
    casts = names(graph).count("cast")
    assert casts == 3 * sum(dtype is not common for dtype in (left, right))
    assert (x == y).dtype is DType.U8


@pytest.mark.parametrize(
    ("left", "right"),
    [(DType.F32, DType.I32), (DType.F16, DType.BF16), (DType.U8, DType.F64), (DType.F8E4M3, DType.F32)],
)
def test_dtypes_without_a_common_one_are_refused(left: DType, right: DType) -> None:
    graph = Graph()
    x, y = graph.input("x", (2,), left), graph.input("y", (3, 2), right)
    with pytest.raises(DTypeMismatch, match="no common dtype") as caught:
        x + y
    assert f"add of {left}[2], {right}[3, 2]" in str(caught.value)
    assert len(graph) == 2


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F64, DType.I32, DType.U8])
def test_numbers_take_the_tensors_dtype(dtype: DType) -> None:
    graph = Graph()
    x = graph.input("x", (2,), dtype)
    for number in (2, True, *([] if dtype.is_int else [0.5])):
        assert (x + number).dtype is dtype
        assert (number * x).dtype is dtype
    assert "cast" not in names(graph)


@pytest.mark.parametrize(
    "call",
    [
        *(lambda x, m=m: getattr(x, m)() for m in ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh")),
        *(lambda x, m=m: getattr(x, m)() for m in ("sigmoid", "silu", "gelu", "erf", "mean", "softmax", "layer_norm")),
        lambda x: x / x,
        lambda x: x / 2,
        lambda x: 1 / x,
    ],
)
def test_ops_whose_result_is_no_integer_refuse_integers(call: Callable[[Tensor], Tensor]) -> None:
    x = Graph().input("x", (2,), DType.I32)
    with pytest.raises(DTypeMismatch, match=r"of i32\[.*: wanted a floating dtype"):
        call(x)


def test_other_ops_take_integers() -> None:
    x = Graph().input("x", (2,), DType.I32)
    for made in (
        x + x,
        x * 3,
        -x,
        abs(x),
        x.square(),
        x.relu(),
        x.sign(),
        x.sum(),
        x.max(),
        x**2,
        x.clip(0, 3),
    ):
        assert made.dtype is DType.I32


def test_astype_casts_only_to_another_dtype() -> None:
    x = Graph().input("x", ("n",))
    assert x.astype(DType.F32) is x
    assert str(x.astype(DType.U8).type) == "u8[n]"


# --- comparisons --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_give_uint8(name: str) -> None:
    graph = Graph()
    x, y = graph.input("x", (2, 3)), graph.input("y", (3,))
    compare = COMPARISONS[name]
    made = compare(x, y)
    assert shown(made) == f"{name}(%0, %1)"
    assert str(made.type) == "u8[2, 3]"
    assert compare(x, x).dtype is DType.U8  # equal types take no short cut
    assert shown(compare(x, 0.5)).startswith(f"{name}(%0, ")
    assert shown(compare(0.5, x)).startswith(f"{MIRRORED[name]}(%0, ")


def test_a_tensor_is_hashable_although_it_compares_by_elements() -> None:
    graph = Graph()
    x, y = graph.input("x", ()), graph.input("y", ())
    assert {x: 1, y: 2}[y] == 2
    with pytest.raises(GraphError, match="wanted a Tensor or a number, got NoneType"):
        x == None  # noqa: B015, E711


# --- what a tensor refuses ----------------------------------------------------------------------------------


def test_a_tensor_has_no_truth_and_no_elements() -> None:
    x = Graph().input("x", (2,))
    with pytest.raises(GraphError, match=r"bool of f32\[2\]: .*use where"):
        bool(x)
    with pytest.raises(GraphError, match="not iterable"):
        list(x)
    with pytest.raises(GraphError, match="no value"):
        x in [x + 1]  # noqa: B015, FURB171
    with pytest.raises(TypeError):
        len(x)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        float(x)  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [np.ones(2), np.float32(2), np.int64(2), [1.0], "2", None, 1j])
@pytest.mark.parametrize("name", [*OPERATORS, *COMPARISONS, "matmul"])
def test_arrays_and_other_objects_are_refused_on_either_side(array: Any, name: str) -> None:
    x = Graph().input("x", (2,))
    combine = {**OPERATORS, **COMPARISONS, "matmul": operator.matmul}[name]
    for operands in ((x, array), (array, x)):
        with pytest.raises(GraphError, match=r"wanted a Tensor.*wrap arrays with Graph\.constant\(\)"):
            combine(*operands)


def test_a_float64_scalar_of_numpy_is_a_python_float() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    assert (x * np.float64(0.5)).dtype is DType.F32
    assert (np.float64(0.5) * x).dtype is DType.F32


# --- reductions, normalisation, products --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions_fold_axes(name: str) -> None:
    fold: Callable[..., Tensor] = getattr(Graph().input("x", ("n", 3, 4)), name)
    n = symbol("n")
    assert fold().shape == ()
    assert fold(keepdims=True).shape == (1, 1, 1)
    assert fold(0).shape == (3, 4)
    assert fold(-1, keepdims=True).shape == (n, 3, 1)
    assert fold((2, 1)).shape == (n,)
    assert fold([]).shape == (n, 3, 4)
    assert fold(np.int64(1)).shape == (n, 4)
    with pytest.raises(ShapeMismatch, match=rf"{name} of f32\[n, 3, 4\]: axis 3 is out of range"):
        fold(3)
    with pytest.raises(ShapeMismatch, match="one axis twice"):
        fold((0, -3))


@pytest.mark.parametrize("name", ["max", "min"])
def test_there_is_no_extreme_of_nothing(name: str) -> None:
    graph = Graph()
    empty = graph.input("x", (0, 3))
    with pytest.raises(ShapeMismatch, match=rf"{name} of f32\[0, 3\]: there is no {name} of nothing"):
        getattr(empty, name)(0)
    assert getattr(empty, name)(1).shape == (0,)
    assert getattr(graph.input("y", (0, 0)), name)(0).shape == (0,)
    assert empty.sum().shape == empty.mean().shape == ()


def test_softmax_of_another_axis_is_swapped_to_the_end() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3, 4))
    assert shown(x.softmax()) == "softmax(%0)"
    assert x.softmax(axis=0).shape == (2, 3, 4)
    assert names(graph)[2:] == ["permute", "softmax", "permute"]
    with pytest.raises(ShapeMismatch, match="axis -1 is out of range"):
        graph.input("s", ()).softmax()


def test_layer_norm_scales_and_shifts_where_asked() -> None:
    graph = Graph()
    x, w = graph.input("x", (2, 3)), graph.input("w", (3,))
    assert shown(x.layer_norm(eps=0.5)) == "layer_norm(%0)"
    assert shown(x.layer_norm(w)) == "mul(%3, %1)"
    assert shown(x.layer_norm(bias=w)) == "add(%5, %1)"
    with pytest.raises(GraphError, match="wanted a number, got str"):
        x.layer_norm(eps="small")  # type: ignore[arg-type]
    with pytest.raises(ShapeMismatch, match="at least one dimension"):
        graph.input("s", ()).layer_norm()


def test_clip_leaves_absent_bounds_open() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    attrs = [graph.snapshot().attrs[made.index] for made in (x.clip(0), x.clip(max=2), x.clip(-1, 0.5))]
    assert attrs == [(0.0, float("inf")), (float("-inf"), 2.0), (-1.0, 0.5)]
    for low, high in ((1, -1), (float("nan"), 0), (0, float("nan"))):
        with pytest.raises(GraphError, match=r"clamp of f32\[2\]: min .* is not at most max"):
            x.clip(low, high)
    with pytest.raises(GraphError, match="wanted a number, got Tensor"):
        x.clip(x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (1, 3, 4)),
        ((6, 5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (1, 6, 3, 4)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
        ((0, 2, 3), (1, 3, 2)),
    ],
)
def test_products_have_numpys_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    graph = Graph()
    made = graph.input("x", left) @ graph.input("y", right)
    assert made.shape == np.matmul(np.ones(left), np.ones(right)).shape


def test_a_batch_of_the_left_may_be_a_multiple_of_the_rights() -> None:
    graph = Graph()
    made = graph.input("x", ("n", 4, 1, 2)) @ graph.input("y", ("n", 2, 2, 3))
    assert made.shape == (symbol("n"), 4, 1, 3)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        ((2, 3), (4, 2), r"matmul of f32\[2, 3\], f32\[4, 2\]: inner dimensions 3 and 4 differ"),
        ((3,), (2,), "inner dimensions 3 and 2 differ"),
        ((2, "n"), ("m", 2), "inner dimensions n and m differ"),
        ((2, 2, 3), (4, 3, 2), "no multiple"),
        ((3, 2, 3), (2, 3, 2), "no multiple"),
        ((0, 2, 3), (4, 3, 2), "no multiple"),
        (("n", 2, 3), ("m", 3, 2), "no multiple"),
        ((), (3, 2), "at least one dimension"),
    ],
)
def test_products_that_do_not_fit_are_refused(left: tuple[Any, ...], right: tuple[Any, ...], reason: str) -> None:
    graph = Graph()
    with pytest.raises(ShapeMismatch, match=reason):
        graph.input("x", left) @ graph.input("y", right)


def test_products_promote() -> None:
    graph = Graph()
    assert (graph.input("x", (2, 3)) @ graph.input("y", (3, 2), DType.F64)).dtype is DType.F64


def test_take_picks_by_a_u32_vector() -> None:
    graph = Graph()
    x, index = graph.input("x", (5, "n")), graph.input("i", ("k",), DType.U32)
    assert x.take(index).shape == (symbol("k"), symbol("n"))
    assert x.take(index, axis=-1).shape == (5, symbol("k"))
    with pytest.raises(DTypeMismatch, match=r"index_select of f32\[5, n\], i64\[2\]: wanted an index of dtype u32"):
        x.take(graph.constant([0, 1]))
    with pytest.raises(ShapeMismatch, match="axis 0 is out of range"):
        graph.input("s", ()).take(index)


def test_facts_and_repr() -> None:
    x = Graph().input("x", ("n", 3), DType.F16)
    assert (x.shape, x.dtype, x.ndim, x.size) == ((symbol("n"), 3), DType.F16, 2, 3 * symbol("n"))
    assert repr(x.exp()) == "<Tensor %1 exp f16[n, 3]>"
