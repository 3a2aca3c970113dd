"""Cancellation: the caller is back at once, whatever the lane does; what the run held comes back behind the lane."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest

import fuel_async as fa
from fuel_async.ir import CPU_DEVICE
from tests.runtime.support import (
    Rig,
    chain,
    doubling,
    forgotten,
    gated,
    in_flight,
    in_place,
    ints,
    ones,
    settled,
    turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


async def until_cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_cancel(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    task = asyncio.create_task(ex.run(g, x=ints()))
    await rig.gate.entered()
    task.cancel()
    await until_cancelled(task)


async def by_timeout_argument(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    with pytest.raises(TimeoutError):
        await ex.run(g, x=ints(), timeout_s=0.02)


async def by_asyncio_timeout(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await ex.run(g, x=ints())


async def by_wait_for(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ex.run(g, x=ints()), 0.02)


async def by_task_group(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    async def fail() -> None:
        await rig.gate.entered()
        raise ZeroDivisionError

    tasks: list[asyncio.Task[Any]] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            tasks.append(group.create_task(ex.run(g, x=ints())))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert tasks[0].cancelled()


async def by_anyio_scope(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    with anyio.move_on_after(0.02) as scope:
        await ex.run(g, x=ints())
    assert scope.cancelled_caught


async def by_anyio_group(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: ex.run(g, x=ints()))
        await rig.gate.entered()
        group.cancel_scope.cancel()


async def by_run_cancel(ex: fa.Executor, g: fa.Graph, rig: Rig) -> None:
    run = ex.submit(g, x=ints())
    await rig.gate.entered()
    assert run.cancel()
    await until_cancelled(run.task)
    assert not run.cancel()


@pytest.mark.parametrize(
    "give_up",
    [
        by_cancel,
        by_timeout_argument,
        by_asyncio_timeout,
        by_wait_for,
        by_task_group,
        by_anyio_scope,
        by_anyio_group,
        by_run_cancel,
    ],
)
async def test_the_caller_is_back_while_the_kernel_runs(
    ex: fa.Executor, rig: Rig, give_up: Callable[[fa.Executor, fa.Graph, Rig], Coroutine[Any, Any, None]]
) -> None:
    g = gated()
    await give_up(ex, g, rig)
    # The kernel has not been let go, and what it uses is not free.
    assert rig.gate.passed == 0
    assert in_flight()[0] == 1
    found = ex.statistics()
    assert found.runs_active == 1
    assert found.used_nbytes > 0
    assert found.devices[CPU_DEVICE].pending_count == 1
    rig.gate.open()
    await settled(ex)
    assert ex.statistics().runs_cancelled == 1
    assert ex.statistics().runs == 0
    rig.gate.open()
    np.testing.assert_array_equal((await ex.run(g, x=ints(5)))["y"], ints(5))


async def test_the_instance_and_the_feeds_are_kept_until_the_lane_confirms(ex: fa.Executor, rig: Rig) -> None:
    """A second run of the plan, while the first is cancelled but in its kernel, takes another instance."""
    g = fa.Graph()
    x = g.input("x", (1 << 16,), fa.i64)  # too large to be copied
    g.output("y", (-x).__add__(x))
    feed = np.arange(1 << 16)
    watched = weakref.ref(feed)
    task = asyncio.create_task(ex.run(g, x=feed))
    await rig.gate.entered()
    task.cancel()
    await until_cancelled(task)
    engine = await ex.engine()
    (prepared,) = engine.cache.all()
    assert not prepared.idle
    del task, feed
    gc.collect()
    assert watched() is not None
    other = asyncio.create_task(ex.run(g, x=np.full(1 << 16, 7)))
    await turns(2)
    assert ex.statistics().runs_active == 2
    rig.gate.open(2)
    assert ((await other)["y"] == 14).all()
    await forgotten(ex)
    assert len(prepared.idle) == 2
    assert len({id(instance) for instance in prepared.idle}) == 2
    gc.collect()
    assert watched() is None


async def test_a_task_cancelled_before_its_first_step_runs_nothing(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph()
    g.output("y", g.input("x", (4,), fa.i64).sign())
    task = asyncio.create_task(ex.run(g, x=ints()))
    task.cancel()
    await until_cancelled(task)
    await settled(ex)
    assert rig.calls == []


async def test_a_run_cancelled_in_the_queue_of_a_lane_never_starts(ex: fa.Executor, rig: Rig) -> None:
    counting = fa.Graph()
    counting.output("y", counting.input("x", (4,), fa.i64).sign())
    first = asyncio.create_task(ex.run(gated(), x=ints()))
    await rig.gate.entered()
    # More than the lane's slots: some are in its queue, some are only ready.
    others = [asyncio.create_task(ex.run(counting, x=ints())) for _ in range(5)]
    await turns(2)
    assert ex.statistics().runs_active == 6
    for task in others:
        task.cancel()
        await until_cancelled(task)
    rig.gate.open()
    assert (await first)["y"][0] == 3
    await settled(ex)
    assert rig.calls == []
    assert ex.statistics().runs_cancelled == 5


async def test_a_waiter_cancelled_in_line_leaves_at_once_and_the_next_is_served(rig: Rig) -> None:
    async with fa.Executor(max_inflight=1) as ex:
        held = asyncio.create_task(ex.run(gated(), x=ints()))
        await rig.gate.entered()
        line = [asyncio.create_task(ex.run(doubling(), x=ones())) for _ in range(3)]
        await turns(2)
        assert ex.statistics().runs_waiting == 3
        line[0].cancel()
        await until_cancelled(line[0])
        assert ex.statistics().runs_waiting == 2
        rig.gate.open()
        for task in (held, *line[1:]):
            await task
        await settled(ex)
        found = ex.statistics()
        assert (found.runs, found.runs_cancelled) == (3, 1)


async def test_a_grant_that_meets_a_cancellation_goes_to_the_next(rig: Rig) -> None:
    """The first in line is granted its place and cancelled in the same turn of the loop."""
    async with fa.Executor(max_inflight=1) as ex:
        held = asyncio.create_task(ex.run(gated(), x=ints()))
        await rig.gate.entered()
        line = [asyncio.create_task(ex.run(doubling(), x=ones())) for _ in range(2)]
        await turns(2)
        engine = await ex.engine()
        granted = engine.admission._line[0]
        held.add_done_callback(lambda _: line[0].cancel())
        granted.future.add_done_callback(lambda _: line[0].cancel())
        rig.gate.open()
        await held
        await until_cancelled(line[0])
        assert ((await line[1])["y"] == 2).all()
        await settled(ex)


async def test_a_run_in_place_is_cancelled_at_its_checkpoint(ex: fa.Executor) -> None:
    g = doubling()
    await in_place(ex, g, x=ones())
    task = asyncio.create_task(ex.run(g, x=ones()))
    await turns()
    task.cancel()
    await until_cancelled(task)
    assert ex.statistics().runs_inline == 1
    assert ex.statistics().runs_cancelled == 1
    with pytest.raises(TimeoutError):
        await ex.run(g, x=ones(), timeout_s=0)

    async def endless() -> None:  # never suspends for more than the checkpoint
        async with asyncio.timeout(0):
            while True:
                await ex.run(g, x=ones())

    with pytest.raises(TimeoutError):
        await endless()
    await settled(ex)


async def test_runs_in_place_that_wait_for_a_turn_are_cancelled(ex: fa.Executor) -> None:
    g = chain(100)
    await in_place(ex, g, x=ones(16))
    tasks = [asyncio.create_task(ex.run(g, x=ones(16))) for _ in range(50)]
    await turns()
    for task in tasks[1::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[1::2])
    assert all(isinstance(outcome, dict) and (outcome["y"] == 101).all() for outcome in outcomes[::2])
    await settled(ex)


async def test_a_chain_stops_between_kernels(ex: fa.Executor, rig: Rig) -> None:
    """Nothing behind the kernel that runs at the moment of a cancellation is run, in this region or a later one."""
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    total = -x
    for _ in range(300):  # more than a chunk, less than a region
        total = total.sign()
    for _ in range(3):  # regions of their own
        total = total.square()
    g.output("y", total)
    task = asyncio.create_task(ex.run(g, x=ints()))
    await rig.gate.entered()
    task.cancel()
    await until_cancelled(task)
    rig.gate.open()
    await settled(ex)
    assert len(rig.calls) < 300
