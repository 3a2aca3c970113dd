"""Everything on one device: looked at wherever it could be the best, and taken where it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from fuel_async.ir import no_breath
from fuel_async.plan.placement import Effort, Fleet, Origin, Problem, all_ways, place, tables_of
from fuel_async.plan.placement.replay import replay
from fuel_async.plan.placement.whole import best_whole
from tests.plan.placement.support import check_placement, problems, random_problem


def costly(seed: int, *, contended: bool, lanes: tuple[int, ...] = (1, 1, 1)) -> Problem:
    """A copy takes many times as long as a task."""
    problem = random_problem(seed, 40, lanes, contended=contended)
    return replace(problem, nbytes=[50 * nbytes for nbytes in problem.nbytes])


def work_ns(problem: Problem) -> float:
    """The work of all tasks on the device that has the least to do."""
    return min(map(sum, zip(*problem.times_ns, strict=True)))


@pytest.mark.parametrize("contended", [False, True])
def test_where_copies_cost_more_than_devices_gain_everything_stays_on_one(contended: bool) -> None:
    shortest = set()
    for seed in range(6):
        problem = costly(seed, contended=contended)
        placement = place(problem)
        check_placement(problem, placement)
        assert placement.makespan_ns <= work_ns(problem) * (1 + 1e-9)
        shortest.add(placement.origin)
        if placement.origin is Origin.WHOLE:
            assert len(set(placement.devices)) == 1
            assert placement.copies == []
    assert Origin.WHOLE in shortest


def test_all_lanes_of_the_device_are_used() -> None:
    problem = costly(2, contended=True, lanes=(3, 1))
    slow = replace(problem, times_ns=[[first, 9 * first] for first, _ in problem.times_ns])
    plan = best_whole(tables_of(slow, no_breath), 0.6 * work_ns(slow))
    assert plan is not None
    assert set(plan.devices) == {0}
    assert set(plan.lanes) == {0, 1, 2}
    assert plan.makespan_ns < 0.6 * work_ns(slow)


def test_lanes_are_of_no_use_to_a_chain() -> None:
    """Eight lanes would do the work in half the time of the fast device, if it could be divided."""
    fleet = Fleet([8, 1], [0, 1], all_ways(2, 1.0, 1.0))
    chain = Problem(
        fleet, [(40.0, 10.0)] * 9, [[task - 1] if task else [] for task in range(9)], [[n] for n in range(9)], [1.0] * 9
    )
    plan = best_whole(tables_of(chain, no_breath), math.inf)
    assert plan is not None
    assert set(plan.devices) == {1}
    assert plan.makespan_ns == 90


def test_it_is_not_looked_at_where_it_cannot_be_shorter() -> None:
    problem = random_problem(1, 30, [1, 1])
    tables, breaths = tables_of(problem, no_breath), list[None]()
    assert best_whole(tables, work_ns(problem), lambda: breaths.append(None)) is None
    assert len(breaths) == 2  # one for each device: no pass was made
    assert best_whole(tables, work_ns(problem) + 1) is not None


def test_devices_that_cannot_run_all_of_it_are_left_out() -> None:
    fleet = Fleet([1, 2], [0, 1], all_ways(2, 1.0, 1.0))
    apart = Problem(fleet, [(1.0, math.inf), (math.inf, 1.0)], [[], []], [[], []], [])
    assert best_whole(tables_of(apart, no_breath), math.inf) is None
    one = replace(apart, times_ns=[(1.0, math.inf), (5.0, 1.0)])
    plan = best_whole(tables_of(one, no_breath), math.inf)
    assert plan is not None
    assert plan.devices == [0, 0]


def test_no_effort_is_hefts_plan_alone() -> None:
    problem = costly(0, contended=True)
    assert place(problem, Effort()).origin is Origin.HEFT
    assert place(problem).makespan_ns < place(problem, Effort()).makespan_ns


@given(problems())
@settings(max_examples=40)
def test_no_plan_is_longer(problem: Problem) -> None:
    tables, placement = tables_of(problem, no_breath), place(problem)
    plan = best_whole(tables, math.inf)
    if plan is not None:
        assert placement.makespan_ns <= replay(tables, plan).makespan_ns + 1e-6
