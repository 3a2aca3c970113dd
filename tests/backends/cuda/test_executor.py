"""Executors over CUDA devices: one, several, beside the host; results that stay; many runs at a time."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cuda import adopt
from fuel_async.errors import (
    FeedError,
    IndexOutOfRange,
    KernelFailed,
    NoBackendForOp,
    NotAdoptable,
    NotExportable,
    UserError,
)
from fuel_async.ir import DType, Layout
from fuel_async.registry import inflight_count
from fuel_async.storage import from_array
from fuel_async.testing import synthetic_op
from fuel_async.testing.cuda_double import DeviceModel
from fuel_async.testing.reference import check_results
from tests.backends.cuda.support import Doubled
from tests.backends.grids.devices import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import blockbuster as bb

W = values(32 * 32, 9).reshape(32, 32)


@pytest.fixture
def one(make: Callable[..., Doubled]) -> Iterator[Doubled]:
    """A device, at its base lines afterwards."""
    found = make()
    yield found
    gc.collect()
    (device,) = found.devices
    assert (device.memory.used_nbytes, inflight_count(device.location)) == (0, 0)
    assert device.notes == ()


def chain(pin: Any = None) -> fa.Graph:
    """y = sum over rows of relu(x @ w) @ w, with a constant."""
    g = fa.Graph("chain")
    x = g.input("x", ("rows", 32), fa.f32)
    w = g.constant(W)
    if pin is None:
        y = (x @ w).relu() @ w
    else:
        with g.on(pin):
            y = (x @ w).relu() @ w
    g.output("y", y.sum(1))
    return g


def expected(x: Any) -> Any:
    return (np.maximum(x @ W, 0) @ W).sum(1)


def feed(rows: int, seed: int = 0) -> Any:
    return values(rows * 32, seed).reshape(rows, 32)


def check(found: Any, rows: int, seed: int = 0) -> None:
    np.testing.assert_allclose(found["y"], expected(feed(rows, seed)), rtol=1e-4, atol=1e-3)


async def test_runs_of_several_sizes(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
        graph = chain()
        for rows in (1, 7, 300, 7, 0, 7, 7, 7):
            check(await executor.run(graph, x=feed(rows)), rows)


@pytest.mark.parametrize("capture", [True, False])
async def test_a_repeated_run_allocates_and_makes_nothing(make: Callable[..., Doubled], capture: bool) -> None:
    one = make(capture=capture)
    (device,) = one.devices
    async with fa.Executor([device]) as executor:
        graph = chain()
        for _ in range(4):
            await executor.run(graph, x=feed(4))
        used, before = device.memory.used_nbytes, one.machine.counts()
        for seed in range(20):
            check(await executor.run(graph, x=feed(4, seed)), 4, seed)
        after = one.machine.counts()
        assert device.memory.used_nbytes == used
        assert (before.allocations, before.compiles) == (after.allocations, after.compiles)
        launched = after.calls["launchKernel"] - before.calls["launchKernel"]
        graphs = after.graph_launches - before.graph_launches
        assert (launched, graphs) == ((0, 20) if capture else (20 * 2, 0))


async def test_both_ways_give_the_same_bits(make: Callable[..., Doubled]) -> None:
    found = list[bytes]()
    for capture in (True, False):
        one = Doubled(capture=capture)
        async with fa.Executor(one.devices) as executor:
            graph = chain()
            results = [(await executor.run(graph, x=feed(33)))["y"].tobytes() for _ in range(6)]
        found += results
        assert (one.machine.counts().graph_launches > 0) == capture
        one.close()
    assert len(set(found)) == 1


async def test_many_runs_at_a_time(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
        graph = chain()
        found = await asyncio.gather(*[executor.run(graph, x=feed(5, seed)) for seed in range(40)])
        for seed, result in enumerate(found):
            check(result, 5, seed)


async def test_a_loop_meets_no_blocking_call(one: Doubled, blockbuster: bb.BlockBuster) -> None:
    async with fa.Executor(one.devices) as executor:
        graph = chain()
        for seed in range(8):
            check(await executor.run(graph, x=feed(5, seed)), 5, seed)


#: All that a run may ask of the driver. No callbacks, no polling, nothing that waits for a stream or a device.
ASKED = {
    "copies": {"memcpyAsync", "memcpyPeerAsync", "deviceEnablePeerAccess"},
    "events": {"eventCreateWithFlags", "eventRecord", "eventSynchronize", "streamWaitEvent"},
    "graphs": {"streamBeginCapture", "streamEndCapture", "graphInstantiate", "graphLaunch", "graphDestroy"},
    "kernels": {"launchKernel", "cublasGemm", "cublasCreate", "moduleLoadData"},
    "memory": {"malloc", "hostAlloc"},
    "others": {"setDevice", "streamCreateWithPriority"},
}


async def test_nothing_is_asked_of_the_driver_that_blocks_or_calls_back(make: Callable[..., Doubled]) -> None:
    both = make(2)
    async with fa.Executor(both.devices, placement="spread") as executor:
        graph = chain()
        for _ in range(3):
            await asyncio.gather(*[executor.run(graph, x=feed(5, seed)) for seed in range(8)])
        before = both.machine.counts().calls
        await executor.run(graph, x=feed(5))
    assert before.keys() <= set[str]().union(*ASKED.values())


async def test_regions_go_to_and_fro_between_the_host_and_a_device(one: Doubled) -> None:
    """By turns, whatever that costs: each value crosses the border."""
    (device,) = one.devices
    turn = iter(range(10_000))
    async with fa.Executor([device, "cpu:0"], placement=lambda offers: offers[next(turn) % len(offers)]) as executor:
        g = fa.Graph("to and fro")
        y = g.input("x", (16, 32), fa.f32)
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


@pytest.mark.parametrize("is_peer", [True, False], ids=["peers", "through the host"])
async def test_values_go_from_device_to_device(make: Callable[..., Doubled], is_peer: bool) -> None:
    both = make([DeviceModel(is_peer=is_peer), DeviceModel()])
    first, second = both.devices
    async with fa.Executor(both.devices) as executor:
        g = fa.Graph("two devices")
        y = g.input("x", (16, 32), fa.f32)
        for step in range(6):
            with g.on((first, second)[step % 2].location):
                y = (y @ g.constant(W)).tanh()
        g.output("y", y)
        wanted = feed(16)
        for _ in range(6):
            wanted = np.tanh(wanted @ W)
        for result in await asyncio.gather(*[executor.run(g, x=feed(16)) for _ in range(8)]):
            np.testing.assert_allclose(result["y"], wanted, rtol=1e-3, atol=1e-3)
        straight = (first.location, second.location) in executor.statistics().links
    counts = both.machine.counts()
    assert straight == is_peer == ("memcpyPeerAsync" in counts.calls)
    assert (counts.staged_peer_copies, counts.pageable_copies) == (0, 0)


async def test_devices_share_the_work(make: Callable[..., Doubled]) -> None:
    several = make(3)
    async with fa.Executor(several.devices, placement="spread") as executor:
        graph = chain()
        found = await asyncio.gather(*[executor.run(graph, x=feed(5, seed)) for seed in range(24)])
        for seed, result in enumerate(found):
            check(result, 5, seed)
        assert min(one.regions for one in executor.statistics().devices.values()) >= 3


def with_host_work() -> fa.Graph:
    """A synthetic op, which the host alone has, between two products."""
    g = fa.Graph("mixed")
    x = g.input("x", (64, 32), fa.f32)
    made = synthetic_op(g, [x @ g.constant(W)], cost_ns=1_000, nbytes=64)
    g.output("y", made.astype(fa.f32).reshape((2, 32)) @ g.constant(W))
    return g


async def test_what_the_device_lacks_is_computed_by_the_host(one: Doubled) -> None:
    async with fa.Executor([*one.devices, "cpu:0"], placement=lambda offers: offers[0]) as executor:
        found = await executor.run(with_host_work(), x=np.ones((64, 32), np.float32))
        assert found["y"].shape == (2, 32)
        by_kind = {next(iter(region.kernels)): region for region in executor.explain(with_host_work()).regions}
        assert [str(one.device) for one in by_kind["runtime_fused"].candidates] == ["cpu:0"]
        assert str(by_kind["matmul"].device) == "cuda:0"
        assert all(one.regions for one in executor.statistics().devices.values())


async def test_without_the_host_what_the_device_lacks_is_refused(one: Doubled) -> None:
    (device,) = one.devices
    async with fa.Executor([device]) as executor:
        with pytest.raises(NoBackendForOp, match="runtime_fused"):
            await executor.run(with_host_work(), x=feed(64))
    async with fa.Executor([device, "cpu:0"]) as executor:
        pinned = fa.Graph("pinned")
        x = pinned.input("x", (4,), fa.f32)
        with pinned.on(device.location):
            pinned.output("y", synthetic_op(pinned, [x], cost_ns=1_000, nbytes=64))
        with pytest.raises(UserError, match="runtime_fused pinned to cuda:0, which has no kernel"):
            await executor.run(pinned, x=np.zeros(4, np.float32))


async def test_results_that_stay_are_read_and_fed_again(one: Doubled) -> None:
    (device,) = one.devices
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
            assert str(found.device) == "cuda:0"
            np.testing.assert_allclose(found.numpy(), value, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(np.asarray(found), value, rtol=1e-3, atol=1e-4)
        one_of_them = kept[0][0]
        async with fa.Executor(["cpu:0"]) as host:
            found = await host.run(g, x=one_of_them)
            np.testing.assert_allclose(found["y"], kept[1][1], rtol=1e-3, atol=1e-4)
        both = fa.Executor(["cpu:0", *_sims()])
        async with both:
            with pytest.raises(FeedError, match="lies on cuda:0"):
                await both.run(g, x=one_of_them)


def _sims() -> Any:
    from fuel_async.backends.sim import ScaledClock, SimDeviceSpec, SimMachine

    return SimMachine([SimDeviceSpec()], clock=ScaledClock()).devices


async def test_results_that_stay_are_shown_to_other_libraries(one: Doubled) -> None:
    """Without a copy, by the interface that CuPy and others read."""
    import cupy  # the double

    (device,) = one.devices
    async with fa.Executor([device]) as executor:
        g = fa.Graph("shown")
        x = g.input("x", (4, 32), fa.f32)
        g.output("y", x @ g.constant(W))
        g.output("positive", x > g.constant(np.float32(0)))
        found = await executor.run(g, x=feed(4), on_device=True)
    shown = found["y"].__cuda_array_interface__
    assert (shown["shape"], shown["typestr"], shown["strides"], shown["version"]) == ((4, 32), "<f4", None, 3)
    assert shown["data"] == (found["y"].storage.buffer.ptr, False)
    np.testing.assert_allclose(cupy.asarray(found["y"]).get(device.site.lane.stream.raw), feed(4) @ W, rtol=1e-4)
    assert found["positive"].__cuda_array_interface__["typestr"] == "|b1"
    assert found["y"].__dlpack_device__() == (2, 0)
    assert not hasattr(fa.DeviceArray(from_array(values(4)), Layout.contiguous((4,))), "__cuda_array_interface__")


async def test_results_that_stay_are_exported_by_cupy(one: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what shows itself by the interface: truth values are told as such."""
    (device,) = one.devices
    cupy = device.context.driver.cupy
    taken = list[Any]()

    class Adopted:
        def __init__(self, shown: Any) -> None:
            taken.append((shown.__cuda_array_interface__["typestr"], device.context.runtime.getDevice()))

        def __dlpack__(self, **asked: Any) -> Any:
            return asked

    monkeypatch.setattr(cupy, "asarray", Adopted)
    async with fa.Executor([device]) as executor:
        g = fa.Graph("exported")
        x = g.input("x", (4,), fa.f32)
        g.output("positive", x > g.constant(np.float32(0)))
        found = await executor.run(g, x=values(4), on_device=True)
    asked = {"stream": 7, "max_version": (1, 0), "dl_device": (2, 0), "copy": False}
    assert found["positive"].__dlpack__(**asked) == asked  # type: ignore[arg-type]
    assert taken == [("|b1", 0)]


