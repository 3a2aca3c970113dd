"""Composite ops and what they are made of: the same values from one kernel and from many, over shapes and dtypes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import GraphError, IndexOutOfRange, KernelFailed
from fuel_async.ir import BY_NAME, COMPOSITES, DType, Form, decompose
from fuel_async.testing import check_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir import Attrs, OpSpec
    from fuel_async.testing.estimates.bounds import Array

F32, F64, BF16, F16, I64 = DType.F32, DType.F64, DType.BF16, DType.F16, DType.I64
T4 = (F32, F64, BF16, F16)

#: How far results of one kernel and of several may differ, as a part of the largest number among them: some roundings
#: in float32 and float64; in half types, computed in float32, the last one may fall to the other side.
TOLERANCE = {F32: 3e-6, F64: 1e-14, BF16: 2**-7, F16: 2**-10}

Shapes = tuple[tuple[int, ...], ...]


class Case(NamedTuple):
    op: OpSpec
    attrs: Attrs
    shapes: Shapes


def attrs_of(op: OpSpec, *numbers: Any) -> Attrs:
    return None if op.attrs is None else op.attrs(*numbers)


def cases(name: str, attrs: Sequence[tuple[Any, ...]], *shapes: Shapes) -> list[Case]:
    op = BY_NAME[name]
    made = [attrs_of(op, *each) for each in attrs or [()]]
    return [Case(op, each, operands) for each in made for operands in shapes]


def alike(count: int) -> list[Shapes]:
    return [(shape,) * count for shape in ((7,), (3, 5), (2, 1, 3, 64), (4, 1))]


EPS = [(1e-5,), (0.0,), (3.0,)]
CASES: list[list[Case]] = [
    cases("softmax", [], *alike(1)),
    cases("softmax_backward", [], *alike(2)),
    cases("layer_norm", [(1e-5,), (3.0,)], *alike(1)),
    cases("layer_norm_backward", [(1e-3,), (3.0,)], *alike(2)),
    cases("rms_norm", EPS, *alike(1)),
    cases("rms_norm_backward", EPS, *alike(2)),
    cases("fused_linear", [], ((3, 4), (4, 5), (5,)), ((4, 3, 2), (2, 2, 6), (6,)), ((2, 3, 4), (1, 4, 5), (5,))),
    cases("rope", [], ((5, 8),) * 3, ((2, 3, 5, 64), (5, 64), (5, 64)), ((1, 2), (1, 2), (1, 2))),
    cases(
        "reduce_max_to_backward", [], ((3, 5), (5,)), ((3, 5), (3, 1)), ((2, 3, 4), (3, 1)), ((6,), ()), ((4,), (4,))
    ),
    cases("powi_backward", [(0,), (1,), (2,), (3,), (7,), (-2,)], *alike(2)),
    cases("inplace_affine", [(1.5, -0.25), (0.0, 1.0), (math.inf, 0.0)], *alike(1)),
    cases(
        "fused_softmax_cross_entropy",
        [(reduction, ignored) for reduction in range(3) for ignored in (-100, 2)],
        ((7,), ()),
        ((3, 5), (3,)),
        ((2, 3, 64), (2, 3)),
    ),
]


class Both:
    """A graph with outputs in pairs: what an op's kernel gives, and what its parts give."""

    def __init__(self) -> None:
        self.graph = fa.Graph("both")
        self.feeds: dict[str, Array] = {}
        self.count = 0

    def operand(self, value: Array) -> fa.Tensor:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = value
        return self.graph.input(name, value.shape, DType.from_numpy(value.dtype))

    def add(self, op: OpSpec, operands: Sequence[fa.Tensor], attrs: Attrs = None) -> None:
        own, parts = self.graph.node(op, operands, attrs), decompose(op, operands, attrs)
        assert parts.type is own.type
        self.graph.output(f"own {self.count}", own)
        self.graph.output(f"parts {self.count}", parts)
        self.count += 1

    async def run(self) -> list[tuple[Array, Array]]:
        async with fa.Executor() as executor:
            results = await executor.run(self.graph, self.feeds)
        check_results(self.graph, self.feeds, results)
        return [(np.asarray(results[f"own {n}"]), np.asarray(results[f"parts {n}"])) for n in range(self.count)]


def values(rng: np.random.Generator, case: Case, dtype: DType) -> list[Array]:
    made = [rng.normal(0, 1.5, shape).astype(dtype.require_np()) for shape in case.shapes]
    if case.op.name == "fused_softmax_cross_entropy":
        made[1] = rng.integers(0, case.shapes[0][-1], case.shapes[1])
    if case.op.name == "reduce_max_to_backward":
        made[0] = np.round(made[0].astype(np.float64)).astype(made[0].dtype)  # so that maxima meet
    return made


