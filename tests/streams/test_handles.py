"""Completion handles under races: threads that settle, register and wait at the same moment."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from fuel_async.errors import WrongLoop
from fuel_async.registry import inflight_of
from fuel_async.streams import CompletionHandle, HostSignal, Timing, WaitStatus
from tests.streams.support import HERE, PATIENCE_S, Call, Gate, in_flight, lanes

if TYPE_CHECKING:
    from collections.abc import Callable


def timing(finished_ns: int = 3) -> Timing:
    return Timing(HERE, "lane", 1, 2, finished_ns, 1)


def pending(counted: bool = False) -> CompletionHandle:
    return CompletionHandle(
        HostSignal(), HERE, "lane", 1, predicted_ns=5, inflight=inflight_of(HERE) if counted else None
    )


def at_once(*calls: Callable[[], object]) -> None:
    """Run all calls in threads that start together."""
    start, errors = threading.Barrier(len(calls)), list[BaseException]()

    def run(call: Callable[[], object]) -> None:
        start.wait(PATIENCE_S)
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    if errors:
        raise errors[0]


def test_of_many_threads_that_settle_one_does() -> None:
    for _ in range(10):
        base, handle = in_flight(), pending(counted=True)
        assert in_flight() == (base[0] + 1, base[1] + 5)
        won: list[int] = []

        def settle(number: int, handle: CompletionHandle = handle, won: list[int] = won) -> None:
            if handle.settle(timing(number)):
                won.append(number)

        at_once(*(lambda number=number: settle(number) for number in range(6)))
        (winner,) = won
        assert handle.result().finished_ns == winner
        assert in_flight() == base


def test_callbacks_fire_once_each_whenever_they_are_registered() -> None:
    for _ in range(30):
        assert sorted(_heard(pending())) == list(range(200))


def _heard(handle: CompletionHandle) -> list[int]:
    """What callbacks hear that are registered before, while and after the handle settles."""
    heard: list[int] = []

    def register(first: int) -> None:
        for number in range(first, first + 50):
            handle.add_done_callback(lambda _, number=number: heard.append(number))  # type: ignore[misc]

    register(0)
    at_once(lambda: register(50), lambda: register(100), lambda: handle.settle(timing()))
    register(150)
    return heard


def test_threads_wait_for_one_handle() -> None:
    with lanes() as (lane,):
        gate, found = Gate(), list[Timing]()
        handle = lane.submit(Call(gate))
        waiters = [lambda: found.append(handle.wait(PATIENCE_S)) for _ in range(5)]
        at_once(*waiters, gate.open)
        assert found == [handle.result()] * 5


def test_a_wait_that_was_too_short_leaves_nothing_behind() -> None:
    signal = HostSignal()
    for _ in range(10):
        assert signal.wait(0) is WaitStatus.TIMEOUT
    assert signal._waiters == []
    signal.set()
    assert signal.wait(0) is signal.wait(None) is WaitStatus.REACHED


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    handle = pending()

    async def wait() -> None:
        await handle

    for _ in range(5):
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert len(handle._callbacks) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await handle
    assert not handle._callbacks
    gone = weakref.ref(task)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert gone() is None


async def test_a_waiter_that_is_cancelled_as_the_work_ends_is_cancelled() -> None:
    handle = pending()
    task = asyncio.ensure_future(handle.settled())
    await asyncio.sleep(0)
    handle.settle(timing())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert await handle == timing()


def test_waiters_on_two_loops_are_woken_on_their_own() -> None:
    handle, gate, woken = pending(), Gate(), list[tuple[int, int]]()

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(gate)
        await handle
        woken.append((threading.get_ident(), id(asyncio.get_running_loop())))

    def settle() -> None:
        for _ in range(2):
            gate.entered()
        handle.settle(timing())
        gate.open()
        gate.open()

    at_once(lambda: asyncio.run(wait()), lambda: asyncio.run(wait()), settle)
    assert len(set(woken)) == 2


def test_what_is_done_is_awaited_without_a_turn_of_the_loop() -> None:
    handle = CompletionHandle.ready(HERE, timing(), node=4)
    assert (handle.done(), handle.node, handle.submitted_ns) == (True, 4, 1)
    with pytest.raises(StopIteration) as caught:
        handle.__await__().send(None)
    assert caught.value.value == timing()


def test_work_in_place_is_not_in_flight() -> None:
    base = in_flight()
    CompletionHandle.ready(HERE, timing())
    assert in_flight() == base


def test_dropping_a_handle_changes_nothing() -> None:
    with lanes() as (lane,):
        base, gate, call = in_flight(), Gate(), Call()
        lane.submit(Call(gate))
        lane.submit(call)
        gc.collect()
        assert in_flight()[0] == base[0] + 2
        gate.open()
        lane.submit(Call()).wait(PATIENCE_S)
        assert call.ran == 1
        assert in_flight() == base


def test_a_pending_handle_is_not_awaited_on_another_kind_of_loop() -> None:
    async def main() -> None:
        with pytest.raises(WrongLoop, match="not on trio"):
            await pending()

    trio.run(main)
