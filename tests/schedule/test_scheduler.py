"""The scheduler, one rule at a time: an event in, instructions out.

Regions are letters; `b:a` is region b, which needs a. Runs are numbers.
"""

from __future__ import annotations

import pytest

from fuel_async.errors import InvariantBroken
from fuel_async.schedule import (
    Deliver,
    Instruction,
    Launch,
    Phase,
    Release,
    RunShape,
    RunState,
    Stop,
    check,
    shape_of,
)
from fuel_async.schedule.selector import LaneLoad, choose_lane
from fuel_async.schedule.shape import FINE_KERNEL_NS, LaneShape
from tests.schedule.support import LETTERS, Checked, Make, launch, shape

ERROR = ArithmeticError("as told")

# --- the life of a run ---


def test_a_run_without_regions_is_delivered_at_once(scheduler: Make) -> None:
    machine = scheduler()
    assert machine.admit(1, "") == (Deliver(1), Release(1))
    assert machine.idle


def test_a_run_of_one_region(scheduler: Make) -> None:
    machine = scheduler()
    assert machine.admit(1, "a") == (launch(1, "a"),)
    assert machine.finish(1, "a") == (Deliver(1), Release(1))
    assert machine.idle


def test_a_chain_keeps_the_slots_of_a_lane_filled(scheduler: Make) -> None:
    """a -> b -> c -> d on a lane of two slots: the next one is there before the first has ended"""
    machine = scheduler()
    assert machine.admit(1, "a b:a c:b d:c") == (launch(1, "a"), launch(1, "b", waits="a"))
    assert machine.finish(1, "a") == (launch(1, "c", waits="b"),)
    assert machine.finish(1, "b") == (launch(1, "d", waits="c"),)
    assert machine.finish(1, "c") == ()
    assert machine.finish(1, "d") == (Deliver(1), Release(1))


def test_what_has_finished_is_not_waited_for(scheduler: Make) -> None:
    """a -> c <- b"""
    machine = scheduler(slots=1)
    assert machine.admit(1, "a b c:ab") == (launch(1, "a"),)
    assert machine.finish(1, "a") == (launch(1, "b"),)
    assert machine.finish(1, "b") == (launch(1, "c"),)
    assert machine.finish(1, "c") == (Deliver(1), Release(1))


def test_regions_go_in_their_order(scheduler: Make) -> None:
    machine = scheduler(slots=3)
    assert machine.admit(1, "a b c d") == (launch(1, "a"), launch(1, "b"), launch(1, "c"))


# --- lanes ---


def test_branches_spread_over_lanes(scheduler: Make) -> None:
    """a --> b, c, d --> e on three lanes"""
    machine = scheduler(lanes=3)
    assert machine.admit(1, "a b:a c:a d:a e:bcd") == (launch(1, "a"), launch(1, "b", waits="a"))
    assert machine.finish(1, "a") == (launch(1, "c", lane=1), launch(1, "d", lane=2))
    assert machine.finish(1, "c") == ()
    assert machine.finish(1, "d") == (launch(1, "e", waits="b"),)


def test_a_join_waits_until_its_needs_are_on_one_lane_at_most(scheduler: Make) -> None:
    """b on lane 0 and c on lane 1: d goes behind whichever is left"""
    machine = scheduler(lanes=2)
    assert machine.admit(1, "a b c:ab") == (launch(1, "a"), launch(1, "b", lane=1))
    assert machine.finish(1, "a") == (launch(1, "c", lane=1, waits="b"),)


def test_waits_are_for_the_same_lane_only(scheduler: Make) -> None:
    machine = scheduler(lanes=2, slots=4)
    launches = machine.admit(1, "a b:a c d:c e:bd")
    assert launches == (
        launch(1, "a"), launch(1, "c", lane=1), launch(1, "b", waits="a"), launch(1, "d", lane=1, waits="c"),
    )  # fmt: skip
    assert machine.finish(1, "a") == ()  # e would wait for both lanes
    assert machine.finish(1, "b") == (launch(1, "e", lane=1, waits="d"),)


def test_a_lane_never_holds_more_than_its_slots(scheduler: Make) -> None:
    machine = scheduler(lanes=2, slots=2)
    assert len(machine.admit(1, "a b c d e f")) == 4
    assert [load.held for load in machine.loads] == [2, 2]
    assert machine.finish(1, "a") == (launch(1, "e"),)


