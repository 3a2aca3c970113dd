"""The laws of executors over one device of grids: alone, beside the host; results that stay; many runs at a time.

A module of tests that imports them has the fixtures `device`, at its base lines after each test, and `for_bytes`: the
devices of an executor that computes with single bytes, the host among them where the device cannot.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import FeedError, IndexOutOfRange, KernelFailed, NoBackendForOp, UserError
from fuel_async.ir import DType
from fuel_async.registry import inflight_count
from fuel_async.testing import synthetic_op
from fuel_async.testing.reference import check_results
from tests.backends.grids.devices import Device, values

if TYPE_CHECKING:
    import blockbuster as bb

W = values(32 * 32, 9).reshape(32, 32)


def check_base_lines(device: Device) -> None:
    """Nothing is in flight, and no byte is held."""
    gc.collect()
    assert (device.memory.used_nbytes, inflight_count(device.location)) == (0, 0)


def chain() -> fa.Graph:
    """y = sum over rows of relu(x @ w) @ w, with a constant."""
    g = fa.Graph("chain")
    x = g.input("x", ("rows", 32), fa.f32)
    w = g.constant(W)
    g.output("y", ((x @ w).relu() @ w).sum(1))
    return g


def expected(x: Any) -> Any:
    return (np.maximum(x @ W, 0) @ W).sum(1)


def feed(rows: int, seed: int = 0) -> Any:
    return values(rows * 32, seed).reshape(rows, 32)


def check(found: Any, rows: int, seed: int = 0) -> None:
    np.testing.assert_allclose(found["y"], expected(feed(rows, seed)), rtol=1e-4, atol=1e-3)


async def test_runs_of_several_sizes(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        graph = chain()
        for rows in (1, 7, 300, 7, 0, 7, 7, 7):
            check(await executor.run(graph, x=feed(rows)), rows)


async def test_a_repeated_run_allocates_nothing(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        graph = chain()
        await executor.run(graph, x=feed(4))
        used, reserved = device.memory.used_nbytes, device.memory.reserved_nbytes
        for seed in range(20):
            check(await executor.run(graph, x=feed(4, seed)), 4, seed)
        assert (device.memory.used_nbytes, device.memory.reserved_nbytes) == (used, reserved)


async def test_many_runs_at_a_time(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        graph = chain()
        found = await asyncio.gather(*[executor.run(graph, x=feed(5, seed)) for seed in range(40)])
        for seed, result in enumerate(found):
            check(result, 5, seed)


async def test_a_loop_meets_no_blocking_call(device: Device, blockbuster: bb.BlockBuster) -> None:
    async with fa.Executor([device]) as executor:
        graph = chain()
        for seed in range(8):
            check(await executor.run(graph, x=feed(5, seed)), 5, seed)


async def test_regions_go_to_and_fro_between_the_host_and_a_device(device: Device) -> None:
    """By turns, whatever that costs: each value crosses the border."""
    turn = iter(range(10_000))
    async with fa.Executor([device, "cpu:0"], placement=lambda offers: offers[next(turn) % len(offers)]) as executor:
        g = fa.Graph("to and fro")
        x = g.input("x", (16, 32), fa.f32)
        y = x
        for step in range(6):
            with g.on("cpu:0" if step % 2 else device.location):
                y = (y @ g.constant(W)).tanh()
        g.output("y", y)
        wanted = feed(16)
        for _ in range(6):
            wanted = np.tanh(wanted @ W)
        for result in await asyncio.gather(*[executor.run(g, x=feed(16)) for _ in range(8)]):
            np.testing.assert_allclose(result["y"], wanted, rtol=1e-3, atol=1e-3)
        assert all(one.regions for one in executor.statistics().devices.values())


def with_host_work() -> fa.Graph:
    """A synthetic op, which the host alone has, between two products."""
    g = fa.Graph("mixed")
    x = g.input("x", (64, 32), fa.f32)
    made = synthetic_op(g, [x @ g.constant(W)], cost_ns=1_000, nbytes=64)
    g.output("y", made.astype(fa.f32).reshape((2, 32)) @ g.constant(W))
    return g


async def test_what_the_device_lacks_is_computed_by_the_host(device: Device) -> None:
    async with fa.Executor(["cpu:0"]) as host:
        wanted = await host.run(with_host_work(), x=np.ones((64, 32), np.float32))
    async with fa.Executor([device, "cpu:0"], placement=lambda offers: offers[0]) as executor:
        found = await executor.run(with_host_work(), x=np.ones((64, 32), np.float32))
        assert found["y"].shape == wanted["y"].shape
        by_kind = {next(iter(region.kernels)): region for region in executor.explain(with_host_work()).regions}
        assert [str(one.device) for one in by_kind["runtime_fused"].candidates] == ["cpu:0"]
        assert str(by_kind["matmul"].device) == str(device.location)
        assert all(one.regions for one in executor.statistics().devices.values())


async def test_without_the_host_what_the_device_lacks_is_refused(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        with pytest.raises(NoBackendForOp, match="runtime_fused"):
            await executor.run(with_host_work(), x=feed(64))
    async with fa.Executor([device, "cpu:0"]) as executor:
        pinned = fa.Graph("pinned")
        x = pinned.input("x", (4,), fa.f32)
        with pinned.on(device.location):
            pinned.output("y", synthetic_op(pinned, [x], cost_ns=1_000, nbytes=64))
        with pytest.raises(UserError, match=f"runtime_fused pinned to {device.location}, which has no kernel"):
            await executor.run(pinned, x=np.zeros(4, np.float32))


async def test_results_that_stay_are_read_and_fed_again(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        g = fa.Graph("step")
        g.output("y", g.input("x", (16, 32), fa.f32) @ g.constant(W * 0.1))
        state: Any = feed(16)
        wanted = state
        kept = []
        for _ in range(7):
            state = (await executor.run(g, x=state, on_device=True))["y"]
            wanted = wanted @ (W * 0.1)
            kept.append((state, wanted))
        for found, value in kept:
            assert str(found.device) == str(device.location)
            np.testing.assert_allclose(found.numpy(), value, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(np.asarray(found), value, rtol=1e-3, atol=1e-4)
        one_of_them = kept[0][0]
        async with fa.Executor(["cpu:0", *_sims()]) as elsewhere:
            with pytest.raises(FeedError, match=f"lies on {device.location}"):
                await elsewhere.run(g, x=one_of_them)
        async with fa.Executor(["cpu:0"]) as host:
            found = await host.run(g, x=one_of_them)
            np.testing.assert_allclose(found["y"], kept[1][1], rtol=1e-3, atol=1e-4)
    del kept, state, one_of_them, found


def _sims() -> Any:
    from fuel_async.backends.sim import ScaledClock, SimDeviceSpec, SimMachine

    return SimMachine([SimDeviceSpec()], clock=ScaledClock()).devices


async def test_truth_values_come_out_as_bool(for_bytes: list[Any]) -> None:
    g = fa.Graph("truth")
    x = g.input("x", (64,), fa.f32)
    g.output("y", x > g.constant(np.float32(0)))
    async with fa.Executor(for_bytes) as executor:
        found = (await executor.run(g, x=values(64)))["y"]
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, values(64) > 0)


async def test_a_cancelled_run_leaves_the_device_to_others(device: Device) -> None:
    async with fa.Executor([device]) as executor:
        graph = chain()
        tasks = [asyncio.ensure_future(executor.run(graph, x=feed(64, seed))) for seed in range(8)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        for seed, result in enumerate(found):
            if isinstance(result, dict):
                check(result, 64, seed)
            else:
                assert isinstance(result, asyncio.CancelledError)
        assert sum(isinstance(result, dict) for result in found) >= 4


async def test_values_of_small_types_go_through(for_bytes: list[Any]) -> None:
    """Bytes and halves are moved as they are."""
    async with fa.Executor(for_bytes) as executor:
        for dtype in (DType.U8, DType.I16, DType.F16, DType.I64, DType.U32):
            g = fa.Graph(f"move {dtype}")
            g.output("y", g.input("x", (5, 3), dtype).permute_dims((1, 0)).reshape((15,)))
            x = np.arange(15).reshape(5, 3).astype(dtype.require_np())
            np.testing.assert_array_equal((await executor.run(g, x=x))["y"], x.T.reshape(-1))


async def test_large_values_go_through(device: Device) -> None:
    """More than a slot of the ring, both ways."""
    async with fa.Executor([device]) as executor:
        g = fa.Graph("large")
        g.output("y", g.input("x", (700_000,), fa.f32) * 2)
        for seed in range(3):
            found = await executor.run(g, x=values(700_000, seed))
            np.testing.assert_array_equal(found["y"], values(700_000, seed) * 2)


def picking(indices: Any = None) -> fa.Graph:
    """y = x[indices], of a feed, or of a constant."""
    g = fa.Graph("picking")
    x = g.input("x", (8, 4), fa.f32)
    which = g.input("i", (6,), fa.u32) if indices is None else g.constant(indices)
    g.output("y", x.take(which[::-1][:3], axis=0))
    return g


@pytest.mark.parametrize("where", ["feed", "constant"])
async def test_an_index_out_of_range_is_the_error_that_it_is_on_the_host(device: Device, where: str) -> None:
    """Looked at before the run, through views; what a view leaves out may be anything."""
    good, bad = np.array([99, 99, 99, 7, 0, 3], np.uint32), np.array([0, 0, 0, 1, 8, 2], np.uint32)
    x = values(32).reshape(8, 4)

    async def run(executor: fa.Executor, indices: Any) -> Any:
        if where == "feed":
            return await executor.run(picking(), x=x, i=indices)
        return await executor.run(picking(indices), x=x)

    texts = []
    async with fa.Executor([device]) as executor, fa.Executor(["cpu:0"]) as host:
        np.testing.assert_array_equal((await run(executor, good))["y"], x[good[::-1][:3]])
        for each in (executor, host):
            with pytest.raises(KernelFailed, match="index 8 is outside") as caught:
                await run(each, bad)
            assert isinstance(caught.value.__cause__, IndexOutOfRange)
            texts.append(str(caught.value))
        assert executor.statistics().runs_failed == 1
    assert texts[0].split(", built")[0] == texts[1].split(", built")[0]


async def test_each_output_of_a_bundle_crosses_by_itself(device: Device) -> None:
    """The second lies some bytes into the memory of both, also on the way back."""
    g = fa.Graph("scanned")
    u, a, b = g.input("u", (2, 5, 3)), g.input("a", (3, 4)), g.input("b", (2, 5, 4))
    with g.on("cpu:0"):
        y, last = fa.selective_scan(u, u, a, b, b)
    with g.on(device.location):
        twice, kept = y + y, last * 3.0
    g.output("twice", twice)
    g.output("last", kept)
    g.output("plain", last)
    feeds = {
        "u": values(30, 1).reshape(2, 5, 3),
        "a": -abs(values(12, 2)).reshape(3, 4),
        "b": values(40, 3).reshape(2, 5, 4),
    }
    async with fa.Executor([device, "cpu:0"]) as executor:
        for _ in range(3):
            check_results(g, feeds, await executor.run(g, feeds))
