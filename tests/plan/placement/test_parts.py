"""The parts of the planner: time lines of ports, passes, chains, the search, the bound, the replay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.errors import InternalError
from fuel_async.ir import no_breath
from fuel_async.plan.placement import STAYS, Fleet, Problem, Way, all_ways, tables_of
from fuel_async.plan.placement.bound import lower_bound_ns
from fuel_async.plan.placement.chains import expanded, merge
from fuel_async.plan.placement.ports import PortTimes, contended_sweep
from fuel_async.plan.placement.ranks import downward, optimistic_rest, speed_means, upward
from fuel_async.plan.placement.replay import replay
from fuel_async.plan.placement.search import search
from fuel_async.plan.placement.sweep import Pass, sweep
from fuel_async.plan.placement.two_way import heft, upward_order
from tests.plan.placement.support import problems, random_problem

if TYPE_CHECKING:
    from fuel_async.plan.placement import Tables

FREE = all_ways(2, 10.0, 1.0)


def chain(times: list[tuple[float, float]], nbytes: float = 5.0) -> Problem:
    count = len(times)
    reads = [[task - 1] if task else [] for task in range(count)]
    return Problem(Fleet([1, 1], [0, 1], FREE), times, reads, [[task] for task in range(count)], [nbytes] * count)


# --- ports ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 30), st.integers(1, 9)), max_size=12))
@settings(max_examples=30)
def test_a_copy_goes_as_early_as_both_ports_let_it(asked: list[tuple[int, int, int, int]]) -> None:
    times, busy = PortTimes(3, 0.0), list[tuple[int, int, int]]()
    for one, other, ready, took in asked:
        fits = [
            at
            for at in range(ready, ready + 500)
            if all(at >= end or at + took <= start for port, start, end in busy if port in (one, other))
        ]
        assert times.start_ns((one, other), ready, took) == fits[0]
        times.take((one, other), fits[0], fits[0] + took)
        busy += [(port, fits[0], fits[0] + took) for port in {one, other}]


def test_what_is_past_the_limit_is_not_looked_for() -> None:
    times = PortTimes(2, 0.0)
    times.take((0, 0), 10.0, 20.0)
    times.take((1, 1), 20.0, 30.0)
    assert times.start_ns((0, 1), 5.0, 8.0) == 30.0
    assert times.start_ns((0, 1), 5.0, 8.0, limit_ns=12.0) == 20.0


# --- passes -----------------------------------------------------------------------------------------------------------


def check_pass(tables: Tables, found: Pass) -> None:
    """Told from its start, a pass is a schedule that keeps its promise: each step starts no later than it says."""
    plan = found.forward()
    assert not plan.backward
    for task, device in enumerate(plan.devices):
        assert tables.lane_device[plan.lanes[task]] == device
        assert math.isclose(plan.ends_ns[task] - plan.starts_ns[task], tables.times_ns[task][device], abs_tol=1e-6)
    if not tables.problem.fleet.contended:
        assert replay(tables, plan).makespan_ns <= plan.makespan_ns + 1e-6


@given(problems())
@settings(max_examples=30)
def test_passes_of_both_directions_are_schedules(problem: Problem) -> None:
    tables = tables_of(problem, no_breath)
    found = heft(tables)
    for weight in (0.6, 0.4, 0.2):
        check_pass(tables, found)
        found = sweep(tables, found.order(), backward=not found.backward, ahead=found.ready_ns, weight=weight)


@given(problems())
@settings(max_examples=30)
def test_passes_with_ports_are_schedules(problem: Problem) -> None:
    tables = tables_of(problem, no_breath)
    found = contended_sweep(tables, upward_order(tables), ahead=optimistic_rest(tables), weight=0.5)
    for weight in (0.5, 0.3):
        check_pass(tables, found)
        assert len(replay(tables, found.forward()).starts_ns) == len(problem)
        found = contended_sweep(tables, found.order(), backward=not found.backward, ahead=found.ready_ns, weight=weight)


@given(problems())
@settings(max_examples=30)
def test_without_ports_both_kinds_of_passes_are_the_same(problem: Problem) -> None:
    ways = [[Way(way.latency_ns, way.ns_per_byte) for way in row] for row in problem.fleet.ways]
    fleet = Fleet(problem.fleet.lanes, problem.fleet.memories, ways)
    free = Problem(fleet, problem.times_ns, problem.reads, problem.writes, problem.nbytes, problem.given, problem.owed)
    tables = tables_of(free, no_breath)
    order = upward_order(tables)
    assert math.isclose(
        contended_sweep(tables, order).makespan_ns, sweep(tables, order).makespan_ns, rel_tol=0.5, abs_tol=1e-6
    )


def test_a_pass_fills_holes() -> None:
    """The second task waits for the first on the other device; the third, of least rank, runs in the hole before it."""
    problem = Problem(
        Fleet([1, 1], [0, 1], all_ways(2, 10.0, 1.0)),
        [(10.0, math.inf), (math.inf, 50.0), (math.inf, 15.0)],
        [[], [0], []],
        [[0], [], []],
        [5.0],
    )
    tables = tables_of(problem, no_breath)
    found = sweep(tables, [0, 1, 2])
    assert found.starts_ns == [0.0, 25.0, 0.0]
    assert found.makespan_ns == 75.0


def test_what_is_ahead_moves_a_task_to_where_its_reader_must_be() -> None:
    problem = chain([(10.0, 12.0), (math.inf, 10.0)])
    tables = tables_of(problem, no_breath)
    assert sweep(tables, [0, 1]).devices == [0, 1]
    looking = sweep(tables, [0, 1], ahead=optimistic_rest(tables), weight=1.0)
    assert looking.devices == [1, 1]
    assert looking.makespan_ns == 22.0


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_ranks_of_a_chain() -> None:
    tables = tables_of(chain([(10.0, 20.0), (30.0, 30.0)]), no_breath)
    assert tables.mean_ns == [15.0, 30.0]
    assert tables.mean_move_ns == [15.0, 15.0]
    assert upward(tables, tables.mean_ns, tables.mean_move_ns) == [60.0, 30.0]
    assert downward(tables, tables.mean_ns, tables.mean_move_ns) == [0.0, 30.0]
    assert optimistic_rest(tables) == [[30.0, 30.0], [0.0, 0.0]]
    assert speed_means(tables) == [2 / (1 / 10 + 1 / 20), 30.0]


def test_the_mean_counts_lanes_that_can_run_a_task() -> None:
    problem = Problem(Fleet([3, 1], [0, 1], FREE), [(10.0, 30.0), (10.0, math.inf)], [[], []], [[], []], [])
    assert tables_of(problem, no_breath).mean_ns == [15.0, 10.0]


# --- chains -----------------------------------------------------------------------------------------------------------


def test_a_chain_becomes_one_task() -> None:
    merged = merge(tables_of(chain([(10.0, 20.0), (30.0, 30.0), (10.0, 9.0)]), no_breath))
    assert merged is not None
    assert merged.members == [[0, 1, 2]]
    assert merged.tables.times_ns == [[50.0, 59.0]]


def test_a_chain_that_wants_to_change_device_is_not_merged() -> None:
    """The second task is faster on the other device, by more than the move takes."""
    assert merge(tables_of(chain([(10.0, 90.0), (90.0, 10.0)]), no_breath)) is None
    assert merge(tables_of(chain([(10.0, 90.0), (90.0, 10.0)], nbytes=100.0), no_breath)) is not None


def test_forks_joins_and_what_the_outside_has_are_not_merged() -> None:
    fork = Problem(Fleet([1], [0], [[STAYS]]), [(1.0,)] * 3, [[], [0], [0]], [[0], [], []], [1.0])
    assert merge(tables_of(fork, no_breath)) is None
    fleet = Fleet([1, 1], [0, 1], FREE)
    fed = Problem(fleet, [(1.0, 1.0)] * 2, [[], [0, 1]], [[1], []], [1.0, 1.0], given={0: {0: 0.0}})
    assert merge(tables_of(fed, no_breath)) is None
    owing = Problem(fleet, [(1.0, 1.0)] * 2, [[], [0]], [[0], []], [1.0], owed={0: 0})
    assert merge(tables_of(owing, no_breath)) is None


@given(problems())
@settings(max_examples=30)
def test_a_schedule_of_chains_is_one_of_their_tasks(problem: Problem) -> None:
    tables = tables_of(problem, no_breath)
    chains = merge(tables)
    if chains is None:
        return
    found = heft(chains.tables)
    for one in (found, sweep(chains.tables, found.order(), backward=True, ahead=found.ready_ns)):
        told = expanded(chains, tables, one)
        check_pass(tables, told)
        assert told.makespan_ns == one.makespan_ns
        assert [told.devices[members[0]] for members in chains.members] == list(one.devices)


# --- search, bound, replay --------------------------------------------------------------------------------------------


@given(problems(), st.integers(0, 1_000))
@settings(max_examples=30)
def test_the_search_never_makes_it_longer(problem: Problem, evaluations: int) -> None:
    tables = tables_of(problem, no_breath)
    first = heft(tables)
    found = search(tables, first, evaluations)
    assert found.makespan_ns <= first.makespan_ns * (1 + 1e-6) + 1e-6
    check_pass(tables, found)


def test_the_search_moves_a_critical_task() -> None:
    """Two tasks on one device, where one would have a device for itself."""
    problem = Problem(Fleet([1, 1], [0, 1], FREE), [(10.0, 10.0)] * 2, [[], []], [[], []], [])
    tables = tables_of(problem, no_breath)
    bad = Pass(20.0, [0, 0], [0, 0], [0.0, 10.0], [10.0, 20.0], [])
    assert search(tables, bad, 1_000).makespan_ns == 10.0


def test_the_bound_is_that_of_work_of_ways_and_of_both() -> None:
    fleet = Fleet([1, 1], [0, 1], FREE)
    work = Problem(fleet, [(10.0, 30.0)] * 8, [[]] * 8, [[]] * 8, [])
    assert 59.0 < lower_bound_ns(tables_of(work, no_breath)) <= 60.0 + 1e-6  # 6 on the fast one, 2 on the other
    assert lower_bound_ns(tables_of(chain([(10.0, 20.0), (30.0, 20.0)]), no_breath)) == 30.0
    late = Problem(fleet, [(10.0, 10.0)] * 9, [[], *[[0]] * 8], [[0], *[[]] * 8], [5.0])
    assert lower_bound_ns(tables_of(late, no_breath)) == pytest.approx(50.0)


def test_a_plan_that_waits_for_itself_is_an_error() -> None:
    tables = tables_of(chain([(10.0, 10.0), (10.0, 10.0)]), no_breath)
    backwards = Pass(20.0, [0, 0], [0, 0], [10.0, 0.0], [20.0, 10.0], [])
    with pytest.raises(InternalError, match="0 of 2 tasks"):
        replay(tables, backwards)
    with pytest.raises(InternalError, match="no cycle"):
        search(tables, backwards, 100)


def test_a_replay_takes_other_times() -> None:
    tables = tables_of(chain([(10.0, 10.0), (10.0, 10.0)]), no_breath)
    plan = Pass(20.0, [0, 0], [0, 0], [0.0, 10.0], [10.0, 20.0], [])
    assert replay(tables, plan, times_ns=[(1.0, 1.0), (7.0, 7.0)]).makespan_ns == 8.0


@pytest.mark.parametrize("planned", [False, True])
def test_ports_carry_one_copy_at_a_time(planned: bool) -> None:
    problem = random_problem(3, 60, [1, 1, 1], contended=True)
    tables = tables_of(problem, no_breath)
    copies = replay(tables, heft(tables), planned=planned).copies
    assert len(copies) > 20
    for number, one in enumerate(copies):
        for other in copies[number + 1 :]:
            if one.source == other.source or one.memory == other.memory:
                assert other.start_ns >= one.sent_ns - 1e-9
