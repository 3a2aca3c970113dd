"""Nothing that an executor does on a loop blocks it: no sleep, no wait for a lock, no file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from tests.runtime.support import Rig, chain, doubling, failing, gated, ints, ones, turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import blockbuster as bb


async def feeds(count: int) -> AsyncIterator[dict[str, Any]]:
    for number in range(count):
        yield {"x": np.full(4, number, np.float32)}


async def test_a_whole_life_without_blocking(blockbuster: bb.BlockBuster, rig: Rig) -> None:
    """Opening, planning on and off the loop, runs on lanes and in place, cancellation, failure, map, closing."""
    async with fa.Executor() as ex:
        for g, size in ((doubling(), 4), (chain(500), 16)):
            for _ in range(5):
                await ex.run(g, x=ones(size))
        await ex.run(chain(5, size=1 << 16), x=ones(1 << 17)[::2])
        task = asyncio.create_task(ex.run(gated(), x=ints()))
        await rig.gate.entered()
        task.cancel()
        await asyncio.wait([task])
        rig.gate.open()
        with pytest.raises(fa.DeviceError):
            await ex.run(failing(), x=ints())
        assert len([out async for out in ex.map(doubling(), feeds(50))]) == 50
        run = ex.submit(doubling(), x=ones())
        await run
        ex.statistics()
    assert run.done()


async def test_closing_with_work_in_flight_does_not_block(blockbuster: bb.BlockBuster, rig: Rig) -> None:
    ex = fa.Executor(max_inflight=2)
    tasks = [asyncio.create_task(ex.run(gated(), x=ints())) for _ in range(3)]
    await rig.gate.entered()
    closing = asyncio.create_task(ex.aclose())
    await turns(3)
    rig.gate.open(3)
    await closing
    assert all(task.done() for task in tasks)
