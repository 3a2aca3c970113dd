"""Plans while they run: the guard, learned speeds, and sweeping again what is left."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.ir import no_breath
from fuel_async.plan.placement import Fleet, Placement, Problem, Tables, all_ways, place, tables_of
from fuel_async.plan.placement.live import Progress, Resweep, ahead_of, due, learned, may_start, resweep
from tests.plan.placement.support import problems, random_problem


def test_a_lane_waits_for_what_is_expected_soon() -> None:
    assert may_start(took_ns=100.0, next_ns=1_080.0, now_ns=1_000.0)
    assert not may_start(took_ns=100.0, next_ns=1_079.0, now_ns=1_000.0)


def test_a_factor_follows_what_is_observed() -> None:
    factor = 1.0
    for _ in range(40):
        factor = learned(factor, observed_ns=200.0, predicted_ns=100.0)
    assert factor == pytest.approx(2.0, abs=0.01)
    assert learned(1.5, 10.0, 0.0) == 1.5


def test_it_is_due_when_factors_have_moved_or_the_run_is_off_its_plan() -> None:
    assert not due([1.04, 1.0], [1.0, 1.0], late_ns=1.0, makespan_ns=100.0)
    assert due([1.06, 1.0], [1.0, 1.0], late_ns=0.0, makespan_ns=100.0)
    assert due([1.0, 0.9], [1.0, 1.0], late_ns=0.0, makespan_ns=100.0)
    assert due([1.0, 1.0], [1.0, 1.0], late_ns=-3.0, makespan_ns=100.0)


def at(tables: Tables, plan: Placement, now_ns: float) -> Progress:
    """Where a run is that went as planned until then."""
    memories = tables.problem.fleet.memories
    begun = [task for task, start in enumerate(plan.starts_ns) if start < now_ns]
    free_ns = [now_ns] * len(tables.lane_device)
    places = dict(tables.problem.given)
    for task in begun:
        lane, end_ns = plan.lanes[task], plan.ends_ns[task]
        free_ns[lane] = max(free_ns[lane], end_ns)
        places.update({value: {memories[plan.devices[task]]: end_ns} for value in tables.writes[task]})
    left = sorted(set(range(len(tables))) - set(begun), key=lambda task: (plan.starts_ns[task], task))
    return Progress(free_ns, places, left)


def again(problem: Problem, share: float, factors: list[float] | None = None) -> tuple[Placement, Progress, Resweep]:
    tables = tables_of(problem, no_breath)
    plan = place(problem)
    progress = at(tables, plan, share * plan.makespan_ns)
    given_factors = factors or [1.0] * len(tables.devices)
    return plan, progress, resweep(tables, plan.devices, ahead_of(tables, plan), progress, given_factors)


@given(problems(), st.floats(0.0, 1.0), st.floats(0.5, 2.0))
@settings(max_examples=30)
def test_what_is_left_gets_a_schedule_from_where_things_are(problem: Problem, share: float, factor: float) -> None:
    factors = [factor, *[1.0] * (len(problem.fleet.lanes) - 1)]
    _, progress, found = again(problem, share, factors)
    assert found.devices.keys() == set(progress.left)
    assert found.makespan_ns <= found.kept_ns
    busy: dict[int, list[tuple[float, float]]] = {}
    for task in progress.left:
        device, lane = found.devices[task], found.lanes[task]
        start, end = found.starts_ns[task], found.ends_ns[task]
        assert start >= progress.free_ns[lane]
        assert math.isclose(end - start, problem.times_ns[task][device] * factors[device], abs_tol=1e-6)
        busy.setdefault(lane, []).append((start, end))
        made_by = problem.producers()
        for value in problem.reads[task]:
            if made_by[value] in found.ends_ns:
                assert start >= found.ends_ns[made_by[value]] - 1e-6
            else:
                assert start >= min(progress.places[value].values()) - 1e-6
    for stretches in busy.values():
        stretches.sort()
        assert all(later[0] >= earlier[1] - 1e-6 for earlier, later in itertools.pairwise(stretches))


def test_a_run_that_goes_as_planned_keeps_its_placement() -> None:
    plan, progress, found = again(random_problem(1, 60, [1, 1, 1]), 0.3)
    assert not found.adopted
    assert all(found.devices[task] == plan.devices[task] for task in progress.left)


def test_work_leaves_a_device_that_has_become_slow() -> None:
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 1.0, 1.0))
    problem = Problem(fleet, [(10.0, 10.0)] * 40, [[]] * 40, [[]] * 40, [])
    plan, progress, found = again(problem, 0.25, [4.0, 1.0])
    assert found.adopted
    assert found.makespan_ns < 0.7 * found.kept_ns
    before = sum(plan.devices[task] == 0 for task in progress.left)
    assert sum(device == 0 for device in found.devices.values()) < before / 2


@pytest.mark.parametrize("contended", [False, True])
def test_nothing_is_left_to_a_device_that_is_lost(contended: bool) -> None:
    """Of three equal ones. What is left takes about as long as a plan of it for two would."""
    ratios = []
    for seed in range(6):
        problem = random_problem(seed, 60, [1, 1, 1], contended=contended)
        _, progress, found = again(problem, 0.0, [1.0, 1.0, math.inf])
        assert len(progress.left) >= 57
        assert set(found.devices.values()) == {0, 1}
        assert found.kept_ns == math.inf
        assert found.adopted
        two = replace(problem, times_ns=[[*row[:2], math.inf] for row in problem.times_ns])
        ratios.append(found.makespan_ns / place(two).makespan_ns)
    assert max(ratios) < 1.1
    assert sum(ratios) / len(ratios) < 1.04


@pytest.mark.parametrize("contended", [False, True])
def test_what_can_go_nowhere_never_ends(contended: bool) -> None:
    problem = random_problem(3, 8, [1, 1], contended=contended)
    never = replace(problem, times_ns=[*problem.times_ns[:5], [math.inf, 5.0], *problem.times_ns[6:]])
    _, _, found = again(never, 0.0, [1.0, math.inf])
    assert found.makespan_ns == found.kept_ns == math.inf
    assert not found.adopted


def test_nothing_is_left_of_a_device_of_which_tasks_take_no_time() -> None:
    problem = Problem(Fleet([1, 1], [0, 1], all_ways(2, 1.0, 1.0)), [(5.0, 0.0)] * 4, [[]] * 4, [[]] * 4, [])
    assert tables_of(problem, no_breath).slower([2.0, math.inf]).times_ns == [[10.0, math.inf]] * 4
    _, _, found = again(problem, 0.0, [2.0, math.inf])
    assert set(found.devices.values()) == {0}
    assert found.makespan_ns == 40


@pytest.mark.parametrize(("shorter", "adopted"), [(None, True), (0.3, True), (0.5, False)])
def test_only_a_placement_that_is_clearly_shorter_is_taken(shorter: float | None, adopted: bool) -> None:
    """Of what is left, 150 of 300 could be saved."""
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 1.0, 1.0))
    tables = tables_of(Problem(fleet, [(10.0, 10.0)] * 30, [[]] * 30, [[]] * 30, []), no_breath)
    progress, ahead = Progress([0.0, 0.0], {}, range(30)), [[0.0, 0.0]] * 30
    found = resweep(tables, [0] * 30, ahead, progress, [1.0, 1.0], shorter)
    assert (found.kept_ns, found.makespan_ns) == (300.0, 150.0 if adopted else 300.0)
    assert found.adopted is adopted
    late = resweep(tables, [0] * 30, ahead, replace(progress, begun_ns=290.0), [1.0, 1.0], shorter)
    assert late.makespan_ns == (290.0 if shorter is None else 300.0)


@pytest.mark.parametrize("contended", [False, True])
def test_what_is_ahead_is_what_the_plan_has(contended: bool) -> None:
    """On its own device a task and what is ahead of it fit into the plan."""
    problem = random_problem(2, 40, [1, 1], contended=contended)
    tables, plan = tables_of(problem, no_breath), place(problem)
    ahead = ahead_of(tables, plan)
    for task, device in enumerate(plan.devices):
        assert plan.ends_ns[task] + ahead[task][device] <= plan.makespan_ns * 1.3
        assert min(ahead[task]) >= 0
    last = max(range(40), key=plan.ends_ns.__getitem__)
    assert ahead[last][plan.devices[last]] == 0
