"""Runs whose plan is made again while they go: when that is asked for, and what comes of the answer."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.schedule import (
    HOST,
    DryRun,
    Prior,
    Question,
    RegionFinished,
    Resweep,
    Reswept,
    RunShape,
    answer,
    dry_run,
    earliest_finish,
    prior_of,
)
from fuel_async.schedule.basis import ROLLS_FROM, ROLLS_FROM_NS
from fuel_async.schedule.rolling import FEWEST, Course
from tests.schedule.spread_support import LETTERS, Checked, Mesh, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES = [gpu(1), gpu(2)]
NS = 1_000_000


def planned(text: str, *, rolls: bool = True, nbytes: Mapping[str, int] | None = None) -> RunShape:
    shape = spread(text, outputs="", nbytes=nbytes)
    prior = prior_of(shape, DEVICES, Mesh())
    assert prior is not None
    assert prior.basis is not None
    prior.basis.rolls = rolls
    return replace(shape, prior=prior)


def without(shape: RunShape) -> RunShape:
    """The same plan, kept to the end."""
    assert shape.prior is not None
    return replace(shape, prior=replace(shape.prior, basis=None))


def carried_out(shape: RunShape, *slower: float) -> DryRun:
    """On devices that take so many times longer than is told."""
    spread = shape.spread
    assert spread is not None
    prices = spread.prices
    return dry_run(
        DEVICES,
        Mesh(),
        earliest_finish,
        shape,
        took_ns=lambda region, device: int((prices.region_ns(region, device) or 0) * slower[device]),
    )


#: Twenty-two regions of 1 ms that read nothing of each other.
MANY = " ".join(f"{letter}={NS}" for letter in LETTERS[:22])


# --- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "ns", "rolls"),
    [
        (ROLLS_FROM, 2 * ROLLS_FROM_NS + 1_000, True),
        (ROLLS_FROM - 2, 2 * ROLLS_FROM_NS + 1_000, False),
        (ROLLS_FROM, 2 * ROLLS_FROM_NS - 1_000, False),
    ],
)
def test_only_plans_that_take_long_enough_are_made_again(count: int, ns: int, rolls: bool) -> None:
    prior = prior_of(spread(" ".join(f"{letter}={ns}" for letter in LETTERS[:count]), outputs=""), DEVICES, Mesh())
    assert prior is not None
    assert prior.basis is not None
    assert prior.basis.rolls is rolls


def questions(machine: Checked, took: float) -> list[Question]:
    """Play the only run with regions that take so many times longer; what was asked."""
    asked: list[Question] = []
    while machine.runs:
        (state,) = machine.runs.values()
        region = next(iter(state.in_flight))
        predicted_ns = state.promised_ns[region]
        machine.at_ns += int(predicted_ns * took)
        told = machine.handle(RegionFinished(0, region, int(predicted_ns * took)), machine.at_ns)
        asked += [one.question for one in told if isinstance(one, Resweep)]
    return asked


def test_a_run_that_goes_as_planned_asks_for_nothing() -> None:
    shape = planned(MANY)
    assert carried_out(shape, 1, 1) == carried_out(without(shape), 1, 1)
    machine = Checked(gpu(1), gpu(2))
    machine.admit(0, planned(MANY, rolls=False))
    assert questions(machine, 3) == []


def test_it_asks_once_until_it_is_answered() -> None:
    machine = Checked(*DEVICES)
    machine.admit(0, planned(MANY))
    (question,) = questions(machine, 3)
    assert len(question.progress.left) <= 22 - FEWEST
    assert max(question.factors) > 1.05


def test_an_answer_to_a_run_that_has_ended_is_no_matter() -> None:
    machine = Checked(*DEVICES)
    machine.admit(0, planned(MANY))
    (question,) = questions(machine, 3)
    assert machine.tell(Reswept(0, answer(question))) == ""


def test_a_device_that_joined_after_the_plan_is_not_in_it_and_what_lies_there_comes_from_the_host() -> None:
    """The devices of the plan have enough to do, so a goes to the new one, and then another region, behind a long copy.

    When one of the first device has ended, what is left is placed on these two, and from the host.
    """
    machine = Checked(gpu(1, slots=1), gpu(2, slots=1))
    machine.at_ns = NS
    machine.admit(1, spread(f"a={50 * NS}@0 b={50 * NS}@1", outputs=""))
    shape = planned(f"a={NS} b:Y={NS} c:Y={NS} d:Y={NS} e:Y={NS}", nbytes={"Y": 30 * NS})
    machine.admit(0, shape)
    machine.at_ns = 40 * NS
    machine.added(gpu(3, slots=1))
    state = machine.runs[0]
    assert machine.machine.device_of[state.in_flight[0]] == 2
    state.course = Course(len(state.shape), len(DEVICES))
    machine.at_ns += NS
    assert machine.handle(RegionFinished(0, 0, 2 * NS), machine.at_ns)
    (region,) = state.in_flight
    assert machine.machine.device_of[state.in_flight[region]] == 2
    machine.finish(1, "a")
    state.course.every = 1
    first = next(region for region, lane in state.in_flight.items() if lane == 0)
    machine.at_ns += NS // 2
    told = machine.handle(RegionFinished(0, first, NS), machine.at_ns)
    (question,) = [one.question for one in told if isinstance(one, Resweep)]
    y, a, b = range(3)
    progress, since_ns = question.progress, state.since_ns
    assert state.places[a] == {3: since_ns + 40 * NS}
    assert progress.places[a] == {0: 40 * NS}
    assert state.in_flight == {region: 2, 3: 0}
    assert progress.places[b] == {0: state.places[y][3] - since_ns + NS}  # when it is made there
    assert progress.places[y] == {0: 0, 1: state.places[y][1] - since_ns}  # not when it is on the new one
    assert len(progress.free_ns) == len(question.factors) == 2
    assert set(answer(question).devices) <= {0, 1}


@pytest.mark.parametrize("took_ns", [0, NS])
def test_regions_of_no_time_are_placed_anew_like_others(took_ns: int) -> None:
    """All of the first device takes no time, as far as is told; the second one has to do for its part."""
    text = " ".join(f"{letter}=0" for letter in LETTERS[:8])
    assert planned(text).prior is not None
    shape = planned(f"{text} i={NS} j={NS} k={NS} l={NS}")
    machine = Checked(gpu(1), gpu(2))
    machine.admit(0, shape)
    state = machine.runs[0]
    assert state.course is not None
    state.course.every = 1
    while state.left > 1:
        region = next(iter(state.in_flight))
        machine.at_ns += took_ns
        for one in machine.handle(RegionFinished(0, region, took_ns), machine.at_ns):
            if isinstance(one, Resweep):
                assert all(math.isfinite(factor) for factor in one.question.factors)
                prior = answer(one.question)
                assert sorted({*prior.devices}) == [0, 1]
                machine.tell(Reswept(0, prior))


def test_a_run_that_lost_a_device_goes_by_its_old_plan() -> None:
    machine = Checked(gpu(1), gpu(2), gpu(3))
    machine.admit(0, planned(MANY))
    machine.gone(2, RuntimeError("gone"))
    assert questions(machine, 3) == []


# --- what comes of it -------------------------------------------------------------------------------------------------


def test_a_slow_device_gets_less_of_what_is_left() -> None:
    shape = planned(MANY)
    rolling, kept = carried_out(shape, 1, 2), carried_out(without(shape), 1, 2)
    on_slow = [sum(d.chosen.device == 1 for d in dry.decisions.values()) for dry in (rolling, kept)]
    assert on_slow[0] < on_slow[1]
    assert rolling.makespan_ns < 0.9 * kept.makespan_ns


def test_the_plan_of_others_of_its_shape_stays() -> None:
    shape = planned(MANY)
    before = shape.prior
    assert before is not None
    devices = list(before.devices)
    carried_out(shape, 1, 3)
    assert shape.prior is before
    assert list(before.devices) == devices


def test_values_that_are_there_go_to_where_they_are_read_now() -> None:
    """b was to read a where it was made; the answer has b on the other device, where the run is at work."""
    text = f"a={NS} b:a={NS} c={NS} d:c={NS}"
    shape = planned(text)
    prior = Prior([0, 0, 1, 1], [0, NS, 0, NS], [[(0, 1)], [], [(2, 2)], []], 2 * NS, basis=shape.prior.basis)  # type: ignore[union-attr]
    machine = Checked(gpu(1, slots=1), gpu(2, slots=1))
    machine.admit(0, replace(shape, prior=replace(prior, ends_ns=[NS, 2 * NS, NS, 2 * NS])))
    machine.admit(1, spread(f"a={NS}@0", outputs=""))
    state = machine.runs[0]
    machine.at_ns = NS
    machine.finish(0, "a")
    assert not state.is_issued(1)
    assert machine.tell(Reswept(0, replace(prior, devices=[0, 1, 1, 1]))) == "0a 1>2"
    assert state.prior is not None
    assert state.prior.devices[1] == 1


@st.composite
def shapes(draw: st.DrawFn) -> RunShape:
    """Up to sixteen regions that read some of those before them, with a plan."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    words = []
    for number in range(draw(st.integers(4, 16))):
        read = "".join(sorted(chance.sample(LETTERS[:number], min(number, chance.randint(0, 2)))))
        after = f"/{LETTERS[number - 1]}" if number and chance.random() < 0.2 else ""
        words.append(f"{LETTERS[number]}:{read}{chance.choice(('', 'X'))}{after}={chance.randint(1_000, 90_000)}")
    shape = spread(" ".join(words))
    prior = prior_of(shape, DEVICES, Mesh())
    assert prior is not None
    assert prior.basis is not None
    prior.basis.rolls = True
    return replace(shape, prior=prior)


@given(shapes(), st.floats(0.3, 3), st.floats(0.3, 3))
@settings(max_examples=40)
def test_every_answer_is_a_plan_of_the_same_run(shape: RunShape, one: float, other: float) -> None:
    dry = carried_out(shape, one, other)
    assert dry.error is None
    assert len(dry.finished_ns) == len(shape)
    assert all(
        dry.finished_ns[need] <= dry.started_ns[region] for region, needs in enumerate(shape.needs) for need in needs
    )
    assert {memory for _, _, memory, _ in dry.copies} <= {HOST, 1, 2}
