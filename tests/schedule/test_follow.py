"""Runs with a plan of the whole and without: which is followed, and what a device would do alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fuel_async.errors import DeviceLost
from fuel_async.schedule import (
    RunShape,
    alone_on_each,
    dry_run,
    earliest_finish,
    judge_plan,
    prior_of,
    with_constants_there,
)
from fuel_async.schedule.follow import NOT_KEPT
from tests.schedule.spread_support import LETTERS, Mesh, gpu, spread

DEVICES = [gpu(1), gpu(2)]
FORK = "a:X=100 b:a=900 c:a=800 d:a=700 e:bcd=50"


def random_shape(seed: int) -> RunShape:
    draw, words = random.Random(seed), ["a:X=300"]
    for number in range(1, 14):
        reads = "".join(sorted(set(draw.choices(LETTERS[:number], k=2))))
        words.append(f"{LETTERS[number]}:{reads}={draw.randrange(50, 900)}")
    return spread(" ".join(words), speeds={1: 1.7}, nbytes=dict.fromkeys(LETTERS, draw.choice([100, 4_000])))


@pytest.mark.parametrize("seed", range(8))
def test_both_ways_are_those_of_the_scheduler_and_the_shorter_one_is_taken(seed: int) -> None:
    shape = random_shape(seed)
    judged = judge_plan(shape, DEVICES, Mesh())
    prior = prior_of(shape, DEVICES, Mesh())
    assert prior is not None
    assert judged.prior is not None
    assert judged.planned is not None
    assert list(judged.prior.devices) == list(prior.devices)
    live = dry_run(DEVICES, Mesh(), earliest_finish, shape)
    planned = dry_run(DEVICES, Mesh(), earliest_finish, replace(shape, prior=prior))
    assert (judged.live.makespan_ns, judged.planned.makespan_ns) == (live.makespan_ns, planned.makespan_ns)
    assert judged.follows is (planned.makespan_ns <= live.makespan_ns)
    assert judged.best.makespan_ns == min(live.makespan_ns, planned.makespan_ns)


def test_some_plans_are_followed_and_some_are_not() -> None:
    verdicts = {judge_plan(random_shape(seed), DEVICES, Mesh()).follows for seed in range(40)}
    assert verdicts == {True, False}


@pytest.mark.parametrize("seed", [8, 100, 206])
def test_a_plan_that_is_not_kept_otherwise_is_followed_strictly(seed: int) -> None:
    """A long region takes the second lane before the one that is planned there is ready."""
    shape, devices = random_shape(seed), [gpu(1, lanes=2), gpu(2)]
    judged = judge_plan(shape, devices, Mesh())
    assert judged.prior is not None
    assert judged.prior.is_strict
    assert judged.follows
    assert judged.best.makespan_ns == judged.prior.makespan_ns
    loose = replace(shape, prior=replace(judged.prior, is_strict=False))
    assert dry_run(devices, Mesh(), earliest_finish, loose).makespan_ns > NOT_KEPT * judged.prior.makespan_ns


def test_a_plan_is_judged_as_a_run_would_go_by_it() -> None:
    """The plan promises no more than the second device alone, where the run goes: longer than without a plan."""
    text = "a:X=300 b:X=300 c:X=300 d:ab=800 e:c=300 f:abc=400 g:df=400 h:d=800 i:ef=100 j:i=500 k:h=800"
    devices = [*DEVICES, gpu(3)]
    shape = spread(text, speeds={1: 2}, nbytes=dict.fromkeys(LETTERS, 8_000))
    judged = judge_plan(shape, devices, Mesh())
    assert judged.prior is not None
    assert judged.planned is not None
    assert {decision.chosen.device for decision in judged.planned.decisions.values()} == {1}
    kept = dry_run(devices, Mesh(), earliest_finish, replace(shape, prior=replace(judged.prior, basis=None)))
    assert kept.makespan_ns <= judged.live.makespan_ns < judged.planned.makespan_ns
    assert not judged.follows


def test_the_plan_that_a_run_has_is_followed_whatever_it_costs() -> None:
    shape = spread(FORK)
    prior = prior_of(shape, DEVICES, Mesh())
    assert prior is not None
    poor = replace(shape, prior=replace(prior, devices=[0] * len(shape)))
    judged = judge_plan(poor, DEVICES, Mesh())
    assert judged.follows
    assert judged.prior is poor.prior
    assert judged.best.makespan_ns > judged.live.makespan_ns


def test_without_anything_to_decide_there_is_only_the_live_run() -> None:
    judged = judge_plan(spread("a:X"), DEVICES, Mesh())
    assert (judged.prior, judged.planned, judged.follows) == (None, None, False)
    assert judged.best is judged.live


def test_constants_that_are_there_take_no_time() -> None:
    shape = spread("a:X=100 b:a=100", uploads={0: 5_000, 1: 7_000})
    first = dry_run(DEVICES, Mesh(), earliest_finish, shape).makespan_ns
    later = dry_run(DEVICES, Mesh(), earliest_finish, with_constants_there(shape)).makespan_ns
    assert later == dry_run(DEVICES, Mesh(), earliest_finish, spread("a:X=100 b:a=100")).makespan_ns < first


def test_alone_is_as_if_the_others_were_not_there() -> None:
    shape = spread("a:X=100 b:a=900 c:a=800", speeds={1: 2})
    found = alone_on_each(shape, DEVICES, Mesh())
    assert [{decision.chosen.device for decision in found[device].decisions.values()} for device in (0, 1)] == [
        {0},
        {1},
    ]
    assert found[0].makespan_ns > found[1].makespan_ns


def test_who_cannot_is_left_out() -> None:
    pinned = spread("a:X=100@1 b:a=900")
    assert alone_on_each(pinned, DEVICES, Mesh()).keys() == {1}
    lost = {1: DeviceLost("gpu:1", "gone")}
    assert alone_on_each(spread("a:X b:a"), DEVICES, Mesh(), lost).keys() == {0}


def test_the_only_device_is_alone_anyway() -> None:
    (only,) = alone_on_each(spread("a:X b:a"), DEVICES[:1], Mesh()).values()
    assert only.makespan_ns == dry_run(DEVICES[:1], Mesh(), earliest_finish, spread("a:X b:a")).makespan_ns
