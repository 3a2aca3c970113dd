"""What the tests on Vulkan devices share: the software drivers, and functions that fail as told."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import replace
from glob import glob
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.base import Absent, OpenOptions
from fuel_async.backends.vulkan.device import VulkanDevice
from fuel_async.backends.vulkan.discovery import driver_for, info_of, physical_devices
from fuel_async.backends.vulkan.options import VulkanOptions
from tests.backends.grids.devices import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.vulkan.physical import PhysicalDevice

#: Names of the drivers, and where Debian has them. The first must be there where tests are told so.
MANIFESTS = {
    "llvmpipe": "/usr/share/vulkan/icd.d/lvp_icd*.json",
    "swiftshader": "/usr/lib/chromium/vk_swiftshader_icd.json",
}
DRIVERS = tuple(MANIFESTS)

#: Set where a missing driver is a failure: by the gate.
DEMANDED = "FUEL_ASYNC_TEST_VULKAN"
#: Set where the tests run under the validation layer.
VALIDATED = "FUEL_ASYNC_TEST_VALIDATION"


def point_at_drivers() -> None:
    """Have the loader find the software drivers and no others, unless the environment says which."""
    found = [path for pattern in MANIFESTS.values() for path in glob(pattern)]
    if found:
        for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):  # loaders before 1.3.207 know the second
            os.environ.setdefault(variable, ":".join(found))


def options(**changes: Any) -> VulkanOptions:
    """Options of the tests: validated where the environment says so."""
    return VulkanOptions(validation=bool(os.environ.get(VALIDATED)), **changes)


class FaultyLib:
    """The driver's functions, of which some fail as told."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        #: What is called in the place of a function, with the real one first.
        self.instead: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._real: Any = None

    def over(self, real: Any) -> FaultyLib:
        self._real = real
        return self

    def fail(self, name: str, code: int, after: int = 0) -> None:
        """Have a function give `code`, once it was called `after` times from now."""
        count = iter(range(after + 1))

        def failing(real: Any, *args: Any) -> int:
            if next(count, after) < after:
                return int(real(*args))
            if name.startswith("vkEnd"):
                real(*args)  # what cannot be ended is no longer being recorded either
            return code

        self.instead[name] = failing

    def heal(self, *names: str) -> None:
        for name in names or list(self.instead):
            self.instead.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if not name.startswith("vk"):
            return real

        def call(*args: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
            instead = self.instead.get(name)
            return real(*args) if instead is None else instead(real, *args)

        return call


class Opened:
    """A device, and what is looked at when it is closed."""

    def __init__(self, device: VulkanDevice) -> None:
        self.device = device
        self._messages = device.context.driver.messages
        self._before = list(self._messages)

    def close(self) -> None:
        device = self.device
        device.close()
        for lane in device.lanes:
            lane.join(PATIENCE_S)
        for copies in (device._up, device._down):
            copies.join(PATIENCE_S)
        assert list(self._messages) == self._before


def demanded(asked: VulkanOptions) -> Sequence[PhysicalDevice]:
    """The devices that are asked for. Without any the test is skipped, or fails where they are demanded."""
    found = physical_devices(asked)
    if isinstance(found, Absent):
        names = ", ".join(asked.devices) or "Vulkan"
        if os.environ.get(DEMANDED) and asked.devices in ((), DRIVERS[:1]):
            pytest.fail(f"the driver {names} is demanded: {found.reason}")
        pytest.skip(f"the driver {names} is not installed: {found.reason}")
    return found


def opened(
    name: str, lib: FaultyLib | None = None, memory_nbytes: int | None = None, families: int = 1, **changes: Any
) -> Opened:
    """Open the device of a driver, said to have so many queues of each family.

    Without the driver the test is skipped, or fails where it is demanded.
    """
    asked = options(devices=(name,), **changes)
    found = demanded(asked)
    real = driver_for(asked).lib
    faulty = None if lib is None else lib.over(real)
    physical = replace(found[0], families=tuple([replace(one, count=families) for one in found[0].families]))
    return Opened(VulkanDevice(physical, info_of(physical, 0), OpenOptions(memory_nbytes=memory_nbytes), asked, faulty))
