"""What a loop owes its lanes, and what work done in place may have of it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest
import trio

from fuel_async.errors import WrongLoop
from fuel_async.streams import LoopShare, loop_share
from fuel_async.streams.loop_share import IDLE_LOOK_S, LOOK_S, TURN_BESIDE_OVERDUE_NS, TURN_NS, UNMARKED_NS
from tests.streams.support import PATIENCE_S, turns

if TYPE_CHECKING:
    from collections.abc import Callable


class Lane:
    """A lane that is due when it is told to be."""

    def __init__(self, due_ns: int = 0, pending_count: int = 1) -> None:
        self.due_ns, self.pending_count = due_ns, pending_count


@pytest.fixture
async def share() -> LoopShare:
    return LoopShare.running()


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens at each sleep of the loop's thread, one after the other; then nothing."""
    happens: list[Callable[[], object]] = []
    real = time.sleep

    def sleep(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread() and happens:
            happens.pop(0)()
        else:
            real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    return happens


# --- which share ---


async def test_each_loop_has_one_share() -> None:
    share = LoopShare.running()
    assert LoopShare.of(asyncio.get_running_loop()) is share
    other = await asyncio.to_thread(lambda: asyncio.run(_share()))
    assert other is not share


async def _share() -> LoopShare:
    return LoopShare.running()


def test_without_a_loop_there_is_none() -> None:
    with pytest.raises(WrongLoop, match="a thread without an event loop"):
        LoopShare.running()


def test_under_trio_there_is_none() -> None:
    async def main() -> None:
        with pytest.raises(WrongLoop, match="not on trio"):
            LoopShare.running()

    trio.run(main)


def test_a_share_goes_with_its_loop() -> None:
    """a service that calls asyncio.run for each request leaks neither"""
    loop = asyncio.new_event_loop()

    async def use() -> weakref.ref[LoopShare]:
        share = LoopShare.running()
        share.take(1)
        share.watch(Lane(pending_count=0))
        share.waker.post(lambda: None)
        await asyncio.sleep(0)
        return weakref.ref(share)

    share, gone = loop.run_until_complete(use()), weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert gone() is None
    assert share() is None


def test_work_in_place_does_not_see_the_callers_error_state() -> None:
    async def main() -> None:
        share = LoopShare.running()
        with np.errstate(all="raise"):
            assert set(share.calm.run(np.geterr).values()) == {"ignore"}
            assert set(np.geterr().values()) == {"raise"}

    asyncio.run(main())


# --- the ration ---


async def test_a_turn_has_its_ration(share: LoopShare) -> None:
    piece = TURN_NS // 4
    assert [share.take(piece) for _ in range(5)] == [True] * 4 + [False]
    await share.wait(piece)
    assert [share.take(piece) for _ in range(4)] == [True] * 3 + [False]


async def test_the_next_turn_has_a_new_one(share: LoopShare) -> None:
    assert share.take(TURN_NS)
    assert not share.take(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert share.take(TURN_NS)


async def test_a_piece_larger_than_a_ration_is_granted_at_the_start_of_a_turn(share: LoopShare) -> None:
    assert share.take(3 * TURN_NS)
    assert not share.take(1)
    await share.wait(3 * TURN_NS)
    assert not share.take(1)


async def test_who_waits_is_served_in_order(share: LoopShare) -> None:
    served: list[int] = []
    assert share.take(TURN_NS)

    async def run(number: int) -> None:
        if not share.take(TURN_NS // 2):
            await share.wait(TURN_NS // 2)
        served.append(number)

    await asyncio.gather(*(run(number) for number in range(9)))
    assert served == list(range(9))


async def test_nobody_overtakes_who_waits(share: LoopShare) -> None:
    share.take(TURN_NS)
    assert not share.take(TURN_NS)
    waiting = share.wait(TURN_NS)
    assert not share.take(0)
    await waiting


async def test_a_turn_serves_no_more_than_its_ration(share: LoopShare) -> None:
    share.take(TURN_NS)
    waiting = [share.wait(TURN_NS) for _ in range(3)]
    turns: list[int] = []
    while not all(future.done() for future in waiting):
        before = sum(future.done() for future in waiting)
        await asyncio.sleep(0)
        turns.append(sum(future.done() for future in waiting) - before)
    assert max(turns) == 1


async def test_who_has_left_is_passed_over(share: LoopShare) -> None:
    share.take(TURN_NS)
    first, second = share.wait(TURN_NS), share.wait(TURN_NS)
    first.cancel()
    await asyncio.wait_for(second, PATIENCE_S)
    assert first.cancelled()


async def test_a_loop_at_rest_is_left_alone(share: LoopShare, monkeypatch: pytest.MonkeyPatch) -> None:
    """no turn is counted that nothing has asked for"""
    turns: list[None] = []
    turn = LoopShare._turn

    def counted(self: LoopShare) -> None:
        turns.append(None)
        turn(self)

    monkeypatch.setattr(LoopShare, "_turn", counted)
    share.take(UNMARKED_NS)
    for _ in range(20):
        await asyncio.sleep(0)
    assert turns == []
    share.take(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(turns) == 1


async def test_small_work_counts_against_the_turn_that_is_marked(share: LoopShare) -> None:
    """what was taken unmarked may all have been in one turn: the ration is never more than that of one"""
    for _ in range(5):
        assert share.take(UNMARKED_NS // 5)
    assert share.take(TURN_NS - UNMARKED_NS)
    assert not share.take(1)


# --- courtesy ---


async def test_an_overdue_lane_is_let_in(share: LoopShare, sleeps: list[Callable[[], object]]) -> None:
    lane, helped = Lane(due_ns=0), asyncio.Event()

    def move() -> None:
        lane.due_ns, lane.pending_count = 1 << 62, 0
        helped.set()

    sleeps.append(move)
    share.watch(lane)
    await asyncio.wait_for(helped.wait(), PATIENCE_S)


async def test_a_lane_in_time_costs_nothing(share: LoopShare, sleeps: list[Callable[[], object]]) -> None:
    lane = Lane(due_ns=1 << 62)
    sleeps.append(lambda: pytest.fail("the loop slept for nobody"))
    share.watch(lane)
    assert not share._help()
    lane.pending_count = 0
    sleeps.clear()


async def test_beside_an_overdue_lane_turns_are_short(share: LoopShare, sleeps: list[Callable[[], object]]) -> None:
    """once it has moved, which shows that it was the interpreter that it lacked"""
    lane = Lane(due_ns=0)
    share.watch(lane)
    sleeps.append(lambda: setattr(lane, "due_ns", 1 << 62))
    share.take(TURN_NS)
    await share.wait(1)
    assert not share.take(TURN_BESIDE_OVERDUE_NS + 1)
    lane.pending_count = 0


async def test_a_lane_that_does_not_move_is_not_starved(share: LoopShare, sleeps: list[Callable[[], object]]) -> None:
    """it runs something longer than was predicted: the ration stays whole"""
    lane = Lane(due_ns=0)
    share.watch(lane)
    sleeps.append(lambda: None)
    assert not share._help()
    sleeps.append(lambda: setattr(lane, "due_ns", 5))
    assert share._help()
    lane.pending_count = 0


async def test_lanes_are_looked_after_until_their_work_is_done(share: LoopShare) -> None:
    lane, other = Lane(due_ns=1 << 62), Lane(due_ns=1 << 62, pending_count=0)
    share.watch(lane)
    share.watch(other)
    await turns(until=lambda: other not in share._lanes)
    assert lane in share._lanes
    lane.pending_count = 0
    await turns(until=lambda: not share._lanes)
    share.watch(lane)  # and anew
    await turns(until=lambda: not share._lanes)


@pytest.mark.parametrize(("worked", "wait_s"), [(0.9, LOOK_S), (0.1, IDLE_LOOK_S)])
async def test_a_loop_without_work_of_its_own_looks_rarely(
    share: LoopShare, monkeypatch: pytest.MonkeyPatch, worked: float, wait_s: float
) -> None:
    """a wake-up takes the interpreter from the lane that it is for"""
    now_ns, waits = 10**9, list[float]()
    monkeypatch.setattr(loop_share, "perf_counter_ns", lambda: now_ns)
    monkeypatch.setattr(loop_share, "thread_time_ns", lambda: int(now_ns * worked))
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda delay, call: waits.append(delay))
    share.watch(Lane(due_ns=now_ns + 1))
    for _ in range(3):
        share._look()
        now_ns += 10**6
    assert waits[2:] == [wait_s, wait_s]
    share._lanes.clear()
