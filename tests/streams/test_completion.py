"""The handle of a submission: whoever waits for it and however, it settles once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.errors import DeviceLost, UserError
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation
from fuel_async.registry import inflight_count, inflight_of
from fuel_async.streams import Completion, CompletionHandle, HostLane, Timing, WaitStatus
from tests.runtime.support import PATIENCE_S, Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Doing:
    """What a lane runs: `call(x, out)` over two arrays."""

    predicted_ns = 1
    measures = False

    def __init__(self, call: Callable[[Any, Any], object]) -> None:
        self._call = call

    def execute(self, *bound: Any) -> None:
        self._call(np.zeros(1), np.zeros(1))


def nothing(x: Any, out: Any) -> None:
    """Work that is done as soon as it is begun."""


def fails(x: Any, out: Any) -> None:
    raise ArithmeticError("as told")


@pytest.fixture
def lane() -> Iterator[HostLane]:
    one = HostLane("test lane", CPU_DEVICE)
    before = inflight_count(CPU_DEVICE)
    yield one
    one.close()
    one.join(PATIENCE_S)
    assert inflight_count(CPU_DEVICE) == before


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    one.open(1_000)


async def test_a_handle_is_awaited_any_number_of_times_by_any_number_of_tasks(lane: HostLane, gate: Gate) -> None:
    handle = lane.submit(Doing(gate))
    waiters = [asyncio.ensure_future(handle.settled()) for _ in range(3)]
    timings = [asyncio.ensure_future(_timing(handle)) for _ in range(3)]
    await gate.entered()
    assert not any(waiter.done() for waiter in (*waiters, *timings))
    gate.open()
    found = await asyncio.gather(*timings)
    assert await asyncio.gather(*waiters) == [None] * 3
    assert {id(timing) for timing in found} == {id(await handle)} == {id(handle.result())}


async def _timing(handle: CompletionHandle) -> Timing:
    return await handle


async def test_cancelling_one_waiter_leaves_the_work_and_the_other_waiters(lane: HostLane, gate: Gate) -> None:
    handle = lane.submit(Doing(gate))
    leaves, stays = (asyncio.ensure_future(_timing(handle)) for _ in range(2))
    await gate.entered()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert not handle.done()
    gate.open()
    assert await stays is handle.result()
    assert gate.passed == 1


async def test_tasks_of_two_loops_await_one_handle(lane: HostLane, gate: Gate) -> None:
    handle = lane.submit(Doing(gate))
    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, _timing(handle)))
    here = asyncio.create_task(_timing(handle))
    await gate.entered()
    gate.open()
    assert await elsewhere is await here


async def test_each_waiter_of_a_failure_gets_an_exception_of_its_own(lane: HostLane) -> None:
    handle = lane.submit(Doing(fails))
    caught = []
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="as told") as one:
            await handle
        caught.append(one.value)
    first, second = caught
    third = handle.exception()
    assert isinstance(third, ArithmeticError)
    assert third.__traceback__ is None
    assert len({id(first), id(second), id(third)}) == 3
    assert any("in fails" in note for note in first.__notes__)
    with pytest.raises(ArithmeticError):
        handle.result()


def test_a_thread_without_a_loop_can_wait(lane: HostLane, gate: Gate) -> None:
    handle = lane.submit(Doing(gate))
    gate.entered_here()
    for patience_s in (0, -1, 0.001):
        with pytest.raises(TimeoutError, match="test lane"):
            handle.wait(patience_s)
    for look in (handle.result, handle.exception):
        with pytest.raises(UserError, match="has not completed"):
            look()
    gate.open()
    assert handle.wait(PATIENCE_S) is handle.wait() is handle.result()
    assert handle.exception() is None
    failed = lane.submit(Doing(fails))
    with pytest.raises(ArithmeticError, match="as told"):
        failed.wait(PATIENCE_S)


def test_callbacks_are_called_once_each_whenever_they_come(lane: HostLane, gate: Gate) -> None:
    handle, heard = lane.submit(Doing(gate)), list[tuple[str, bool]]()

    def hear(name: str) -> Callable[[CompletionHandle], None]:
        return lambda settled: heard.append((name, settled is handle and settled.done()))

    gone = hear("removed")
    handle.add_done_callback(hear("early"))
    handle.add_done_callback(gone)
    handle.remove_done_callback(gone)
    handle.remove_done_callback(gone)
    assert heard == []
    gate.open()
    lane.submit(Doing(nothing)).wait(PATIENCE_S)
    assert heard == [("early", True)]
    handle.add_done_callback(hear("late"))
    assert heard == [("early", True), ("late", True)]


def test_a_callback_that_raises_is_logged_and_stops_neither_the_others_nor_the_lane(
    lane: HostLane, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: CompletionHandle) -> None:
        raise ValueError("a callback's own fault")

    handle, heard = lane.submit(Doing(gate)), list[CompletionHandle]()
    handle.add_done_callback(broken)
    handle.add_done_callback(heard.append)
    gate.open()
    lane.submit(Doing(nothing)).wait(PATIENCE_S)
    assert heard == [handle]
    assert [record.exc_info is not None for record in caplog.records] == [True]


# --- completions of other makers ---


class Point:
    """A completion that says what it is told to."""

    def __init__(self, status: WaitStatus) -> None:
        self.status = status
        self.asked: list[float | None] = []

    def wait(self, timeout_s: float | None) -> WaitStatus:
        self.asked.append(timeout_s)
        return self.status


def test_a_handle_waits_on_any_completion_and_settles_once() -> None:
    device = DeviceLocation(BackendId("elsewhere"))
    point = Point(WaitStatus.TIMEOUT)
    completion: Completion = point
    handle = CompletionHandle(completion, device, "queue", 10, inflight=inflight_of(device))
    assert inflight_count(device) == 1
    with pytest.raises(TimeoutError):
        handle.wait(0.5)
    point.status = WaitStatus.LOST
    with pytest.raises(DeviceLost, match="elsewhere:0"):
        handle.wait()
    assert point.asked == [0.5, None]
    timing = Timing(device, "queue", 10, 15, 40, 25)
    assert [handle.settle(timing), handle.settle(timing, ValueError("too late"))] == [True, False]
    assert (inflight_count(device), handle.wait()) == (0, timing)
    assert (timing.queued_ns, timing.elapsed_ns) == (5, 25)


def test_a_handle_says_what_has_become_of_it(lane: HostLane, gate: Gate) -> None:
    handle, failed = lane.submit(Doing(gate), node=3), lane.submit(Doing(fails))
    assert repr(handle) == "<CompletionHandle node %3 on test lane: pending>"
    gate.open()
    handle.wait(PATIENCE_S)
    with pytest.raises(ArithmeticError):
        failed.wait(PATIENCE_S)
    assert repr(handle).endswith(": done>")
    assert repr(failed) == "<CompletionHandle on test lane: failed>"
