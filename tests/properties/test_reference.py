"""The reference and its bounds: a second executor, in each dtype's own precision, stays within them; wrong ones
do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from fuel_async.ir import BY_NAME, BundleType, DType, Form, FrozenGraph, Graph, concat, maximum, where
from fuel_async.testing import Case, check_results, expectations, graphs, random_graph, reference
from fuel_async.testing.estimates.elementwise import erf
from tests.properties import destroying, placed, rowwise, scanned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Kernel = Callable[..., Array]

INFINITY = float("inf")


# --- a second executor: native precision, half types in float32, other formulas where there are any -----------


def _matmul(a: Array, b: Array) -> Array:
    """Each batch entry by itself, by the rule: right index = left index // (left / right)."""
    batch, kind = a.shape[:-2], a.dtype
    if kind.kind in "iu":
        a, b = a.astype(np.int64), b.astype(np.int64)
    y = np.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    for place in np.ndindex(*batch):
        other = tuple(i // (left // right) for i, left, right in zip(place, batch, b.shape, strict=False))
        y[place] = np.einsum("mk,kn->mn", a[place], b[other])
    return np.clip(y, np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else y


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-INFINITY))
    return np.asarray(e * (1 / e.sum(-1, keepdims=True, dtype=x.dtype)))


def _mean(x: Array, axes: int | tuple[int, ...], keepdims: bool) -> Array:
    total = x.sum(axes, keepdims=keepdims, dtype=x.dtype)
    return np.asarray(total / np.asarray(np.ones_like(x).sum(axes, keepdims=keepdims), x.dtype))


def _layer_norm(x: Array, eps: float) -> Array:
    centred = x - _mean(x, -1, True)
    return np.asarray(centred / np.sqrt(_mean(centred**2, -1, True) + np.asarray(eps, x.dtype)))


def _gelu(x: Array) -> Array:
    """As x times a sigmoid: 1 + tanh(u) is 2 / (1 + exp(-2u))."""
    scale, cubic = np.asarray(math.sqrt(2 / math.pi), x.dtype), np.asarray(0.044715, x.dtype)
    return np.asarray(x / (1 + np.exp(-2 * scale * (x + x * x * x * cubic))))


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition.astype(np.bool_), a, b)


def _clamp(x: Array, low: float, high: float) -> Array:
    return np.asarray(np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype)))


def _pick(x: Array, index: Array, axis: int) -> Array:
    return np.concatenate([np.take(x, [], axis), *[x.take([i], axis) for i in index]], axis)


