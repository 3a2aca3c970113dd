"""The short way of runs of one region on Vulkan devices: values, counts, and each part that may fail."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.cost import Rates
from fuel_async.errors import DeviceError, DeviceLost, OutOfMemory
from fuel_async.registry import inflight_count
from fuel_async.schedule import SpreadScheduler
from tests.backends.grids.devices import values
from tests.backends.vulkan.support import FaultyLib, Opened, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.asyncio(loop_factories=["default", "uvloop"])

LOST, NO_MEMORY = -4, -2

#: So fast that no plan is cut.
FAST = Rates(1e9, 1e9, 1e9, 1)

W = values(32 * 32, 9).reshape(32, 32)


@pytest.fixture
def lib() -> FaultyLib:
    """The driver's functions, none of which fails yet."""
    return FaultyLib()


@pytest.fixture
def one(driver_name: str, staged: bool, lib: FaultyLib) -> Iterator[Opened]:
    """A device of each driver, mapped and staged, at its base lines afterwards."""
    found = opened(driver_name, lib, staged=staged)
    found.device.rates = FAST
    yield found
    gc.collect()
    device = found.device
    assert inflight_count(device.location) == 0
    assert device.lost is not None or device.memory.used_nbytes == 0
    lib.heal()
    found.close()


def product(rows: int) -> fa.Graph:
    """y = relu(x @ w), z = its sum over rows."""
    g = fa.Graph("product")
    y = (g.input("x", (rows, 32), fa.f32) @ g.constant(W)).relu()
    g.output("y", y)
    g.output("z", y.sum(1))
    return g


def feed(rows: int, seed: int) -> Any:
    return values(rows * 32, seed).reshape(rows, 32)


async def checked(executor: fa.Executor, graph: fa.Graph, rows: int, seed: int) -> None:
    """Run it and compare it with numpy."""
    x = feed(rows, seed)
    found, y = await executor.run(graph, x=x), np.maximum(x @ W, 0)
    np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found["z"], y.sum(1), rtol=1e-4, atol=1e-2)


async def begun(executor: fa.Executor) -> int:
    """How many runs took the short way."""
    scheduler = (await executor.engine()).driver._scheduler
    assert isinstance(scheduler, SpreadScheduler)
    return scheduler.alone.begun


async def settled(executor: fa.Executor) -> None:
    """Wait until nothing is under way."""
    engine = await executor.engine()
    await engine.idle()
    scheduler: Any = engine.driver._scheduler
    assert not scheduler.alone.runs
    assert not engine.driver.active


#: Copied at once, and by a thread.
ROWS = [4, 600]


