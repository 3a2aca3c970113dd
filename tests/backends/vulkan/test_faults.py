"""A driver that fails at every place it can: the right error for the right caller, no hang, nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.vulkan.results import NAMES, OUT_OF_MEMORY, VulkanError, error_of
from fuel_async.errors import DeviceError, DeviceLost, KernelFailed, OutOfMemory
from fuel_async.ir import CPU_DEVICE, DType
from fuel_async.registry import inflight_count
from fuel_async.streams import WaitStatus
from tests.backends.fresh_process import WAYS, leave
from tests.backends.grids.devices import PATIENCE_S, Elsewhere, Work, copied, put, values, wait_all
from tests.backends.vulkan.support import FaultyLib, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice

LOST, NO_MEMORY, UNKNOWN = -4, -2, -13


def heard(device: VulkanDevice) -> list[int]:
    """How often the loss of a device was told."""
    times: list[int] = []
    device.on_lost(lambda: times.append(1))
    return times


# --- result codes -------------------------------------------------------------------------------------------------


def test_codes_have_the_signs_of_the_specification() -> None:
    """Errors are negative; the binding's table has some of them positive."""
    assert all(
        (code < 0) == (code in OUT_OF_MEMORY or "success" not in name) for code, name in NAMES.items() if code < 0
    )
    for code in (-1000069000, -1000072003, -1000161000, -1000257000):
        assert code in NAMES
        assert -code not in NAMES


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-1, OutOfMemory), (-1000069000, OutOfMemory), (-4, DeviceLost), (-3, VulkanError), (-424242, VulkanError)],
)
def test_every_code_becomes_an_error(code: int, kind: type[DeviceError]) -> None:
    error = error_of("vulkan:0", "vkDoIt", code, 10, 5)
    assert type(error) is kind
    assert "vkDoIt" in str(error)


# --- loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [LOST, UNKNOWN])
def test_a_loss_at_a_wait_fails_all_that_is_under_way(make: Callable[..., VulkanDevice], code: int) -> None:
    """Whatever else than success or a timeout a wait gives: the device cannot be trusted any more."""
    lib = FaultyLib()
    device = make(lib)
    told, elsewhere = heard(device), Elsewhere()
    works = [Work(device, seed) for seed in range(3)]
    handles = [works[0].submit([elsewhere.handle]), works[1].submit(), works[2].submit()]
    lib.fail("vkWaitSemaphores", code)
    for handle in handles:
        with pytest.raises(DeviceLost, match="vkWaitSemaphores gave"):
            handle.wait(PATIENCE_S)
    assert isinstance(device.lost, DeviceLost)
    assert (told, inflight_count(device.location), device.lanes[0].pending_count) == ([1], 0, 0)
    assert handles[0].completion.wait(0) is WaitStatus.REACHED, "settled: there is nothing to wait for"
    elsewhere.end()
    lib.heal()


def test_a_loss_at_a_submission_fails_that_and_all_later_ones(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)
    told, work = heard(device), Work(device)
    work.submit().wait(PATIENCE_S)
    lib.fail("vkQueueSubmit", LOST)
    for _ in range(2):
        with pytest.raises(DeviceLost, match="vkQueueSubmit said so"):
            work.submit().wait(PATIENCE_S)
    assert (told, lib.calls["vkQueueSubmit"]) == ([1], 2)
    with pytest.raises(DeviceLost):
        device.memory.allocate(16)
    with pytest.raises(DeviceLost):
        work.x.read()
    up = device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    with pytest.raises(DeviceLost):
        up.submit_copy(values(64), work.x).wait(PATIENCE_S)


def test_a_loss_opens_every_gate(make: Callable[..., VulkanDevice]) -> None:
    """Nobody waits for what is lost, and the queue can be emptied."""
    lib = FaultyLib()
    device = make(lib)
    elsewhere = Elsewhere()
    held = Work(device).submit([elsewhere.handle])
    lib.fail("vkQueueSubmit", LOST)
    with pytest.raises(DeviceLost):
        Work(device, 1).submit().wait(PATIENCE_S)
    with pytest.raises(DeviceLost):
        held.wait(PATIENCE_S)
    assert device.lanes[0].gates.timeline.waiter().reached() == 1


def test_a_device_that_hangs_is_given_up_and_left_alone(driver_name: str) -> None:
    """It may still write: nothing of it is destroyed."""
    lib = FaultyLib()
    one = opened(driver_name, lib, deadline_s=0.3)
    device = one.device
    told, work = heard(device), Work(device)
    lib.instead["vkWaitSemaphores"] = lambda real, *args: 2  # a timeout, at once, for ever
    with pytest.raises(DeviceLost, match="has worked on one submission for"):
        work.submit().wait(PATIENCE_S)
    assert told == [1]
    before = lib.calls.copy()
    one.close()
    del work, device
    context = weakref.ref(one.device.context)
    del one
    gc.collect()
    assert context() is None
    destroyed = [name for name in lib.calls - before if name.startswith(("vkDestroy", "vkFree"))]
    assert destroyed == []