def _cut(x: Array, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Array:
    return x[np.ix_(*[start + step * np.arange(size) for start, step, size in zip(starts, steps, shape, strict=True)])]


def _native_erf(x: Array) -> Array:
    return erf(x).astype(x.dtype)


KERNELS: dict[str, Kernel] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "neg": np.negative, "abs": np.abs, "sqr": np.square,
    "sqrt": np.sqrt, "rsqrt": lambda x: np.sqrt(1 / x), "recip": np.reciprocal, "exp": np.exp,
    "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "relu": lambda x: np.where(x < 0, 0, x).astype(x.dtype),
    "sigmoid": lambda x: np.exp(x) / (1 + np.exp(x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "step": lambda x: (x > 0).astype(x.dtype), "erf": _native_erf, "gelu": _gelu,
    "gelu_erf": lambda x: x * (1 + _native_erf(x * np.asarray(0.7071067811865476, x.dtype))) / 2,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "where": _where,
    "clamp": _clamp,
    "sum": lambda x, axes, keepdims: np.flip(x, axes).sum(axes, keepdims=keepdims, dtype=x.dtype),
    "mean": _mean,
    "max": lambda x, axes, keepdims: x.max(axes, keepdims=keepdims),
    "min": lambda x, axes, keepdims: -(-x).max(axes, keepdims=keepdims),
    "softmax": _softmax, "layer_norm": _layer_norm, "matmul": _matmul, "index_select": _pick,
    "concat": lambda *xs: np.concatenate(xs[:-1], xs[-1]),
    **placed.KERNELS,
    **rowwise.KERNELS,
}  # fmt: skip
KERNELS |= destroying.in_place(KERNELS)
KERNELS |= scanned.KERNELS
#: Ops that see no float32 in place of a half type: they move or convert elements.
RAW: dict[str, Kernel] = {
    "permute": lambda x, shape, axes: x.transpose(axes),
    "slice": lambda x, shape, starts, steps: _cut(x, starts, steps, shape),
    "broadcast": lambda x, shape: x + np.zeros(shape, x.dtype),
    "expand_dims": lambda x, shape, axes: x.reshape(shape),
    "squeeze": lambda x, shape, axes: x.reshape(shape),
    "flip": lambda x, shape, axes: np.flip(x, axes),
    "reshape": lambda x, shape: x.reshape(shape),
    "contiguize": lambda x, shape: x.copy(),
    "copy": lambda x, shape: x.copy(),
    "cast": lambda x, shape, code: x.astype(DType.ALL[code].require_np()),
    **placed.RAW,
    # What they are given is the output that they take.
    "view_slot": lambda x, shape, slot: x,
    "view_owned": lambda x, shape, slot: x.copy(),
    **destroying.RAW,
}


def second(case: Case, kernels: Mapping[str, Kernel] = KERNELS) -> dict[str, Array]:
    """The outputs of a graph as another executor computes them."""
    graph = case.graph.freeze()
    frozen: FrozenGraph = graph.bind(case.sizes)
    names = {node: name for name, node in frozen.inputs.items()}
    values: list[Array] = []
    several: dict[int, list[Array]] = {}
    with np.errstate(all="ignore"):
        for node, op in enumerate(frozen.ops):
            if op.form is Form.LEAF:
                value = np.asarray(case.feeds[names[node]] if node in names else frozen.constants[node])
                values.append(value.astype(np.uint8) if value.dtype == np.bool_ else value)
                continue
            attrs, kind = frozen.attrs[node] or (), frozen.types[node]
            operands = [values[arg] for arg in frozen.args[node]]
            if op.takes_bundle:
                operands = [several[frozen.args[node][0]][attrs[0]]]
            value = _compute(op.name, attrs, kind.shape, operands, kernels)
            if isinstance(kind, BundleType):
                dtypes = [view.dtype.require_np() for view in kind.views]
                several[node] = [part.astype(dtype) for part, dtype in zip(value, dtypes, strict=True)]
                value = several[node][0]
            values.append(np.asarray(value).astype(kind.dtype.require_np()))
    return {
        name: values[node].astype(np.bool_) if name in frozen.boolean else values[node]
        for name, node in frozen.outputs.items()
    }


def _compute(
    name: str, attrs: tuple[Any, ...], shape: tuple[Any, ...], operands: list[Array], kernels: Mapping[str, Kernel]
) -> Array:
    if name in RAW:
        return RAW[name](*operands, shape, *attrs)
    wide = [x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x for x in operands]
    return kernels[name](*wide, *([shape] if name in rowwise.SHAPED else []), *attrs)


def test_the_second_executor_knows_every_op() -> None:
    assert {*KERNELS, *RAW, "input", "constant"} == BY_NAME.keys()


@settings(max_examples=50)
@given(graphs())
def test_another_executor_stays_within_the_bounds(case: Case) -> None:
    check_results(case.graph, case.feeds, second(case))


@pytest.mark.slow
@settings(max_examples=1_000)
@given(graphs(max_steps=25))
def test_so_it_does_on_many_graphs(case: Case) -> None:
    check_results(case.graph, case.feeds, second(case))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
def test_so_it_does_on_large_graphs(dtype: DType) -> None:
    case = random_graph(dtype.code, 1_000, dtypes=(dtype,), batch=3, window=200)
    check_results(case.graph, case.feeds, second(case))


# --- the bounds are worth something --------------------------------------------------------------------------

MUTANTS: dict[str, Kernel] = {
    "add": lambda a, b: a + b * np.float32(1.001),
    "sub": lambda a, b: b - a,
    "mul": lambda a, b: a * b * np.float32(1 + 1e-5),
    "div": lambda a, b: a / (b + np.float32(1e-4)),
    "pow": lambda a, b: np.power(np.abs(a), np.abs(b)),
    "maximum": np.minimum,
    "minimum": lambda a, b: a,
    "neg": np.abs,
    "abs": lambda x: x,
    "sqr": lambda x: x * np.abs(x),
    "sqrt": lambda x: x * np.float32(0.5) + np.float32(0.5),
    "rsqrt": np.sqrt,
    "recip": lambda x: -1 / x,
    "exp": np.exp2,
    "log": np.log2,
    "sin": lambda x: x - x**3 / 6,
    "cos": lambda x: 1 - x * x / 2,
    "tanh": lambda x: x,
    "sign": lambda x: np.where(x >= 0, 1, -1),
    "floor": np.trunc,
    "ceil": lambda x: np.floor(x) + 1,
    "round": lambda x: np.floor(x + np.float32(0.5)),
    "relu": np.abs,
    "sigmoid": lambda x: np.clip(x / 4 + np.float32(0.5), 0, 1),
    "silu": lambda x: np.maximum(x, 0),
    "step": lambda x: x >= 0,
    "erf": np.tanh,
    "gelu": KERNELS["gelu_erf"],
    "gelu_erf": KERNELS["gelu"],
    "eq": np.not_equal,
    "ne": lambda a, b: a < b,
    "lt": np.less_equal,
    "le": np.less,
    "gt": np.greater_equal,
    "ge": np.greater,
    "where": lambda c, a, b: _where(c == 1, b, a),
    "clamp": lambda x, low, high: np.maximum(x, np.asarray(low, x.dtype)),
    "sum": lambda x, axes, keepdims: x.max(axes, keepdims=keepdims, initial=0),
    "mean": lambda x, axes, keepdims: np.median(x, axes, keepdims=keepdims),
    "max": lambda x, axes, keepdims: np.abs(x).max(axes, keepdims=keepdims),
    "min": lambda x, axes, keepdims: x.max(axes, keepdims=keepdims),
    "softmax": lambda x: np.exp(x),
    "layer_norm": lambda x, eps: x - _mean(x, -1, True),
    "matmul": lambda a, b: _matmul(a, b[..., ::-1]),
    "concat": lambda *xs: np.concatenate(xs[-2::-1], xs[-1]),
    "index_select": lambda x, index, axis: np.flip(_pick(x, index, axis), axis),
    **placed.MUTANTS,
    **rowwise.MUTANTS,
}
MUTANTS |= destroying.in_place(MUTANTS)
MUTANTS |= scanned.MUTANTS


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_is_found(name: str) -> None:
    """A few random graphs of this op tell its kernel from one that is nearly right."""
    for seed in range(12):
        case = random_graph(seed, 40, ops=("input", name, name, name), window=8)
        try:
            check_results(case.graph, case.feeds, second(case, {**KERNELS, name: MUTANTS[name]}))
        except AssertionError:
            return
    pytest.fail(f"twelve graphs let a wrong {name} pass")


def test_shared_batches_are_found_when_taken_in_another_order() -> None:
    graph = Graph()
    graph.output("y", graph.input("a", (4, 1, 2)) @ graph.input("b", (2, 2, 3)))
    feeds = {"a": np.ones((4, 1, 2), np.float32), "b": np.arange(12, dtype=np.float32).reshape(2, 2, 3)}
    wrong = feeds["a"] @ np.concatenate([feeds["b"]] * 2)
    with pytest.raises(AssertionError, match="output 'y' at "):
        check_results(graph, feeds, {"y": wrong})


# --- values that are known -----------------------------------------------------------------------------------

X5 = [1.0, 5.0, 3.0, np.nan, 0.0]


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda x: x == x.graph.constant([1.0, 1.0, 3.0, np.nan, -0.0]), [True, False, True, False, True]),
        (lambda x: x != x, [False, False, False, True, False]),
        (lambda x: x < 3, [True, False, False, False, True]),
        (lambda x: maximum(x, 2), [2, 5, 3, np.nan, 2]),
        (lambda x: x.clip(1, 4), [1, 4, 3, np.nan, 1]),
        (lambda x: where(x > 2, x, -x), [-1, 5, 3, np.nan, 0]),
        (lambda x: (x - 2.5).round(), [-2, 2, 0, np.nan, -2]),
        (lambda x: (x - 3).sign(), [-1, 1, 0, np.nan, -1]),
        (lambda x: x.max(), np.nan),
        (lambda x: x[:3].sum(), 9),
        (lambda x: concat([x[:1], x[::-2]]), [1, 0, 3, 1]),
        (lambda x: (x - 3) ** 0.5, [np.nan, 2**0.5, 0, np.nan, np.nan]),
        (lambda x: x[:0].mean(), np.nan),
        (lambda x: 1 / x[4:], [np.inf]),
        (lambda x: x[1:3].astype(DType.U8), [5, 3]),
    ],
)
def test_semantics_of_odd_values(compute: Callable[..., Any], expected: Any) -> None:
    graph = Graph()
    graph.output("y", compute(graph.input("x", (5,))))
    feeds = {"x": np.array(X5, np.float32)}
    result = reference(graph, feeds)["y"]
    assert result.dtype == (np.bool_ if isinstance(np.asarray(expected).flat[0], np.bool_) else result.dtype)
    np.testing.assert_allclose(result.astype(np.float64), np.asarray(expected, np.float64), rtol=1e-6)
    check_results(graph, feeds, {"y": result})


