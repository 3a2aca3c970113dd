"""Whole plans: what they say of a graph, and that their regions compute it in any order that the needs allow."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

import fuel_async as fa
from fuel_async.backends.cpu.instance import HostInstance
from fuel_async.dispatch import BINDABLE, SlotClass
from fuel_async.errors import NoBackendForOp
from fuel_async.ir import OpKind, no_breath
from fuel_async.plan import LONGEST_NS, Plan, Port, make_plan
from fuel_async.storage import HostArena
from fuel_async.streams import History
from fuel_async.testing import Case, check_results, graphs, random_graph
from tests.plan.support import US, table, target

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST, HEAVY = target(), target(call_ns=60 * US)


def branches() -> fa.Graph:
    """x --> a, b --> y = a + b, and a requested on the way"""
    g = fa.Graph("branches")
    x = g.input("x", (4, 4)).tanh()
    a, b = x @ g.constant(np.eye(4, dtype=np.float32)), x.exp()
    g.output("a", a)
    g.output("y", a + b)
    g.output("positive", (a + b) > 0.0)
    return g


def test_a_plan_says_what_goes_in_and_out() -> None:
    graph = branches().freeze()
    plan = make_plan(graph, HOST)
    assert [(port.name, str(port.type), port.boolean) for port in plan.feeds] == [("x", "f32[4, 4]", False)]
    assert [(port.name, str(port.type), port.boolean) for port in plan.outputs] == [
        ("a", "f32[4, 4]", False), ("y", "f32[4, 4]", False), ("positive", "u8[4, 4]", True),
    ]  # fmt: skip
    assert all(isinstance(port, Port) for port in plan.feeds)
    assert plan.output_nbytes == 64 + 64 + 16
    assert plan.constants == tuple(graph.constants)
    assert repr(plan) == "<Plan of 'branches': 6 kernels in 1 regions>"


def test_prices_add_up() -> None:
    plan = make_plan(branches().freeze(), HEAVY)
    programs = [region.program for region in plan.regions]
    assert plan.kernels == sum(map(len, programs)) == 6
    assert plan.predicted_ns == sum(program.predicted_ns for program in programs) == 6 * 60 * US
    assert all(program.predicted_ns == sum(c.cost_ns for c in program.calls) for program in programs)
    assert all(program.predicted_ns <= LONGEST_NS for program in programs)


def test_regions_know_each_other_both_ways() -> None:
    plan = make_plan(random_graph(1, 300, shape=(4, 4)).graph.freeze(), HEAVY)
    assert len(plan.regions) > 20
    for number, region in enumerate(plan.regions):
        assert all(need < number for need in region.needs)
        assert list(region.dependents) == sorted(n for n, r in enumerate(plan.regions) if number in r.needs)


def test_programs_share_one_table_of_slots_and_list_their_ports() -> None:
    plan = make_plan(random_graph(2, 200, shape=(4, 4)).graph.freeze(), HEAVY)
    tables = {id(region.program.slots) for region in plan.regions}
    assert len(tables) == 1
    touched: set[tuple[int, int]] = set()
    for region in plan.regions:
        program = region.program
        slots = program.slots
        found = {(slots.classes[s], slots.places[s]) for row in program.rows for s in row}
        given_here = {(cls, place) for cls, place in found if cls in BINDABLE}
        listed = {(int(cls), place) for cls, places in zip(BINDABLE, program.ports, strict=True) for place in places}
        assert given_here == listed
        assert all(list(places) == sorted(places) for places in program.ports)
        assert program.feeds == program.ports[0]
        assert program.outputs == program.ports[1]
        touched |= listed
    outputs = {(int(SlotClass.OUTPUT), place) for place in range(len(plan.outputs))}
    assert outputs <= touched


def test_the_same_graph_gives_the_same_plan() -> None:
    def facts(plan: Plan) -> list[Any]:
        return [
            (list(r.program.nodes), list(r.program.rows), r.needs, list(r.program.slots.places)) for r in plan.regions
        ]

    case = random_graph(3, 300)
    assert facts(make_plan(case.graph.freeze(), HEAVY)) == facts(make_plan(case.graph.freeze(), HEAVY))


def test_a_graph_without_kernels_has_no_region() -> None:
    g = fa.Graph("nothing")
    g.input("x", (2,))
    plan = make_plan(g.freeze(), HOST)
    assert (plan.regions, plan.kernels, plan.predicted_ns, plan.arena_nbytes) == ((), 0, 0, 0)


def test_a_missing_kernel_is_the_users_to_know() -> None:
    without = table(lambda op, dtypes, entry: None if op is OpKind.MatMul else entry)
    with pytest.raises(NoBackendForOp, match="matmul") as caught:
        make_plan(branches().freeze(), target(without))
    assert "test_plan.py" in caught.value.__notes__[0]


def test_it_breathes_at_least_every_64_nodes_in_every_pass() -> None:
    """a planning thread that never gives the interpreter away keeps a loop waiting for 5 ms at a time"""
    breaths: list[None] = []
    graph = random_graph(4, 2_000, shape=(4,)).graph.freeze()
    kernels = make_plan(graph, HEAVY, lambda: breaths.append(None)).kernels
    passes = 8  # readers, lowering, branches, cutting, needs, order, uses, offsets, programs: views take no row
    assert len(breaths) >= passes * kernels // 64


# --- what a plan computes ---


class Played:
    """A plan with instances of all its regions, over an arena full of nonsense."""

    def __init__(self, plan: Plan, constants: Mapping[int, Any]) -> None:
        self.plan = plan
        arena = HostArena(plan.arena_nbytes)
        arena._buffer.fill(0xFF)
        values = [constants[node] for node in plan.constants]
        self.instances = [HostInstance(r.program, values, arena, History(1), no_breath) for r in plan.regions]

    def run(self, feeds: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Run the regions in a random order that their needs allow."""
        given = [feeds[port.name] for port in self.plan.feeds]
        results = [np.full(p.type.shape, 77, p.type.dtype.require_np()) for p in self.plan.outputs]  # type: ignore[type-var]
        done, left, choice = set[int](), set(range(len(self.instances))), random.Random(seed)
        with np.errstate(all="ignore"):
            while left:
                region = choice.choice([r for r in sorted(left) if self.plan.regions[r].needs <= done])
                program = self.plan.regions[region].program
                self.instances[region].execute(
                    [given[place] for place in program.feeds],
                    [results[place] for place in program.outputs],
                    (),
                    (),
                    None,
                    None,
                )
                left.discard(region)
                done.add(region)
        return {
            port.name: array.view(np.bool_) if port.boolean else array
            for port, array in zip(self.plan.outputs, results, strict=True)
        }


