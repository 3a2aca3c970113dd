"""Finding physical devices: no driver is touched before somebody asks; what is missing is a reason, not an error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fuel_async.backends.base import Absent, BackendSpec, DeviceInfo, OpenOptions
from fuel_async.backends.options import fits
from fuel_async.backends.vulkan.driver import Driver, NoDriver
from fuel_async.backends.vulkan.options import VulkanOptions
from fuel_async.backends.vulkan.physical import PhysicalDevice, look_at
from fuel_async.errors import DeviceLost
from fuel_async.ir import BackendId, DeviceLocation
from fuel_async.registry import fork_generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.device import VulkanDevice


@cache
def _driver(generation: int, validation: bool) -> Driver:
    """The process's instance; a forked child has its own."""
    return Driver(validation=validation)


def driver_for(options: VulkanOptions) -> Driver:
    """The Vulkan instance of this process. `NoDriver` where there is none. May take tens of milliseconds."""
    return _driver(fork_generation(), options.validation)


def physical_devices(options: VulkanOptions, driver: Driver | None = None) -> Sequence[PhysicalDevice] | Absent:
    """The devices that can be used and are asked for, best first and in an order of their own; else why there is none.

    The drivers are those that the loader finds; the environment's VK_DRIVER_FILES names others.
    """
    try:
        found_by = driver or driver_for(options)
        all_of_them = sorted((look_at(found_by, one) for one in found_by.physical_devices()), key=lambda one: one.order)
    except NoDriver as error:
        return Absent(error.reason)
    fit = [one for one in all_of_them if one.lacks is None]
    if not fit:
        return Absent("; ".join(filter(None, (one.lacks for one in all_of_them))) or "no driver offers a device")
    wanted = [one for one in fit if fits(one.name, options.devices)]
    if not wanted:
        return Absent(f"none of {', '.join(one.name for one in fit)} fits {', '.join(options.devices)}")
    return wanted


def info_of(physical: PhysicalDevice, ordinal: int) -> DeviceInfo:
    """What is known of a device before it is opened."""
    words = sorted(physical.limits.features & {"float64", "float16", "int8_storage", "int16_storage", "int64"})
    detail = ", ".join(
        [
            physical.kind,
            f"{physical.driver_name} {physical.driver_info}".strip(),
            f"Vulkan {physical.version[0]}.{physical.version[1]}",
            " ".join(words) or "float32 only",
            f"{sum(one.count for one in physical.families)} queues",
            f"uuid {physical.uuid}",
        ]
    )
    location = DeviceLocation(BackendId.VULKAN, ordinal)
    return DeviceInfo(location, physical.name, physical.total_nbytes, detail, by_default=not physical.is_software)


def discover(options: VulkanOptions | None = None) -> Sequence[DeviceInfo] | Absent:
    """The devices there are, each as often as logical devices are asked for; else why there is none."""
    options = options or VulkanOptions.from_environment()
    found = physical_devices(options)
    if isinstance(found, Absent):
        return found
    each = [physical for physical in found for _ in range(options.logical)]
    return tuple([info_of(physical, ordinal) for ordinal, physical in enumerate(each)])


def open_device(
    info: DeviceInfo, asked: OpenOptions | None = None, options: VulkanOptions | None = None
) -> VulkanDevice:
    """Open a device that `discover` told of. `DeviceLost` when it is there no more. May take milliseconds."""
    from fuel_async.backends.vulkan.device import VulkanDevice

    options = options or VulkanOptions.from_environment()
    found = physical_devices(options)
    place = info.location.ordinal // options.logical
    if isinstance(found, Absent) or place >= len(found):
        raise DeviceLost(str(info.location), found.reason if isinstance(found, Absent) else "it is there no more")
    return VulkanDevice(found[place], info, asked or OpenOptions(), options)


def open_devices(options: VulkanOptions, asked: OpenOptions | None = None) -> list[VulkanDevice]:
    """Open all devices that the options ask for, to be given to an executor. `DeviceLost` says why there is none."""
    found = discover(options)
    if isinstance(found, Absent):
        raise DeviceLost(str(BackendId.VULKAN), found.reason)
    return [open_device(info, asked, options) for info in found]


BACKEND = BackendSpec(BackendId.VULKAN, discover, open_device)
