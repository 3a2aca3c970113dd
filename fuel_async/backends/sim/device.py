"""A simulated device: memory of its own, lanes in simulated time, and the kernels of the host."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fuel_async.backends.base import DeviceInfo
from fuel_async.backends.cpu.instance import HostInstance
from fuel_async.backends.sim.link import SimLane
from fuel_async.backends.sim.memory import SimArena, SimMemory
from fuel_async.backends.sim.site import Core, Port, Site
from fuel_async.backends.sim.speeds import Speeds
from fuel_async.dispatch import (
    BackendCapabilities,
    FitStatus,
    LaneProgram,
    TransferPath,
    derive_backend_caps,
    would_fit,
)
from fuel_async.errors import WrongSubstrate
from fuel_async.ir import CPU_DEVICE, BackendId, Breathe, DeviceLocation, SubstrateClass, no_breath
from fuel_async.registry import global_bindings, inflight_count, inflight_of, pending_ns
from fuel_async.streams import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuel_async.backends.sim.clock import SimClock
    from fuel_async.backends.sim.link import LinkLane
    from fuel_async.backends.sim.spec import SimDeviceSpec
    from fuel_async.cost import LinkEstimate, Rates
    from fuel_async.storage import HostArena

SIM = BackendId("sim")

#: No host kernel reaches into it, and no other device's.
SUBSTRATE = SubstrateClass("sim_bytes")


class SimDevice:
    """One device of a `SimMachine`, opened. Any thread."""

    binds_off_loop = False

    def __init__(
        self,
        spec: SimDeviceSpec,
        location: DeviceLocation,
        core: Core,
        seed: str,
        links: Callable[[], Iterable[LinkLane]],
    ) -> None:
        """Machines make these. `links` gives the links that there are now."""
        self.spec, self.location = spec, location
        self.memory_location = CPU_DEVICE if spec.in_host_memory else location
        self.info = DeviceInfo(location, spec.name, spec.memory_nbytes, f"speed {spec.speed:g}, {spec.lanes} lanes")
        self.slot_capacity = spec.slot_capacity
        self.clock: SimClock = core.clock
        self.memory = SimMemory(self.memory_location, spec.memory_nbytes, core.deeds)
        self.site = Site(core, spec.slowdowns, spec.jitter)
        #: What leaves and enters the memory, where copies share it.
        self.ports = Port(), Port()
        self._speeds = Speeds(location, spec.true_rates, spec.said_rates)
        self.lanes: Sequence[SimLane] = tuple(
            SimLane(
                self.site,
                f"{location} lane {number}",
                location,
                Random(f"{seed} lane {number}"),
                inflight_of(location),
                self._speeds,
                self.memory_location,
            )
            for number in range(spec.lanes)
        )
        self._links = links
        self._histories: WeakKeyDictionary[LaneProgram, History] = WeakKeyDictionary()

    @property
    def rates(self) -> Rates:
        """The speeds that it says it has."""
        return self._speeds.said

    @property
    def capabilities(self) -> BackendCapabilities:
        """The host's kernels registered now, its own memory, and the links that leave it now."""
        said = (self.rates.flops_per_ns, self.rates.bytes_per_ns)
        table = global_bindings()
        caps = derive_backend_caps(
            BackendId.CPU,
            self.location,
            table,
            substrate=SubstrateClass.HostBytes if self.spec.in_host_memory else SUBSTRATE,
            rates=said,
            launch_overhead_ns=self.rates.call_ns,
            dense_flops_per_ns=self.rates.dense_flops_per_ns,
        )
        ways = [link.destination for link in self._links() if link.source == self.location]
        return replace(caps, transfer_paths=tuple([(way, _kind_of(way)) for way in ways]))

    @property
    def lost(self) -> BaseException | None:
        """Why it can do nothing any more; None while it can."""
        return self.site.lost

    def pending_work_count(self) -> int:
        """Programs on the device that have not settled, of the whole process. Copies on its links are not counted."""
        return inflight_count(self.location)

    def pending_work_ns(self) -> int:
        """Their predicted time."""
        return pending_ns(self.location)

    def would_fit(self, nbytes: int) -> FitStatus:
        """Whether `nbytes` more would fit its memory now."""
        total = self.memory.budget_nbytes
        return would_fit(nbytes, total - self.memory.used_nbytes, total)

    def instantiate(
        self,
        program: LaneProgram,
        constants: Sequence[Any],
        arena: HostArena | None = None,
        breathe: Breathe | None = None,
    ) -> HostInstance:
        """Bind a program. `WrongSubstrate` when a constant that it reads, or the arena, lies in another memory."""
        block = self.memory.allocate(program.arena_nbytes) if arena is None else arena
        deeds = self.site.core.deeds
        if isinstance(block, SimArena):
            deeds.check("arena", (block.block,) if block.nbytes else (), self.memory_location)
        elif block.nbytes and not self.memory_location.is_host:
            raise WrongSubstrate("arena", "memory of the host", f"memory of {self.memory_location}")
        deeds.check("constant", (array for array in constants if array is not None), self.memory_location)
        history = self._histories.get(program)
        if history is None:
            history = self._histories.setdefault(program, History(self._speeds.said_ns(program)))
        return HostInstance(program, constants, block, history, breathe or no_breath)

    def copy_lane(self, source: DeviceLocation, destination: DeviceLocation) -> LinkLane | None:
        """Return the link from one memory to another, when this device is at an end of it; None otherwise."""
        if self.location not in (source, destination):
            return None
        ends = (source, destination)
        return next((link for link in self._links() if (link.source, link.destination) == ends), None)

    def link(self, source: DeviceLocation, destination: DeviceLocation) -> LinkEstimate | None:
        """Return what that link is said to do; None when there is none."""
        lane = self.copy_lane(source, destination)
        return None if lane is None else lane.estimate

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once when the device is lost, at once if it is; the function returned ends that."""
        return self.site.when_lost(call)

    def close(self) -> None:
        """Let the lanes end after what they hold; the links that end here copy no more."""
        for lane in self.lanes:
            lane.close()
        for link in self._links():
            if self.location in (link.source, link.destination):
                link.close()

    def __repr__(self) -> str:
        return f"<SimDevice {self.location}: {self.info.detail}>"


def _kind_of(way: DeviceLocation) -> TransferPath:
    return TransferPath.DeviceCopy if way.is_host else TransferPath.Peer
