"""An opened CUDA device: streams as lanes, memory, kernels, and the ways between its memory and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.capture import Captures
from fuel_async.backends.cuda.context import Context
from fuel_async.backends.cuda.copying import CopyLane
from fuel_async.backends.cuda.functions import Functions
from fuel_async.backends.cuda.instance import CudaInstance
from fuel_async.backends.cuda.lane import CudaLane
from fuel_async.backends.cuda.memory import CudaMemory
from fuel_async.backends.cuda.peers import Peers
from fuel_async.backends.cuda.priors import PEER_LINK, host_link_of, rates_of
from fuel_async.backends.cuda.site import Site
from fuel_async.backends.cuda.watch import Watch
from fuel_async.backends.grids.device import GridDevice
from fuel_async.ir import CPU_DEVICE, BackendId, Breathe, DeviceLocation, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.base import DeviceInfo, OpenOptions
    from fuel_async.backends.cuda.driver import Driver
    from fuel_async.backends.cuda.memory import CudaArray
    from fuel_async.backends.cuda.options import CudaOptions
    from fuel_async.backends.cuda.physical import PhysicalDevice
    from fuel_async.backends.grids.memory import GridArena
    from fuel_async.cost import LinkEstimate
    from fuel_async.dispatch import LaneProgram


class CudaDevice(GridDevice):
    """One GPU in use. Any thread."""

    memory: CudaMemory
    context: Context

    def __init__(
        self, driver: Driver, physical: PhysicalDevice, info: DeviceInfo, asked: OpenOptions, options: CudaOptions
    ) -> None:
        """Make its context and streams: up to a second. `DeviceError` when the driver refuses."""
        limits = physical.limits(has_blas=driver.has_blas)
        super().__init__(info, rates_of(physical), limits.features)
        self.context = context = Context(driver, physical, info.location, options)
        self._watch = watch = Watch(context)
        self._peers = Peers(context)
        self._up = CopyLane(context, watch, "upload", self._peers)
        self._down = CopyLane(context, watch, "download", self._peers)
        self.memory = CudaMemory(context, self._down.ring, asked.memory_nbytes)
        self.lanes: Sequence[CudaLane] = tuple(
            [CudaLane(context, watch, number) for number in range(asked.lanes or options.streams)]
        )
        alone = CudaLane(context, watch, len(self.lanes))
        functions, streams = Functions(context, limits), tuple([lane.stream for lane in (*self.lanes, alone)])
        self.site = Site(context, self.memory, functions, Captures(context), limits, streams, alone)
        self.memory.site = self.site
        self._host_link = host_link_of(physical)

    @property
    def notes(self) -> Sequence[str]:
        """What somebody should know of it: programs that could not be captured, and why."""
        return tuple(self.site.captures.reasons)

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: GridArena[CudaArray] | None = None,
        breathe: Breathe | None = None,
    ) -> CudaInstance:
        """Plan, compile and bind. `KernelFailed` names the node whose kernel cannot be made."""
        block = self.memory.allocate(program.arena_nbytes) if arena is None else arena
        return CudaInstance(self.site, program, constants, block, self.history(program), breathe or no_breath)

    def copy_lane(self, source: DeviceLocation, destination: DeviceLocation) -> CopyLane | None:
        """The way between its memory and the host's, and into it from a device whose memory it can map."""
        # Asked several times a run. Locations are compared by identity first: hashing one costs a microsecond.
        mine = self.location
        if destination is mine or destination == mine:
            return self._up if source is CPU_DEVICE or source == CPU_DEVICE or self._reaches(source) else None
        if source is mine or source == mine:
            return self._down if destination is CPU_DEVICE or destination == CPU_DEVICE else None
        return None

    def link(self, source: DeviceLocation, destination: DeviceLocation) -> LinkEstimate | None:
        """What that way is said to do; None when there is none."""
        if self.copy_lane(source, destination) is None:
            return None
        return self._host_link if CPU_DEVICE in (source, destination) else PEER_LINK

    def close(self) -> None:
        """Let the lanes end after what they hold. Never blocks."""
        for line in self.lines:
            line.close()

    @property
    def lines(self) -> Sequence[CudaLane | CopyLane]:
        """All its streams with threads."""
        return (*self.lanes, self.site.lane, self._up, self._down)

    def join(self, timeout_s: float | None = None) -> None:
        """Block until all threads have ended, at most `timeout_s` for each. After `close`."""
        for line in self.lines:
            line.join(timeout_s)
        self._watch.join(timeout_s)

    def _reaches(self, source: DeviceLocation) -> bool:
        return source.backend == BackendId.CUDA and source != self.location and self._peers.reaches(source.ordinal)
