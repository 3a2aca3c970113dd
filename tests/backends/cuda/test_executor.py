"""Executors over CUDA devices: the laws of one device, what is asked of the driver, several devices, and others."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cuda import adopt
from fuel_async.errors import NotAdoptable, NotExportable
from fuel_async.ir import DType, Layout
from fuel_async.storage import from_array
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.cuda.support import Doubled
from tests.backends.grids.devices import values
from tests.backends.grids.executor_laws import (  # noqa: F401
    W,
    chain,
    check,
    check_base_lines,
    feed,
    test_a_cancelled_run_leaves_the_device_to_others,
    test_a_loop_meets_no_blocking_call,
    test_a_repeated_run_allocates_nothing,
    test_an_index_out_of_range_is_the_error_that_it_is_on_the_host,
    test_each_output_of_a_bundle_crosses_by_itself,
    test_large_values_go_through,
    test_many_runs_at_a_time,
    test_regions_go_to_and_fro_between_the_host_and_a_device,
    test_results_that_stay_are_read_and_fed_again,
    test_runs_of_several_sizes,
    test_truth_values_come_out_as_bool,
    test_values_of_small_types_go_through,
    test_what_the_device_lacks_is_computed_by_the_host,
    test_without_the_host_what_the_device_lacks_is_refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.cuda.device import CudaDevice


@pytest.fixture
def one(make: Callable[..., Doubled]) -> Iterator[Doubled]:
    """A double with one device, at its base lines afterwards."""
    found = make()
    yield found
    (device,) = found.devices
    check_base_lines(device)
    assert device.notes == ()


@pytest.fixture
def for_bytes(device: CudaDevice) -> list[Any]:
    """Every device has them."""
    return [device]


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


async def test_kernels_are_compiled_off_the_loop(one: Doubled) -> None:
    async with fa.Executor(one.devices) as executor:
        await executor.run(chain(), x=feed(3))
    threads = {call.thread for call in one.machine.log if call.name == "moduleLoadData"}
    assert {name.removeprefix("fuel_async ") for name in threads} == {"planner"}
    assert threading.current_thread().name not in threads
