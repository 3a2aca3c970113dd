"""Regions of pinned nodes: of one pin each, without a cycle, computing what the graph computes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.ir import BackendId, DeviceLocation, Form, FrozenGraph
from fuel_async.plan import LONGEST_NS, Plan, make_plan
from fuel_async.plan.lower import lower
from fuel_async.plan.pins import cut_marked, row_pins
from fuel_async.plan.regions import cut
from fuel_async.testing import Case, graphs, random_graph
from tests.plan.support import US, target
from tests.plan.test_values import check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

A, B = (DeviceLocation(BackendId("sim"), ordinal) for ordinal in (1, 2))
LIGHT, HEAVY = target(spread=True), target(call_ns=60 * US, spread=True)


def shown(plan: Plan) -> list[str]:
    """Each region as its pin, its ops, and the regions it needs."""
    found = []
    for region in plan.regions:
        graph = region.program.graph
        ops = " ".join(graph.ops[node].name for node in region.program.nodes)
        found.append(f"{region.pin or '-'}: {ops} <- {sorted(region.needs)}")
    return found


def test_a_chain_is_cut_where_the_pin_changes() -> None:
    g = fa.Graph()
    x = g.input("x", (4,)).exp().sin()
    with g.on(A):
        x = x.exp().cos()
    x = x.tanh()
    with g.on(B):
        x = x.sqrt()
    g.output("y", x)
    assert shown(make_plan(g.freeze(), LIGHT)) == [
        "-: exp sin <- []",
        "sim:1: exp cos <- [0]",
        "-: tanh <- [1]",
        "sim:2: sqrt <- [2]",
    ]


def test_light_branches_of_two_pins_lie_beside_each_other() -> None:
    """x --> a on sim:1, b on sim:2 --> y on sim:1; no region waits for another of its own device"""
    g = fa.Graph()
    x = g.input("x", (4,))
    with g.on(A):
        a = x.exp()
    with g.on(B):
        b = x.cos()
    with g.on(A):
        g.output("y", a.sin() + b)
    assert shown(make_plan(g.freeze(), LIGHT)) == [
        "sim:1: exp sin <- []",
        "sim:2: cos <- []",
        "sim:1: add <- [0, 1]",
    ]


def test_rows_of_one_pin_that_another_pin_parts_do_not_meet() -> None:
    """a and c are pinned alike; were they one region, it and b would wait for each other"""
    g = fa.Graph()
    with g.on(A):
        a = g.input("x", (4,)).exp()
    with g.on(B):
        b = a.cos()
    with g.on(A):
        g.output("y", b.sin())
    assert shown(make_plan(g.freeze(), LIGHT)) == ["sim:1: exp <- []", "sim:2: cos <- [0]", "sim:1: sin <- [1]"]


def test_what_is_made_on_behalf_of_a_node_goes_with_it() -> None:
    """a strided reshape of what sim:1 makes is copied there; a copied output is copied where it is made"""
    g = fa.Graph()
    x = g.input("x", (4, 5))
    with g.on(A):
        y = x.exp()
        z = y.T.reshape((20,)).sin()
    g.output("y", y)
    g.output("again", y)
    g.output("z", z)
    plan = make_plan(g.freeze(), LIGHT)
    assert {region.pin for region in plan.regions} == {A}
    assert sum(len(region.program) for region in plan.regions) == 5


def test_a_copied_feed_has_no_place() -> None:
    g = fa.Graph()
    x = g.input("x", (2, 2))
    with g.on(A):
        g.output("y", x.T.reshape((4,)).exp())
    assert [region.pin for region in make_plan(g.freeze(), LIGHT).regions] == [None, A]


def test_a_pin_of_every_node_changes_no_cut() -> None:
    graphs = (random_graph(seed, 300, shape=(4, 4)).graph.freeze() for seed in range(20))
    # Of this one no feed is copied: a copied feed has no place.
    graph = next(graph for graph in graphs if None not in row_pins(lower(_pin(graph, lambda node: A), HEAVY)))
    plain, pinned = make_plan(graph, HEAVY), make_plan(_pin(graph, lambda node: A), HEAVY)
    rows = lower(graph, HEAVY)
    assert len(rows.calls) == plain.kernels == pinned.kernels
    assert [list(region.program.nodes) for region in plain.regions] == [
        list(region.program.nodes) for region in pinned.regions
    ]
    assert {region.pin for region in pinned.regions} == {A}
    assert {region.pin for region in plain.regions} == {None}


def test_it_breathes_at_least_every_64_rows() -> None:
    count, breaths = 4_096, [0]
    preds = [()] + [(row,) for row in range(count - 1)]

    def breathe() -> None:
        breaths[0] += 1

    cut_marked([100] * count, preds, frozenset(), [A if row < 2_000 else None for row in range(count)], breathe)
    assert breaths[0] >= 3 * count // 64  # stages, what is read within them, needs


# --- laws ---


def _pin(graph: FrozenGraph, choose: Any) -> FrozenGraph:
    kernels = [node for node, op in enumerate(graph.ops) if op.form is Form.KERNEL]
    chosen: Mapping[int, DeviceLocation | None] = {node: choose(node) for node in kernels}
    return replace(graph, pins={node: device for node, device in chosen.items() if device is not None})


@st.composite
def pinned_rows(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, ...]], list[DeviceLocation | None]]:
    count = draw(st.integers(1, 50))
    unit = draw(st.sampled_from([1, 10 * US, 60 * US, 400 * US]))
    costs = draw(st.lists(st.integers(0, 6 * unit), min_size=count, max_size=count))
    preds = [
        tuple(draw(st.sets(st.integers(max(0, i - 12), i - 1), max_size=min(i, 4)))) if i else () for i in range(count)
    ]
    places = [None, None, A, B][: draw(st.integers(2, 4))]
    return costs, preds, draw(st.lists(st.sampled_from(places), min_size=count, max_size=count))


@given(pinned_rows(), st.frozensets(st.integers(0, 49), max_size=3))
@settings(max_examples=100)
def test_any_pins_are_cut_soundly(
    graph: tuple[list[int], list[tuple[int, ...]], list[DeviceLocation | None]], outputs: frozenset[int]
) -> None:
    costs, preds, pins = graph
    requested = frozenset(row for row in outputs if row < len(costs))
    found, region_pins = cut_marked(costs, preds, requested, pins)
    members: list[list[int]] = [[] for _ in range(found.count)]
    for row, region in enumerate(found.region_of):
        members[region].append(row)
        assert region_pins[region] == pins[row]
    assert len(region_pins) == found.count == len(found.needs)
    for region, inside in enumerate(members):
        assert inside
        assert found.needs[region] == {found.region_of[source] for row in inside for source in preds[row]} - {region}
        assert all(need < region for need in found.needs[region])
        assert len(inside) == 1 or sum(costs[row] for row in inside) <= LONGEST_NS


@given(pinned_rows())
@settings(max_examples=30)
def test_rows_of_one_pin_are_cut_as_rows_of_none(
    graph: tuple[list[int], list[tuple[int, ...]], Sequence[DeviceLocation | None]],
) -> None:
    costs, preds, _ = graph
    for pin in (None, A):
        found, pins = cut_marked(costs, preds, frozenset([0]), [pin] * len(costs))
        plain = cut(costs, preds, frozenset([0]))
        assert (list(found.region_of), list(found.needs)) == (list(plain.region_of), list(plain.needs))
        assert pins == [pin] * plain.count


@given(graphs(max_steps=16), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_pinned_graphs_compute_the_same_wherever_their_regions_run(case: Case, choice: random.Random) -> None:
    graph = _pin(case.graph.freeze().bind(case.sizes), lambda node: choice.choice([None, A, B]))
    plan = make_plan(graph, LIGHT)
    for region in plan.regions:
        own = {graph.pins[node] for node in region.program.nodes if node in graph.pins}
        assert own <= {region.pin}
    check(case, plan, graph, choice, memories=3, orders=2)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_for_larger_graphs(seed: int) -> None:
    case, choice = random_graph(seed, 150, shape=(3, 5), window=20), random.Random(seed)
    graph = _pin(case.graph.freeze(), lambda node: [None, A, B][node * 3 // 200])
    check(case, make_plan(graph, HEAVY), graph, choice, memories=3, orders=3)
