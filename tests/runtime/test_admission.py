"""Admission: runs and bytes within their budgets, first come, first served within a priority."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import ExecutorClosed, OutOfMemory
from fuel_async.ir import CPU_DEVICE
from fuel_async.runtime.admission import Admission
from tests.runtime.support import PATIENCE_S, Rig, chain, gated, in_place, ints, join, ones, settled, turns


def admission(runs: int = 2, nbytes: int = 100, idle: int = 0) -> Admission:
    """An admission of its own, with `idle` bytes that it may reclaim."""
    left = [idle]

    def reclaim(wanted: int) -> int:
        freed = min(left[0], wanted)
        left[0] -= freed
        if freed:
            made.free(freed)
        return freed

    made = Admission("cpu:0", runs, nbytes, reclaim)
    made.hold(idle)
    return made


async def test_those_in_line_are_served_by_priority_then_by_arrival() -> None:
    line = admission(runs=1)
    assert line.take_nowait(10)
    order: list[str] = []

    async def wait(name: str, priority: int) -> None:
        await line.take(10, priority)
        order.append(name)
        line.give(10)

    tasks = [asyncio.create_task(wait(name, p)) for name, p in [("a", 0), ("b", 1), ("c", 0), ("d", -1), ("e", 1)]]
    await turns()
    assert line.waiting == 5
    line.give(10)
    await asyncio.gather(*tasks)
    assert order == ["b", "e", "a", "c", "d"]
    assert (line.runs, line.held_nbytes, line.waiting) == (0, 0, 0)


async def test_nobody_overtakes_the_head_of_the_line() -> None:
    """A small run does not starve a large one that waits for memory."""
    line = admission(runs=10, nbytes=100)
    await line.take(60)
    large = asyncio.create_task(line.take(80))
    await turns()
    assert not line.take_nowait(1)
    small = asyncio.create_task(line.take(10))
    await turns(2)
    assert not small.done()
    line.give(60)
    await large
    await small
    assert line.held_nbytes == 90


async def test_what_can_never_fit_is_refused_with_the_arithmetic() -> None:
    line = admission(nbytes=1_000)
    with pytest.raises(OutOfMemory, match=r"1,001 bytes do not fit cpu:0: its budget is 1,000 bytes in all") as caught:
        await line.take(1_001)
    assert (caught.value.wanted_nbytes, caught.value.budget_nbytes) == (1_001, 1_000)
    await line.take(1_000)
    assert (line.runs, line.waiting) == (1, 0)


async def test_idle_memory_is_dropped_before_anybody_waits() -> None:
    line = admission(nbytes=100, idle=70)
    assert not line.take_nowait(50)
    await line.take(50)
    assert line.held_nbytes == 100
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await line.take(60)
    assert line.waiting == 0
    line.give(50)
    await line.take(60)


async def test_a_cancelled_head_lets_the_next_in_at_once() -> None:
    line = admission(runs=10, nbytes=100)
    await line.take(60)
    large, small = asyncio.create_task(line.take(80)), asyncio.create_task(line.take(40))
    await turns()
    large.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await small
    assert line.held_nbytes == 100


async def test_closing_sends_away_those_in_line_and_whoever_comes() -> None:
    line = admission(runs=1)
    await line.take(10)
    waiting = asyncio.create_task(line.take(10))
    await turns()
    line.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ExecutorClosed):
        await line.take(10)
    assert not line.take_nowait(10)
    line.give(10)
    assert (line.runs, line.held_nbytes, line.waiting) == (0, 0, 0)


def test_waiters_stand_on_different_loops() -> None:
    line = admission(runs=1, nbytes=100)
    most, now, lock = 0, 0, threading.Lock()

    async def use() -> None:
        nonlocal most, now
        for _ in range(50):
            await line.take(10)
            with lock:
                now += 1
                most = max(most, now)
            await turns()
            with lock:
                now -= 1
            line.give(10)

    async def several() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[use() for _ in range(3)])

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(3)]
    for thread in threads:
        thread.start()
    join(threads)
    assert most == 1
    assert (line.runs, line.held_nbytes, line.waiting) == (0, 0, 0)


# --- through an executor ---


def matrices(size: int, name: str = "matrices") -> fa.Graph:
    """An arena of at least two `size` x `size` matrices, and one that is delivered."""
    g = fa.Graph(name)
    x = g.input("x", (size, size))
    g.output("y", (x @ x) @ (x + x))
    return g


@pytest.mark.parametrize("memory", [50_000, {"cpu:0": 50_000}, {CPU_DEVICE: 50_000}])
@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_graph_that_can_never_fit_is_refused(memory: int) -> None:
    feed = np.ones((64, 64), np.float32)  # 16 KiB
    async with fa.Executor(memory=memory) as ex:
        g = matrices(64)
        for _ in range(2):
            with pytest.raises(OutOfMemory, match=r"49,152 bytes do not fit|[5-9]\d,\d{3} bytes do not fit") as caught:
                await ex.run(matrices(128), x=np.ones((128, 128), np.float32))
            assert caught.value.budget_nbytes == 50_000
        assert ex.statistics().budget_nbytes == 50_000
        await ex.run(g, x=feed)
        await settled(ex)
        assert ex.statistics().runs_failed == 2


async def test_runs_wait_for_memory_and_idle_instances_make_room(rig: Rig, on_lanes: None) -> None:
    feed = np.ones((64, 64), np.float32)
    async with fa.Executor(memory=120_000) as ex:
        graphs = [matrices(64, f"matrices {number}") for number in range(6)]
        for g in graphs:
            await ex.run(g, x=feed)
            found = ex.statistics()
            assert found.used_nbytes + found.idle_nbytes <= 120_000
        assert found.idle_nbytes > 0
        # One graph many times over: no more at a time than fit.
        results = await asyncio.gather(*[ex.run(graphs[0], x=feed) for _ in range(20)])
        assert all((one["y"] == 8_192).all() for one in results)
        results = await asyncio.gather(*[ex.run(graphs[number % 6], x=feed) for number in range(40)])
        assert all((one["y"] == 8_192).all() for one in results)
        await settled(ex)


async def test_a_run_that_waits_for_memory_is_served_when_a_run_in_place_ends(rig: Rig) -> None:
    """Its look for idle memory comes while the only instance is in use on another loop, where no admission is kept."""
    async with fa.Executor(memory=80_000) as ex:
        small = fa.Graph()
        x = small.input("x", (4_096,), fa.i64)
        small.output("y", (x + x).sign().__add__(x)[:1])  # an arena of more than half of the budget
        feed = np.zeros(4_096, np.int64)
        await in_place(ex, small, x=feed)
        large = matrices(64)
        engine = await ex.engine()
        thread: threading.Thread | None = None
        outcome: list[object] = []

        def other_loop() -> None:
            async def use() -> None:
                async with asyncio.timeout(PATIENCE_S):
                    outcome.append(await ex.run(large, x=np.ones((64, 64), np.float32)))

            asyncio.run(use())

        def meanwhile() -> None:
            nonlocal thread
            if thread is None:
                thread = threading.Thread(target=other_loop)
                thread.start()
                while not engine.admission.waiting:
                    thread.join(0.001)

        rig.meanwhile = meanwhile
        await ex.run(small, x=feed)
        assert thread is not None
        await asyncio.to_thread(join, [thread])
        assert len(outcome) == 1


async def test_a_repeated_run_fits_a_budget_of_one_instance(on_lanes: None) -> None:
    """Its idle instance is not dropped to make room for another one."""
    g = chain(200, size=256)
    async with fa.Executor() as ex:
        await ex.run(g, x=ones(256))
        needed = (await ex.engine()).cache.all()[0].nbytes
    async with fa.Executor(memory=needed) as ex:
        kept = set()
        for _ in range(10):
            await ex.run(g, x=ones(256))
            await settled(ex)
            (prepared,) = (await ex.engine()).cache.all()
            kept.add(id(prepared.idle[0]))
        assert len(kept) == 1


async def test_priority_goes_first_in_line_and_in_the_lanes(rig: Rig, on_lanes: None) -> None:
    order: list[int] = []
    async with fa.Executor(max_inflight=1) as ex:
        held = asyncio.create_task(ex.run(gated(), x=ints()))
        await rig.gate.entered()

        async def one(priority: int) -> None:
            await ex.run(chain(2), x=ones(16), priority=priority)
            order.append(priority)

        tasks = [asyncio.create_task(one(priority)) for priority in (0, 5, -3, 5, 1)]
        await turns(3)
        rig.gate.open()
        await asyncio.gather(held, *tasks)
    assert order == [5, 5, 1, 0, -3]