async def test_arrays_of_other_libraries_are_fed_without_a_copy(one: Doubled) -> None:
    """The same place gives the same recording: after a few runs its graph is launched."""
    import cupy  # the double

    (device,) = one.devices
    stream = device.site.lane.stream.raw
    with stream:
        there = cupy.asarray(feed(4))
        truth = cupy.asarray(np.array([True, False, True, True]))
    async with fa.Executor([device]) as executor:
        graph = fa.Graph("adopted")
        x, keep = graph.input("x", (4, 32), fa.f32), graph.input("keep", (4,), fa.u8)
        graph.output("y", (x @ graph.constant(W)).relu())
        graph.output("kept", keep)
        before = one.machine.counts().calls["memcpyAsync"]
        for _ in range(5):
            with stream:
                feeds = {"x": adopt(device, there), "keep": adopt(device, truth)}
            found = await executor.run(graph, feeds, on_device=True)
        np.testing.assert_allclose(found["y"].numpy(), np.maximum(feed(4) @ W, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found["kept"].numpy(), [1, 0, 1, 1])
        assert one.machine.counts().calls["memcpyAsync"] - before <= 3, "a constant, and two results that were read"
    assert feeds["x"].storage.buffer.ptr == there.data.ptr
    with stream:
        for wrong, words in (
            (_Strided(there), "not row-major"),
            (feed(4), "no CUDA array interface"),
            (_Elsewhere(there), "does not lie on cuda:0"),
        ):
            with pytest.raises(NotAdoptable, match=words):
                adopt(device, wrong)
    del there, truth, feeds, found, wrong


class _Strided:
    """An array whose rows lie apart."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "strides": (256, 4), "stream": None}


class _Elsewhere:
    """An array on another device."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)


async def test_bf16_has_no_place_in_the_interface(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
        g = fa.Graph("bf16")
        g.output("y", g.input("x", (4,), fa.f32).astype(DType.BF16))
        found = await executor.run(g, x=values(4), on_device=True)
    with pytest.raises(NotExportable, match="the interface has no bf16"):
        _ = found["y"].__cuda_array_interface__


async def test_truth_values_come_out_as_bool(one: Doubled) -> None:
    g = fa.Graph("truth")
    x = g.input("x", (64,), fa.f32)
    g.output("y", x > g.constant(np.float32(0)))
    async with fa.Executor(one.devices) as executor:
        found = (await executor.run(g, x=values(64)))["y"]
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, values(64) > 0)


async def test_a_cancelled_run_leaves_the_device_to_others(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
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


async def test_values_of_small_types_go_through(one: Doubled) -> None:
    """Bytes and halves are moved as they are."""
    async with fa.Executor(one.devices) as executor:
        for dtype in (DType.U8, DType.I16, DType.F16, DType.I64, DType.U32):
            g = fa.Graph(f"move {dtype}")
            g.output("y", g.input("x", (5, 3), dtype).permute_dims((1, 0)).reshape((15,)))
            x = np.arange(15).reshape(5, 3).astype(dtype.require_np())
            np.testing.assert_array_equal((await executor.run(g, x=x))["y"], x.T.reshape(-1))


async def test_large_values_go_through(one: Doubled) -> None:
    """More than a slot of the ring, both ways."""
    async with fa.Executor(one.devices) as executor:
        g = fa.Graph("large")
        g.output("y", g.input("x", (700_000,), fa.f32) * 2)
        for seed in range(3):
            found = await executor.run(g, x=values(700_000, seed))
            np.testing.assert_array_equal(found["y"], values(700_000, seed) * 2)


async def test_kernels_are_compiled_off_the_loop(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
        await executor.run(chain(), x=feed(3))
    threads = {call.thread for call in one.machine.log if call.name == "moduleLoadData"}
    assert {name.removeprefix("fuel_async ") for name in threads} == {"planner"}
    assert threading.current_thread().name not in threads


def picking(indices: Any = None) -> fa.Graph:
    """y = x[indices], of a feed, or of a constant."""
    g = fa.Graph("picking")
    x = g.input("x", (8, 4), fa.f32)
    which = g.input("i", (6,), fa.u32) if indices is None else g.constant(indices)
    g.output("y", x.take(which[::-1][:3], axis=0))
    return g


@pytest.mark.parametrize("where", ["feed", "constant"])
async def test_an_index_out_of_range_is_the_error_that_it_is_on_the_host(one: Doubled, where: str) -> None:
    good, bad = np.array([99, 99, 99, 7, 0, 3], np.uint32), np.array([0, 0, 0, 1, 8, 2], np.uint32)
    x = values(32).reshape(8, 4)

    async def run(executor: fa.Executor, indices: Any) -> Any:
        if where == "feed":
            return await executor.run(picking(), x=x, i=indices)
        return await executor.run(picking(indices), x=x)

    async with fa.Executor(one.devices) as executor:
        np.testing.assert_array_equal((await run(executor, good))["y"], x[good[::-1][:3]])
        with pytest.raises(KernelFailed, match="index 8 is outside") as caught:
            await run(executor, bad)
        assert isinstance(caught.value.__cause__, IndexOutOfRange)


async def test_each_output_of_a_bundle_crosses_by_itself(one: Doubled) -> None:
    """The second lies some bytes into the memory of both, also on the way back."""
    g = fa.Graph("scanned")
    u, a, b = g.input("u", (2, 5, 3)), g.input("a", (3, 4)), g.input("b", (2, 5, 4))
    with g.on("cpu:0"):
        y, last = fa.selective_scan(u, u, a, b, b)
    with g.on(one.devices[0].location):
        twice, kept = y + y, last * 3.0
    g.output("twice", twice)
    g.output("last", kept)
    g.output("plain", last)
    feeds = {
        "u": values(30, 1).reshape(2, 5, 3),
        "a": -abs(values(12, 2)).reshape(3, 4),
        "b": values(40, 3).reshape(2, 5, 4),
    }
    async with fa.Executor([*one.devices, "cpu:0"]) as executor:
        for _ in range(3):
            check_results(g, feeds, await executor.run(g, feeds))
