"""Executors over Vulkan devices: the laws of one device, several logical ones, shaders compiled off the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.backends.base import OpenOptions
from fuel_async.backends.vulkan.device import VulkanDevice
from fuel_async.backends.vulkan.discovery import info_of
from tests.backends.grids.executor_laws import (  # noqa: F401
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
from tests.backends.vulkan.support import FaultyLib, Opened, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

LANES = ["default", "uvloop"]
pytestmark = pytest.mark.asyncio(loop_factories=LANES)


@pytest.fixture
def device(driver_name: str, staged: bool) -> Iterator[VulkanDevice]:
    """A device of each driver, mapped and staged, at its base lines afterwards."""
    found = opened(driver_name, staged=staged)
    yield found.device
    check_base_lines(found.device)
    found.close()


@pytest.fixture
def for_bytes(device: VulkanDevice) -> list[Any]:
    """Not every driver has storage of 8 bits."""
    return [device, "cpu:0"]


async def test_two_logical_devices_share_the_work(driver_name: str) -> None:
    first = opened(driver_name)
    physical = first.device.context.physical
    info, asked = info_of(physical, 1), first.device.context.options
    second = Opened(VulkanDevice(physical, info, OpenOptions(), asked))
    async with fa.Executor([first.device, second.device], placement="spread") as executor:
        graph = chain()
        found = await asyncio.gather(*[executor.run(graph, x=feed(5, seed)) for seed in range(16)])
        for seed, result in enumerate(found):
            check(result, 5, seed)
        assert min(one.regions for one in executor.statistics().devices.values()) >= 4
    first.close()
    second.close()


async def test_shaders_are_compiled_off_the_loop(driver_name: str) -> None:
    lib = FaultyLib()
    one = opened(driver_name, lib)
    threads: list[str] = []

    def create(real: Any, *args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args)

    lib.instead["vkCreateComputePipelines"] = create
    async with fa.Executor([one.device]) as executor:
        await executor.run(chain(), x=feed(3))
    assert threads
    assert {name.removeprefix("fuel_async ") for name in threads} == {"planner"}
    one.close()
