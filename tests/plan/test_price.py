"""What a region costs at the rates of another device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_async.cost import Rates
from fuel_async.ir import Graph
from fuel_async.plan import make_plan, price, region_ns, regions_ns
from fuel_async.testing import random_graph
from tests.plan.support import US, target

if TYPE_CHECKING:
    import pytest

    from fuel_async.dispatch import LaneProgram

MADE_FOR = target(call_ns=60 * US, flops_per_ns=0.5, dense_flops_per_ns=7.0, bytes_per_ns=0.25)
OTHER = Rates(flops_per_ns=0.01, dense_flops_per_ns=0.02, bytes_per_ns=0.001, call_ns=7)


def test_at_the_rates_of_the_target_it_is_what_the_plan_predicts() -> None:
    plan = make_plan(random_graph(1, 200).graph.freeze(), MADE_FOR)
    assert len(plan.regions) > 10
    for region in plan.regions:
        assert region_ns(region.program, MADE_FOR.rates) == region.program.predicted_ns


def test_at_other_rates_it_is_what_a_plan_for_those_predicts() -> None:
    graph = random_graph(1, 200).graph.freeze()
    plan, other = make_plan(graph, MADE_FOR), make_plan(graph, replace(MADE_FOR, rates=OTHER))
    assert sum(region_ns(region.program, OTHER) for region in plan.regions) == other.predicted_ns
    assert other.predicted_ns != plan.predicted_ns


def test_regions_together_cost_what_each_costs() -> None:
    plan = make_plan(random_graph(1, 200).graph.freeze(), MADE_FOR)
    programs = [None, *[region.program for region in plan.regions], None]
    assert regions_ns(programs, OTHER) == [None, *[region_ns(one.program, OTHER) for one in plan.regions], None]
    assert regions_ns([], OTHER) == []


def test_regions_that_are_alike_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    value = g.input("x", (256, 256))
    for number in range(20):
        value = (value @ value).tanh() if number % 2 else value @ value
        g.output(f"y{number}", value)
    programs = [region.program for region in make_plan(g.freeze(), MADE_FOR).regions]
    priced: list[LaneProgram] = []

    def noted(program: LaneProgram, rates: Rates) -> int:
        priced.append(program)
        return region_ns(program, rates)

    monkeypatch.setattr(price, "region_ns", noted)
    assert regions_ns(programs, OTHER) == [region_ns(one, OTHER) for one in programs]
    assert len(programs) == 30  # each output ends one
    assert len(priced) == 2


def test_calls_say_what_they_compute_and_how_much_work_that_is() -> None:
    plan = make_plan(random_graph(2, 100).graph.freeze(), MADE_FOR)
    for region in plan.regions:
        for node, call in zip(region.program.nodes, region.program.calls, strict=True):
            op = plan.graph.ops[node]
            assert call.kind.as_str() == "copy" or call.kind is op.kind
            assert not call.estimate.is_unpriced
            assert call.cost_ns == MADE_FOR.rates.predict_ns(call.kind, call.estimate)