def test_the_lane_with_the_least_predicted_work_is_given_more(scheduler: Make) -> None:
    machine = scheduler(lanes=2)
    assert machine.admit(1, "a=300 b=100 c=100 d=10") == (
        launch(1, "a"), launch(1, "b", lane=1), launch(1, "c", lane=1), launch(1, "d"),
    )  # fmt: skip


def test_fine_regions_stay_on_the_first_lane(scheduler: Make) -> None:
    """a, b, c of tiny kernels, d of large ones"""
    machine = scheduler(lanes=2)
    assert machine.admit(1, shape("a b c d", fine="abc")) == (launch(1, "a"), launch(1, "b"), launch(1, "d", lane=1))
    assert machine.finish(1, "d") == ()
    assert machine.finish(1, "a") == (launch(1, "c"),)


def test_a_fine_region_does_not_follow_what_it_needs_onto_another_lane(scheduler: Make) -> None:
    """b (fine) needs a, which a longer c has driven to lane 1"""
    machine = scheduler(lanes=2)
    assert machine.admit(1, "a=900") == (launch(1, "a"),)
    assert machine.admit(2, shape("a=500 b:a", fine="b")) == (launch(2, "a", lane=1),)
    assert machine.finish(2, "a") == (launch(2, "b"),)


@pytest.mark.parametrize(
    ("held", "waited_for", "fine", "lane"),
    [
        ([(0, 0), (0, 0)], set(), False, 0),
        ([(1, 50), (0, 0)], set(), False, 1),
        ([(1, 50), (1, 40)], set(), False, 1),
        ([(2, 1), (1, 99)], set(), False, 1),
        ([(2, 1), (2, 1)], set(), False, None),
        ([(1, 50), (0, 0)], set(), True, 0),
        ([(2, 50), (0, 0)], set(), True, None),
        ([(1, 50), (0, 0)], {0}, False, 0),
        ([(2, 50), (0, 0)], {0}, False, None),
        ([(1, 50), (1, 40)], {0, 1}, False, None),
        ([(0, 0), (1, 40)], {1}, True, None),
        ([(1, 5)], {0}, True, 0),
        ([(2, 5)], {0}, True, None),
    ],
)
def test_the_choice_of_a_lane(held: list[tuple[int, int]], waited_for: set[int], fine: bool, lane: int | None) -> None:
    loads = []
    for number, (count, ns) in enumerate(held):
        load = LaneLoad(LaneShape(2, takes_fine=not number))
        for _ in range(count):
            load.take(ns // count)
        loads.append(load)
    assert choose_lane(loads, waited_for, fine) == lane


# --- whose turn it is ---


def test_the_highest_priority_goes_first(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a")
    for run, priority in {2: 0, 3: 5, 4: -1, 5: 5}.items():
        assert machine.admit(run, "a", priority) == ()
    assert _served(machine, launch(1, "a"))[1:] == [(3, "a"), (5, "a"), (2, "a"), (4, "a")]


def test_runs_of_one_priority_take_turns(scheduler: Make) -> None:
    """three runs of two regions each on one slot; the second and third come while the first is under way"""
    machine = scheduler(slots=1)
    (first,) = machine.admit(1, "a b")
    machine.admit(2, "a b")
    machine.admit(3, "a b")
    assert _served(machine, first) == [(1, "a"), (2, "a"), (3, "a"), (1, "b"), (2, "b"), (3, "b")]


def test_a_run_that_comes_later_waits_for_those_that_wait_already(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a b")
    machine.admit(2, "a b")
    assert machine.finish(1, "a") == (launch(2, "a"),)
    machine.admit(3, "a")
    assert _served(machine, launch(2, "a")) == [(2, "a"), (1, "b"), (3, "a"), (2, "b")]


def _served(machine: Checked, first: Instruction) -> list[tuple[int, str]]:
    """Who is launched, one after the other, on a machine of one slot, until it is idle."""
    served: list[Launch] = [one for one in (first,) if isinstance(one, Launch)]
    while not machine.idle:
        last = served[-1]
        told = machine.finish(last.run, LETTERS[last.region])
        served += [one for one in told if isinstance(one, Launch)]
    return [(one.run, LETTERS[one.region]) for one in served]


def test_a_run_that_cannot_go_on_does_not_hold_the_others_back(scheduler: Make) -> None:
    """run 1 waits for lane 0, which is full; run 2 has work for lane 1"""
    machine = scheduler(lanes=2, slots=1)
    assert machine.admit(1, "a b:a", priority=9) == (launch(1, "a"),)
    assert machine.admit(2, "a") == (launch(2, "a", lane=1),)


def test_runs_of_fine_regions_are_not_looked_at_while_no_lane_takes_them(
    scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """an event costs the same beside many of them, and lanes for others are still filled"""
    machine = scheduler(lanes=2, slots=1)
    assert machine.admit(0, shape("a", fine="a")) == (launch(0, "a"),)
    looked: list[int] = []
    place = machine._place

    def looking(state: RunState) -> Launch | None:
        looked.append(state.run)
        return place(state)

    monkeypatch.setattr(machine, "_place", looking)
    for run in range(1, 50):
        assert machine.admit(run, shape("a", fine="a")) == ()
    assert looked == []
    assert machine.admit(77, "a") == (launch(77, "a", lane=1),)
    assert looked == [77]
    assert machine.finish(0, "a") == (Deliver(0), Release(0), launch(1, "a"))
    assert looked == [77, 1]


def test_a_run_leaves_the_line_of_fine_ones_when_it_has_other_work(scheduler: Make) -> None:
    """run 1: a (fine) needs the full lane 0; b ends on lane 1, so that c, not fine, could go there"""
    machine = scheduler(lanes=2, slots=1)
    assert machine.admit(0, shape("a", fine="a")) == (launch(0, "a"),)
    assert machine.admit(1, shape("a b c:b", fine="a")) == (launch(1, "b", lane=1),)
    assert machine.finish(1, "b") == (launch(1, "c", lane=1),)


def test_priorities_hold_between_fine_runs_and_others(scheduler: Make) -> None:
    machine = scheduler(lanes=2, slots=1)
    machine.admit(0, "a b")
    machine.admit(1, shape("a", fine="a"), priority=1)
    machine.admit(2, "a", priority=2)
    machine.admit(3, "a", priority=0)
    assert machine.finish(0, "a") == (launch(2, "a"),)
    assert machine.finish(2, "a") == (Deliver(2), Release(2), launch(1, "a"))
    assert machine.finish(1, "a") == (Deliver(1), Release(1), launch(3, "a"))


# --- failing and stopping ---


def test_a_failure_stops_the_run_and_releases_it_once_lanes_are_through(scheduler: Make) -> None:
    machine = scheduler(lanes=2, slots=2)
    machine.admit(1, "a b c d:abc")
    assert machine.fail(1, "a", ERROR) == (Stop(1, ERROR),)
    assert machine.runs[1].phase is Phase.DRAINING
    assert machine.finish(1, "b") == ()
    assert machine.finish(1, "c") == (Release(1),)
    assert machine.idle


def test_only_the_first_failure_is_told(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a b")
    assert machine.fail(1, "a", ERROR) == (Stop(1, ERROR),)
    assert machine.fail(1, "b", ValueError("a consequence")) == (Release(1),)


def test_a_failure_of_the_last_region_in_flight_releases_at_once(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a")
    assert machine.fail(1, "a", ERROR) == (Stop(1, ERROR), Release(1))


def test_a_failure_of_one_run_lets_the_others_go_on(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a b")
    machine.admit(2, "a")
    assert machine.fail(1, "a", ERROR) == (Stop(1, ERROR), Release(1), launch(2, "a"))


def test_a_cancelled_run_that_waits_for_a_slot_ends_at_once(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a")
    machine.admit(2, "a")
    assert machine.cancel(2) == (Stop(2, None), Release(2))
    assert machine.finish(1, "a") == (Deliver(1), Release(1))
    assert machine.idle


def test_a_cancelled_run_that_lanes_work_for_drains(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a b:a c:b")
    assert machine.cancel(1) == (Stop(1, None),)
    assert machine.cancel(1) == ()
    assert machine.fail(1, "a", ERROR) == ()
    assert machine.finish(1, "b") == (Release(1),)


def test_cancelling_after_the_end_says_nothing(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a")
    machine.finish(1, "a")
    assert machine.cancel(1) == ()
    assert machine.cancel(99) == ()


# --- what cannot be ---


def test_a_run_is_admitted_once(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a")
    with pytest.raises(InvariantBroken, match="admitted once") as caught:
        machine.admit(1, "a")
    assert any("RunAdmitted" in line for line in caught.value.story)


def test_a_region_settles_once(scheduler: Make) -> None:
    machine = scheduler()
    machine.admit(1, "a b")
    machine.finish(1, "a")
    with pytest.raises(InvariantBroken, match="settles once"):
        machine.finish(1, "a")
    with pytest.raises(InvariantBroken, match="only admitted runs"):
        machine.finish(2, "a")


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        ("a lane holds what runs have in flight", lambda m: m.loads[0].take(0)),
        ("never holds more than its slots", lambda m: m.loads.__setitem__(0, LaneLoad(LaneShape(1), 2, 200))),
        ("an ended run is forgotten", lambda m: setattr(m.runs[1], "phase", Phase.ENDED)),
        ("a stopped run only waits", lambda m: setattr(m.runs[1], "phase", Phase.DRAINING)),
        ("in flight or finished, not both", lambda m: m.runs[1].finished.add(0)),
        ("what is left is counted", lambda m: setattr(m.runs[1], "left", 1)),
        ("missing needs are counted", lambda m: m.runs[1]._missing.__setitem__(3, 0)),
        ("candidates are the regions", lambda m: m.runs[1].candidates.clear()),
    ],
)
def test_the_laws_are_noticed(law: str, broken: object) -> None:
    machine = Checked.of(1, 2)
    machine.admit(1, "a b c d:abc")
    check(machine)
    broken(machine)  # type: ignore[operator]
    with pytest.raises(InvariantBroken, match=law):
        check(machine)


def test_the_law_against_idling_is_noticed() -> None:
    machine = Checked.of(1, 2)
    machine.admit(1, "a")
    machine.runs[1].in_flight.clear()
    machine.runs[1]._missing[0] = 0
    machine.runs[1].candidates.append(0)
    machine.loads[0].give(100)
    with pytest.raises(InvariantBroken, match="do not idle"):
        check(machine)


def test_a_run_that_cannot_go_on_is_forgotten_with_what_lanes_hold_of_it(scheduler: Make) -> None:
    machine = scheduler(lanes=2, slots=1)
    machine.admit(1, "a b c")
    machine.admit(2, "a")
    story = machine.forget(1)
    assert [line.split("(")[0] for line in story] == ["RunAdmitted"]
    assert not any(load.held or load.held_ns for load in machine.loads)
    assert machine.forget(1) == story
    assert machine.admit(3, "a") == (launch(2, "a"), launch(3, "a", lane=1))


# --- the story ---


def test_the_story_of_a_run_is_what_was_heard_of_it_and_said_about_it(scheduler: Make) -> None:
    machine = scheduler(slots=1)
    machine.admit(1, "a b", priority=-1)
    machine.admit(2, "a")
    machine.finish(1, "a")
    machine.cancel(1)
    first, second, third = machine.story(1)
    assert first.startswith("RunAdmitted(run=1")
    assert first.endswith("-> Launch(run=1, region=0, lane=0, waits=())")
    assert second == "RegionFinished(run=1, region=0, took_ns=0) -> Launch(run=2, region=0, lane=0, waits=())"
    assert third == "CancelRequested(run=1) -> Stop(run=1, error=None), Release(run=1)"
    assert [line.split("(")[0] for line in machine.story(2)] == ["RunAdmitted", "RegionFinished"]
    assert machine.story(2)[0].endswith("-> nothing")


def test_the_story_is_bounded(scheduler: Make) -> None:
    machine = scheduler()
    for run in range(200):
        machine.admit(run, "a")
        machine.finish(run, "a")
    assert machine.story(0) == []
    assert len(machine.story(199)) == 2


# --- shapes ---


def test_the_shape_of_a_plan() -> None:
    class Program:
        def __init__(self, kernels: int, predicted_ns: int) -> None:
            self.kernels, self.predicted_ns = kernels, predicted_ns

        def __len__(self) -> int:
            return self.kernels

    class Region:
        def __init__(self, needs: set[int], dependents: tuple[int, ...], program: Program) -> None:
            self.needs, self.dependents, self.program = frozenset(needs), dependents, program

    class Plan:
        regions = (
            Region(set(), (1,), Program(10, 10 * FINE_KERNEL_NS)),
            Region({0}, (), Program(10, 10 * FINE_KERNEL_NS - 1)),
        )

    found = shape_of(Plan())  # type: ignore[arg-type]
    assert isinstance(found, RunShape)
    assert (list(found.needs), list(found.dependents)) == ([frozenset(), frozenset({0})], [(1,), ()])
    assert (found.predicted_ns, found.fine) == ([40_000, 39_999], [False, True])
    assert (len(found), found.missing, found.roots) == (2, [0, 1], [0])
