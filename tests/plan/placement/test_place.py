"""Placement of whole graphs: valid, never longer than HEFT, the same for equal problems."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.errors import InternalError
from fuel_async.ir import no_breath
from fuel_async.plan.placement import FULL_TASKS, Effort, Fleet, Origin, Placement, Problem, all_ways, effort_for, place
from fuel_async.plan.placement.replay import replay
from fuel_async.plan.placement.tables import Tables, tables_of
from fuel_async.plan.placement.two_way import FULL, QUICK, SMALL, SMALL_TASKS, heft
from tests.plan.placement import heft_reference as reference
from tests.plan.placement.support import check_placement, problem_of, problems, random_problem

if TYPE_CHECKING:
    from fuel_async.plan.placement.sweep import Pass

EFFORTS = [*FULL.values(), SMALL, *QUICK.values()]


def planned(problem: Problem) -> tuple[Tables, Pass]:
    tables = tables_of(problem, no_breath)
    return tables, heft(tables)


def as_reference(problem: Problem) -> reference.Workflow:
    """One value a task: lanes become processors."""
    tables = tables_of(problem, no_breath)
    fleet, devices = problem.fleet, tables.lane_device
    edges = {(value, task): tables.mean_move_ns[value] for task, reads in enumerate(problem.reads) for value in reads}

    def comm(edge: tuple[int, int], source: int, to: int) -> float:
        return fleet.between(devices[source], devices[to]).copy_ns(problem.nbytes[edge[0]])

    return reference.Workflow([[row[device] for device in devices] for row in problem.times_ns], edges, comm)


def test_the_reference_gives_the_schedules_of_the_paper() -> None:
    found = reference.heft(reference.EXAMPLE)
    assert tuple(found.places[task] for task in range(10)) == reference.EXAMPLE_HEFT
    assert found.makespan == reference.EXAMPLE_HEFT_MAKESPAN
    assert reference.cpop(reference.EXAMPLE).makespan == reference.EXAMPLE_CPOP_MAKESPAN


def test_heft_gives_the_schedule_of_the_paper() -> None:
    _, found = planned(problem_of(reference.EXAMPLE))
    places = zip(found.devices, found.starts_ns, found.ends_ns, strict=True)
    assert list(places) == list(reference.EXAMPLE_HEFT)
    assert found.makespan_ns == reference.EXAMPLE_HEFT_MAKESPAN


@pytest.mark.parametrize("seed", range(12))
def test_heft_is_that_of_the_reference(seed: int) -> None:
    problem = random_problem(seed, 40, ([1, 1, 1], [2, 1], [1, 3, 1, 1])[seed % 3])
    _, found = planned(problem)
    assert math.isclose(found.makespan_ns, reference.heft(as_reference(problem)).makespan)


def test_the_example_of_the_paper_gets_a_better_plan_than_hefts() -> None:
    placement = place(problem_of(reference.EXAMPLE))
    check_placement(problem_of(reference.EXAMPLE), placement)
    assert placement.makespan_ns < reference.EXAMPLE_HEFT_MAKESPAN
    assert placement.origin is Origin.TWO_WAY


@given(problems(), st.sampled_from([None, *EFFORTS]))
@settings(max_examples=40)
def test_plans_are_valid_and_never_longer_than_hefts(problem: Problem, effort: Effort | None) -> None:
    placement = place(problem, effort)
    check_placement(problem, placement)
    tables, plan = planned(problem)
    assert placement.makespan_ns <= replay(tables, plan, planned=False).makespan_ns
    if not problem.fleet.contended:
        assert placement.makespan_ns <= plan.makespan_ns + 1e-6


@pytest.mark.slow
@given(problems(max_tasks=25), st.sampled_from([None, *EFFORTS]))
@settings(max_examples=1_000)
def test_many_plans_are_valid(problem: Problem, effort: Effort | None) -> None:
    check_placement(problem, place(problem, effort))


@given(problems(max_tasks=8))
@settings(max_examples=20)
def test_equal_problems_get_equal_plans(problem: Problem) -> None:
    assert told(place(problem)) == told(place(problem))


def told(placement: Placement) -> object:
    return (
        placement.devices, placement.lanes, placement.starts_ns, placement.ends_ns, placement.order, placement.copies,
        placement.makespan_ns, placement.bound_ns, placement.origin,
    )  # fmt: skip


@pytest.mark.parametrize(("contended", "at_most"), [(False, 0.99), (True, 0.9)])
def test_plans_of_larger_graphs_are_shorter_than_hefts(contended: bool, at_most: float) -> None:
    ratios = []
    for seed in range(4):
        problem = random_problem(seed, 120, [1, 2, 1], contended=contended)
        placement = place(problem)
        check_placement(problem, placement)
        tables, plan = planned(problem)
        ratios.append(placement.makespan_ns / replay(tables, plan, planned=False).makespan_ns)
    assert sum(ratios) / len(ratios) < at_most
    assert max(ratios) <= 1


def test_planning_gives_way() -> None:
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    tasks = 400
    place(random_problem(1, tasks, [1, 1]), breathe=breathe)
    assert breaths >= 15 * tasks / 64  # so many passes, each at least every 64 tasks


def test_equal_devices_share_independent_tasks() -> None:
    problem = Problem(Fleet([1, 1], [0, 1], all_ways(2, 1.0, 1.0)), [(5.0, 5.0)] * 4, [()] * 4, [()] * 4, [])
    placement = place(problem)
    assert placement.makespan_ns == placement.bound_ns == 10.0
    assert sorted(map(len, placement.order)) == [2, 2]


def test_a_chain_is_not_torn_by_slow_ways() -> None:
    """Each second task is a little faster on the other device: not by as much as the way there takes."""
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 10.0, 1.0))
    times = [(20.0, 24.0) if task % 2 else (24.0, 20.0) for task in range(10)]
    problem = Problem(
        fleet, times, [[task - 1] if task else [] for task in range(10)], [[task] for task in range(10)], [5.0] * 10
    )
    placement = place(problem)
    assert len(set(placement.devices)) == 1
    assert placement.copies == []


def test_copies_over_one_port_go_in_the_order_of_their_first_readers() -> None:
    """Two values are made at the same time; the one that is read first goes first, though it was made last."""
    fleet = Fleet([2, 1], [0, 1], all_ways(2, 0.0, 1.0, contended=True))
    never = math.inf
    problem = Problem(
        fleet,
        times_ns=[(10.0, never), (10.0, never), (never, 50.0), (never, 1.0)],
        reads=[[], [], [1], [0, 2]],
        writes=[[0], [1], [2], []],
        nbytes=[40.0, 40.0, 0.0],
    )
    placement = place(problem)
    assert [copy.value for copy in placement.copies] == [1, 0]
    assert placement.makespan_ns == 10 + 40 + 50 + 1


def test_values_that_are_given_and_owed_count() -> None:
    """The fast device would have to be sent the input, and to send back the output."""
    fleet = Fleet([1, 1], [0, 1], all_ways(2, 0.0, 1.0))
    problem = Problem(fleet, [(30.0, 10.0)], [[0]], [[1]], [12.0, 12.0], given={0: {0: 0.0}}, owed={1: 0})
    assert place(problem).devices == [0]
    light = Problem(fleet, [(30.0, 10.0)], [[0]], [[1]], [6.0, 6.0], given={0: {0: 0.0}}, owed={1: 0})
    placement = place(light)
    assert placement.devices == [1]
    assert placement.makespan_ns == 6 + 10 + 6
    assert [(copy.value, copy.memory) for copy in placement.copies] == [(0, 1), (1, 0)]


def test_nothing_takes_no_time() -> None:
    placement = place(Problem(Fleet([1], [0], all_ways(1, 0.0, 1.0)), [], [], [], []))
    assert (placement.makespan_ns, placement.bound_ns, list(placement.order)) == (0.0, 0.0, [[]])


def test_large_graphs_get_less_effort_and_few_devices_more() -> None:
    few, many = (Fleet([1] * devices, range(devices), all_ways(devices, 0.0, 1.0)) for devices in (4, 5))
    assert (
        effort_for(FULL_TASKS, few).passes
        > effort_for(FULL_TASKS, many).passes
        > effort_for(FULL_TASKS + 1, few).passes
    )
    ports = Fleet([1] * 5, range(5), all_ways(5, 0.0, 1.0, contended=True))
    passes = [effort_for(tasks, ports).port_passes for tasks in (SMALL_TASKS, FULL_TASKS, FULL_TASKS + 1)]
    assert passes == sorted(passes, reverse=True)
    assert len(set(passes)) == 3


ONE = Fleet([1], [0], all_ways(1, 0.0, 1.0))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(Fleet([], [], []), [], [], [], []),
        Problem(Fleet([0], [0], all_ways(1, 0.0, 1.0)), [], [], [], []),
        Problem(ONE, [(math.inf,)], [()], [()], []),
        Problem(ONE, [(1.0, 2.0)], [()], [()], []),
        Problem(ONE, [(-1.0,)], [()], [()], []),
        Problem(ONE, [(1.0,)], [(0,)], [(0,)], [1.0]),
        Problem(ONE, [(1.0,), (1.0,)], [(), ()], [(0,), (0,)], [1.0]),
        Problem(ONE, [(1.0,)], [()], [(0,)], [1.0], given={0: {0: 0.0}}),
        Problem(ONE, [], [], [], [1.0], owed={0: 0}),
    ],
    ids=["no device", "no lane", "no place", "two devices", "negative", "own value", "twice", "made and given", "owed"],
)
def test_what_is_no_problem_is_refused(problem: Problem) -> None:
    with pytest.raises(InternalError):
        problem.verify()
