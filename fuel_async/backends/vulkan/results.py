"""What the driver's result codes mean, by their numbers, and the errors that they become.

The binding's own table has some codes with the wrong sign, so it is never asked.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.errors import DeviceError, DeviceLost, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

SUCCESS = 0
TIMEOUT = 2
INCOMPLETE = 5
DEVICE_LOST = -4

#: Codes of calls that failed for want of memory, of one kind or another.
OUT_OF_MEMORY = frozenset({-1, -2, -5, -10, -12, -1000069000, -1000161000})

#: The codes that a compute device may give (Vulkan 1.3, section 3.7.3).
NAMES: Mapping[int, str] = MappingProxyType({
    0: "success",
    1: "not ready",
    2: "timeout",
    3: "event set",
    4: "event reset",
    5: "incomplete",
    -1: "out of host memory",
    -2: "out of device memory",
    -3: "initialization failed",
    -4: "device lost",
    -5: "memory map failed",
    -6: "layer not present",
    -7: "extension not present",
    -8: "feature not present",
    -9: "incompatible driver",
    -10: "too many objects",
    -11: "format not supported",
    -12: "fragmented pool",
    -13: "unknown error",
    -1000069000: "out of pool memory",
    -1000072003: "invalid external handle",
    -1000161000: "fragmentation",
    -1000174001: "not permitted",
    -1000257000: "invalid opaque capture address",
})  # fmt: skip


class VulkanError(DeviceError):
    """A call of the driver failed: `code` is its result."""

    def __init__(self, device: str, call: str, code: int) -> None:
        self.device, self.call, self.code = device, call, code
        super().__init__(f"{call} failed on {device}: {name_of(code)}")


def name_of(code: int) -> str:
    """The words for a result code; unknown ones are shown as numbers."""
    return f"{NAMES[code]} ({code})" if code in NAMES else f"result {code}"


def error_of(device: str, call: str, code: int, nbytes: int = 0, budget_nbytes: int = 0) -> DeviceError:
    """The error that a failed call becomes: `DeviceLost`, `OutOfMemory`, else `VulkanError`.

    `nbytes` and `budget_nbytes` are what was asked for, and of how much.
    """
    if code == DEVICE_LOST:
        return DeviceLost(device, f"{call} said so")
    if code in OUT_OF_MEMORY:
        return OutOfMemory(device, nbytes, budget_nbytes, f", and {call} said {name_of(code)}")
    return VulkanError(device, call, code)
