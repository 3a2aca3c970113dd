"""One executor on several loops: in turn, at once, and on loops that end or are closed under its work."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from tests.conftest import loop_factories
from tests.runtime.support import PATIENCE_S, Rig, chain, doubling, gated, in_flight, ints, join, ones, settled

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_LOOPS = pytest.mark.parametrize("new_loop", loop_factories().values(), ids=loop_factories())


@ALL_LOOPS
def test_one_executor_serves_loop_after_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    executor, g = fa.Executor(), chain(100)

    async def use() -> None:
        for _ in range(4):  # lanes first, then in place
            np.testing.assert_array_equal((await executor.run(g, x=ones(16)))["y"], np.full(16, 101, np.float32))

    for _ in range(3):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(use())
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(executor.aclose())


def test_two_loops_at_once_share_one_executor() -> None:
    executor, g = fa.Executor(), chain(200)
    start = threading.Barrier(2)
    wrong: list[object] = []

    async def use(seed: int) -> None:
        start.wait(PATIENCE_S)

        async def one(number: int) -> None:
            feed = np.full(16, seed * 1_000 + number, np.float32)
            result = (await executor.run(g, x=feed))["y"]
            if not (result == feed * 201).all():
                wrong.append((seed, number, result))

        await asyncio.gather(*[one(number) for number in range(100)])

    factories = list(loop_factories().values())

    def thread(seed: int) -> None:
        with asyncio.Runner(loop_factory=factories[-seed]) as runner:
            runner.run(use(seed))

    threads = [threading.Thread(target=thread, args=(seed,)) for seed in (0, 1)]
    for one in threads:
        one.start()
    join(threads)
    assert not wrong
    assert executor.statistics().runs == 200
    asyncio.run(settled(executor))
    asyncio.run(executor.aclose())
    assert in_flight() == (0, 0)


@ALL_LOOPS
def test_a_loop_that_ends_leaves_nothing_behind(new_loop: Callable[[], asyncio.AbstractEventLoop], rig: Rig) -> None:
    """Runs are in a lane, in its queue and in line for admission when their loop is cancelled and closed."""
    executor = fa.Executor(max_inflight=3)
    graphs = [gated() for _ in range(5)]
    tasks: list[asyncio.Task[object]] = []

    async def leave() -> None:
        tasks.extend(asyncio.ensure_future(executor.run(g, x=ints())) for g in graphs)
        await rig.gate.entered()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(leave())
    assert all(task.cancelled() for task in tasks)
    rig.gate.open()
    asyncio.run(settled(executor))
    assert rig.gate.passed == 1
    assert executor.statistics().runs_cancelled >= 3
    asyncio.run(executor.aclose())


@ALL_LOOPS
def test_a_loop_closed_under_a_waiting_task_leaves_nothing_behind(
    new_loop: Callable[[], asyncio.AbstractEventLoop], rig: Rig
) -> None:
    """Nobody cancels the tasks: their futures are set on a closed loop, and one is still in line for admission."""
    executor = fa.Executor(max_inflight=2)
    loop = new_loop()
    tasks = [loop.create_task(executor.run(gated(), x=ints())) for _ in range(3)]
    loop.run_until_complete(rig.gate.entered())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    rig.gate.open(2)
    asyncio.run(settled(executor))
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.run(executor.aclose())


def test_a_loop_that_has_gone_is_not_kept() -> None:
    executor, g = fa.Executor(), doubling()

    async def use() -> weakref.ref[asyncio.AbstractEventLoop]:
        for _ in range(4):
            await executor.run(g, x=ones())
        return weakref.ref(asyncio.get_running_loop())

    gone = asyncio.run(use())
    # A lane may still be on its way back from waking the loop: what its frames hold goes with a later collection.
    until_s = time.monotonic() + PATIENCE_S
    while gone() is not None and time.monotonic() < until_s:
        gc.collect()
    assert gone() is None
    asyncio.run(executor.aclose())
