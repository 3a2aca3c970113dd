"""An opened Vulkan device: queues as lanes, memory, pipelines, and the way between its memory and the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.device import GridDevice
from fuel_async.backends.vulkan.context import Context
from fuel_async.backends.vulkan.copying import CopyLane
from fuel_async.backends.vulkan.instance import VulkanInstance
from fuel_async.backends.vulkan.lane import VulkanLane
from fuel_async.backends.vulkan.memory import VulkanMemory
from fuel_async.backends.vulkan.pipelines import Pipelines
from fuel_async.backends.vulkan.priors import LINKS, RATES
from fuel_async.backends.vulkan.queue import Queue
from fuel_async.backends.vulkan.recording import Barriers
from fuel_async.backends.vulkan.site import Site
from fuel_async.backends.vulkan.staging import StagingRing
from fuel_async.backends.vulkan.timeline import Timeline
from fuel_async.ir import CPU_DEVICE, Breathe, DeviceLocation, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.base import DeviceInfo, OpenOptions
    from fuel_async.backends.grids.memory import GridArena
    from fuel_async.backends.vulkan.memory import VulkanArray
    from fuel_async.backends.vulkan.options import VulkanOptions
    from fuel_async.backends.vulkan.physical import PhysicalDevice
    from fuel_async.cost import LinkEstimate
    from fuel_async.dispatch import LaneProgram


class VulkanDevice(GridDevice):
    """One logical device. Any thread."""

    memory: VulkanMemory
    context: Context

    def __init__(
        self,
        physical: PhysicalDevice,
        info: DeviceInfo,
        asked: OpenOptions,
        options: VulkanOptions,
        lib: Any = None,
    ) -> None:
        """Make the device and its queues. `DeviceError` when the driver refuses. May take milliseconds.

        `lib` stands in for the driver's functions, for tests.
        """
        super().__init__(info, RATES[physical.kind], physical.limits.features)
        self.context = context = Context(physical, info.location, options, lib)
        self.memory = VulkanMemory(context, asked.memory_nbytes)
        queues, peers = [Queue(context, number) for number in range(context.queue_count)], list[Timeline]()
        self.site = Site(
            context, self.memory, Pipelines(context), Barriers(context), physical.limits, queues[-1], peers
        )
        self.memory.site = self.site
        # Copies through staging memory have a queue of their own where there is a second one.
        alone = self.memory.is_mapped or len(queues) == 1
        holds = not self.memory.is_mapped and len(queues) == 1
        self.lanes: Sequence[VulkanLane] = tuple(
            [VulkanLane(context, queue, peers, holds=holds) for queue in (queues if alone else queues[:-1])]
        )
        ring = self.memory.ring = None if self.memory.is_mapped else StagingRing(context, queues[-1], peers)
        self._up = CopyLane(context, CPU_DEVICE, info.location, ring)
        self._down = CopyLane(context, info.location, CPU_DEVICE, ring)
        self._link = LINKS[physical.kind]

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: GridArena[VulkanArray] | None = None,
        breathe: Breathe | None = None,
    ) -> VulkanInstance:
        """Plan, make pipelines and bind. `KernelFailed` names the node whose kernel cannot be made."""
        block = self.memory.allocate(program.arena_nbytes) if arena is None else arena
        return VulkanInstance(self.site, program, constants, block, self.history(program), breathe or no_breath)

    def copy_lane(self, source: DeviceLocation, destination: DeviceLocation) -> CopyLane | None:
        """The way between its memory and the host's; between two devices there is none but by the host."""
        # Asked several times a run. Locations are compared by identity first: hashing one costs a microsecond.
        mine = self.location
        if destination is mine or destination == mine:
            return self._up if source is CPU_DEVICE or source == CPU_DEVICE else None
        if source is mine or source == mine:
            return self._down if destination is CPU_DEVICE or destination == CPU_DEVICE else None
        return None

    def link(self, source: DeviceLocation, destination: DeviceLocation) -> LinkEstimate | None:
        """What that way is said to do; None when there is none."""
        return None if self.copy_lane(source, destination) is None else self._link

    def close(self) -> None:
        """Let the lanes end after what they hold. Never blocks."""
        for lane in self.lanes:
            lane.close()
        for copies in (self._up, self._down):
            copies.close()
