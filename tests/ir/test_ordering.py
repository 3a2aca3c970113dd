"""Orders in which what may be written over is read first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

import fuel_async as fa
from fuel_async.ir import Form, FrozenGraph, Ordering, derive_ordering
from fuel_async.ir.ordering import roots_of
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.destroying import DESTROYING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Many ops that may write over their operand, among readers and views of them.
OPS = (
    *(*DESTROYING, *["exp_inplace", "write_slice"] * 6),
    *("add", "mul", "exp", "slice", "reshape", "permute", "contiguize"),
)


def built(build: Callable[[fa.Graph, fa.Tensor], object]) -> tuple[FrozenGraph, Ordering]:
    """A graph over `t`, a value of its own of shape [4]: node 2."""
    g = fa.Graph()
    build(g, g.input("x", (4,)) + 1)
    frozen = g.freeze()
    return frozen, derive_ordering(frozen)


def position(order: Ordering) -> dict[int, int]:
    return {node: place for place, node in enumerate(order.order)}


def test_a_graph_without_such_ops_is_ordered_by_number() -> None:
    graph = random_graph(1, 300, ops=("add", "exp", "reshape")).graph.freeze()
    assert not graph.destructive
    assert derive_ordering(graph) == Ordering(range(len(graph)), {})


def test_readers_that_were_built_later_come_first() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        a = t.relu_inplace()
        g.output("a", a.exp())
        g.output("b", t.sin())

    _, order = built(build)
    assert list(order.order) == [0, 1, 2, 5, 3, 4]
    assert order.before == {3: (5,)}


@pytest.mark.parametrize("view", ["reshape", "permute_dims", "slice", "contiguous"])
def test_readers_through_views_come_first_whether_they_copy_or_not(view: str) -> None:
    views: dict[str, Callable[[fa.Tensor], fa.Tensor]] = {
        "reshape": lambda t: t.reshape((2, 2)),
        "permute_dims": lambda t: t.reshape((2, 2)).permute_dims((1, 0)).reshape((4,)),
        "slice": lambda t: t[1:],
        "contiguous": lambda t: t[::-1].contiguous(),
    }

    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("a", t.relu_inplace().exp())
        g.output("b", views[view](t).sin())

    graph, order = built(build)
    reader = next(node for node, op in enumerate(graph.ops) if op.name == "sin")
    assert order.before == {3: (reader,)}
    assert position(order)[reader] < position(order)[3]


def test_what_is_destroyed_through_a_view_is_what_it_shows() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("a", t.reshape((2, 2)).relu_inplace().exp())
        g.output("b", t.sin())

    graph, order = built(build)
    names = [graph.ops[node].name for node in order.order]
    assert names.index("sin") < names.index("relu_inplace")


def test_nothing_waits_where_a_reader_depends_on_the_op() -> None:
    """x + relu_inplace(x): the op copies"""
    _, order = built(lambda g, t: g.output("y", t.relu_inplace() + t))
    assert order.before == {}
    assert list(order.order) == [0, 1, 2, 3, 4]


def test_a_dependence_through_another_order_counts() -> None:
    """
    a' must follow sin(a), which needs b'; b' must follow exp(b), which needs a': one of the two copies
    """
    g = fa.Graph()
    x = g.input("x", (4,))
    a, b = x + 1, x + 2
    over_a, over_b = a.relu_inplace(), b.relu_inplace()
    g.output("p", (a * over_b).exp())
    g.output("q", (b * over_a).exp())
    graph = g.freeze()
    order = derive_ordering(graph)
    assert len(order.before) == 1
    check(graph, order)


def test_of_two_ops_the_later_one_waits_for_the_other() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("a", t.relu_inplace().exp())
        g.output("b", t.exp_inplace().sin())

    _, order = built(build)
    assert order.before == {5: (3,)}


def test_the_earlier_one_is_asked_when_the_later_one_cannot_be_last() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("a", t.relu_inplace().sin())
        over = t.exp_inplace()
        g.output("b", over * t)

    graph, order = built(build)
    (waiting,) = order.before
    assert graph.ops[waiting].name == "relu_inplace"
    assert [graph.ops[node].name for node in order.before[waiting]] == ["exp_inplace", "mul"]


def test_nothing_waits_for_the_sake_of_what_is_never_written_over() -> None:
    """feeds, constants, and what the caller receives, also through a view"""
    g = fa.Graph()
    x = g.input("x", (4,))
    one, kept, seen = g.constant([1.0, 2.0, 3.0, 4.0]), x + 1, x + 2
    for value in (x, one, kept, seen):
        g.output(f"{value.index}", value.relu_inplace().exp())
        g.output(f"{value.index} again", value.sin())
    g.output("kept", kept)
    g.output("seen", seen[1:])
    assert derive_ordering(g.freeze()).before == {}


def test_the_search_for_an_order_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuel_async.ir.ordering.LOOKED_AT", 0)

    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("a", t.relu_inplace().exp())
        g.output("b", t.sin())

    _, order = built(build)
    assert order == Ordering([0, 1, 2, 3, 4, 5], {})  # it copies


def test_it_breathes_at_least_every_64_nodes() -> None:
    graph = random_graph(4, 2_000, ops=OPS, shape=(4,)).graph.freeze()
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    derive_ordering(graph, breathe)
    assert breaths >= 3 * len(graph) // 64


def test_a_thousand_late_readers_are_ordered_in_linear_time() -> None:
    """Each value is written over first and read far behind: a search for each would be quadratic."""
    g = fa.Graph()
    x = g.input("x", (4,))
    made = [x + 1 for _ in range(1_000)]
    over = [value.relu_inplace() for value in made]
    for number, (value, written) in enumerate(zip(made, over, strict=True)):
        g.output(f"{number}", value.sum() + written.sum())
    graph = g.freeze()
    order = derive_ordering(graph)
    check_is_an_order(graph, order)
    assert 0 < len(order.before) < 1_000  # those that are left copy


# --- laws ---


def check_is_an_order(graph: FrozenGraph, order: Ordering) -> None:
    """Every node is there once, behind its operands and behind what it waits for."""
    place = position(order)
    assert sorted(order.order) == list(range(len(graph)))
    for node, args in enumerate(graph.args):
        assert all(place[arg] < place[node] for arg in args)
    for node, readers in order.before.items():
        assert all(place[reader] < place[node] for reader in readers)


def check(graph: FrozenGraph, order: Ordering) -> None:
    """For each value one op waits for all other readers; or each has a reader that depends on it."""
    check_is_an_order(graph, order)
    roots, outside = roots_of(graph), {*graph.inputs.values(), *graph.constants}
    kept = {roots[node] for node in graph.outputs.values()}
    kernels = [node for node, op in enumerate(graph.ops) if op.form is Form.KERNEL]
    destroyers: dict[int, list[int]] = {}
    for node in kernels:
        if graph.ops[node].destroys is not None:
            destroyers.setdefault(roots[graph.args[node][0]], []).append(node)
    assert {node for nodes in destroyers.values() for node in nodes} >= order.before.keys()
    after = _dependents(graph, order)
    for root, nodes in destroyers.items():
        readers = {node for node in kernels if root in {roots[arg] for arg in graph.args[node]}}
        waiting = [node for node in nodes if node in order.before]
        if root in outside or root in kept:
            assert waiting == []
            continue
        for node in waiting:
            assert set(order.before[node]) == readers - {node}
        if not waiting and len(readers) > 1:
            assert all(after[node] & (readers - {node}) for node in nodes)
        assert len(waiting) <= 1


def _dependents(graph: FrozenGraph, order: Ordering) -> dict[int, set[int]]:
    """What comes after each node, by operands and by order."""
    after: dict[int, set[int]] = {node: set() for node in range(len(graph))}
    for node in reversed(list(order.order)):
        for need in (*graph.args[node], *order.before.get(node, ())):
            after[need] |= {node, *after[node]}
    return after


@settings(max_examples=60)
@given(graphs(ops=OPS, max_steps=14))
def test_every_graph_is_ordered_as_far_as_can_be(case: Case) -> None:
    graph = case.graph.freeze()
    check(graph, derive_ordering(graph))


@pytest.mark.parametrize("seed", range(12))
def test_larger_graphs_are_ordered_as_far_as_can_be(seed: int) -> None:
    graph = random_graph(seed, 120, ops=OPS, shape=(3, 4), window=4 + 8 * seed).graph.freeze()
    order = derive_ordering(graph)
    check(graph, order)
    assert order.before
