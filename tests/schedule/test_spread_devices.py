"""Devices that come and go under runs, one rule at a time."""

from __future__ import annotations

from fuel_async.errors import DeviceLost
from tests.schedule.spread_support import MakeSpread, Mesh, cpu, gpu, spread

LOST = DeviceLost("dev:1", "as told")

# --- devices that go ---


def test_a_run_with_work_on_a_device_stops_with_what_became_of_it(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, "a@0 b@1")
    machine.admit(2, "a@1")
    assert machine.gone(0, LOST) == "1 stop DeviceLost"
    assert machine.errors == {1: LOST}
    assert machine.fail(1, "a", ValueError("of its own")) == ""
    assert machine.finish(1, "b") == "1 end"
    assert machine.finish(2, "a") == "2a 2>0"
    assert machine.gone(0, LOST) == ""


def test_a_run_that_waits_for_programs_of_a_lost_device_stops(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), binds=False)
    machine.admit(1, "a@0")
    assert machine.gone(0, LOST) == "1 stop DeviceLost"
    assert machine.bound(1, 0) == "1 end"
    assert machine.idle


def test_nothing_is_given_to_a_lost_device_again(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2, slots=1))
    machine.admit(1, "a@0")
    machine.gone(0, LOST)
    machine.fail(1, "a", LOST)
    assert machine.admit(2, "a") == "2a@1"
    assert machine.admit(3, "a") == ""
    assert machine.admit(4, "a@0") == "4 stop DeviceLost, 4 end"
    assert machine.errors[4] is LOST


def test_a_run_whose_values_are_lost_stops(devices: MakeSpread) -> None:
    """c waits for a slot of the other device, and a was not sent there yet"""
    machine = devices(gpu(1), gpu(2, slots=1))
    machine.admit(1, spread("a@0 b@1 c:a@1", outputs="c"))
    machine.finish(1, "a")
    assert machine.gone(0, LOST) == "1 stop DeviceLost"


def test_a_run_whose_values_lie_elsewhere_goes_on(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, spread("a@0 b:a@1 c:ab", outputs="c"))
    machine.finish(1, "a")
    machine.copied(1, "a", 2)
    assert machine.gone(0, LOST) == ""
    assert machine.finish(1, "b") == ""
    assert machine.runs[1].places[0] == {2: 0}
    assert machine.finish(1, "c") == "1c 2>0"


def test_feeds_in_the_hosts_memory_are_not_lost_with_a_device_that_works_there(devices: MakeSpread) -> None:
    machine = devices(cpu(slots=1), gpu(1))
    machine.admit(1, "a:X@0")
    assert machine.admit(2, "a:X b:aX") == "2X 0>1, 2a@1, 2b@1<a"
    assert machine.gone(0, LOST) == "1 stop DeviceLost"
    assert machine.admit(3, "a:X") == ""
    assert machine.finish(2, "a") == "3X 0>1, 3a@1"


def test_a_copy_to_a_lost_device_that_ends_late_changes_nothing(devices: MakeSpread) -> None:
    """a has read X and finished before the copy of X is told of"""
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, spread("a:X@0 b:X@1 c:b", outputs="c"))
    machine.finish(1, "a")
    assert machine.gone(0, LOST) == ""
    assert machine.copied(1, "X", 1) == ""
    assert 1 not in machine.runs[1].places[0]


def test_runs_that_wait_stop_when_the_last_device_they_could_use_goes(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2, slots=1, budget=5))
    machine.admit(1, "a")
    machine.admit(2, "a")
    machine.admit(3, spread("a", share=5))
    assert machine.gone(0, LOST) == "1 stop DeviceLost, 2 stop OutOfMemory, 2 end, 3a@1"
    assert machine.gone(1, DeviceLost("dev:2", "too")) == "3 stop DeviceLost"
    assert machine.admit(4, "a") == "4 stop DeviceLost, 4 end"
    assert "dev:1, dev:2 is lost: none is left" in str(machine.errors[4])


def test_runs_stop_at_once_though_no_lane_is_free(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2, slots=1, budget=5))
    machine.admit(1, "a")
    assert machine.admit(2, spread("a@1", share=5)) == "2a@1"
    machine.admit(3, "a")
    assert machine.gone(0, LOST) == "1 stop DeviceLost, 3 stop OutOfMemory, 3 end"


def test_without_any_device_nothing_runs(devices: MakeSpread) -> None:
    machine = devices()
    assert machine.admit(1, "a") == "1 stop DeviceLost, 1 end"
    assert "every device" in str(machine.errors[1])


# --- devices that come ---


def test_a_device_that_joins_takes_what_waits(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.admit(1, "a")
    assert machine.admit(2, "a:X") == ""
    assert machine.added(gpu(2)) == "2X 0>2, 2a@1"


def test_a_device_that_joins_takes_what_waits_for_memory(devices: MakeSpread) -> None:
    machine = devices(gpu(1, budget=10))
    machine.admit(1, "a")
    assert machine.admit(2, "a") == ""
    assert machine.added(gpu(2)) == "2a@1"


def test_a_device_that_joins_does_not_have_to_catch_up(devices: MakeSpread) -> None:
    """by number of regions given it starts level with the others"""
    machine = devices(gpu(1, slots=9))
    for run in range(5):
        machine.admit(run, "a")
    machine.added(gpu(2))
    assert [device.given for device in machine.machine.devices] == [5, 5]


# --- plans that are out of date ---


def test_runs_of_which_nothing_was_issued_are_planned_anew(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.admit(1, "a b")
    machine.admit(2, "a")
    machine.admit(3, "a", priority=1)
    assert machine.topology_changed() == "3 replan, 3 end, 2 replan, 2 end"
    assert [state.run for state in machine.waiting()] == [1]
    assert machine.admit(2, "a") == ""
    assert machine.topology_changed() == "2 replan, 2 end"


def test_a_run_under_way_keeps_its_plan(devices: MakeSpread) -> None:
    machine = devices(gpu(1), binds=False)
    machine.admit(1, "a b c")
    assert machine.topology_changed() == ""
    assert machine.bound(1, 0) == "1a@0, 1b@0"


def test_links_that_are_missing_stop_only_the_runs_that_need_them(devices: MakeSpread) -> None:
    links = Mesh()
    machine = devices(gpu(1), gpu(2), links=links)
    machine.admit(1, "a@0 b:a@1")
    links.missing.update({(1, 2), (0, 2)})
    assert machine.finish(1, "a") == "1 stop TransferFailed, 1 end"
    assert machine.admit(2, "a@0 b:a") == "2a@0, 2b@0<a"
