"""Runs whose plan is made again while they go: when that is asked for, and what comes of the answer."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.plan.placement.live import LEARNED
from fuel_async.schedule import (
    HOST,
    DeviceGone,
    DryRun,
    Instruction,
    Prior,
    Question,
    RegionFinished,
    Resweep,
    Reswept,
    RunAdmitted,
    RunShape,
    SpreadShape,
    answer,
    dry_run,
    earliest_finish,
    prior_of,
)
from fuel_async.schedule.basis import ROLLS_FROM, ROLLS_FROM_NS
from fuel_async.schedule.rolling import FEWEST, Course
from tests.schedule.play import Play
from tests.schedule.spread_support import LETTERS, Checked, Mesh, Speeds, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    state.course = Course(len(state.shape), [1.0, 1.0])
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
    now_ns = machine.at_ns - since_ns  # no copy can begin before
    assert progress.places[a] == {0: now_ns}
    assert state.in_flight == {region: 2, 3: 0}
    assert progress.places[b] == {0: state.places[y][3] - since_ns + NS}  # when it is made there
    assert progress.places[y] == {0: now_ns, 1: max(state.places[y][1] - since_ns, now_ns)}  # not that on the new one
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


def test_the_loss_of_a_device_that_is_in_no_plan_is_no_matter() -> None:
    machine = Checked(gpu(1), gpu(2), gpu(3))
    machine.admit(0, planned(MANY))
    assert machine.gone(2, RuntimeError("gone")) == ""
    assert len(questions(machine, 3)) == 1


# --- after the loss of a device ---------------------------------------------------------------------------------------


def at_work(prior: Prior | None = None) -> tuple[Checked, RunShape]:
    """Two devices, each with a region of a run of 22 in its lane; the second one is behind another run."""
    shape = planned(MANY)
    machine = Checked(gpu(1, slots=1), gpu(2, slots=1))
    machine.admit(1, spread(f"a={NS}@1", outputs=""))
    machine.admit(0, replace(shape, prior=prior or shape.prior))
    assert machine.runs[0].in_flight == {0: 0}
    return machine, shape


def resweeps(told: Sequence[Instruction]) -> list[Question]:
    return [one.question for one in told if isinstance(one, Resweep)]


def test_what_is_left_is_placed_anew_when_a_device_is_lost() -> None:
    machine, _ = at_work()
    (question,) = resweeps(machine.handle(DeviceGone(1, RuntimeError("gone")), 0))
    assert question.factors == [1.0, math.inf]
    assert len(question.progress.left) == 21
    found = answer(question)
    assert set(found.devices) == {0}
    assert found.makespan_ns == 22 * NS
    machine.handle(Reswept(0, found), 0)
    assert machine.runs[0].prior is found


def test_a_device_for_which_nothing_is_left_is_no_matter() -> None:
    """What was planned for it has ended there."""
    shape = planned(MANY)
    assert shape.prior is not None
    machine = Checked(gpu(1), gpu(2))
    machine.admit(0, replace(shape, prior=replace(shape.prior, devices=[1] + [0] * 21)))
    machine.at_ns = NS
    machine.finish(0, "a")
    assert machine.runs[0].course is not None
    assert "resweep" not in machine.gone(1, RuntimeError("gone"))


def test_one_that_is_lost_while_that_is_found_out_is_asked_about_again() -> None:
    """By then the answer is for a device that is gone."""
    shape = planned(MANY)
    machine = Checked(gpu(1, slots=1), gpu(2, slots=1))
    machine.admit(1, spread(f"a={20 * NS}@1", outputs=""))
    machine.admit(0, shape)
    state = machine.runs[0]
    asked: list[Question] = []
    while not asked:
        (region,) = state.in_flight
        machine.at_ns += 3 * NS
        asked += resweeps(machine.handle(RegionFinished(0, region, 3 * NS), machine.at_ns))
    found = answer(asked[0])
    assert 1 in found.devices
    assert machine.gone(1, RuntimeError("gone")).startswith("1 stop")
    (again,) = resweeps(machine.handle(Reswept(0, found), machine.at_ns))
    assert {answer(again).devices[region] for region in again.progress.left} == {0}
    assert resweeps(machine.handle(Reswept(0, found), machine.at_ns)) == []  # once, whatever comes of it


def test_a_run_whose_plan_has_a_device_that_is_gone_begins_with_another() -> None:
    """It cannot go whole to one of the others: each has something pinned to it."""
    devices = [gpu(1), gpu(2), gpu(3)]
    shape = spread(MANY.replace(f"a={NS}", f"a={NS}@0").replace(f"v={NS}", f"v={NS}@2"), outputs="")
    shape = replace(shape, prior=prior_of(shape, devices, Mesh()))
    machine = Checked(*devices)
    machine.gone(1, RuntimeError("gone"))
    machine.shapes[0] = shape
    (question,) = resweeps(machine.handle(RunAdmitted(0, shape)))
    assert 1 in question.prior.devices
    assert {answer(question).devices[region] for region in question.progress.left} == {0, 2}


def test_where_something_can_go_nowhere_the_plan_stays() -> None:
    machine, _ = at_work()
    (question,) = resweeps(machine.handle(DeviceGone(1, RuntimeError("gone")), 0))
    nowhere = replace(question, factors=[math.inf, math.inf])
    assert answer(nowhere) is question.prior


# --- runs that are whole on one device --------------------------------------------------------------------------------


#: Twenty regions of 1 ms, each of which waits for the one before.
CHAIN = " ".join(
    f"{letter}:{LETTERS[max(number - 1, 0)] * bool(number)}={NS}" for number, letter in enumerate(LETTERS[:20])
)


def slowing(factor: float, *, rolls: bool = True, other: float = 1, uploads_ns: int = 0, busy_ns: int = 0) -> Play:
    """A chain on the first device, which takes so many times longer from 5 ms on; another device is there.

    That has other speed, lacks constants that each region needs, or is busy.
    """
    shape = spread(CHAIN, outputs="")
    shape = replace(shape, prior=prior_of(shape, DEVICES, Mesh()))
    assert shape.prior is not None
    assert shape.prior.basis is not None
    shape.prior.basis.lasts = shape.prior.basis.rolls = rolls
    assert isinstance(shape.spread, SpreadShape)
    assert isinstance(shape.spread.prices, Speeds)
    shape.spread.prices.uploads_ns = {1: uploads_ns}
    play = Play([gpu(1), gpu(2)], [lambda ns: 1 if ns < 5 * NS else 1 / factor, other], Mesh(), tells=True)
    if busy_ns:
        play.admit(1, spread(f"a={busy_ns}@1", outputs=""))
    play.admit(0, shape)
    play.to_the_end()
    return play


def test_a_run_that_is_whole_on_a_device_that_becomes_slow_goes_on_elsewhere() -> None:
    """Two regions are in its lane when it does, and take 20 ms. Thirteen are left, and take as many."""
    assert slowing(10, rolls=False).done_ns[0] == (5 + 15 * 10) * NS
    play = slowing(10)
    best_ns = (5 + 2 * 10 + 13) * NS
    assert best_ns < play.done_ns[0] < 1.001 * best_ns
    assert [play.on(device) for device in (0, 1)] == [7, 13]


@pytest.mark.parametrize(
    ("how", "moves"),
    [
        ({"factor": 1.04}, False),
        ({"factor": 1.1}, False),
        ({"factor": 1.2}, True),
        ({"factor": 2}, True),
        ({"factor": 10, "other": 0.3}, True),
        ({"factor": 10, "uploads_ns": 10 * NS}, False),
        ({"factor": 10, "uploads_ns": NS // 10}, True),
        ({"factor": 10, "busy_ns": 500 * NS}, False),
        ({"factor": 10, "busy_ns": 30 * NS}, True),
    ],
    ids=str,
)
def test_it_goes_where_that_is_clearly_quicker(how: dict[str, float], moves: bool) -> None:
    play = slowing(**how)  # type: ignore[arg-type]
    assert bool(play.on(1) - ("busy_ns" in how)) is moves
    stayed_ns = slowing(**{**how, "rolls": False}).done_ns[0]  # type: ignore[arg-type]
    assert play.done_ns[0] < stayed_ns if moves else play.done_ns[0] == stayed_ns


def test_a_run_that_is_whole_and_waits_for_its_device_is_not_off_its_plan() -> None:
    play, shape = Play(DEVICES, [1, 1], Mesh(), tells=True), planned(CHAIN)
    for run in range(6):
        play.admit(run, shape)
    play.to_the_end()
    assert play.sweeps == 0


def test_what_is_known_of_devices_is_where_a_run_begins() -> None:
    machine = Checked(gpu(1), gpu(2))
    machine.machine.devices[1].factor = 1.5
    machine.admit(0, planned(MANY))
    course = machine.runs[0].course
    assert course is not None
    assert course.factors == course.before == [1.0, machine.machine.devices[1].factor]
    assert course.factors[1] > 1.4


def test_programs_are_made_ready_where_a_run_goes_now() -> None:
    machine = Checked(gpu(1), gpu(2), binds=False)
    machine.admit(0, planned(CHAIN))
    machine.bound(0, 0)
    machine.at_ns = 10 * NS
    (question,) = resweeps(machine.handle(RegionFinished(0, 0, 10 * NS), machine.at_ns))
    assert 1 in answer(question).devices
    assert machine.tell(Reswept(0, answer(question))).startswith("0 bind 1")


def test_programs_are_not_made_ready_where_nothing_is_left() -> None:
    """The answer has the region for the second device that went to the first one meanwhile."""
    machine = Checked(gpu(1), gpu(2), binds=False)
    machine.admit(0, planned(CHAIN))
    machine.bound(0, 0)
    machine.at_ns = 10 * NS
    (question,) = resweeps(machine.handle(RegionFinished(0, 0, 10 * NS), machine.at_ns))
    assert machine.runs[0].in_flight == {1: 0}
    late = replace(question.prior, devices=[1, 1, *[0] * 18], sends=[()] * 20)
    assert "bind" not in machine.tell(Reswept(0, late))


def test_what_others_have_planned_elsewhere_counts() -> None:
    """The second device has a run of twenty regions to do, of which its lane holds two."""
    machine = Checked(gpu(1), gpu(2))
    shape = planned(CHAIN)
    machine.admit(0, shape)
    machine.admit(1, shape)
    assert [machine.runs[run].in_flight for run in (0, 1)] == [{0: 0, 1: 0}, {0: 1, 1: 1}]
    for region in range(8):  # as planned
        machine.at_ns += NS
        machine.handle(RegionFinished(1, region, NS), machine.at_ns)
    (question,) = resweeps(machine.handle(RegionFinished(0, 0, 8 * NS), machine.at_ns))
    assert question.prior.is_whole
    assert question.progress.free_ns == [9 * NS, 10 * NS + 10 * NS]
    assert question.progress.begun_ns == 9 * NS
    assert question.factors == [1 + LEARNED * 7, 1.0]


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
    prior = Prior([0, 0, 1, 1], [0, NS, 0, NS], [[(0, 1, NS)], [], [(2, 2, NS)], []], 2 * NS, basis=shape.prior.basis)  # type: ignore[union-attr]
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