def test_a_bound_is_the_height_of_the_jump_where_operands_blur() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    third = x / 3
    graph.output("y", (third * 3).floor())
    graph.output("truth", third * 3 >= x)
    value, tolerance = expectations(graph, {"x": np.array([1.0, 1.5], np.float32)})["y"]
    assert tolerance.tolist() == [1.0, 0.0]
    assert value.tolist() == [1.0, 1.0]
    assert expectations(graph, {"x": np.ones(2, np.float32)})["truth"].tolerance.tolist() == [1.0, 1.0]


def test_values_that_are_not_determined_are_not_compared() -> None:
    graph = Graph()
    x = graph.input("x", (1,))
    graph.output("y", (x / 3 * 3 - x).log())
    feeds = {"x": np.ones(1, np.float32)}
    assert np.isinf(expectations(graph, feeds)["y"].tolerance)
    check_results(graph, feeds, {"y": np.array([5.0], np.float32)})


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ({}, "outputs"),
        ({"y": np.zeros(2)}, "float64"),
        ({"y": np.zeros(3, np.float32)}, "float32.3,."),
        ({"y": np.array([2, 5], np.float32)}, r"output 'y' at \(1,\) is .*; 1 of 2 are off"),
        ({"y": np.array([np.nan, 4], np.float32)}, r"output 'y' at \(0,\)"),
    ],
)
def test_disagreement_is_described(results: dict[str, Array], reason: str) -> None:
    graph = Graph()
    graph.output("y", graph.input("x", (2,)) * 2)
    with pytest.raises(AssertionError, match=reason):
        check_results(graph, {"x": np.array([1, 2], np.float32)}, results)
