"""Where problems repeat themselves: what is found is a repeat, what repeats is found, and what only looks so is not."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.ir import no_breath
from fuel_async.plan.placement import Problem, tables_of
from fuel_async.plan.placement.repeats import BESIDE, Repeat, repeats_of
from tests.plan.placement.models import TWO, Model, block, check_repeat, models
from tests.plan.placement.support import problems, random_problem

LAYERS = 12


def found(problem: Problem, least: int = 4) -> tuple[Repeat, ...]:
    return repeats_of(tables_of(problem, no_breath), least)


# --- laws ---


@given(st.one_of(models(), problems()), st.integers(3, 6))
@settings(max_examples=80)
def test_what_is_found_repeats(problem: Problem, least: int) -> None:
    repeats = found(problem, least)
    for one in repeats:
        assert one.layers >= least
        assert 0 <= one.first < one.end <= len(problem)
        check_repeat(problem, one)
    for one, other in itertools.pairwise(repeats):
        assert one.end <= other.first


@pytest.mark.slow
@given(st.one_of(models(), problems(max_tasks=30)), st.integers(3, 6))
@settings(max_examples=2_000)
def test_all_that_is_found_repeats(problem: Problem, least: int) -> None:
    for one in found(problem, least):
        check_repeat(problem, one)


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(6, 20))
@settings(max_examples=60)
def test_any_block_that_is_repeated_is_found(seed: int, tasks: int, layers: int) -> None:
    """All of it but one layer: layers may be told to begin in the middle of a block."""
    chance, model = random.Random(seed), Model(TWO)
    shared = model.value()
    last, one = model.task(), replace(block(chance, 2, tasks), times_ns=[[5.0 + task, 50.0] for task in range(tasks)])
    for _ in range(layers):
        last = one.put(model, last, shared)
    model.task([last])
    (repeat,) = found(model.done())
    assert repeat.period * repeat.layers >= tasks * (layers - 1)
    assert tasks % repeat.period == 0


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_where_no_task_is_like_another(seed: int) -> None:
    assert found(random_problem(seed, 60, [1, 2]), 3) == ()


# --- layers among other things ---


def test_what_comes_first_and_last_is_no_part_of_it() -> None:
    model = Model()
    last = model.task([model.task([model.task((), 1.0)], 2.0)], 3.0)
    last = model.forks(last, LAYERS)
    model.task([model.task([last], 1.0)], 2.0)
    assert found(model.done()) == (Repeat(3, 4, LAYERS),)


@pytest.mark.parametrize("given_value", [True, False], ids=["given", "made"])
def test_layers_may_read_a_value_that_is_there_before_all_of_them(given_value: bool) -> None:
    model = Model()
    mask = model.value() if given_value else model.task((), 1.0)
    last, before = model.task([mask], 2.0), len(model.times_ns)
    for _ in range(LAYERS):
        last = model.task([model.task([last, mask], 30.0), model.task([last], 20.0)])
    assert found(model.done()) == (Repeat(before, 3, LAYERS),)


def test_layers_that_read_what_one_of_them_has_made_begin_behind_it() -> None:
    """The first four read the value before each, the others that of the fourth."""
    model, lasts = Model(), list[int]()
    lasts.append(model.task((), 1.0))
    for layer in range(LAYERS + 3):
        lasts.append(model.task([model.task([lasts[-1]], 30.0), lasts[min(layer, 3)]], 5.0))
    assert found(model.done()) == (Repeat(7, 2, LAYERS),)


def test_a_layer_that_is_another_divides_them() -> None:
    model = Model()
    last = model.fork(model.forks(model.task((), 1.0), 7), (30.0, 20.5, 40.0))
    model.forks(last, 9)
    assert found(model.done()) == (Repeat(1, 4, 7), Repeat(1 + 8 * 4, 4, 9))


def test_stretches_of_different_layers_are_told_apart() -> None:
    model = Model()
    last = model.forks(model.task((), 1.0), 8)
    for _ in range(9):
        last = model.task([model.task([last], 11.0)], 12.0)
    assert found(model.done()) == (Repeat(1, 4, 8), Repeat(33, 2, 9))


@pytest.mark.parametrize("what", ["time", "size", "owed", "nothing"])
def test_every_other_layer_may_differ(what: str) -> None:
    """In one of its two tasks: then two layers are one."""
    model = Model()
    last = model.task((), 1.0)
    for layer in range(24):
        odd = float(layer % 2)
        inner = model.task([last], 10.0 + (odd if what == "time" else 0), (8.0 + (odd if what == "size" else 0),))
        if odd and what == "owed":
            model.owed[inner] = 0
        last = model.task([inner], 20.0)
    period = 2 if what == "nothing" else 4
    assert found(model.done()) == (Repeat(1, period, 48 // period),)


def test_which_output_is_read_counts() -> None:
    """Every other layer reads the second output: two of them are one layer."""
    model = Model()
    last = model.task((), 1.0, (8.0, 8.0))
    for layer in range(16):
        last = model.task([last + layer % 2], 10.0, (8.0, 8.0))
    (one,) = found(model.done())
    assert (one.period, one.layers) == (2, 8)


# --- what only looks so ---


def copies(model: Model, count: int, *, linked: bool) -> None:
    last = model.task()
    for _ in range(count):
        first = last if linked else model.task()
        last = model.task([model.task([first], 30.0), model.task([first], 20.0)], 5.0)


@pytest.mark.parametrize("linked", [True, False])
def test_copies_beside_each_other_are_no_layers(linked: bool) -> None:
    model = Model()
    copies(model, LAYERS, linked=linked)
    assert bool(found(model.done())) == linked


def test_tasks_that_take_no_time_are_no_layers() -> None:
    model = Model()
    for _ in range(LAYERS):
        model.task((), 0.0)
    assert found(model.done()) == ()


def test_layers_begin_where_they_meet_wherever_they_were_found() -> None:
    """The first light branch is not alike: what is found begins behind it. No layer ends past what a join reads."""
    model = Model()
    last = model.fork(model.task((), 1.0), (0.7, 30.0))
    for _ in range(LAYERS):
        last = model.fork(last, (0.5, 30.0))
    assert found(model.done()) == (Repeat(4, 3, LAYERS),)


def test_requests_that_are_answered_beside_each_other_are_no_layers() -> None:
    """Eight models of twelve layers each, one behind the other; and layer by layer."""
    behind = Model()
    for _ in range(8):
        behind.forks(behind.task(), LAYERS)
    assert found(behind.done()) == ()
    beside = Model()
    lasts = [beside.task() for _ in range(8)]
    for _ in range(LAYERS):
        lasts = [beside.fork(last) for last in lasts]
    assert found(beside.done()) == ()


def test_layers_that_read_from_further_back_do_not_meet() -> None:
    model = Model()
    lasts = [model.task(), model.task()]
    for _ in range(LAYERS):
        lasts.append(model.task([model.task([lasts[-1]], 30.0), lasts[-2]], 5.0))
    assert found(model.done()) == ()


@pytest.mark.parametrize(("ns", "share"), [(1_000.0, 1), (1.0, 0)])
def test_much_that_goes_on_beside_them_hides_them(ns: float, share: int) -> None:
    """A chain of tasks before and behind, that the layers neither wait for nor lead to."""
    model = Model()
    other = model.task((), ns)
    last = model.task((), 1.0)
    model.forks(last, LAYERS)
    model.task([other], ns)
    assert bool(found(model.done())) == (not share)


@pytest.mark.parametrize("ns", [2 * BESIDE * 95.0, 0.5 * BESIDE * 95.0])
def test_much_that_layers_do_not_lead_to_hides_them(ns: float) -> None:
    """Each layer has a task whose value nobody reads."""
    model = Model()
    last = model.task()
    for _ in range(LAYERS):
        model.task([last], ns)
        last = model.fork(last)
    assert bool(found(model.done())) == (ns < BESIDE * 95.0)


def test_repeats_that_do_not_follow_each_other_hide_both() -> None:
    model = Model()
    begin = model.task((), 1.0)
    last = model.forks(begin, LAYERS)
    other = begin
    for _ in range(LAYERS):
        other = model.task([model.task([other], 11.0)], 12.0)
    model.task([last, other])
    assert found(model.done()) == ()


def test_looking_gives_way() -> None:
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    model = Model()
    model.forks(model.task(), 400)
    tables = tables_of(model.done(), no_breath)
    assert repeats_of(tables, 4, breathe)
    assert breaths >= 3 * len(tables) / 64
