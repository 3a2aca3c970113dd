"""Graphs that arrive one after the other: whole to one device, or over several."""

from __future__ import annotations

import math

import pytest

from fuel_async.ir import no_breath
from fuel_async.plan.placement import Fleet, Problem, all_ways, place, tables_of
from fuel_async.plan.placement.stream import HIGH_LOAD, Arriving, arriving, destination

GRAPH = Arriving(whole_ns=(100.0, 200.0), spread_ns=70.0, busy=0.9)
BADLY = Arriving(whole_ns=(100.0, 200.0), spread_ns=90.0, busy=0.4)
ONE = Arriving(whole_ns=(100.0, 200.0), spread_ns=math.inf, busy=0.5)


def test_a_whole_graph_goes_where_it_ends_first() -> None:
    assert destination(ONE, [0.0, 0.0], now_ns=0.0, load=0.5) == 0
    assert destination(ONE, [1_150.0, 0.0], now_ns=1_000.0, load=0.5) == 1
    assert destination(ONE, [1_050.0, 0.0], now_ns=1_000.0, load=0.5) == 0


def test_a_graph_is_spread_when_that_ends_sooner() -> None:
    assert destination(GRAPH, [0.0, 0.0], now_ns=0.0, load=0.1) is None
    assert destination(GRAPH, [0.0, 900.0], now_ns=0.0, load=0.1) == 0  # the other one has enough to do


def test_a_graph_that_splits_badly_goes_whole_when_there_is_much_to_do() -> None:
    assert destination(BADLY, [0.0, 0.0], now_ns=0.0, load=HIGH_LOAD) is None
    assert destination(BADLY, [0.0, 0.0], now_ns=0.0, load=HIGH_LOAD + 0.01) == 0
    assert destination(GRAPH, [0.0, 0.0], now_ns=0.0, load=HIGH_LOAD + 0.01) is None


def test_a_graph_that_no_device_can_run_whole_is_spread() -> None:
    nowhere = Arriving((math.inf, math.inf), 10.0, 0.1)
    assert destination(nowhere, [0.0, 0.0], now_ns=0.0, load=0.9) is None


def known(problem: Problem) -> Arriving:
    return arriving(tables_of(problem, no_breath), place(problem))


def test_what_is_known_of_independent_tasks() -> None:
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 0.0, 1.0))
    found = known(Problem(fleet, [(10.0, 20.0)] * 6, [[]] * 6, [[]] * 6, []))
    assert found.whole_ns == [60.0, 120.0]
    assert found.spread_ns == 40.0
    assert found.busy == pytest.approx(1.0)


def test_a_chain_is_not_spread() -> None:
    fleet = Fleet([1, 2], [0, 1], all_ways(2, 50.0, 1.0))
    reads = [[], [0], [1]]
    found = known(Problem(fleet, [(10.0, 20.0)] * 3, reads, [[0], [1], [2]], [1.0] * 3))
    assert found.whole_ns == [30.0, 60.0]
    assert found.spread_ns == math.inf


@pytest.mark.parametrize("times_ns", [(0.0, 10.0), (0.0, 0.0), (0.0, math.inf)])
def test_a_device_that_takes_no_time_is_known_too(times_ns: tuple[float, float]) -> None:
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 1.0, 1.0))
    found = known(Problem(fleet, [times_ns] * 3, [[], [0], [1]], [[0], [1], [2]], [0.0] * 3))
    assert found.whole_ns == [3 * ns for ns in times_ns]
    assert (found.spread_ns, found.busy) == (math.inf, 1.0)
    assert destination(found.slower([2.0, 1.0]), [5.0, 0.0], now_ns=4.0, load=0.0) == int(times_ns[1] == 0)


def test_a_device_that_cannot_run_all_of_it_gets_none_whole() -> None:
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 0.0, 1.0))
    assert known(Problem(fleet, [(10.0, math.inf), (10.0, 1.0)], [[], []], [[], []], [])).whole_ns == [20.0, math.inf]