def test_waiting_behind_a_gate_is_no_hanging(make: Callable[..., VulkanDevice]) -> None:
    device = make(deadline_s=0.2)
    elsewhere, work = Elsewhere(), Work(device)
    handle = work.submit([elsewhere.handle])
    assert handle.completion.wait(0.9) is WaitStatus.TIMEOUT
    assert device.lost is None
    elsewhere.end()
    handle.wait(PATIENCE_S)
    assert work.is_done


def test_who_hears_of_a_loss_may_submit(make: Callable[..., VulkanDevice]) -> None:
    """Told within a failing submission: no lock may be held then."""
    lib = FaultyLib()
    device = make(lib)
    work, again = Work(device), list[Any]()
    device.on_lost(lambda: again.append(work.submit()))
    lib.fail("vkQueueSubmit", LOST)
    with pytest.raises(DeviceLost):
        work.submit().wait(PATIENCE_S)
    with pytest.raises(DeviceLost):
        again[0].wait(PATIENCE_S)


# --- memory -------------------------------------------------------------------------------------------------------


def test_a_refused_submission_is_no_loss(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)
    elsewhere, work = Elsewhere(), Work(device)
    lib.fail("vkQueueSubmit", NO_MEMORY)
    with pytest.raises(OutOfMemory):
        work.submit([elsewhere.handle]).wait(PATIENCE_S)
    lib.heal()
    assert device.lost is None
    work.submit().wait(PATIENCE_S)
    assert work.is_done
    elsewhere.end()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("vkCreateBuffer", NO_MEMORY),
        ("vkAllocateMemory", NO_MEMORY),
        ("vkBindBufferMemory", NO_MEMORY),
        ("vkMapMemory", -5),
        ("vkMapMemory", -1),
    ],
)
def test_an_allocation_that_fails_half_way_leaves_nothing(
    make: Callable[..., VulkanDevice], call: str, code: int
) -> None:
    lib = FaultyLib()
    device = make(lib)
    lib.fail(call, code)
    with pytest.raises(OutOfMemory):
        device.memory.allocate(1_000)
    tries = lib.calls[call]
    assert tries == 2, "once more, for less"
    assert lib.calls["vkDestroyBuffer"] == lib.calls["vkCreateBuffer"] - (tries if call == "vkCreateBuffer" else 0)
    assert lib.calls["vkFreeMemory"] == lib.calls["vkAllocateMemory"] - (tries if call == "vkAllocateMemory" else 0)
    assert (device.memory.used_nbytes, device.memory.reserved_nbytes) == (0, 0)
    lib.heal()
    device.memory.allocate(1_000)


def test_a_loss_at_a_mapping_is_a_loss(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)
    told = heard(device)
    lib.fail("vkMapMemory", LOST)
    for _ in range(2):
        with pytest.raises(DeviceLost):
            device.memory.allocate(1_000)
    assert (told, lib.calls["vkMapMemory"]) == ([1], 1)


@pytest.mark.parametrize(
    "call",
    [
        "vkCreateShaderModule",
        "vkCreateComputePipelines",
        "vkCreatePipelineLayout",
        "vkCreateDescriptorSetLayout",
        "vkCreateCommandPool",
    ],
)
def test_an_instance_that_cannot_be_made_says_why(make: Callable[..., VulkanDevice], call: str) -> None:
    lib = FaultyLib()
    device = make(lib)
    lib.fail(call, NO_MEMORY)
    with pytest.raises(DeviceError, match=call):
        device.instantiate(copied(device), [])
    lib.heal()
    gc.collect()
    assert lib.calls["vkDestroyShaderModule"] == lib.calls["vkCreateShaderModule"] - (call == "vkCreateShaderModule")
    work = Work(device)
    work.submit().wait(PATIENCE_S)
    assert work.is_done


@pytest.mark.parametrize(
    "call", ["vkCreateDescriptorPool", "vkAllocateDescriptorSets", "vkAllocateCommandBuffers", "vkEndCommandBuffer"]
)
def test_a_recording_that_fails_fails_its_submission(make: Callable[..., VulkanDevice], call: str) -> None:
    lib = FaultyLib()
    device = make(lib)
    work = Work(device)
    lib.fail(call, -1000069000 if "Descriptor" in call else NO_MEMORY)
    with pytest.raises(OutOfMemory, match=call):
        work.submit().wait(PATIENCE_S)
    lib.heal()
    work.submit().wait(PATIENCE_S)
    assert work.is_done