@pytest.mark.parametrize("rows", ROWS)
async def test_values_and_counts_are_those_of_the_ordinary_way(
    one: Opened, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    for way in ("short", "ordinary"):
        if way == "ordinary":
            monkeypatch.setattr(SpreadScheduler, "begin_alone", lambda *_: None)
        async with fa.Executor([one.device]) as executor:
            graph = product(rows)
            for seed in range(6):
                await checked(executor, graph, rows, seed)
            assert await begun(executor) == (5 if way == "short" else 0)
            await settled(executor)
            found = executor.statistics()
            [device] = found.devices.values()
            links = {ends: (link.copies, link.nbytes) for ends, link in found.links.items()}
            counted.append((found.runs_on_lanes, found.runs_failed, device.regions, device.kernels, links))
    assert counted[0] == counted[1]
    assert counted[0][:3] == (6, 0, 6)


async def test_several_at_a_time(one: Opened) -> None:
    async with fa.Executor([one.device]) as executor:
        graph = product(4)
        for _ in range(4):
            await asyncio.gather(*[checked(executor, graph, 4, seed) for seed in range(8)])
        assert await begun(executor) >= 3  # the first of each but the first


async def test_results_stay_and_are_fed_again(one: Opened) -> None:
    async with fa.Executor([one.device]) as executor:
        g = fa.Graph("step")
        g.output("y", g.input("x", (16, 32), fa.f32) @ g.constant(W * 0.1))
        state: Any = feed(16, 1)
        wanted = state
        for _ in range(6):
            state = (await executor.run(g, x=state, on_device=True))["y"]
            wanted = wanted @ (W * 0.1)
        np.testing.assert_allclose(np.asarray(state), wanted, rtol=1e-3, atol=1e-4)
        assert await begun(executor) == 5
        assert executor.statistics().received(one.device.location).copies == 2  # the feed and the constant
    del state


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("code", [LOST, NO_MEMORY])
async def test_a_part_that_is_not_taken_fails_the_run(
    one: Opened, lib: FaultyLib, staged: bool, part: int, code: int
) -> None:
    """Through staging memory each part is a submission of its own, else the region alone is."""
    if part and not staged:
        part = 0
    async with fa.Executor([one.device]) as executor:
        g = fa.Graph("one of each")
        g.output("y", g.input("x", (64,), fa.f32).exp())
        x = values(64)
        for _ in range(2):
            np.testing.assert_allclose((await executor.run(g, x=x))["y"], np.exp(x), rtol=1e-5)
        lib.fail("vkQueueSubmit", code, after=part)
        with pytest.raises(DeviceLost if code == LOST else DeviceError):
            await executor.run(g, x=x)
        lib.heal()
        await settled(executor)
        assert await begun(executor) == 2
        assert (executor.statistics().runs_failed, one.device.lost is not None) == (1, code == LOST)
        if code == LOST:
            with pytest.raises(DeviceLost):
                await executor.run(g, x=x)
        else:
            np.testing.assert_allclose((await executor.run(g, x=x))["y"], np.exp(x), rtol=1e-5)
            assert await begun(executor) == 3


async def test_a_loss_while_it_runs_fails_it(one: Opened, lib: FaultyLib) -> None:
    async with fa.Executor([one.device]) as executor:
        graph = product(4)
        for seed in range(2):
            await checked(executor, graph, 4, seed)
        lib.fail("vkWaitSemaphores", LOST)
        with pytest.raises(DeviceLost, match="vkWaitSemaphores gave"):
            await checked(executor, graph, 4, 3)
        lib.heal()
        await settled(executor)
        assert await begun(executor) == 2


@pytest.mark.parametrize("rows", ROWS)
async def test_cancelled_ones_leave_nothing(one: Opened, rows: int) -> None:
    async with fa.Executor([one.device]) as executor:
        graph = product(rows)
        await checked(executor, graph, rows, 0)
        for seed in range(12):
            task = asyncio.ensure_future(executor.run(graph, x=feed(rows, seed)))
            await asyncio.sleep(0 if seed % 2 else 0.0002)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await settled(executor)
        assert await begun(executor) >= 1
        found = executor.statistics()
        assert found.runs_failed == 0
        assert found.runs_on_lanes + found.runs_cancelled == 13
        await checked(executor, graph, rows, 1)


async def test_without_room_for_an_output_it_fails_alone(driver_name: str, staged: bool) -> None:
    one = opened(driver_name, memory_nbytes=700_000, staged=staged)
    async with fa.Executor([one.device]) as executor:
        g = fa.Graph("large")
        g.output("y", g.input("x", (50_000,), fa.f32).exp())
        x = values(50_000)
        await executor.run(g, x=x)
        kept = [(await executor.run(g, x=x, on_device=True))["y"] for _ in range(2)]
        assert await begun(executor) == 2
        with pytest.raises(OutOfMemory):
            await executor.run(g, x=x)
        await settled(executor)
        assert await begun(executor) == 3
        for array in kept:
            np.testing.assert_allclose(np.asarray(array), np.exp(x), rtol=1e-4)
        del array
        kept.clear()
        gc.collect()
        np.testing.assert_allclose((await executor.run(g, x=x))["y"], np.exp(x), rtol=1e-4)
        assert executor.statistics().runs_failed == 1
    gc.collect()
    one.close()