@pytest.mark.parametrize("of_op", CASES, ids=lambda of_op: of_op[0].op.name)
@pytest.mark.asyncio(loop_factories=["default"])
async def test_parts_give_what_the_kernel_gives(of_op: list[Case]) -> None:
    rng, both = np.random.default_rng(7), Both()
    for case in of_op:
        for dtype in T4:
            both.add(case.op, [both.operand(value) for value in values(rng, case, dtype)], case.attrs)
    pairs = await both.run()
    assert any(np.isfinite(own.astype(np.float64)).any() for own, _ in pairs)
    for own, parts in pairs:
        close(own, parts)


def close(own: Array, parts: Array) -> None:
    assert own.dtype == parts.dtype
    wide_own, wide_parts = own.astype(np.float64), parts.astype(np.float64)
    scale = np.abs(wide_own[np.isfinite(wide_own)]).max(initial=1.0)
    np.testing.assert_allclose(wide_parts, wide_own, rtol=0, atol=TOLERANCE[DType.from_numpy(own.dtype)] * scale)


def test_every_composite_has_its_cases() -> None:
    assert {of_op[0].op for of_op in CASES} == set(COMPOSITES)


@pytest.mark.parametrize("of_op", CASES, ids=lambda of_op: of_op[0].op.name)
@pytest.mark.parametrize("dtype", T4, ids=str)
def test_parts_are_no_composites(of_op: list[Case], dtype: DType) -> None:
    rng, both = np.random.default_rng(7), Both()
    for case in of_op:
        operands = [both.operand(value) for value in values(rng, case, dtype)]
        both.graph.output(f"parts {len(both.feeds)}", decompose(case.op, operands, case.attrs))
    frozen = both.graph.freeze()
    assert not set(frozen.ops) & set(COMPOSITES)
    assert any(op.form is Form.KERNEL for op in frozen.ops)
    assert not frozen.destructive


# --- what is special ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
@pytest.mark.asyncio(loop_factories=["default"])
async def test_rows_with_special_values(name: str) -> None:
    both, op = Both(), BY_NAME[name]
    attrs = attrs_of(op, 1e-5)
    rows = [[1, 2, 3], [math.nan, 1, 2], [-math.inf, 0, 1], [math.inf, 0, 1], [-math.inf] * 3, [0, 0, 0], [5, 5, 5]]
    both.add(op, [both.operand(np.array(rows, np.float32))], attrs)
    both.add(op, [both.operand(np.array([[2e4, -3e4, 6e4]], np.float16))], attrs)
    (own, parts), (own_half, parts_half) = await both.run()
    close(own, parts)
    close(own_half, parts_half)
    assert np.isfinite(own_half.astype(np.float32)).all()


@pytest.mark.asyncio(loop_factories=["default"])
async def test_an_eps_beyond_float32_is_infinite() -> None:
    op, graph = BY_NAME["rms_norm"], fa.Graph()
    graph.output("y", decompose(op, [graph.input("x", (1, 3))], attrs_of(op, 1e300)))
    async with fa.Executor() as executor:
        results = await executor.run(graph, x=[[1, 2, 3]])
    assert results["y"].tolist() == [[0, 0, 0]]


@pytest.mark.asyncio(loop_factories=["default"])
async def test_the_gradient_of_a_power_at_the_ends_of_its_exponent() -> None:
    both, op = Both(), BY_NAME["powi_backward"]
    x = both.operand(np.array([1, -1, 2, math.nan, math.inf], np.float64))
    g = both.operand(np.array([1, 2, 3, 4, math.nan], np.float64))
    for exp in (-(2**31), 2**31 - 1, 0):
        both.add(op, [x, g], attrs_of(op, exp))
    lowest, highest, zeroth = await both.run()
    for own, parts in (lowest, highest, zeroth):
        np.testing.assert_array_equal(own, parts)
    assert lowest[1][:3].tolist() == [-(2.0**31), 2.0**32, -0.0]
    assert zeroth[1].tolist() == [0] * 5


@pytest.mark.asyncio(loop_factories=["default"])
async def test_rows_that_are_ignored_have_no_part_in_the_loss() -> None:
    both, op = Both(), BY_NAME["fused_softmax_cross_entropy"]
    scores = both.operand(np.array([[1, 2], [math.nan, 0], [3, 3]], np.float32))
    some, none = (both.operand(np.array(row)) for row in ([0, -100, 1], [-100] * 3))
    for targets in (some, none):
        for reduction in range(3):
            both.add(op, [scores, targets], attrs_of(op, reduction, -100))
    pairs = await both.run()
    for own, parts in pairs:
        close(own, parts)
    assert pairs[2][1].tolist()[1] == 0
    assert [math.isnan(pairs[3][1]), float(pairs[4][1])] == [True, 0]


