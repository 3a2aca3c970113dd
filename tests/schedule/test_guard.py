"""A lane that is free waits for what the plan has there next, if that is expected soon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuel_async.schedule import Offer, Prior, RegionFinished, earliest_finish, prior_of, spread_evenly
from fuel_async.schedule.guard import SWEPT_NS, waits_for_answer
from tests.schedule.spread_support import LETTERS, Checked, Mesh, cpu, gpu, spread

#: a on the second device is read by b on the first, which has c after it; c reads nothing.
PLAN = Prior([1, 0, 0], [0, 130, 330], [[(0, 1, 130)], [], []], 1_230)


def machine(text: str, prior: Prior = PLAN, *, lanes: int = 1, policy: object = earliest_finish) -> tuple[Checked, str]:
    found = Checked(gpu(1, lanes=lanes), gpu(2), policy=policy)  # type: ignore[arg-type]
    return found, found.admit(0, replace(spread(text, outputs=""), prior=prior))


def test_a_long_region_waits_for_the_one_that_is_planned_before_it() -> None:
    found, told = machine("a=100 b:a=200 c=900")
    assert told == "0a@1"
    found.at_ns = 100
    assert found.finish(0, "a") == "0a 2>1, 0b@0, 0c@0"


def test_a_short_region_that_is_through_in_time_does_not() -> None:
    _, told = machine("a=100 b:a=200 c=100")
    assert told == "0a@1, 0c@0"


def test_by_a_strict_plan_none_goes_before_another() -> None:
    found, told = machine("a=100 b:a=200 c=100", replace(PLAN, is_strict=True))
    assert told == "0a@1"
    found.at_ns = 100
    assert found.finish(0, "a") == "0a 2>1, 0b@0, 0c@0"


@pytest.mark.parametrize(("c_ns", "starts"), [(162, True), (163, False)])
def test_it_waits_within_a_share_of_the_time(c_ns: int, starts: bool) -> None:
    """b is expected when a has ended and was copied: at 130, which is 0.8 of 162.5."""
    _, told = machine(f"a=110 b:a=200 c={c_ns}")
    assert ("0c@0" in told) == starts


def test_another_lane_that_will_be_free_is_enough() -> None:
    _, told = machine("a=100 b:a=200 c=900", lanes=2)
    assert told == "0a@2, 0c@0"


@pytest.mark.parametrize(("d_ns", "told"), [(140, "0a@2, 0d@0, 0c@0"), (400, "0a@2, 0d@0")])
def test_a_lane_that_is_kept_is_no_reason_to_wait_for_it(d_ns: int, told: str) -> None:
    """b is to have the lane that is free; c goes behind d on the other one, if it starts there sooner than behind b."""
    prior = Prior([1, 0, 0, 0], [0, 130, 140, 0], [[(0, 1, 130)], [], [], []], 1_230)
    assert machine(f"a=100 b:a=200 c=900 d={d_ns}", prior, lanes=2)[1] == told


def test_regions_of_other_runs_do_not_wait() -> None:
    found, _ = machine("a=100 b:a=200 c=900")
    assert found.admit(1, spread("a=300", outputs="")) == "1a@0"


def test_a_plan_that_is_late_keeps_nobody_waiting() -> None:
    """b waits for a, which has no slot for a long time yet: c would be through before."""
    found = Checked(gpu(1), gpu(2, slots=1))
    found.admit(1, spread("a=5000@1", outputs=""))
    prior = Prior([1, 0, 0, 0], [0, 130, 330, 0], [[(0, 1, 130)], [], [], []], 1_230)
    told = found.admit(0, replace(spread("a=100@1 b:a=200 c=900 d=10", outputs=""), prior=prior))
    assert told == "0d@0, 0c@0"


def test_other_policies_go_by_no_plan() -> None:
    _, told = machine("a=100 b:a=200 c=900", policy=spread_evenly)
    assert "0c@" in told


def test_lanes_in_the_memory_of_the_host_wait_for_no_copy() -> None:
    found = Checked(cpu(lanes=2))
    prior = Prior([0, 0, 0], [0, 100, 300], [[], [], []], 1_230)
    assert found.admit(0, replace(spread("a=100 b:a=200 c=900", outputs=""), prior=prior)) == "0a@0, 0b@0<a, 0c@1"


@pytest.mark.parametrize(("ns", "waits"), [(20 * SWEPT_NS + 1_000, True), (16 * SWEPT_NS, False)])
def test_nothing_goes_behind_what_is_at_work_while_the_rest_is_placed_anew(ns: int, waits: bool) -> None:
    """Eighteen are left: if sweeping those takes longer than the region in the lane, the next one goes behind it."""
    devices = [gpu(1), gpu(2)]
    text = " ".join(
        f"{letter}:{LETTERS[number - 1] if number else ''}={ns}" for number, letter in enumerate(LETTERS[:20])
    )
    shape = spread(text, outputs="")
    machine = Checked(*devices)
    machine.admit(0, replace(shape, prior=prior_of(shape, devices, Mesh())))
    machine.at_ns = 10 * ns
    told = machine.texts(machine.handle(RegionFinished(0, 0, 10 * ns), machine.at_ns))
    assert told == ("0 resweep" if waits else "0 resweep, 0c@0<b")
    machine.at_ns = 20 * ns
    assert machine.texts(machine.handle(RegionFinished(0, 1, 10 * ns), machine.at_ns)).startswith(
        "0c@0" if waits else "0d@0<c"
    )


def test_a_lane_that_has_nothing_of_the_run_waits_for_no_answer() -> None:
    devices = [gpu(1), gpu(2)]
    text = " ".join(f"{letter}=1000000" for letter in LETTERS[:22])
    shape = spread(text, outputs="")
    machine = Checked(gpu(1), gpu(2), cpu())
    machine.admit(0, replace(shape, prior=prior_of(shape, devices, Mesh())))
    state = machine.runs[0]
    assert state.course is not None
    assert set(state.in_flight.values()) == {0, 1}
    busy = Offer(0, 0, 0, 1_000_000_000, 1_000_000)
    assert not waits_for_answer(state, busy, 0)
    state.course.is_asked = True
    assert [waits_for_answer(state, replace(busy, lane=lane), 0) for lane in range(3)] == [True, True, False]
