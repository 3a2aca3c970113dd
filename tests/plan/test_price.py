"""What a region costs at the rates of another device."""

from __future__ import annotations

from dataclasses import replace

from fuel_async.cost import Rates
from fuel_async.plan import make_plan, region_ns
from fuel_async.testing import random_graph
from tests.plan.support import US, target

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


def test_calls_say_what_they_compute_and_how_much_work_that_is() -> None:
    plan = make_plan(random_graph(2, 100).graph.freeze(), MADE_FOR)
    for region in plan.regions:
        for node, call in zip(region.program.nodes, region.program.calls, strict=True):
            op = plan.graph.ops[node]
            assert call.kind.as_str() == "copy" or call.kind is op.kind
            assert not call.estimate.is_unpriced
            assert call.cost_ns == MADE_FOR.rates.predict_ns(call.kind, call.estimate)