@pytest.mark.parametrize("target", [-1, 3, 2**40, -(2**40)])
@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_target_outside_of_its_row_fails_the_run(target: int) -> None:
    op, graph = BY_NAME["fused_softmax_cross_entropy"], fa.Graph()
    operands = graph.input("scores", (1, 3)), graph.input("targets", (1,), I64)
    graph.output("loss", decompose(op, operands, attrs_of(op, 0, -100)))
    async with fa.Executor() as executor:
        with pytest.raises(KernelFailed) as failed:
            await executor.run(graph, scores=[[1, 2, 3]], targets=np.array([target]))
    assert isinstance(failed.value.__cause__, IndexOutOfRange)


# --- totality -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_op", CASES, ids=lambda of_op: of_op[0].op.name)
def test_sizes_may_be_symbols(of_op: list[Case]) -> None:
    case, graph = of_op[-1], fa.Graph()
    symbols = {size: f"n{size}" for shape in case.shapes for size in shape if size > 1}
    last = case.shapes[0][-1] if case.op.name == "rope" else None
    operands = [
        graph.input(f"x{place}", tuple(size if size == last else symbols.get(size, size) for size in shape), dtype)
        for place, (shape, dtype) in enumerate(zip(case.shapes, dtypes(case), strict=True))
    ]
    own, parts = graph.node(case.op, operands, case.attrs), decompose(case.op, operands, case.attrs)
    assert parts.type is own.type
    assert graph.node_at(parts.index).op is not case.op


def dtypes(case: Case) -> list[DType]:
    targets = case.op.name == "fused_softmax_cross_entropy"
    return [F16, I64] if targets else [F16] * len(case.shapes)


def test_a_head_whose_size_has_no_half_is_left_as_it_is() -> None:
    graph, op = fa.Graph(), BY_NAME["rope"]
    for name, size in {"odd": fa.symbol("d"), "even": 2 * fa.symbol("d")}.items():
        operands = [graph.input(f"{name} {place}", (3, size)) for place in range(3)]
        assert (graph.node_at(decompose(op, operands).index).op is op) == (name == "odd")


@pytest.mark.parametrize("ignored", [2**53 - 1, 2**53, -(2**53), 2**63 - 1])
def test_a_loss_that_ignores_what_float64_cannot_tell_apart_is_left_as_it_is(ignored: int) -> None:
    op, graph = BY_NAME["fused_softmax_cross_entropy"], fa.Graph()
    operands = graph.input("scores", (2, 3)), graph.input("targets", (2,), I64)
    made = decompose(op, operands, attrs_of(op, 0, ignored))
    assert (graph.node_at(made.index).op is op) == (ignored != 2**53 - 1)


@pytest.mark.parametrize("of_op", CASES, ids=lambda of_op: of_op[0].op.name)
def test_operands_without_elements_are_left_as_they_are(of_op: list[Case]) -> None:
    case, graph = of_op[-1], fa.Graph()
    first = case.shapes[0][0] if len(case.shapes[0]) > 1 else None
    for empty in {case.shapes[0][-1], first} - {None, 1}:
        shapes = [tuple(0 if size == empty else size for size in shape) for shape in case.shapes]
        operands = [
            graph.input(f"x{empty} {place}", shape, dtype)
            for place, (shape, dtype) in enumerate(zip(shapes, dtypes(case), strict=True))
        ]
        assert graph.node_at(decompose(case.op, operands, case.attrs).index).op is case.op


def test_other_ops_are_left_as_they_are() -> None:
    x = fa.Graph().input("x", (3,))
    for name in ("exp", "log_softmax"):
        assert x.graph.node_at(decompose(BY_NAME[name], [x]).index).op is BY_NAME[name]


@pytest.mark.parametrize("of_op", CASES, ids=lambda of_op: of_op[0].op.name)
def test_what_the_op_refuses_is_refused_in_its_name(of_op: list[Case]) -> None:
    op, attrs, shapes = of_op[0]
    x = fa.Graph().input("x", (3, 4), I64)
    with pytest.raises(GraphError) as refused:
        decompose(op, [x] * len(shapes), attrs)
    assert refused.value.op == op.name


def test_parts_are_told_to_be_built_where_decompose_is_called() -> None:
    x = fa.Graph().input("x", (3,))
    x.graph.output("y", decompose(BY_NAME["softmax"], [x]))
    frozen = x.graph.freeze()
    assert {frozen.line(node).rsplit(":", 1)[0] for node in range(len(frozen))} == {__file__}
