"""Looking: frozen snapshots that add up, before, during and after."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

import fuel_async as fa
from fuel_async.errors import FeedError, KernelFailed
from fuel_async.ir import CPU_DEVICE
from tests.runtime.support import Rig, chain, failing, gated, in_place, ints, ones, settled, turns


async def test_statistics_add_up(ex: fa.Executor, rig: Rig) -> None:
    g = chain(10)
    await in_place(ex, g, x=ones(16))
    found = ex.statistics()
    assert found.runs == found.runs_inline + found.runs_on_lanes
    assert found.runs_inline == 1
    with pytest.raises(KernelFailed):
        await ex.run(failing(), x=ints())
    with pytest.raises(FeedError):
        await ex.run(g, x=ones(3))
    task = asyncio.create_task(ex.run(gated(), x=ints()))
    await rig.gate.entered()
    during = ex.statistics()
    assert (during.runs_active, during.devices[CPU_DEVICE].pending_count) == (1, 1)
    assert during.devices[CPU_DEVICE].pending_s > 0
    assert during.used_nbytes > 0
    task.cancel()
    await asyncio.wait([task])
    rig.gate.open()
    await settled(ex)
    after = ex.statistics()
    assert (after.runs_failed, after.runs_cancelled, after.runs) == (2, 1, found.runs)
    assert after.devices[CPU_DEVICE].kernels == found.devices[CPU_DEVICE].kernels == 10 * found.runs
    assert after.devices[CPU_DEVICE].busy_s >= found.devices[CPU_DEVICE].busy_s > 0
    assert after.plans_prepared == 3
    assert after.budget_nbytes > after.idle_nbytes > 0


async def test_a_snapshot_is_frozen_and_does_not_change(ex: fa.Executor) -> None:
    await ex.run(chain(3), x=ones(16))
    found = ex.statistics()
    before = dataclasses.astuple(dataclasses.replace(found, devices={}, links={}))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.runs_inline = 7  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.devices[CPU_DEVICE] = None  # type: ignore[index]
    await ex.run(chain(3), x=ones(16))
    assert dataclasses.astuple(dataclasses.replace(found, devices={}, links={})) == before
    assert ex.statistics().runs == 2


async def test_statistics_are_counted_when_the_result_is_there(ex: fa.Executor, on_lanes: None) -> None:
    """Whoever has a result finds it in the totals, and finds nothing of the run in use."""
    g = chain(10)
    for number in range(1, 20):
        await ex.run(g, x=ones(16))
        found = ex.statistics()
        assert (found.runs_on_lanes, found.runs_active, found.used_nbytes) == (number, 0, 0)


async def test_statistics_outlive_the_executor() -> None:
    async with fa.Executor() as ex:
        await ex.run(chain(10), x=ones(16))
        during = ex.statistics()
    after = ex.statistics()
    assert after.runs == during.runs == 1
    assert after.runs_active == 0


async def test_looking_changes_nothing(ex: fa.Executor, rig: Rig) -> None:
    for _ in range(3):
        ex.statistics()
    assert ex.statistics() == ex.statistics()
    await ex.run(chain(3), x=ones(16))
    engine = await ex.engine()
    order = [id(one) for one in engine.cache.all()]
    for _ in range(3):
        ex.statistics()
        assert ex.devices[0].pending_work_count() == 0
    assert [id(one) for one in engine.cache.all()] == order
    await turns()
