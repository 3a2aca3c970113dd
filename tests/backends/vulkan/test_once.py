"""Single kernels over storages of a Vulkan device: the laws of all of them, and what a loss or a refusal does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import DeviceError, DeviceLost
from tests.backends.grids.once_laws import (  # noqa: F401
    negate,
    row_and_room,
    test_a_kernel_has_the_working_memory_that_it_asks_for,
    test_a_kernel_reads_strides_and_writes_its_output,
    test_a_product_is_computed_by_itself,
    test_an_operand_may_be_given_twice,
    test_storages_are_leased_meanwhile,
    test_storages_of_the_host_are_refused,
    test_storages_of_two_devices_do_not_meet_in_one_kernel,
)
from tests.backends.vulkan.support import FaultyLib

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.vulkan.device import VulkanDevice

LOST, NO_MEMORY = -4, -2


@pytest.fixture
def two_devices(make: Callable[..., VulkanDevice]) -> Sequence[VulkanDevice]:
    return [make(), make()]


def test_a_kernel_whose_device_is_lost_poisons_what_it_wrote(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)
    x, y = row_and_room(device)
    lib.fail("vkWaitSemaphores", LOST)
    with pytest.raises(DeviceLost):
        negate(device, [x], [y])
    lib.heal()
    assert (x.is_poisoned, y.is_poisoned) == (False, True)


def test_a_kernel_that_is_refused_has_written_nothing(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)
    x, y = row_and_room(device)
    lib.fail("vkQueueSubmit", NO_MEMORY)
    with pytest.raises(DeviceError):
        negate(device, [x], [y])
    lib.heal()
    assert (x.is_poisoned, y.is_poisoned, device.lost) == (False, False, None)
    negate(device, [x], [y])
