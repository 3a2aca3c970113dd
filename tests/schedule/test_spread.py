"""Runs over several devices, one rule at a time: an event in, what is said out.

`a:X` is region a, which reads the feed X; `1X 0>1` says that X of run 1 is copied from memory 0, the host's, to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import InternalError, InvariantBroken, OutOfMemory, TransferFailed
from fuel_async.schedule import Phase, RunAdmitted, check
from tests.schedule import support
from tests.schedule.spread_support import Checked, MakeSpread, Mesh, cpu, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Callable

ERROR = ArithmeticError("as told")

# --- the life of a run ---


def test_a_run_of_one_region(devices: MakeSpread) -> None:
    """bound, sent its feed, launched, and its result fetched"""
    machine = devices(gpu(1), binds=False)
    assert machine.admit(1, "a:X") == "1 bind 0"
    assert machine.bound(1, 0) == "1X 0>1, 1a@0"
    assert machine.copied(1, "X", 1) == ""
    assert machine.finish(1, "a") == "1a 1>0"
    assert machine.copied(1, "a", 0) == "1 done, 1 end"
    assert machine.idle


def test_a_device_that_works_in_the_hosts_memory_needs_no_copies(devices: MakeSpread) -> None:
    machine = devices(cpu())
    assert machine.admit(1, "a:X b:a") == "1a@0, 1b@0<a"
    assert machine.finish(1, "a") == ""
    assert machine.finish(1, "b") == "1 done, 1 end"
    assert machine.idle


def test_a_run_without_regions_is_delivered_at_once(devices: MakeSpread) -> None:
    assert devices(gpu(1)).admit(1, "") == "1 done, 1 end"


def test_results_that_are_not_wanted_in_the_hosts_memory_stay(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.admit(1, spread("a b", outputs=""))
    assert machine.finish(1, "a") == ""
    assert machine.finish(1, "b") == "1 done, 1 end"


def test_a_plan_for_one_device_is_not_spread(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    with pytest.raises(InternalError, match="for one device"):
        machine.handle(RunAdmitted(1, support.shape("a")))
    assert machine.idle


# --- copies ---


def test_a_value_is_copied_once_for_all_readers_in_a_memory(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, "a:X@0 b:aX@1 c:aX@1") == "1X 0>1, 1a@0"
    assert machine.finish(1, "a") == "1X 0>2, 1a 1>2, 1b@1, 1c@1"


def test_what_waits_for_its_needs_on_their_lane_finds_their_results_there(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, "a b:a") == "1a@0, 1b@0<a"
    assert machine.finish(1, "a") == ""


def test_a_copy_that_has_no_direct_link_goes_by_way_of_the_host(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), links=Mesh(missing={(1, 2)}))
    machine.admit(1, "a@0 b:a@1")
    assert machine.finish(1, "a") == "1a 1>0, 1a 0>2, 1b@1"
    assert machine.copied(1, "a", 0) == ""
    assert machine.copied(1, "a", 2) == ""


def test_a_value_on_its_way_to_the_host_is_sent_on_from_there(devices: MakeSpread) -> None:
    """a is an output, too: what fetches it serves its reader"""
    machine = devices(gpu(1), gpu(2), links=Mesh(missing={(1, 2)}))
    machine.admit(1, spread("a@0 b:a@1", outputs="ab"))
    assert machine.finish(1, "a") == "1a 1>0, 1a 0>2, 1b@1"


def test_an_output_that_was_fetched_for_a_reader_is_not_fetched_again(devices: MakeSpread) -> None:
    machine = devices(cpu(), gpu(1))
    machine.admit(1, spread("a@1 b:a@0", outputs="ab"))
    assert machine.finish(1, "a") == "1a 1>0, 1b@0"
    assert machine.copied(1, "a", 0) == ""
    assert machine.finish(1, "b") == "1 done, 1 end"


def test_a_copy_that_would_be_sooner_does_not_come_beside_one_under_way(devices: MakeSpread) -> None:
    """a is on its way from memory 3 to the host, slowly, when the way from memory 1 becomes free"""
    machine = devices(gpu(1), gpu(2, slots=1), gpu(3), cpu(slots=4), links=Mesh(missing={(1, 2), (3, 2)}))
    machine.admit(8, spread("a:X@3", nbytes={"X": 100_000}), resident="X1")
    machine.admit(9, spread("a:X@3", nbytes={"X": 50_000}), resident="X3")
    machine.admit(1, spread("a@0 b:a@2 c:a/b@3 d:/b@1 e:a/d@1", outputs=""))
    assert machine.finish(1, "a") == "1a 1>3, 1b@2"
    assert machine.finish(1, "b") == "1d@1, 1a 3>0, 1c@3"
    machine.at_ns = 200
    machine.copied(8, "X", 0)
    assert machine.finish(1, "d") == "1a 0>2, 1e@1"
    assert len(machine.decisions[-1].chosen.copies) == 2


def test_a_feed_that_lies_on_a_device_is_read_there(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, "a:X@1", resident="X2") == "1a@1"
    assert machine.admit(2, "a:X@0", resident="X2") == "2X 2>1, 2a@0"


def test_a_failed_copy_stops_the_run_once_what_follows_it_has_ended(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), links=Mesh(missing={(1, 2)}))
    machine.admit(1, "a@0 b:a@1")
    machine.finish(1, "a")
    assert machine.copy_failed(1, "a", 0, ERROR) == "1 stop ArithmeticError"
    assert machine.copy_failed(1, "a", 2, ValueError("a consequence")) == ""
    assert machine.fail(1, "b", ValueError("a consequence")) == "1 end"
    assert machine.errors == {1: ERROR}
    assert machine.idle


def test_a_run_that_is_delivered_before_a_copy_is_told_of_ends_after_it(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.admit(1, spread("a:X", outputs=""))
    assert machine.finish(1, "a") == "1 done"
    assert machine.cancel(1) == ""
    assert machine.copied(1, "X", 1) == "1 end"
    assert machine.idle


def test_a_result_that_cannot_be_fetched_stops_the_run(devices: MakeSpread) -> None:
    links = Mesh()
    machine = devices(gpu(1), links=links)
    machine.admit(1, "a")
    links.missing.add((1, 0))
    assert machine.finish(1, "a") == "1 stop TransferFailed, 1 end"
    assert machine.errors[1].source == "dev:1"  # type: ignore[union-attr]


def test_links_are_expected_to_be_free_after_what_is_on_its_way(devices: MakeSpread) -> None:
    """20 ns a copy, on one link"""
    machine = devices(gpu(1, slots=4))
    machine.admit(1, "a:X")
    machine.admit(2, "a:X")
    assert machine.decisions[-1].chosen.ready_ns == 40
    machine.at_ns = 25
    machine.copied(1, "X", 1)
    machine.admit(3, "a:X")
    assert machine.decisions[-1].chosen.ready_ns == 25 + 20 + 20
    machine.at_ns = 30
    machine.copied(2, "X", 1)
    machine.copied(3, "X", 1)
    machine.admit(4, "a:X")
    assert machine.decisions[-1].chosen.ready_ns == 30 + 20


# --- programs ---


def test_regions_are_held_back_until_programs_are_ready(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), binds=False)
    assert machine.admit(1, "a@0 b:a@0 c@1") == "1 bind 0, 1 bind 1"
    assert machine.bound(1, 1) == "1c@1"
    assert machine.bound(1, 0) == "1a@0, 1b@0<a"
    assert machine.finish(1, "a") == ""


def test_what_is_held_back_holds_its_slot(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), binds=False)
    machine.admit(1, "a")
    assert machine.admit(2, "a") == ""
    assert machine.bound(1, 0) == "1a@0"
    assert machine.finish(1, "a") == "1a 1>0, 2 bind 0"


def test_programs_that_do_not_become_ready_stop_the_run(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), binds=False)
    machine.admit(1, "a")
    machine.admit(2, "a")
    assert machine.bind_failed(1, 0, ERROR) == "1 stop ArithmeticError, 1 end, 2 bind 0"


def test_a_cancelled_run_gives_its_slots_back_before_its_programs_are_ready(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), binds=False)
    machine.admit(1, "a")
    machine.admit(2, "a")
    assert machine.cancel(1) == "1 stop, 2 bind 0"
    assert machine.bound(1, 0) == "1 end"
    machine.cancel(2)
    assert machine.bind_failed(2, 0, ERROR) == "2 end"
    assert machine.idle


def test_a_link_that_goes_before_programs_are_ready_stops_the_run(devices: MakeSpread) -> None:
    links = Mesh()
    machine = devices(gpu(1), links=links, binds=False)
    machine.admit(1, spread("a:X b:X", outputs=""))
    links.missing.add((0, 1))
    assert machine.bound(1, 0) == "1 stop TransferFailed, 1 end"
    assert machine.idle


# --- memory ---


def test_a_run_holds_a_share_of_each_memory_it_works_in_to_its_end(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, "a@0 b:a@1")
    machine.finish(1, "a")
    assert {memory: load.held_nbytes for memory, load in machine.machine.memories.items()} == {1: 10, 2: 10}
    machine.copied(1, "a", 2)
    machine.finish(1, "b")
    assert machine.copied(1, "b", 0) == "1 done, 1 end"
    assert machine.idle


def test_a_run_waits_until_there_is_room_for_its_share(devices: MakeSpread) -> None:
    machine = devices(gpu(1, budget=15))
    machine.admit(1, "a")
    assert machine.admit(2, "a") == ""
    assert machine.finish(1, "a") == "1a 1>0"
    assert machine.copied(1, "a", 0) == "1 done, 1 end, 2a@0"


def test_who_waits_for_room_gets_it_while_others_work(devices: MakeSpread) -> None:
    machine = devices(gpu(1, budget=15), gpu(2))
    machine.admit(1, "a@0")
    machine.admit(2, "a@1")
    assert machine.admit(3, "a@0") == ""
    machine.finish(1, "a")
    assert machine.copied(1, "a", 0) == "1 done, 1 end, 3a@0"


def test_a_run_that_is_stopped_where_it_stands_makes_room_for_those_before_it(devices: MakeSpread) -> None:
    """run 2 waits for what run 1 holds, which finds no way for Y when it looks for a place for b"""
    links = Mesh()
    machine = devices(gpu(1, budget=10, slots=1), links=links)
    machine.admit(1, spread("a b:Y/a", outputs=""))
    assert machine.admit(2, "a", priority=1) == ""
    links.missing.add((0, 1))
    assert machine.finish(1, "a") == "1 stop TransferFailed, 1 end, 2a@0"


def test_a_run_too_large_for_every_device_is_refused_with_the_arithmetic(devices: MakeSpread) -> None:
    machine = devices(gpu(1, budget=99), gpu(2, budget=50))
    assert machine.admit(1, spread("a", share=100)) == "1 stop OutOfMemory, 1 end"
    assert str(machine.errors[1]).startswith("100 bytes do not fit dev:1: its budget is 99 bytes in all")
    assert machine.admit(2, spread("a@1", share=60)) == "2 stop OutOfMemory, 2 end"
    assert machine.admit(3, spread("a", share=60)) == "3a@0"


def test_shares_that_pins_demand_are_taken_together(devices: MakeSpread) -> None:
    """each run needs both devices, whose memories have room for one: neither waits for what the other holds"""
    machine = devices(gpu(1, budget=10), gpu(2, budget=10))
    assert machine.admit(1, spread("a@0 b:a@1", outputs="")) == "1a@0"
    assert machine.admit(2, spread("a@1 b:a@0", outputs="")) == ""
    machine.finish(1, "a")
    machine.copied(1, "a", 2)
    assert machine.finish(1, "b") == "1 done, 1 end, 2a@1"


def test_what_a_run_waits_for_is_kept_free_for_it(devices: MakeSpread) -> None:
    """run 2 needs all of the memory: those behind it do not take what the first gives back"""
    machine = devices(gpu(1, budget=30, slots=4))
    machine.admit(1, spread("a", share=20, outputs=""))
    assert machine.admit(2, spread("a", share=30, outputs="")) == ""
    assert machine.admit(3, spread("a", share=10, outputs="")) == ""
    assert machine.admit(4, spread("a", share=10, outputs=""), priority=1) == "4a@0"
    assert machine.finish(1, "a") == "1 done, 1 end"
    assert machine.finish(4, "a") == "4 done, 4 end, 2a@0"
    assert machine.finish(2, "a") == "2 done, 2 end, 3a@0"


def test_a_run_under_way_takes_what_others_wait_to_begin_with(devices: MakeSpread) -> None:
    """run 2 waits for both memories; run 1, which it waits for, needs one of them first"""
    machine = devices(gpu(1, budget=10), gpu(2, budget=10), links=Mesh(missing={(0, 1)}))
    machine.admit(1, spread("a b:aX", outputs=""))
    assert machine.admit(2, spread("a@0 b@1", outputs="")) == ""
    assert machine.finish(1, "a") == "1X 0>2, 1a 1>2, 1b@1"


def test_runs_that_wait_for_what_the_other_holds_end_with_an_error(devices: MakeSpread) -> None:
    """b of run 1 can read Y in memory 2 only, and b of run 2 in memory 1 only"""
    links = Mesh(missing={(0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)})
    machine = devices(gpu(1, budget=10), gpu(2, budget=10), links=links)
    machine.admit(1, spread("a:X b:Y/a", outputs=""), resident="X1 Y2")
    machine.admit(2, spread("a:X b:Y/a", outputs=""), resident="X2 Y1")
    assert machine.finish(1, "a") == ""
    assert machine.finish(2, "a") == "1 stop OutOfMemory, 1 end, 2b@0"
    assert "wait for one another hold 10" in str(machine.errors[1])


# --- failing and stopping ---


def test_a_failure_stops_the_run_and_releases_it_once_all_has_ended(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, "a@0 b:X@1 c:ab")
    assert machine.fail(1, "a", ERROR) == "1 stop ArithmeticError"
    assert machine.runs[1].phase is Phase.DRAINING
    assert machine.finish(1, "b") == ""
    assert machine.copied(1, "X", 2) == "1 end"
    assert machine.idle


def test_a_failure_frees_the_lane_before_the_run_has_ended(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2))
    machine.admit(1, "a@0 b@1")
    assert machine.admit(2, "a@0") == ""
    assert machine.fail(1, "a", ERROR) == "1 stop ArithmeticError, 2a@0"


def test_a_cancelled_run_that_waits_ends_at_once(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.admit(1, "a")
    machine.admit(2, "a")
    assert machine.cancel(2) == "2 stop, 2 end"
    assert machine.cancel(2) == ""
    assert machine.waiting() == []


def test_a_region_that_nothing_can_send_its_inputs_to_stops_its_run(devices: MakeSpread) -> None:
    machine = devices(gpu(1), links=Mesh(missing={(0, 1)}))
    assert machine.admit(1, "a:X") == "1 stop TransferFailed, 1 end"
    assert isinstance(machine.errors[1], TransferFailed)
    assert machine.errors[1].destination == "dev:1"
    assert machine.admit(2, "a") == "2a@0"


def test_a_run_stops_before_what_its_hopeless_region_waits_for_has_ended(devices: MakeSpread) -> None:
    machine = devices(gpu(1), links=Mesh(missing={(0, 1)}), binds=False)
    assert machine.admit(1, "a b:aX") == "1 bind 0, 1 stop TransferFailed"
    assert machine.bound(1, 0) == "1 end"


def test_a_region_that_can_only_be_sent_where_it_does_not_fit_stops_its_run(devices: MakeSpread) -> None:
    """the larger device has no link from the host; and nobody waits for the machine to be idle"""
    machine = devices(gpu(1, budget=5), gpu(2), links=Mesh(missing={(0, 2)}))
    machine.admit(1, "a@1")
    assert machine.admit(2, "a:X") == "2 stop TransferFailed, 2 end"


# --- what cannot be ---


@pytest.mark.parametrize(
    ("law", "again"),
    [
        ("admitted once", lambda m: m.admit(1, "a")),
        ("only admitted runs", lambda m: m.finish(9, "a")),
        ("settles once", lambda m: m.finish(1, "b")),
        ("a copy ends once", lambda m: m.copied(1, "X", 2)),
        ("become ready once", lambda m: m.bound(1, 0)),
    ],
)
def test_what_is_told_twice_is_noticed(devices: MakeSpread, law: str, again: Callable[[Checked], str]) -> None:
    machine = devices(gpu(1))
    machine.admit(1, "a:X b:a c:b")
    machine.shapes[9] = machine.shapes[1]
    machine.finish(1, "a")
    machine.finish(1, "b")
    with pytest.raises(InvariantBroken, match=law) as caught:
        again(machine)
    assert bool(caught.value.story) is (law not in ("only admitted runs", "settles once"))


def test_a_run_that_cannot_go_on_is_forgotten_with_all_it_holds(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, "a:X b:a c:X@1 d:X@1 e:X@1")
    assert machine.machine.memories[1].held_nbytes == machine.machine.memories[2].held_nbytes == 10
    story = machine.forget(1)
    assert [line.split("(")[0] for line in story] == ["RunAdmitted", "Bound", "Bound"]
    assert machine.idle
    check(machine)
    assert machine.forget(1) == story
    assert machine.admit(2, "a@0") == "2a@0"


def test_time_never_goes_back(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.at_ns = 500
    machine.admit(1, "a")
    machine.at_ns = 100
    machine.finish(1, "a")
    assert machine.now_ns == 500


def test_out_of_memory_is_a_fact_that_callers_can_read() -> None:
    machine = Checked(gpu(1, budget=5))
    machine.admit(1, "a")
    error = machine.errors[1]
    assert isinstance(error, OutOfMemory)
    assert (error.device, error.wanted_nbytes, error.budget_nbytes) == ("dev:1", 10, 5)
