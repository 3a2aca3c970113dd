"""Which device a region goes to, one reason at a time. Copies take 10 ns and a tenth of one a byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import UserError
from fuel_async.schedule import POLICIES, Offer, earliest_finish, spread_evenly
from fuel_async.schedule.look import LOOKED_AT, LOOKED_AT_OF_RUN
from fuel_async.schedule.machine import LaneQueue
from fuel_async.schedule.shape import LaneShape
from tests.schedule.spread_support import LETTERS, MakeSpread, Mesh, cpu, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

# --- the earliest finish ---


def test_a_region_goes_where_it_is_done_first(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, spread("a", speeds={1: 2})) == "1a@1"


def test_what_a_lane_holds_counts(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, "a=300 b=100 c=100 d=100") == "1a@0, 1b@1, 1c@1"
    assert machine.waiting()[0].candidates == [3]  # better third on the one than second on the other


def test_a_region_goes_where_its_large_input_lies(devices: MakeSpread) -> None:
    """the other device is faster by 50 ns, and to send X there takes 110"""
    shape = spread("a:X=100", nbytes={"X": 1_000}, speeds={1: 2})
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, shape, resident="X1") == "1a@0"
    assert machine.admit(2, spread("a:X=100", nbytes={"X": 100}, speeds={1: 2}), resident="X1") == "2X 1>2, 2a@1"


def test_runs_of_one_shape_differ_in_where_their_feeds_lie(devices: MakeSpread) -> None:
    """X takes 510 ns to send: run 2 waits for the fast device, run 3 is done sooner where its X is"""
    shape = spread("a:X=1000", nbytes={"X": 5_000}, speeds={0: 10})
    machine = devices(gpu(1, slots=1), gpu(2))
    assert machine.admit(1, shape) == "1X 0>1, 1a@0"
    assert machine.admit(2, shape) == ""
    assert machine.admit(3, shape, resident="X2") == "3a@1"


def test_a_device_whose_results_could_not_be_fetched_is_not_offered(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), links=Mesh(missing={(1, 0)}))
    assert machine.admit(1, "a") == "1a@1"
    assert machine.admit(2, spread("a", outputs="")) == "2a@0"


def test_copies_of_one_region_over_one_link_follow_one_another(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.admit(1, spread("a:XY", nbytes={"X": 100, "Y": 300}))
    assert machine.decisions[-1].chosen.ready_ns == 20 + 40


def test_copies_over_two_links_follow_one_another_on_each(devices: MakeSpread) -> None:
    """X and Y from memory 1 to 2 by way of the host, 20 ns a hop"""
    machine = devices(gpu(1), gpu(2), links=Mesh(missing={(1, 2)}))
    machine.admit(1, "a:XY@1", resident="X1 Y1")
    assert machine.decisions[-1].chosen.ready_ns == 60


def test_a_value_comes_from_where_it_is_there_first(devices: MakeSpread) -> None:
    """X is on its way from memory 1 to 2 and is there at 20; the link from 1 to 3 is busy with a large copy"""
    machine = devices(gpu(1), gpu(2), gpu(3, slots=4))
    machine.admit(1, spread("a:X@2", nbytes={"X": 10_000}), resident="X1")
    assert machine.admit(2, "a:X@1 b:X@2", resident="X1") == "2X 1>2, 2a@1, 2X 2>3, 2b@2"


def test_constants_that_must_be_sent_count_behind_the_inputs(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, spread("a:X", uploads={0: 50}))
    first, second = machine.decisions[-1].offers
    assert (first.ready_ns, second.ready_ns) == (70, 20)
    assert machine.decisions[-1].chosen is second


def test_work_of_others_counts(devices: MakeSpread) -> None:
    machine = devices(gpu(1, lanes=2), gpu(2))
    machine.machine.devices[0].foreign_ns = 200
    assert machine.admit(1, "a") == "1a@2"
    assert [offer.free_ns for offer in machine.decisions[-1].offers] == [100, 0]


def test_what_is_overdue_is_expected_to_be_as_late_again(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    machine.admit(1, "a=100@0")
    machine.admit(2, "a=120@1")
    machine.at_ns = 130
    machine.admit(3, "a")
    assert [offer.free_ns for offer in machine.decisions[-1].offers] == [160, 140]


def test_a_lane_is_free_after_all_that_it_holds() -> None:
    lane = LaneQueue(LaneShape(3))
    lane.add((1, 0), ready_ns=50, predicted_ns=100, now_ns=10)
    lane.add((2, 0), ready_ns=400, predicted_ns=100, now_ns=10)
    assert lane.free_ns(10) == 500
    lane.drop((1, 0), now_ns=120)
    assert lane.free_ns(120) == 500
    lane.add((3, 0), ready_ns=0, predicted_ns=30, now_ns=120)
    lane.delay((2, 0), ready_ns=200, now_ns=130)
    assert list(lane.jobs) == [(3, 0), (2, 0)]
    assert lane.free_ns(130) == 300
    lane.drop((2, 0), now_ns=140)
    assert lane.free_ns(140) == 160  # since it is first, at 130
    lane.drop((3, 0), now_ns=170)
    assert lane.free_ns(180) == 180
    assert (lane.held, lane.held_ns) == (0, 0)
    lane.add((4, 0), ready_ns=0, predicted_ns=50, now_ns=500)
    assert lane.free_ns(500) == 550


def test_what_was_held_back_counts_behind_what_was_launched_meanwhile(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=4), binds=False)
    machine.admit(1, "a=100")
    machine.admit(2, "a=50")
    machine.bound(2, 0)
    machine.at_ns = 40
    machine.bound(1, 0)
    machine.at_ns = 60
    machine.finish(2, "a")
    machine.admit(3, "a")
    assert machine.decisions[-1].chosen.free_ns == 60 + 100


# --- waiting for a better device ---


def test_a_region_waits_for_a_device_that_will_be_done_with_it_first(devices: MakeSpread) -> None:
    """10 ns on the one, 100 on the other, which is idle"""
    shape = spread("a=100", speeds={0: 10}, outputs="")
    machine = devices(gpu(1, slots=1), gpu(2))
    assert machine.admit(1, shape) == "1a@0"
    assert machine.admit(2, shape) == ""
    machine.at_ns = 10
    assert machine.finish(1, "a") == "1 done, 1 end, 2a@0"


def test_the_slow_device_gets_what_would_wait_longer_for_the_fast(devices: MakeSpread) -> None:
    """the first at 10, those that wait at 20, 30, 40; the fifth would be done at 50, or at 40 on the slow one"""
    machine = devices(gpu(1, slots=1), gpu(2))
    shapes = [spread("a=40", speeds={0: 4}, outputs="") for _ in range(5)]  # not of one shape: each is looked at
    assert [machine.admit(run, shape) for run, shape in enumerate(shapes)] == ["0a@0", "", "", "3a@1", ""]


@pytest.mark.parametrize(("speed", "waiting"), [(4, 3), (10, 9), (24, 28)])
def test_of_many_equal_runs_not_all_are_looked_at(devices: MakeSpread, speed: int, waiting: int) -> None:
    """the slow device is worth it for the one that is number `speed` - 1 in line; of those from the 19th on, the next
    that is looked at is the 28th"""
    shape = spread(f"a={speed * 10}", speeds={0: speed}, outputs="")
    machine = devices(gpu(1, slots=1), gpu(2, slots=1))
    runs = 0
    while machine.machine.devices[1].given == 0:
        machine.admit(runs, shape)
        runs += 1
        assert runs <= 60
    assert runs - 1 == waiting
    assert len(machine.decisions) == 2


def test_only_so_many_are_looked_at(devices: MakeSpread) -> None:
    """a device a hundred times slower gets none of them: it would hold its run back"""
    machine = devices(gpu(1, slots=1), gpu(2, slots=1))
    for run in range(3 * LOOKED_AT):
        machine.admit(run, spread("a=1000", speeds={0: 100}))
    assert machine.machine.devices[1].given == 0
    assert machine.admit(999, "a@1") == ""  # and it stands beyond those, too
    assert machine.admit(1_000, "a@1", priority=1) == "1000a@1"


def test_candidates_of_a_run_that_wait_let_others_pass(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2, slots=1))
    assert machine.admit(1, "a@0 b@0 c@1") == "1a@0, 1c@1"
    many = " ".join(f"{letter}@0" for letter in LETTERS[:LOOKED_AT_OF_RUN])
    machine.finish(1, "c")
    assert machine.admit(2, f"{many} {LETTERS[LOOKED_AT_OF_RUN]}@1") == ""  # beyond those of one run


def test_nothing_is_overlooked_while_nothing_is_in_flight(devices: MakeSpread) -> None:
    """all the runs in front have no room; the one that holds the memory stands behind them"""
    links = Mesh()
    machine = devices(gpu(1, budget=10, slots=1), links=links, binds=False)
    machine.admit(0, spread("a=9 b:a=1", outputs=""))
    machine.bound(0, 0)
    for run in range(1, 2 * LOOKED_AT):
        machine.admit(run, spread("a"))
    assert [state.run for state in machine.waiting()][-1] == 0
    assert machine.finish(0, "a") == "0b@0"


def test_a_region_that_would_go_elsewhere_waits_for_what_it_needs(devices: MakeSpread) -> None:
    """b could stand behind a on the slow device, and is done sooner on the fast one once a has ended"""
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, spread("a=20@0 b:a=1000", speeds={1: 10})) == "1a@0"
    assert machine.finish(1, "a") == "1a 1>2, 1b@1"


def test_a_region_behind_what_it_needs_waits_for_a_slot_there(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2))
    assert machine.admit(1, spread("a=20 b:a", nbytes={"a": 10_000}, outputs="")) == "1a@0"
    assert machine.finish(1, "a") == "1b@0"


def test_a_region_stands_behind_what_it_needs_though_another_lane_is_idle(devices: MakeSpread) -> None:
    machine = devices(gpu(1, lanes=2))
    assert machine.admit(1, "a b:a") == "1a@0, 1b@0<a"


def test_a_region_that_needs_two_lanes_waits_for_one_of_them(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2))
    assert machine.admit(1, spread("a@0 b@1 c:ab", outputs="")) == "1a@0, 1b@1"
    assert machine.finish(1, "a") == "1a 1>2, 1c@1<b"


# --- memory ---


def test_a_device_whose_memory_is_nearly_full_comes_last(devices: MakeSpread) -> None:
    """86 of 100 bytes would be held on the fast one"""
    machine = devices(gpu(1, budget=100, slots=4), gpu(2, budget=1_000, slots=4))
    speeds = {0: 10.0}
    assert machine.admit(1, spread("a", share=43, speeds=speeds)) == "1a@0"
    assert machine.admit(2, spread("a", share=43, speeds=speeds)) == "2a@1"
    assert [offer.tight for offer in machine.decisions[-1].offers] == [True, False]
    assert machine.admit(3, spread("a@0", share=43, speeds=speeds)) == "3a@0"
    assert machine.admit(4, spread("a b:a", share=14, speeds=speeds)) == "4a@1, 4b@1<a"


def test_a_run_is_not_kept_from_a_memory_that_it_holds_a_share_of(devices: MakeSpread) -> None:
    machine = devices(gpu(1, budget=100, slots=4), gpu(2, budget=1_000))
    assert machine.admit(1, spread("a@0 b", share=95, speeds={0: 10.0})) == "1a@0, 1b@0"
    assert [offer.tight for offer in machine.decisions[-1].offers] == [False, False]


# --- pins and fine regions ---


def test_a_pinned_region_waits_for_its_device_and_no_other(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1), gpu(2))
    assert machine.admit(1, "a@0") == "1a@0"
    assert machine.admit(2, "a@0 b@1") == "2b@1"
    assert machine.finish(1, "a") == "1a 1>0, 2a@0"


def test_fine_regions_go_to_the_lane_that_takes_them(devices: MakeSpread) -> None:
    machine = devices(cpu(lanes=2))
    assert machine.admit(1, spread("a b c d", fine="abc", outputs="")) == "1a@0, 1b@0, 1d@1"


def test_a_fine_region_does_not_follow_what_it_needs_onto_another_lane(devices: MakeSpread) -> None:
    machine = devices(cpu(lanes=2))
    assert machine.admit(1, spread("a=500 b=100 c:b", fine="c")) == "1a@0, 1b@1"
    assert machine.finish(1, "b") == "1c@0"


def test_a_device_that_sets_no_lane_apart_takes_fine_regions_on_all(devices: MakeSpread) -> None:
    shape, lanes = gpu(1, lanes=2)
    machine = devices((shape, [LaneShape(lane.slot_capacity, takes_fine=False) for lane in lanes]))
    assert machine.admit(1, spread("a b", fine="ab")) == "1a@0, 1b@1"


# --- order ---


def test_the_region_with_the_longest_way_to_the_end_goes_first(devices: MakeSpread) -> None:
    """c is short, with a long way after it"""
    machine = devices(gpu(1, slots=1))
    assert machine.admit(1, "a=10 b=200 c=50 d:c=300 e:a=20") == "1c@0"
    assert [machine.finish(1, region)[-4:] for region in "cdba"] == ["1d@0", "1b@0", "1a@0", "1e@0"]


def test_runs_take_turns_by_priority(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.admit(1, spread("a b", outputs=""))
    for run, priority in [(2, 0), (3, 1), (4, -1)]:
        machine.admit(run, spread("a b", outputs=""), priority)
    served, last = ["1a"], (1, "a")
    while machine.runs:
        launched = machine.finish(*last).rpartition(", ")[2]
        if "@" in launched:
            served.append(launched[:2])
            last = int(launched[0]), launched[1]
    assert served == ["1a", "3a", "3b", "2a", "1b", "2b", "4a", "4b"]


# --- policies ---


def test_the_policies_have_names() -> None:
    assert dict(POLICIES) == {"earliest_finish": earliest_finish, "spread": spread_evenly}


def test_spread_gives_each_device_as_many(devices: MakeSpread) -> None:
    machine = devices(gpu(1), gpu(2), policy=spread_evenly)
    shape = spread("a", speeds={1: 100})
    assert [machine.admit(run, shape) for run in range(5)] == ["0a@1", "1a@0", "2a@1", "3a@0", ""]


def test_equals_go_where_less_is_held() -> None:
    offers = [Offer(0, 0, 0, 100, 10, held=2), Offer(1, 1, 100, 0, 10, held=1)]
    assert earliest_finish(offers) is offers[1]
    assert spread_evenly([Offer(0, 0, 0, 0, 10, tight=True), Offer(1, 1, 0, 0, 99, given=7)]).device == 1
    assert [(offer.start_ns, offer.finish_ns) for offer in offers] == [(100, 110), (100, 110)]


def test_a_policy_of_the_callers_own_is_asked(devices: MakeSpread) -> None:
    asked: list[Sequence[Offer]] = []

    def last(offers: Sequence[Offer]) -> Offer:
        asked.append(offers)
        return offers[-1]

    machine = devices(gpu(1), gpu(2), gpu(3), policy=last)
    assert machine.admit(1, "a") == "1a@2"
    assert [offer.device for offer in asked[0]] == [0, 1, 2]
    decision = machine.decisions[-1]
    assert (decision.run, decision.region, decision.offers) == (1, 0, asked[0])


def test_a_policy_that_fails_stops_the_run_that_it_was_asked_about(devices: MakeSpread) -> None:
    def picky(offers: Sequence[Offer]) -> Offer:
        if offers[0].predicted_ns == 13:
            raise LookupError("unlucky")
        return offers[0]

    machine = devices(gpu(1, slots=1), policy=picky)
    machine.admit(1, spread("a b", outputs=""))
    machine.admit(2, "a=13")
    assert machine.admit(3, "a") == ""
    assert machine.finish(1, "a") == "2 stop LookupError, 2 end, 3a@0"


def test_a_policy_that_returns_no_offer_stops_the_run(devices: MakeSpread) -> None:
    machine = devices(gpu(1), policy=lambda _: Offer(0, 0, 0, 0, 1))
    assert machine.admit(1, "a") == "1 stop UserError, 1 end"
    assert isinstance(machine.errors[1], UserError)
    assert "one of the offers" in str(machine.errors[1])
