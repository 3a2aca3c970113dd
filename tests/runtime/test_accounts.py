"""Accounts: whatever ends a run, and wherever, instances, bytes and places come back."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import KernelFailed, OutOfMemory
from fuel_async.runtime import instances
from tests.runtime.support import PATIENCE_S, Rig, chain, doubling, in_place, ints, ones, settled, turns

if TYPE_CHECKING:
    from collections.abc import Callable


def graph(size: int) -> fa.Graph:
    """Large enough to be planned and bound off the loop."""
    g = fa.Graph()
    x = g.input("x", (size, size))
    total = x
    for _ in range(100):
        total = total + x
    g.output("y", total)
    return g


async def books(ex: fa.Executor) -> None:
    """Everything that is held is held by idle instances."""
    await settled(ex)
    engine = await ex.engine()
    idle = sum(prepared.idle_nbytes for prepared in engine.cache.all())
    assert engine.admission.held_nbytes == idle
    assert not engine.entering
    assert not engine.preparing.flights._flying
    assert not engine.driver.active


@pytest.mark.parametrize("feed", [np.ones((400, 400), np.float32), np.ones((800, 400), np.float32)[::2]])
async def test_a_run_may_be_cancelled_at_every_step(ex: fa.Executor, feed: np.ndarray[Any, Any]) -> None:
    """Opening, freezing, planning, binding, copying a feed, waiting for a turn, working in a lane."""
    await in_place(ex, doubling(), x=ones())
    finished = 0
    for step in range(40):
        g = graph(400) if step % 2 else doubling()
        task = asyncio.create_task(ex.run(g, x=feed if step % 2 else ones()))
        await turns(step // 2)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            continue
        finished += 1
    assert finished < 40
    await (await ex.engine()).session.call(lambda breathe: None)[0]
    await books(ex)
    found = ex.statistics()
    assert found.runs + found.runs_cancelled >= 20


async def test_a_run_cancelled_while_its_instance_is_bound(ex: fa.Executor, on_lanes: None, rig: Rig) -> None:
    g = graph(8)
    feed = np.ones((8, 8), np.float32)
    await ex.run(g, x=feed)
    engine = await ex.engine()
    busy, go = threading.Event(), threading.Event()

    def hold(breathe: Callable[[], None]) -> None:
        busy.set()
        go.wait(PATIENCE_S)

    engine.session.call(hold)
    await asyncio.to_thread(busy.wait, PATIENCE_S)
    (prepared,) = engine.cache.all()
    taken = prepared.take()  # somebody has the idle one
    assert taken is not None
    task = asyncio.create_task(ex.run(g, x=feed))
    await turns(3)
    assert ex.statistics().runs_active == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ex.statistics().runs_active == 0
    prepared.give(taken)
    go.set()
    await engine.session.call(lambda breathe: None)[0]
    await books(ex)


@pytest.mark.parametrize("way", ["lanes", "in place"])
async def test_memory_that_the_system_refuses_fails_that_run_alone(
    ex: fa.Executor, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    g = doubling()
    if way == "in place":
        await in_place(ex, g, x=ones())
    else:
        await ex.run(g, x=ones())
    with monkeypatch.context() as patch:

        def refuse(self: instances.Prepared) -> Any:
            raise MemoryError("no room for results")

        patch.setattr(instances.Prepared, "allocate_outputs", refuse)
        with pytest.raises(MemoryError, match="no room for results"):
            await ex.run(g, x=ones())
    await books(ex)
    with monkeypatch.context() as patch:
        for prepared in (await ex.engine()).cache.all():
            prepared.drop_idle()

        def out_of_memory(self: instances.Prepared, *_: object) -> Any:
            raise OutOfMemory("cpu:0", 1, 0)

        patch.setattr(instances.Prepared, "bind", out_of_memory)
        with pytest.raises(OutOfMemory):
            await ex.run(g, x=ones())
    await books(ex)
    assert ((await ex.run(g, x=ones()))["y"] == 2).all()
    await books(ex)


async def test_a_device_that_refuses_memory_while_planning(ex: fa.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    await ex.__aenter__()

    def out_of_memory(self: instances.Prepared, *_: object) -> Any:
        raise OutOfMemory("cpu:0", 1, 0)

    g = chain(200)
    with monkeypatch.context() as patch:
        patch.setattr(instances.Prepared, "bind", out_of_memory)
        with pytest.raises(OutOfMemory):
            await ex.run(g, x=ones(16))
    await books(ex)
    assert ((await ex.run(g, x=ones(16)))["y"] == 201).all()
    await books(ex)


async def test_failures_at_every_depth(rig: Rig) -> None:
    """A kernel fails early, late, in a chain and beside others, on one lane and on two."""
    for lanes in (1, 2):
        async with fa.Executor(host_lanes=lanes) as ex:
            for before, after in ((0, 0), (1, 3), (70, 70), (300, 1)):
                g = fa.Graph()
                x = g.input("x", (4,), fa.i64)
                total = x
                for _ in range(before):
                    total = total + x
                total = abs(total)
                for _ in range(after):
                    total = total + x
                g.output("y", total)
                g.output("z", x.square().square())
                for _ in range(3):
                    with pytest.raises(KernelFailed):
                        await ex.run(g, x=ints())
                await books(ex)
            assert ex.statistics().runs_failed == 12


async def test_the_books_after_everything_at_once(rig: Rig) -> None:
    async with fa.Executor(max_inflight=6, host_lanes=2, memory=2_000_000) as ex:
        graphs = [graph(50), graph(100), chain(100, size=50_000), doubling()]
        failing = fa.Graph()
        failing.output("y", abs(failing.input("x", (4,), fa.i64)))
        feeds = [np.ones((50, 50), np.float32), np.ones((100, 100), np.float32), ones(50_000), ones()]

        async def one(number: int) -> None:
            if number % 11 == 5:
                with pytest.raises(KernelFailed):
                    await ex.run(failing, x=ints())
            elif number % 13 == 7:
                with pytest.raises(OutOfMemory):
                    await ex.run(chain(3, size=1_000_000), x=ones(1_000_000))
            else:
                await ex.run(graphs[number % 4], x=feeds[number % 4], priority=number % 2)

        tasks = [asyncio.create_task(one(number)) for number in range(300)]
        for number, task in enumerate(tasks):
            if not number % 5:
                asyncio.get_running_loop().call_later(number / 10_000, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        wrong = [o for o in outcomes if o is not None and not isinstance(o, asyncio.CancelledError)]
        assert not wrong
        await books(ex)