@pytest.mark.parametrize("call", ["vkAllocateMemory", "vkQueueSubmit", "vkEndCommandBuffer"])
def test_a_staged_copy_that_fails_says_why_and_the_next_one_works(make: Callable[..., VulkanDevice], call: str) -> None:
    lib = FaultyLib()
    device = make(lib, staged=True)
    there = device.memory.allocate_array((3 << 18,), DType.F32)
    up = device.copy_lane(CPU_DEVICE, device.location)
    assert up is not None
    lib.fail(call, NO_MEMORY, after=0 if call == "vkAllocateMemory" else 1)
    with pytest.raises(OutOfMemory):
        up.submit_copy(values(3 << 18), there).wait(PATIENCE_S)
    lib.heal()
    up.submit_copy(values(3 << 18), there).wait(PATIENCE_S)
    np.testing.assert_array_equal(there.read(), values(3 << 18))


# --- executors ----------------------------------------------------------------------------------------------------


def graph() -> fa.Graph:
    g = fa.Graph("work")
    x = g.input("x", (16, 16), fa.f32)
    g.output("y", x @ x)
    return g


FEED = values(256).reshape(16, 16)


def test_out_of_memory_at_each_allocation_in_turn_fails_a_run_and_no_more(driver_name: str) -> None:
    """Each call that allocates is refused once, the first to the last that a first run makes; then the run works."""
    names = ("vkAllocateMemory", "vkCreateBuffer", "vkCreateDescriptorPool", "vkCreateCommandPool", "vkQueueSubmit")
    lib = FaultyLib()
    one = opened(driver_name, lib)
    for name in names:
        for after in range(3):

            async def scenario(name: str = name, after: int = after) -> None:
                async with fa.Executor([one.device]) as executor:
                    lib.fail(name, NO_MEMORY, after)
                    (first,) = await asyncio.gather(executor.run(graph(), x=FEED), return_exceptions=True)
                    lib.heal()
                    second = await executor.run(graph(), x=FEED)
                if isinstance(first, BaseException):
                    assert isinstance(first, OutOfMemory | KernelFailed)
                    assert "out of device memory" in str(first)
                for found in (second, *([first] if isinstance(first, dict) else [])):  # it may ask less often
                    np.testing.assert_allclose(found["y"], FEED @ FEED, rtol=1e-4, atol=1e-5)

            asyncio.run(scenario())
            gc.collect()
            assert one.device.memory.used_nbytes == 0
    assert inflight_count(one.device.location) == 0
    one.close()


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitSemaphores"])
def test_a_run_on_a_device_that_is_lost_fails_and_the_next_goes_elsewhere(driver_name: str, call: str) -> None:
    lib = FaultyLib()
    one = opened(driver_name, lib)

    async def scenario() -> None:
        async with fa.Executor([one.device, "cpu:0"], placement=lambda offers: offers[0]) as executor:
            await executor.run(graph(), x=FEED)
            lib.fail(call, LOST)
            with pytest.raises(DeviceLost):
                await executor.run(graph(), x=FEED)
            found = await executor.run(graph(), x=FEED)
            np.testing.assert_allclose(found["y"], FEED @ FEED, rtol=1e-4, atol=1e-5)
            assert isinstance(one.device.lost, DeviceLost)

    asyncio.run(scenario())
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_process_may_leave_with_work_in_flight(driver_name: str, way: str) -> None:
    opened(driver_name).close()  # skips where there is none
    leave(f"from tests.backends.vulkan.support import opened\none = opened({driver_name!r})\ndevice = one.device", way)


def test_a_device_is_destroyed_with_all_that_belongs_to_it(driver_name: str) -> None:
    """As many of each as were made, and the device last."""
    lib = FaultyLib()
    one = opened(driver_name, lib)
    work = Work(one.device)
    wait_all([work.submit(), Work(one.device, 1).submit()])
    put(one.device, values(64))
    one.close()
    context = weakref.ref(one.device.context)
    kept = work.y
    del work, one
    gc.collect()
    assert context() is not None, "an array that a caller keeps"
    np.testing.assert_array_equal(kept.read(), values(64))
    del kept
    gc.collect()
    assert context() is None
    pairs = {
        "vkCreateBuffer": "vkDestroyBuffer",
        "vkAllocateMemory": "vkFreeMemory",
        "vkCreateSemaphore": "vkDestroySemaphore",
        "vkCreateCommandPool": "vkDestroyCommandPool",
        "vkCreateDescriptorPool": "vkDestroyDescriptorPool",
        "vkCreateShaderModule": "vkDestroyShaderModule",
        "vkCreatePipelineLayout": "vkDestroyPipelineLayout",
        "vkCreateDescriptorSetLayout": "vkDestroyDescriptorSetLayout",
        "vkCreateComputePipelines": "vkDestroyPipeline",
        "vkCreateDevice": "vkDestroyDevice",
    }
    assert {name: lib.calls[name] for name in pairs} == {name: lib.calls[end] for name, end in pairs.items()}
    assert min(lib.calls[name] for name in pairs) > 0
