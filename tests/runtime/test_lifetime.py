"""The life of an executor: made anywhere, opened by its first run, used on any loop, closed once and for all."""

from __future__ import annotations

import asyncio
import gc
from time import monotonic

import pytest
import threadpoolctl
import trio

import fuel_async as fa
from fuel_async.errors import ExecutorClosed, UserError, WrongLoop
from tests.runtime.support import (
    PATIENCE_S,
    Rig,
    chain,
    doubling,
    gated,
    in_flight,
    ints,
    ones,
    our_threads,
    turns,
)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


# --- opening ---


def test_no_loop_is_needed_to_make_one_and_no_thread_runs_before_the_first_run() -> None:
    before = our_threads()
    executor = fa.Executor()
    assert our_threads() == before
    assert not executor.devices
    assert executor.statistics().runs == 0

    async def use() -> None:
        async with executor:
            await executor.run(doubling(), x=ones())

    asyncio.run(use())
    assert [str(device.location) for device in executor.devices][:1] == ["cpu:0"]


async def test_many_first_runs_open_it_once(ex_unopened: fa.Executor) -> None:
    g = doubling()
    results = await asyncio.gather(*[ex_unopened.run(g, x=ones()) for _ in range(16)])
    assert all((result["y"] == 2).all() for result in results)
    assert len({id(device) for device in ex_unopened.devices}) == len(ex_unopened.devices)
    await ex_unopened.aclose()


@pytest.fixture
def ex_unopened() -> fa.Executor:
    return fa.Executor()


