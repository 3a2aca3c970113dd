"""An opened Vulkan device: queues as lanes, memory, pipelines, and the way between its memory and the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fuel_async.backends.vulkan.context import Context
from fuel_async.backends.vulkan.copying import CopyLane
from fuel_async.backends.vulkan.instance import VulkanInstance
from fuel_async.backends.vulkan.lane import VulkanLane
from fuel_async.backends.vulkan.memory import VulkanArena, VulkanMemory
from fuel_async.backends.vulkan.pipelines import Pipelines
from fuel_async.backends.vulkan.priors import LINKS, RATES
from fuel_async.backends.vulkan.queue import Queue
from fuel_async.backends.vulkan.recording import Barriers
from fuel_async.backends.vulkan.site import Site
from fuel_async.backends.vulkan.staging import StagingRing
from fuel_async.backends.vulkan.timeline import Timeline
from fuel_async.dispatch import BackendCapabilities, FitStatus, LaneProgram, derive_backend_caps, would_fit
from fuel_async.ir import CPU_DEVICE, BackendId, Breathe, DeviceLocation, no_breath
from fuel_async.registry import global_bindings, inflight_of
from fuel_async.streams import HOST_CLOCK, Clock, History

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.base import DeviceInfo, OpenOptions
    from fuel_async.backends.vulkan.options import VulkanOptions
    from fuel_async.backends.vulkan.physical import PhysicalDevice
    from fuel_async.cost import LinkEstimate, Rates
    from fuel_async.dispatch import KernelBindingTable


class VulkanDevice:
    """One logical device. Any thread."""

    #: One submission running and one behind it.
    slot_capacity = 2
    binds_off_loop = True
    clock: Clock = HOST_CLOCK

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
        self.info, self.location, self.memory_location = info, info.location, info.location
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
        self._inflight = inflight_of(info.location)
        #: For the kernels that they were derived from: that takes a millisecond.
        self._capabilities: tuple[KernelBindingTable, BackendCapabilities] | None = None
        self._histories: WeakKeyDictionary[LaneProgram, History] = WeakKeyDictionary()
        self.rates: Rates = RATES[physical.kind]
        self._link = LINKS[physical.kind]

    @property
    def capabilities(self) -> BackendCapabilities:
        """What the kernels registered now can do here, given the device's features."""
        table, known = global_bindings(), self._capabilities
        if known is not None and known[0] is table:
            return known[1]
        said = (self.rates.flops_per_ns, self.rates.bytes_per_ns)
        features = self.site.limits.features
        found = derive_backend_caps(
            BackendId.VULKAN,
            self.location,
            table,
            rates=said,
            features=features,
            launch_overhead_ns=self.rates.call_ns,
            dense_flops_per_ns=self.rates.dense_flops_per_ns,
        )
        self._capabilities = table, found
        return found

    @property
    def lost(self) -> BaseException | None:
        """Why it can do nothing any more; None while it can."""
        return self.context.lost

    def pending_work_count(self) -> int:
        """Submissions on the device that have not settled, of the whole process. Copies are not counted."""
        return self._inflight.count

    def pending_work_ns(self) -> int:
        """Their predicted time."""
        return self._inflight.pending_ns

    def would_fit(self, nbytes: int) -> FitStatus:
        """Whether `nbytes` more would fit its memory now."""
        total = self.memory.budget_nbytes
        return would_fit(nbytes, total - self.memory.used_nbytes, total)

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: VulkanArena | None = None,
        breathe: Breathe | None = None,
    ) -> VulkanInstance:
        """Plan, make pipelines and bind. `KernelFailed` names the node whose kernel cannot be made."""
        block = self.memory.allocate(program.arena_nbytes) if arena is None else arena
        history = self._histories.get(program)
        if history is None:
            history = self._histories.setdefault(program, History(program.predicted_ns))
        return VulkanInstance(self.site, program, constants, block, history, breathe or no_breath)

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

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once when the device is lost, at once if it is; the function returned ends that."""
        return self.context.when_lost(call)

    def close(self) -> None:
        """Let the lanes end after what they hold. Never blocks."""
        for lane in self.lanes:
            lane.close()
        for copies in (self._up, self._down):
            copies.close()
