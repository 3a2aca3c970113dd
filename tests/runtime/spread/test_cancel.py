"""Cancellation over several devices: the caller is back at once; what the run held comes back behind the lanes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.registry import inflight_count
from tests.runtime.spread.support import HOST, MS, Dag, Node, chain, fork, one

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World

LONG = 10 * MS


def test_the_caller_is_back_while_a_device_is_in_a_long_region(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        task = world.start(one(LONG))
        await world.sleep(LONG / 2)
        before_ns = world.machine.clock.now_ns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.machine.clock.now_ns() == before_ns  # no time passed
        assert inflight_count(world.at(0)) == 1
        assert world.scheduler.machine.memories[1].held_nbytes > 0
        assert world.engine.admission.runs == 1
        await world.settled()
        assert world.machine.clock.now_ns() >= LONG  # the device was not interrupted
        found = world.ex.statistics()
        assert (found.runs_cancelled, found.runs_failed, found.runs_on_lanes) == (1, 0, 0)

    virtual(scenario, 1)


def test_the_caller_is_back_within_2_ms_of_real_time(real: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(chain(3))
        took: list[float] = []
        for _ in range(8):
            task = world.start(one(LONG))
            while not sum(device.pending_work_count() for device in world.devices):  # noqa: ASYNC110 - has no event
                await asyncio.sleep(0)
            since = perf_counter()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            took.append(perf_counter() - since)
        assert sorted(took)[4] < 0.002, took

    real(scenario)


@pytest.mark.parametrize("moment", range(0, 24))
def test_a_run_cancelled_at_any_moment_leaves_nothing(virtual: Stage, moment: int) -> None:
    """The run copies, binds, computes and delivers on two devices; every half millisecond of it is tried."""

    async def scenario(world: World) -> None:
        dag = Dag((Node(), Node((0,), pin=world.at(1)), Node((0,), pin=world.at(0)), Node((1, 2), pin=world.at(1))))
        beside = world.start(fork(3))
        task = world.start(dag)
        await world.sleep(moment * MS / 4)
        cancelled = task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError) is cancelled
        await world.settled()
        assert await beside == fork(3).expected(fork(3).feed())
        await world.check(dag)

    virtual(scenario, links=Links.of(300_000, 12, peers=False))


def test_runs_in_line_are_cancelled_without_a_trace(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(chain(2), seed) for seed in range(60)]
        await asyncio.sleep(0)
        for task in tasks[1:]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert outcomes[0] == chain(2).expected(chain(2).feed(0))
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[1:])
        await world.settled()
        found = world.ex.statistics()
        assert (found.runs_on_lanes + found.runs_cancelled, found.runs_failed) == (60, 0)

    stage(scenario, max_inflight=8)


def test_buffers_are_not_given_to_the_next_run_before_the_lane_is_through(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one(LONG)
        await world.check(dag)
        [prepared] = world.engine.cache.all()
        task = world.start(dag, 1)
        await world.sleep(LONG / 2)
        task.cancel()
        other = world.start(dag, 2)
        await world.sleep(LONG / 4)
        assert not prepared.idle_shares.get(0)  # type: ignore[attr-defined]
        assert await other == dag.expected(dag.feed(2))

    virtual(scenario, 1)


def test_feeds_live_until_the_copy_from_them_is_done(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        x = np.array(dag.feed())
        watched = weakref.ref(x)
        task = asyncio.create_task(world.ex.run(world.graph(dag), x=x))
        link = world.machine.link(HOST, world.devices[0])
        while not link.pending_count:
            await world.sleep(1_000)
        task.cancel()
        del x
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        assert watched() is not None
        await world.settled()
        gc.collect()
        assert watched() is None

    virtual(scenario, 1, links=Links.of(200_000, 12))


def test_a_timeout_ends_the_wait(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(TimeoutError):
            await world.run(one(LONG), timeout_s=0.002)
        assert world.machine.clock.now_ns() == 2 * MS
        await world.settled()

    virtual(scenario, 1)


def test_closing_without_draining_cancels_what_is_under_way(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(chain(20), seed) for seed in range(10)]
        await asyncio.sleep(0)
        await world.ex.aclose(drain=False)
        for task in tasks:
            with pytest.raises((asyncio.CancelledError, fa.errors.ExecutorClosed)):
                await task

    stage(scenario, [SimDeviceSpec()] * 2)
