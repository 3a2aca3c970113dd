"""Runs that come while others are under way: where they go as a whole, and what is planned of them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from fuel_async.schedule import RunShape, prior_of
from fuel_async.schedule.streams import FORGOTTEN
from tests.schedule.play import Play
from tests.schedule.spread_support import Checked, Mesh, gpu, spread

DEVICES = [gpu(1, budget=1 << 40), gpu(2, budget=1 << 40)]
NS = 100_000

#: Each region waits for the one before it: there is nothing to be spread.
CHAIN = f"a={NS} b:a={NS} c:b={NS} d:c={NS}"
#: Two chains that join.
PAIR = f"a={NS} b={NS} c:a={NS} d:b={NS} e:c={NS} f:d={NS} g:ef=1000"


def planned(text: str, speeds: dict[int, float] | None = None) -> RunShape:
    shape = spread(text, speeds=speeds)
    return replace(shape, prior=prior_of(shape, DEVICES, Mesh()))


def devices_of(machine: Checked, run: int) -> set[int]:
    prior = machine.runs[run].prior
    assert prior is not None
    return set(prior.devices)


def test_one_run_goes_as_planned() -> None:
    machine, shape = Checked(*DEVICES), planned(PAIR)
    machine.admit(0, shape)
    assert machine.runs[0].prior is shape.prior
    assert devices_of(machine, 0) == {0, 1}


def test_whole_runs_go_where_they_end_first() -> None:
    """The second device takes twice as long: it gets every third."""
    machine, shape = Checked(*DEVICES), planned(CHAIN, {1: 0.5})
    for run in range(9):
        machine.admit(run, shape)
    went = [devices_of(machine, run) for run in range(9)]
    assert went.count({1}) == 3
    assert went.count({0}) == 6
    assert went[0] == {0}


def test_what_is_planned_and_not_issued_counts() -> None:
    machine, shape = Checked(*DEVICES), planned(CHAIN)
    machine.admit(0, shape)
    (device,) = devices_of(machine, 0)
    assert machine.machine.devices[device].planned_ns == 2 * NS  # two of four have slots
    machine.cancel(0)
    assert machine.machine.devices[device].planned_ns == 0


def test_a_region_that_fails_leaves_nothing_planned() -> None:
    machine, shape = Checked(*DEVICES), planned(CHAIN)
    machine.admit(0, shape)
    (device,) = devices_of(machine, 0)
    machine.fail(0, "a", ArithmeticError("as told"))
    assert machine.machine.devices[device].planned_ns == 0


def test_what_splits_badly_goes_whole_under_load() -> None:
    """At first over both, since that is sooner; with many of them each to one."""
    badly = planned(f"a={4 * NS} b={NS} c:ab={NS} d:c={NS}")
    machine = Checked(*DEVICES)
    for run in range(40):
        machine.admit(run, badly)
    assert devices_of(machine, 0) == {0, 1}
    last = [devices_of(machine, run) for run in range(30, 40)]
    assert all(len(devices) == 1 for devices in last)
    assert {0} in last
    assert {1} in last


def test_a_device_that_is_gone_gets_none() -> None:
    machine, shape = Checked(*DEVICES), planned(CHAIN)
    machine.gone(0, RuntimeError("gone"))
    machine.admit(0, shape)
    assert devices_of(machine, 0) == {1}


def test_a_run_that_goes_whole_stays_whole() -> None:
    """However late it is: it waits for its device."""
    machine, shape = Checked(*DEVICES), planned(CHAIN)
    for run in range(6):
        machine.admit(run, shape)
    assert [devices_of(machine, run) for run in (0, 1)] == [{0}, {1}]
    play = Play(DEVICES, [1, 1], Mesh())
    for run in range(6):
        play.admit(run, shape)
    play.to_the_end()
    assert all(len({device for (one, _), device in play.placed.items() if one == run}) == 1 for run in range(6))


def test_what_was_learned_of_a_device_is_forgotten_while_it_has_nothing_to_do() -> None:
    machine, shape = Checked(*DEVICES), planned(CHAIN)
    machine.machine.devices[1].factor = 3.0
    machine.admit(0, shape)
    assert math.isclose(machine.machine.devices[1].factor, 3 - 2 * FORGOTTEN)
    assert devices_of(machine, 0) == {0}


def test_a_stream_uses_all_of_unequal_devices() -> None:
    """More comes than can be done: nearly all of 4:2:1 is used, though the plan of each run has the fastest only."""
    chance = random.Random(4)
    devices = [gpu(number, budget=1 << 40) for number in (1, 2, 3)]
    shape = spread(CHAIN, speeds={0: 4, 1: 2})
    shape = replace(shape, prior=prior_of(shape, devices, Mesh()))
    assert shape.prior is not None
    assert set(shape.prior.devices) == {0}
    play, count = Play(devices, [4, 2, 1], Mesh()), 210
    for run in range(count):
        factor = math.exp(chance.gauss(-0.02, 0.2))
        play.admit(run, shape, [int(ns * factor) for ns in shape.predicted_ns])
    whole_ns = 4 * NS
    assert count * whole_ns / play.to_the_end() > 0.95 * (4 + 2 + 1)
