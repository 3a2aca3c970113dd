"""The benchmarks of plans: graphs and machines are what they say, and simulated runs carry plans out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from benchmarks.arrivals import RULES, figures
from benchmarks.collecting import held
from benchmarks.dags import MEAN_WORK_NS, Dag
from benchmarks.families import FAMILIES, WORKFLOWS
from benchmarks.machines import MACHINES, instances, problem_on
from benchmarks.makespan import NOISE, ONLY_HEFT
from benchmarks.scheduled import ratios, with_links
from benchmarks.simulated_run import Order, Policy, carried_out_ns
from fuel_async.ir import no_breath
from fuel_async.plan.placement import Origin, Placement, Problem, Tables, place, tables_of
from tests.plan.placement.support import problems, random_problem

#: Workflows have tests of their own.
DRAWN = [name for name in FAMILIES if name != WORKFLOWS]


def planned(problem: Problem) -> tuple[Tables, Placement]:
    return tables_of(problem, no_breath), place(problem)


# --- graphs and machines ----------------------------------------------------------------------------------------------


def dag(family: str, seed: int = 0, tasks: int = 80) -> Dag:
    return FAMILIES[family].draw(tasks, random.Random(seed))


@pytest.mark.parametrize("family", DRAWN)
def test_graphs_are_in_topological_order_and_of_about_the_size(family: str) -> None:
    for seed in range(4):
        drawn = dag(family, seed)
        assert all(pred < task for task, preds in enumerate(drawn.preds) for pred in preds)
        assert all(len(set(preds)) == len(preds) for preds in drawn.preds)
        assert len(drawn.preds) == len(drawn.work_ns) == len(drawn.nbytes) == len(drawn.kinds)
        assert 30 <= len(drawn.preds) <= 200
        assert min(drawn.work_ns) > 0
        assert set(drawn.kinds) <= {0, 1, 2}


@pytest.mark.parametrize("family", DRAWN)
def test_a_seed_draws_the_same_graph_again(family: str) -> None:
    assert dag(family, 3) == dag(family, 3)
    assert any(dag(family, 3) != dag(family, seed) for seed in range(4, 12))


def test_a_stencil_reads_its_neighbours() -> None:
    drawn = dag("stencil", tasks=100)
    width = next(task for task, preds in enumerate(drawn.preds) if preds)
    assert drawn.preds[width + 1] == [0, 1, 2]
    assert drawn.preds[width] == [0, 1]
    assert abs(sum(drawn.work_ns) / len(drawn.work_ns) / MEAN_WORK_NS - 1) < 0.15


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
def test_moves_are_scaled_to_the_ratio(name: str, ratio: float) -> None:
    problem = problem_on(MACHINES[name], dag("layered-1"), random.Random(0), ratio)
    problem.verify()
    tables = tables_of(problem, no_breath)
    read = sorted({value for reads in problem.reads for value in reads})
    moves = [tables.mean_move_ns[value] for value in read]
    work = sum(tables.mean_ns) / len(tables)
    assert ratio * 0.99 <= sum(moves) / len(moves) / work <= max(ratio * 1.05, 0.3)


def test_every_instance_is_a_problem() -> None:
    drawn = list(instances(5, DRAWN, (30,), 1, contended=True))
    assert {(one.family, one.machine) for one in drawn} == {(family, name) for family in DRAWN for name in MACHINES}
    for one in drawn:
        one.problem.verify()
        assert one.problem.fleet.contended


# --- simulated runs ---------------------------------------------------------------------------------------------------


@given(problems())
@settings(max_examples=40)
def test_a_plan_that_is_carried_out_as_told_keeps_its_promise(problem: Problem) -> None:
    tables, plan = planned(problem)
    assert carried_out_ns(tables, plan, problem.times_ns) == pytest.approx(plan.makespan_ns)


@given(problems())
@settings(max_examples=40)
def test_live_runs_end_and_beat_no_bound(problem: Problem) -> None:
    tables, plan = planned(problem)
    for policy in (Policy.GUARDED, Policy.ROLLING):
        assert carried_out_ns(tables, plan, problem.times_ns, policy) >= plan.bound_ns * (1 - 1e-9) - 1e-6


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("contended", [False, True])
def test_live_runs_end_with_other_times(name: str, contended: bool) -> None:
    problem = random_problem(7, 60, [1, 2, 1], contended=contended)
    tables, plan = planned(problem)
    truth_ns = NOISE[name](problem, random.Random(1))
    assert truth_ns != problem.times_ns
    took = {policy: carried_out_ns(tables, plan, truth_ns, policy) for policy in Policy}
    assert max(took.values()) < 2.2 * min(took.values())


def test_copies_that_come_first_go_first_unless_they_are_planned() -> None:
    problem = random_problem(11, 80, [1, 1, 1], contended=True)
    tables, plan = tables_of(problem, no_breath), place(problem, ONLY_HEFT)
    assert plan.origin is Origin.HEFT
    as_they_come = carried_out_ns(tables, plan, problem.times_ns, order=Order.AS_THEY_COME)
    assert as_they_come == pytest.approx(plan.makespan_ns)


# --- the stream, and the collector ------------------------------------------------------------------------------------


def test_the_stream_has_a_figure_for_every_load() -> None:
    found = figures(2_000, seed=1)
    assert 0.95 <= found["stream_of_capacity"] <= 1.05
    assert 0.6 <= found["stream_vs_count"] <= 1
    assert found["stream_p95.0.6"] < found["stream_p95.0.8"]
    assert RULES.keys() == {"ours", "count"}


def test_the_collector_is_held_and_let_go() -> None:
    import gc

    with held():
        assert not gc.isenabled()
    assert gc.isenabled()


# --- the scheduler ----------------------------------------------------------------------------------------------------


def test_the_scheduler_is_compared_with_a_plan_and_without() -> None:
    noise = {"slow": NOISE["slow"]}
    found: dict[str, list[float]] = {}
    for name, ratio in ratios(instances(2, ["tree", "layered-1"], (30,), 1), noise, 2):
        found.setdefault(name, []).append(ratio)
    assert {name: len(some) for name, some in found.items()} == dict.fromkeys(
        (
            "scheduled_vs_heft",
            "scheduled_vs_promised",
            "scheduled_without_plan_vs_heft",
            "scheduled_live_vs_heft.slow",
        ),
        2 * len(MACHINES),
    )
    assert sum(found["scheduled_vs_heft"]) < sum(found["scheduled_without_plan_vs_heft"])


def test_a_task_graph_as_a_run_has_its_times() -> None:
    problem = with_links(random_problem(1, 10, [1, 1]))
    tables, plan = planned(problem)
    assert carried_out_ns(tables, plan, problem.times_ns) == pytest.approx(plan.makespan_ns)
    assert problem.fleet.ways[0][1].ports == (1, 1)
