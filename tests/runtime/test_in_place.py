"""Running in place: only what is measured to be short, within a ration of each turn, and never what waits."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from fuel_async.runtime import engine as engine_module
from fuel_async.runtime import measured
from tests.runtime.support import Rig, chain, doubling, in_place, ints, ones, settled

if TYPE_CHECKING:
    import pytest

NEVER_FREE = threading.Lock()
NEVER_FREE.acquire()


def stall(timeout_s: float = 0.001) -> None:
    """Wait for a time without using the processor."""
    NEVER_FREE.acquire(timeout=timeout_s)


def counting() -> fa.Graph:
    g = fa.Graph("counting")
    g.output("y", g.input("x", (4,), fa.i64).sign())
    return g


async def test_the_first_two_runs_are_never_in_place(ex: fa.Executor, rig: Rig) -> None:
    g, here = counting(), threading.get_ident()
    for _ in range(2):
        await ex.run(g, x=ints())
    assert here not in rig.calls
    await in_place(ex, g, x=ints())
    assert rig.calls[-1] == here


async def test_long_programs_stay_off_the_loop(ex: fa.Executor) -> None:
    g = chain(2_000)
    for _ in range(12):
        await ex.run(g, x=ones(16))
    assert ex.statistics().runs_inline == 0


async def test_kernels_that_wait_are_sent_away(ex: fa.Executor, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """They use no processor time, so a lane measures nothing; the loop finds out, at most a few times."""
    monkeypatch.setattr(measured, "OFF_LOOP_RUNS", 30)
    monkeypatch.setattr(engine_module, "INLINE_NS", 400_000)  # a lane of a disturbed machine measures more than it does
    rig.meanwhile = stall
    g, here = counting(), threading.get_ident()
    for _ in range(32):
        await ex.run(g, x=ints())
    assert 1 <= rig.calls.count(here) <= measured.MOST_OVERRUNS
    # Once it waits no longer it comes back, after a while.
    rig.meanwhile = lambda: None
    rig.calls.clear()
    for _ in range(60):
        await ex.run(g, x=ints())
    assert rig.calls.count(here) > 1
    await settled(ex)


async def test_one_long_stall_sends_nobody_away(ex: fa.Executor, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "INLINE_NS", 1 << 40)
    monkeypatch.setattr(measured, "OVERRUN_NS", 20_000_000)  # runs on a disturbed machine stall by themselves
    g, here = counting(), threading.get_ident()
    await in_place(ex, g, x=ints())
    rig.calls.clear()
    for _ in range(3 * measured.MOST_OVERRUNS):
        rig.meanwhile = lambda: stall(0.025)
        await ex.run(g, x=ints())
        rig.meanwhile = lambda: None
        await ex.run(g, x=ints())
    assert set(rig.calls) == {here}


async def test_a_turn_of_the_loop_holds_a_ration_of_work(ex: fa.Executor) -> None:
    """64 runs that are ready at once are spread over turns, and others come in between."""
    g = chain(60)
    await in_place(ex, g, x=ones(16))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(others())
    await asyncio.gather(*[ex.run(g, x=ones(16)) for _ in range(64)])
    watching.cancel()
    assert turns > 64 * engine_module._RUN_NS // 200_000 + 1


async def test_every_run_passes_a_checkpoint(ex: fa.Executor) -> None:
    g = doubling()
    await in_place(ex, g, x=ones())
    passed: list[bool] = []
    asyncio.get_running_loop().call_soon(passed.append, True)
    await ex.run(g, x=ones())
    assert passed


async def test_runs_in_place_use_one_instance_however_many_tasks(ex: fa.Executor) -> None:
    g = doubling()
    await in_place(ex, g, x=ones())
    found = await asyncio.gather(*[ex.run(g, x=np.full(4, n, np.float32)) for n in range(200)])
    assert [one["y"][0] for one in found] == [2 * n for n in range(200)]
    (prepared,) = (await ex.engine()).cache.all()
    assert len(prepared.idle) <= 2
