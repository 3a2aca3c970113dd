"""Folded plans: valid, never longer than HEFT's, and what a plan of all layers would be."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice

import pytest
from hypothesis import given, settings

from fuel_async.ir import no_breath
from fuel_async.plan.placement import (
    Effort,
    Fleet,
    Origin,
    Placement,
    Problem,
    all_ways,
    effort_for,
    place,
    tables_of,
)
from fuel_async.plan.placement.fold import KEPT, SHARE, Short, shortened
from fuel_async.plan.placement.replay import lane_orders, replay
from fuel_async.plan.placement.two_way import FULL, QUICK, SMALL, heft
from tests.plan.placement.models import Model, models
from tests.plan.placement.support import check_placement

LAYERS = 40
#: By branch of a layer and device.
ROWS = ((30.0, 15.0, 20.0), (20.0, 25.0, 30.0), (40.0, 30.0, 10.0), (20.0, 20.0, 25.0))
#: Behind a link that is worth crossing.
FLEET = Fleet([1, 1], [0, 1], all_ways(2, 2.0, 4.0))


def short_of(problem: Problem) -> Short:
    found = shortened(tables_of(problem, no_breath))
    assert found is not None
    return found


def unfolded_plan(problem: Problem) -> Placement:
    """What is planned with all layers."""
    return place(problem, effort_for(len(problem), problem.fleet)._replace(folds=False))


def forks(fleet: Fleet = FLEET, layers: int = LAYERS) -> Model:
    """Layers of which a device takes some branches."""
    model = Model(fleet)
    last = model.task((), 5.0)
    for _ in range(layers):
        branches = [model.task([last], [*row, 40.0, 45.0, 50.0][: len(fleet.lanes)]) for row in ROWS]
        last = model.task(branches, 5.0)
    model.task([last], 5.0)
    return model


# --- laws ---


@given(models(least=KEPT, most=16))
@settings(max_examples=30)
def test_folded_plans_are_valid_and_never_longer_than_hefts(problem: Problem) -> None:
    placement = place(problem)
    check_placement(problem, placement)
    tables = tables_of(problem, no_breath)
    assert placement.makespan_ns <= replay(tables, heft(tables), planned=False).makespan_ns
    short = shortened(tables)
    if short is not None:
        short.problem.verify()
        assert len(short.problem) <= SHARE * len(problem)
        _check_unfolded(problem, short)


def _check_unfolded(problem: Problem, short: Short) -> None:
    """Whatever wins: what a plan of the short form comes to is a placement."""
    plan = short.unfolded(place(short.problem))
    if plan is not None:
        tables = tables_of(problem, no_breath)
        played = replay(tables, plan)
        order = lane_orders(tables, plan)
        check_placement(
            problem,
            Placement(
                plan.devices, plan.lanes, played.starts_ns, played.ends_ns, order, played.copies, played.makespan_ns,
                0.0, Origin.FOLDED,
            ),
        )  # fmt: skip


@pytest.mark.slow
@given(models(least=KEPT, most=30))
@settings(max_examples=600)
def test_many_folded_plans_are_valid(problem: Problem) -> None:
    check_placement(problem, place(problem))


# --- what it comes to ---


@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("devices", [2, 3])
def test_a_folded_plan_is_as_short_as_one_of_all_layers(devices: int, contended: bool) -> None:
    fleet = Fleet([1] * devices, range(devices), all_ways(devices, 2.0, 4.0, contended=contended))
    problem = forks(fleet).done()
    placement, plain = place(problem), unfolded_plan(problem)
    check_placement(problem, placement)
    assert placement.origin is Origin.FOLDED
    assert plain.origin is not Origin.FOLDED
    assert placement.makespan_ns <= 1.01 * plain.makespan_ns
    tables = tables_of(problem, no_breath)
    assert placement.makespan_ns < 0.99 * replay(tables, heft(tables), planned=False).makespan_ns


def test_layers_that_are_left_out_go_where_others_went() -> None:
    problem = forks().done()
    placement = place(problem)
    layers = [tuple(placement.devices[first : first + 5]) for first in range(1, 1 + 5 * LAYERS, 5)]
    assert max(map(layers.count, layers)) >= LAYERS - KEPT + 1
    assert len(set(layers[0])) == 2


@pytest.mark.parametrize("contended", [False, True])
def test_layers_that_are_put_in_start_when_they_can(contended: bool) -> None:
    """What is told of all layers is what comes of it, to the nanosecond."""
    problem = forks(Fleet([1, 1], [0, 1], all_ways(2, 2.0, 4.0, contended=contended))).done()
    short = short_of(problem)
    whole = short.unfolded(place(short.problem))
    assert whole is not None
    assert whole.starts_ns == pytest.approx(replay(tables_of(problem, no_breath), whole).starts_ns)


def test_what_is_read_has_ended_whatever_the_plan_says() -> None:
    problem = forks().done()
    short = short_of(problem)
    plan = place(short.problem)
    nothing = [0.0] * len(plan.devices)
    whole = short.unfolded(replace(plan, starts_ns=nothing, ends_ns=nothing))
    assert whole is not None
    made_by = problem.producers()
    for task, reads in enumerate(problem.reads):
        assert all(whole.ends_ns[made_by[value]] <= whole.starts_ns[task] for value in reads)


def test_most_layers_are_not_planned() -> None:
    short = short_of(forks(layers=100).done())
    assert len(short.problem) == 5 * KEPT + 2


def test_what_comes_first_and_last_stays() -> None:
    model = Model(FLEET)
    last = model.task([model.task((), 3.0)], 4.0)
    for _ in range(LAYERS):
        last = model.task([model.task([last], (30.0, 15.0)), model.task([last], (20.0, 25.0))], 5.0)
    model.owed[model.task([last], 6.0)] = 0
    problem = model.done()
    short = short_of(problem).problem
    assert [row[0] for row in short.times_ns[:2]] == [3.0, 4.0]
    assert short.times_ns[-1][0] == 6.0
    assert list(short.owed.values()) == [0]
    check_placement(problem, place(problem))


def test_a_value_that_all_layers_read_is_read_by_those_that_are_kept() -> None:
    model = Model(FLEET)
    mask = model.value()
    last = model.task([mask], 5.0)
    for _ in range(LAYERS):
        last = model.task([model.task([last, mask], (30.0, 15.0)), model.task([last], (20.0, 25.0))], 5.0)
    problem = model.done()
    short = short_of(problem).problem
    (value,) = short.given
    assert sum(value in reads for reads in short.reads) == 1 + (len(short) - 1) // 3
    check_placement(problem, place(problem))


def test_who_reads_from_all_layers_reads_from_those_that_are_kept() -> None:
    """The last task reads the first branch of each layer: no value stands for two."""
    model = forks()
    first_branches = [model.writes[task][0] for task in range(1, 1 + 5 * LAYERS, 5)]
    model.task(first_branches, 5.0)
    problem = model.done()
    short = short_of(problem).problem
    reads = short.reads[-1]
    assert len(set(reads)) == len(reads)
    assert len(reads) == KEPT
    check_placement(problem, place(problem))


def test_a_layer_that_is_another_stays_between_those_that_are_left_out() -> None:
    model = forks()
    odd = model.task([model.writes[-1][0]], (37.0, 37.0))
    last = model.task([odd])
    for _ in range(LAYERS):
        last = model.task([model.task([last], row[:2]) for row in ROWS], 5.0)
    problem = model.done()
    short = short_of(problem).problem
    assert [row[0] for row in short.times_ns].count(37.0) == 1
    assert len(short) < 5 * (2 * KEPT + 3)
    placement, plain = place(problem), unfolded_plan(problem)
    check_placement(problem, placement)
    assert placement.origin is Origin.FOLDED
    assert placement.makespan_ns <= 1.01 * plain.makespan_ns


# --- when it is not done ---


def test_few_layers_are_planned_as_they_are() -> None:
    assert shortened(tables_of(forks(layers=2 * KEPT - 1).done(), no_breath)) is None


def test_as_soon_as_half_of_the_tasks_can_be_left_out_they_are() -> None:
    assert short_of(forks(layers=2 * KEPT + 1).done())


def test_a_short_repeat_in_a_large_graph_is_not_worth_it() -> None:
    model, last = forks(), 0
    for number in range(LAYERS * 5):
        last = model.task([last], (10.0 + number, 10.0))
    assert shortened(tables_of(model.done(), no_breath)) is None


@pytest.mark.parametrize(
    ("ends", "put_in"),
    [
        ((0, 0, 0, 0, 0, 0), (0,)),
        ((1, 0, 1, 2, 2, 1), (2,)),
        ((0, 1, 0, 1, 0, 1), (1, 0)),
        ((0, 1, 2, 0, 1, 2), (1, 2, 0)),
        ((0, 1, 2, 3, 4, 5), None),
    ],
)
def test_those_layers_are_put_in_that_can_follow_themselves(
    ends: tuple[int, ...], put_in: tuple[int, ...] | None
) -> None:
    """The devices that layers of the short form end on, and of those that are put in behind."""
    devices = len(set(ends))
    short = short_of(forks(Fleet([1] * devices, range(devices), all_ways(devices, 2.0, 4.0))).done())
    plan = place(short.problem)
    changed = list(plan.devices)
    changed[5 : 5 + 5 * KEPT : 5] = ends
    level = [5.0 * task for task in range(len(changed))]  # all layers take the same time
    whole = short.unfolded(replace(plan, devices=changed, starts_ns=level, ends_ns=level))
    assert (whole is None) == (put_in is None)
    if whole is not None and put_in is not None:
        found = whole.devices[5 : 5 + 5 * LAYERS : 5]
        more = list(islice(cycle(put_in), LAYERS - KEPT))
        assert found in [[*ends[:cut], *more, *ends[cut:]] for cut in range(KEPT + 1)]
        assert whole.starts_ns == sorted(whole.starts_ns)


def test_of_the_layers_that_can_follow_themselves_the_quickest_are_put_in() -> None:
    short = short_of(forks().done())
    plan = place(short.problem)
    devices = [0] * len(plan.devices)
    devices[1 + 5 * 3 : 1 + 5 * 4 - 1] = [1] * 4  # the branches of the fourth layer
    starts_ns = [5.0 * task if task < 16 else 5.0 * task - 1 for task in range(len(devices))]
    starts_ns[20] -= 1
    whole = short.unfolded(replace(plan, devices=devices, starts_ns=starts_ns, ends_ns=starts_ns))
    assert whole is not None
    assert whole.devices.count(1) == 4 * (LAYERS - KEPT + 1)


def test_where_no_layers_can_follow_themselves_all_of_them_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = forks().done()
    monkeypatch.setattr(Short, "unfolded", lambda short, plan: None)
    found, plain = place(problem), unfolded_plan(problem)
    assert (found.origin, found.makespan_ns) == (plain.origin, plain.makespan_ns)


def test_every_effort_folds_but_hefts_alone() -> None:
    assert all(effort.folds for effort in (*FULL.values(), SMALL, *QUICK.values()))
    assert place(forks().done(), Effort()).origin is Origin.HEFT


def test_folding_gives_way() -> None:
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    problem = forks(layers=200).done()
    short = shortened(tables_of(problem, no_breath), breathe)
    assert short is not None
    assert breaths >= 4 * len(problem) / 64
    plan = place(short.problem)
    before = breaths
    short.unfolded(plan)
    assert breaths - before >= len(problem) / 64
