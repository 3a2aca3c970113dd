"""The verifier: graphs that are built are legal, and each rule sees the graph that breaks it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from fuel_async.errors import GraphIllegal, InternalError
from fuel_async.ir import (
    BY_NAME,
    CPU_DEVICE,
    DType,
    FrozenGraph,
    Graph,
    OpSpec,
    OutputView,
    TensorType,
    symbol,
    verify,
)
from fuel_async.ir.ops.bundle import Slot
from fuel_async.ir.ops.movement import Axes, Permute
from fuel_async.ir.verify import RULES
from fuel_async.testing import Case, graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def legal() -> FrozenGraph:
    """%0 x  %1 constant  %2 mul  %3 permute  %4 gt  %5 reshape"""
    graph = Graph()
    x = graph.input("x", ("n", 4))
    y = (x * graph.constant([[1.0, 2.0, 3.0, 4.0]])).T
    graph.output("y", y)
    graph.output("z", (y > x.mT).reshape((-1,)))
    return graph.freeze()


def put(values: Sequence[Any], place: int, value: object) -> list[Any]:
    return [value if index == place else old for index, old in enumerate(values)]


def kind(shape: tuple[Any, ...], dtype: DType = DType.F32, nbytes: int = -1) -> TensorType:
    return TensorType(shape, dtype, nbytes)


N = symbol("n")
OTHER = OpSpec(name="other", arity=1, infer=BY_NAME["neg"].infer)
BROKEN: dict[str, list[tuple[int, Callable[[FrozenGraph], FrozenGraph]]]] = {
    "every column has one entry a node": [
        (-1, lambda g: replace(g, types=g.types[:-1])),
        (-1, lambda g: replace(g, lastis=[*g.lastis, 0])),
    ],
    "operands precede their users": [
        (2, lambda g: replace(g, args=put(g.args, 2, (0, 2)))),
        (2, lambda g: replace(g, args=put(g.args, 2, (-1, 0)))),
        (3, lambda g: replace(g, args=put(g.args, 3, (99,)))),
    ],
    "ops are those of the table": [(3, lambda g: replace(g, ops=put(g.ops, 3, OTHER)))],
    "a node has as many operands as its op takes": [
        (2, lambda g: replace(g, args=put(g.args, 2, (0,)))),
        (0, lambda g: replace(g, ops=put(g.ops, 0, BY_NAME["concat"]))),
    ],
    "parameters are of the op's own class": [
        (2, lambda g: replace(g, attrs=put(g.attrs, 2, (1,)))),
        (3, lambda g: replace(g, attrs=put(g.attrs, 3, None))),
        (3, lambda g: replace(g, attrs=put(g.attrs, 3, Axes((1, 0))))),
    ],
    "inputs and constants are listed, each once": [
        (0, lambda g: replace(g, inputs={})),
        (-1, lambda g: replace(g, inputs={"x": 0, "w": 0})),
        (2, lambda g: replace(g, inputs={"x": 0, "w": 2})),
        (1, lambda g: replace(g, constants={})),
        (0, lambda g: replace(g, constants={**g.constants, 0: g.constants[1]})),
    ],
    "bundles are listed, and read by the ops that take a slot alone": [
        (2, lambda g: replace(g, bundles={2: (OutputView(DType.F32, (N, 4), -1),)})),
        (3, lambda g: replace(g, ops=put(g.ops, 3, BY_NAME["view_slot"]), attrs=put(g.attrs, 3, Slot(0)))),
    ],
    "types state their size in bytes": [
        (0, lambda g: replace(g, types=put(g.types, 0, kind((N, 4), nbytes=16)))),
        (1, lambda g: replace(g, types=put(g.types, 1, kind((1, 4), nbytes=15)))),
        (1, lambda g: replace(g, types=put(g.types, 1, kind((-1, 4), nbytes=-16)))),
    ],
    "result types follow from operands and parameters": [
        (2, lambda g: replace(g, types=put(g.types, 2, kind((4, N))))),
        (2, lambda g: replace(g, types=put(g.types, 2, kind((N, 4), DType.F64)))),
        (3, lambda g: replace(g, attrs=put(g.attrs, 3, Permute((0, 1))))),
        (3, lambda g: replace(g, attrs=put(g.attrs, 3, Permute((0, 7))))),
        (5, lambda g: replace(g, types=put(g.types, 5, kind((3 * N,), DType.U8)))),
        (5, lambda g: replace(g, types=put(g.types, 5, kind((4 * N,), DType.F32)))),
    ],
    "constants hold what their types say": [
        (1, lambda g: replace(g, constants={1: np.ones((1, 4))})),
        (1, lambda g: replace(g, constants={1: np.ones((4,), np.float32)})),
        (1, lambda g: replace(g, constants={1: np.ones((1, 4), np.float32)})),
    ],
    "outputs exist and truth values are uint8": [
        (9, lambda g: replace(g, outputs={"y": 9})),
        (-1, lambda g: replace(g, boolean=frozenset({"nothing"}))),
        (3, lambda g: replace(g, boolean=frozenset({"y"}))),
    ],
    "symbols are listed": [(0, lambda g: replace(g, symbols=()))],
    "only kernels are pinned": [
        (0, lambda g: replace(g, pins={0: CPU_DEVICE})),
        (9, lambda g: replace(g, pins={2: CPU_DEVICE, 9: CPU_DEVICE})),
    ],
}


def test_every_rule_has_a_graph_that_breaks_it() -> None:
    assert list(BROKEN) == [rule.name for rule in RULES]


@pytest.mark.parametrize(
    ("rule", "node", "breaks"),
    [(rule, node, breaks) for rule, cases in BROKEN.items() for node, breaks in cases],
)
def test_broken_graphs_name_node_and_rule(rule: str, node: int, breaks: Callable[[FrozenGraph], FrozenGraph]) -> None:
    with pytest.raises(GraphIllegal, match="breaks the rule") as caught:
        verify(breaks(legal()))
    assert (caught.value.rule, caught.value.node) == (rule, node)
    assert isinstance(caught.value, InternalError)


def test_a_violation_is_described_with_the_users_line() -> None:
    graph = legal()
    with pytest.raises(GraphIllegal, match=r"node 2 .*built at .*test_verify\.py:\d+"):
        verify(replace(graph, types=put(graph.types, 2, kind((4, N)))))


def test_built_graphs_are_legal() -> None:
    verify(legal())
    verify(legal().bind({"n": 3}))
    verify(legal().without_constants())


@settings(max_examples=50)
@given(graphs())
def test_random_graphs_are_legal_bound_and_unbound(case: Case) -> None:
    frozen = case.graph.freeze()
    verify(frozen)
    verify(frozen.bind({"n": case.sizes.get("n", 0)}))