async def test_a_device_that_is_not_there_is_named_at_the_first_run() -> None:
    executor = fa.Executor(devices=["cpu:7"])
    for _ in range(2):
        with pytest.raises(UserError, match=r"no device cpu:7 here \(found: .*cpu:0"):
            await executor.run(doubling(), x=ones())
    await executor.aclose()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"devices": []}, "leaves nothing to run on"),
        ({"memory": 0}, "memory=0 must be at least 1"),
        ({"memory": {"cpu:0": -1}}, "memory=-1"),
        ({"max_inflight": 0}, "max_inflight=0"),
        ({"max_queued": 0}, "max_queued=0"),
        ({"host_lanes": 0}, "host_lanes=0"),
        ({"blas_threads": 0}, "blas_threads=0"),
        ({"placement": "elsewhere"}, "placement='elsewhere'"),
    ],
)
def test_arguments_are_checked_when_it_is_made(options: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        fa.Executor(**options)  # type: ignore[arg-type]


def test_trio_is_refused_in_one_sentence() -> None:
    executor = fa.Executor()

    async def use(timeout_s: float | None) -> None:
        await executor.run(doubling(), x=ones(), timeout_s=timeout_s)

    async def open_it() -> None:
        await executor.run(doubling(), x=ones())

    for timeout_s in (None, 1.0):
        with pytest.raises(WrongLoop, match=r"not on trio; call it from asyncio\.run"):
            trio.run(use, timeout_s)
    asyncio.run(open_it())
    for timeout_s in (None, 1.0):
        with pytest.raises(WrongLoop, match="not on trio"):
            trio.run(use, timeout_s)
    with pytest.raises(WrongLoop, match="without an event loop"):
        executor.submit(doubling(), x=ones())
    asyncio.run(executor.aclose())


# --- closing ---


async def test_it_is_left_in_another_task_than_it_was_entered_in() -> None:
    executor = fa.Executor()
    await asyncio.create_task(executor.__aenter__())
    await executor.run(doubling(), x=ones())
    await asyncio.create_task(executor.__aexit__(None, None, None))
    with pytest.raises(ExecutorClosed):
        await executor.run(doubling(), x=ones())


async def test_closing_is_final_and_may_be_repeated(ex: fa.Executor) -> None:
    g = doubling()
    await ex.run(g, x=ones())
    await asyncio.gather(ex.aclose(), ex.aclose(), ex.aclose(drain=False))
    await ex.aclose()
    for use in (lambda: ex.run(g, x=ones()), lambda: ex.run(g, x=ones(), timeout_s=1), ex.__aenter__):
        with pytest.raises(ExecutorClosed, match="open a new one"):
            await use()
    with pytest.raises(ExecutorClosed):
        ex.submit(g, x=ones())
    with pytest.raises(ExecutorClosed):
        async for _ in ex.map(g, [{"x": ones()}]):
            pass


async def test_one_that_was_never_opened_is_closed_at_once() -> None:
    executor = fa.Executor()
    before = our_threads()
    await executor.aclose()
    assert our_threads() == before
    with pytest.raises(ExecutorClosed):
        await executor.run(doubling(), x=ones())


async def test_no_thread_outlives_the_close() -> None:
    before = set(our_threads())
    async with fa.Executor(host_lanes=2) as executor:
        await asyncio.gather(*[executor.run(chain(length), x=ones(16)) for length in (3, 200, 300)])
        assert set(our_threads()) > before
    assert set(our_threads()) == before


async def test_closing_waits_for_runs_wherever_they_are(rig: Rig) -> None:
    """One in the lane, one in its queue, one in line for admission, one being planned, one waiting for its turn."""
    executor = fa.Executor(max_inflight=3)
    warm, big = doubling(), chain(300)
    for _ in range(3):
        await executor.run(warm, x=ones())
    running = [asyncio.create_task(executor.run(gated(), x=ints())) for _ in range(2)]
    await rig.gate.entered()
    waiting = [asyncio.create_task(executor.run(g, x=ones(16 if g is big else 4))) for g in (warm, warm, big)]
    await turns()
    closing = asyncio.create_task(executor.aclose())
    await turns(3)
    assert not closing.done()
    with pytest.raises(ExecutorClosed):
        await executor.run(warm, x=ones())
    rig.gate.open(2)
    await closing
    assert [(await task)["y"][0] for task in running] == [3, 3]
    assert [(await task)["y"][0] for task in waiting] == [2, 2, 301]


async def test_closing_without_draining_cancels_runs_wherever_they_are(rig: Rig) -> None:
    executor = fa.Executor(max_inflight=2)
    running = [asyncio.create_task(executor.run(gated(), x=ints())) for _ in range(2)]
    await rig.gate.entered()
    waiting = [asyncio.create_task(executor.run(doubling(), x=ones())) for _ in range(2)]
    submitted = executor.submit(doubling(), x=ones())
    await turns(2)
    closing = asyncio.create_task(executor.aclose(drain=False))
    done, _ = await asyncio.wait([*running, *waiting, submitted.task], timeout=PATIENCE_S)
    assert len(done) == 5
    assert all(task.cancelled() for task in (*running, *waiting, submitted.task))
    assert not closing.done()  # the lane is still in the kernel
    rig.gate.open()
    await closing
    assert rig.gate.passed == 1
    assert in_flight() == (0, 0)


async def test_it_is_closed_while_it_opens() -> None:
    before = blas_threads()
    executor = fa.Executor(blas_threads=1)
    opening = asyncio.create_task(executor.run(doubling(), x=ones()))
    await turns()
    await executor.aclose()
    outcome = (await asyncio.gather(opening, return_exceptions=True))[0]
    assert isinstance(outcome, dict | ExecutorClosed)
    assert blas_threads() == before


async def test_a_close_that_was_cancelled_may_be_repeated(rig: Rig) -> None:
    executor = fa.Executor()
    running = asyncio.create_task(executor.run(gated(), x=ints()))
    await rig.gate.entered()
    closing = asyncio.create_task(executor.aclose())
    await turns(2)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    rig.gate.open()
    await executor.aclose()
    assert (await running)["y"][0] == 3


async def test_an_error_inside_the_block_cancels_what_is_under_way(rig: Rig) -> None:
    tasks: list[asyncio.Task[object]] = []

    async def use() -> None:
        async with fa.Executor() as executor:
            tasks.append(asyncio.create_task(executor.run(gated(), x=ints())))
            await rig.gate.entered()
            rig.gate.open()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait(tasks)  # told already: at most a turn of the loop away


# --- threads and the library ---


def test_an_executor_that_is_dropped_ends_its_threads_and_gives_the_library_back() -> None:
    before, limits = set(our_threads()), blas_threads()

    async def use() -> None:
        executor = fa.Executor(host_lanes=2, blas_threads=1)
        for _ in range(4):
            await executor.run(chain(100), x=ones(16))
        assert set(blas_threads()) <= {1}

    asyncio.run(use())
    until_s = monotonic() + PATIENCE_S
    # A lane may still be on its way back from the last run: what its frames hold goes with the next collection.
    for thread in [thread for thread in our_threads() if thread not in before]:
        while thread.is_alive():
            gc.collect()
            thread.join(0.01)
            assert monotonic() < until_s, thread
    assert blas_threads() == limits


def test_the_library_is_limited_while_executors_are_open() -> None:
    if not blas_threads():
        pytest.skip("numpy was built with a library that threadpoolctl does not know")
    with threadpoolctl.threadpool_limits(4, user_api="blas"):
        before = blas_threads()
        assert set(before) == {4}

        async def use() -> None:
            async with fa.Executor(blas_threads=2) as one:
                await one.run(doubling(), x=ones())
                assert set(blas_threads()) == {2}
                async with fa.Executor(blas_threads=1):
                    assert set(blas_threads()) == {1}
                await one.aclose()
                await one.aclose()
                assert blas_threads() == before

        asyncio.run(use())
        assert blas_threads() == before
