"""The software devices there are, for tests of single kernels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.base import Absent
from fuel_async.backends.vulkan.discovery import physical_devices
from fuel_async.backends.vulkan.script import Recording, Script
from fuel_async.ir import DType
from tests.backends.grids.rig import Array, Rig
from tests.backends.vulkan.support import DEMANDED, DRIVERS, opened, options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.backends.grids.operands import Bound
    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.backends.vulkan.memory import VulkanArray


class _Played:
    """A recorded script as a lane takes it."""

    predicted_ns = 0

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def commands(self, given: Sequence[Sequence[Any]]) -> Any:
        return self._recording.commands


class VulkanRig(Rig):
    """A Vulkan device."""

    def __init__(self, device: VulkanDevice) -> None:
        super().__init__(device.info.name, device.site.limits, device.memory.alignment)
        self.device = device

    def hold(self, raw: Array) -> VulkanArray:
        array = self.device.memory.allocate_array((len(raw),), DType.U8)
        host = array.host
        assert host is not None  # software devices have the host's memory
        host[...] = raw
        return array

    def read(self, held: VulkanArray) -> Array:
        return held.read()

    def play(self, operands: Sequence[Bound], held: Sequence[VulkanArray]) -> None:
        script = Script(self.device.site)
        for dispatch in self.dispatches:
            script.add(dispatch, operands)
        recording = script.record(lambda space: held[space[1]])
        self.device.lanes[0].submit(_Played(recording)).wait(60.0)


def rigs() -> Iterator[list[Rig]]:
    """Yield a rig for each software device, and close the devices after that; skips where there is none."""
    there = [name for name in DRIVERS if not isinstance(physical_devices(options(devices=(name,))), Absent)]
    if not there and not os.environ.get(DEMANDED):
        pytest.skip("no software Vulkan driver, or the package vulkan is missing; on Debian: mesa-vulkan-drivers")
    held = [opened(name) for name in (DRIVERS if os.environ.get(DEMANDED) else there)]
    yield [VulkanRig(each.device) for each in held]
    for each in held:
        each.close()
