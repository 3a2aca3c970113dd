"""The short way of a run of one region: nothing is decided about it, and anything that comes up ends the short way."""

from __future__ import annotations

import pytest

from fuel_async.schedule import Deliver, Phase, Release, Stop
from tests.schedule.support import Checked, Make, launch, shape

ONE = shape("a=100")
ERROR = ArithmeticError("as told")


def held(machine: Checked) -> list[tuple[int, int]]:
    return [(load.held, load.held_ns) for load in machine.loads]


def test_it_takes_a_slot_and_gives_it_back(scheduler: Make) -> None:
    machine = scheduler()
    assert machine.begin_alone(1, ONE) == 0
    machine.check()
    assert held(machine) == [(1, 100)]
    assert machine.end_alone(1) == ()
    assert held(machine) == [(0, 0)]
    assert machine.idle


def test_it_takes_the_lane_with_the_least_predicted_work(scheduler: Make) -> None:
    machine = scheduler(lanes=2)
    assert [machine.begin_alone(run, ONE) for run in range(3)] == [0, 1, 0]
    assert machine.begin_alone(3, ONE) is None  # a lane is full: there is a choice to make
    machine.check()


def test_fine_regions_take_the_first_lane(scheduler: Make) -> None:
    machine = scheduler(lanes=2)
    fine = shape("a", fine="a")
    assert [machine.begin_alone(run, fine) for run in range(2)] == [0, 0]


def test_there_is_no_short_way_into_a_full_lane(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    assert machine.begin_alone(1, ONE) == 0
    assert machine.begin_alone(2, ONE) is None
    machine.check()


def test_there_is_no_short_way_past_those_who_wait(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a b")
    machine.finish(1, "a")  # b goes; nobody waits
    machine.admit(2, "a")
    assert machine.begin_alone(3, ONE) is None
    machine.finish(1, "b")  # the second run has the slot now
    assert machine.begin_alone(3, ONE) is None


def test_its_end_lets_those_on_who_wait(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    assert machine.begin_alone(1, ONE) == 0
    assert machine.admit(2, "a") == ()
    assert machine.end_alone(1) == [launch(2, "a")]
    machine.check()


@pytest.mark.parametrize("ending", ["finish", "fail"])
def test_a_cancelled_one_drains_by_the_ordinary_way(scheduler: Make, ending: str) -> None:
    machine = scheduler()
    machine.begin_alone(1, ONE)
    assert machine.cancel(1) == (Stop(1, None),)
    assert machine.runs[1].phase is Phase.DRAINING
    assert machine.end_alone(1) is None
    told = machine.finish(1, "a") if ending == "finish" else machine.fail(1, "a", ERROR)
    assert told == (Release(1),)
    assert machine.idle


def test_a_failed_one_is_stopped_and_released(scheduler: Make) -> None:
    machine = scheduler()
    machine.begin_alone(1, ONE)
    assert machine.fail(1, "a", ERROR) == (Stop(1, ERROR), Release(1))
    assert machine.idle


def test_its_end_may_come_as_an_event(scheduler: Make) -> None:
    machine = scheduler()
    machine.begin_alone(1, ONE)
    assert machine.finish(1, "a") == (Deliver(1), Release(1))
    assert machine.end_alone(1) is None
    assert held(machine) == [(0, 0)]


def test_it_can_be_forgotten(scheduler: Make) -> None:
    machine = scheduler()
    machine.begin_alone(1, ONE)
    machine.forget(1)
    assert held(machine) == [(0, 0)]
    assert machine.idle
    machine.check()