def _dense(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Feeds as a run hands them over: row-major, truth values as uint8."""
    arrays = {name: np.array(value, order="C", copy=True) for name, value in feeds.items()}
    return {name: array.view(np.uint8) if array.dtype == np.bool_ else array for name, array in arrays.items()}


@given(graphs(max_steps=16))
@settings(max_examples=25)
def test_regions_in_any_order_give_the_reference_and_the_same_bytes(case: Case) -> None:
    graph, feeds = case.graph.freeze().bind(case.sizes), _dense(case.feeds)
    first = Played(make_plan(graph, HOST), graph.constants).run(feeds, 0)
    check_results(case.graph, case.feeds, first)
    many = Played(make_plan(graph, HEAVY), graph.constants)
    for seed in range(3):  # the same instances each time: what a run leaves behind does no harm
        again = many.run(feeds, seed)
        for name, array in first.items():
            assert again[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_the_same_for_larger_graphs(seed: int) -> None:
    case = random_graph(seed, 150, shape=(3, 5), window=10 + 10 * seed)
    graph, feeds = case.graph.freeze(), _dense(case.feeds)
    first = Played(make_plan(graph, HOST), graph.constants).run(feeds, 0)
    played = Played(make_plan(graph, HEAVY), graph.constants)
    assert len(played.plan.regions) > 10
    for order in range(5):
        again = played.run(feeds, order)
        assert {name: array.tobytes() for name, array in again.items()} == {
            name: array.tobytes() for name, array in first.items()
        }


def test_nothing_that_a_caller_receives_aliases_anything() -> None:
    """feeds, constants, the arena and the other results are written over; the result stays"""
    case = random_graph(5, 80, shape=(4, 4), outputs=6)
    graph, feeds = case.graph.freeze(), _dense(case.feeds)
    played = Played(make_plan(graph, HEAVY), graph.constants)
    results = played.run(feeds, 0)
    before = {name: array.tobytes() for name, array in results.items()}
    for feed in feeds.values():
        feed.fill(1)
    played.instances[0]._arena._buffer.fill(0)
    for name, array in results.items():
        assert array.tobytes() == before[name]
        array.fill(0)
