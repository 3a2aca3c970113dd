"""A simulated machine: devices and links described as data, on a clock, with whatever befalls them.

    machine = SimMachine([SimDeviceSpec(speed=4.0), SimDeviceSpec()], links=Links.of(10_000, 12.0))
    machine.slow(machine.devices[0], 3.0)

Nothing is published anywhere: a machine is known to whom its devices are handed.
"""

from __future__ import annotations

import logging
import threading
from itertools import count
from random import Random
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from fuel_async.backends.sim.clock import SimClock, VirtualClock
from fuel_async.backends.sim.device import SIM, SimDevice
from fuel_async.backends.sim.link import LinkLane
from fuel_async.backends.sim.site import Core, Port, Site
from fuel_async.backends.sim.spec import HOST, Links, LinkSpec, Sharing, SimDeviceSpec
from fuel_async.errors import DeviceLost, FuelError, TransferFailed, UserError
from fuel_async.ir import CPU_DEVICE, DeviceLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuel_async.backends.sim.lane import Track

_log = logging.getLogger(__name__)

#: A memory: a device's, or the host's by its location.
Memory: TypeAlias = SimDevice | DeviceLocation


class SimMachine:
    """Simulated devices and the links among them and the host. Any thread."""

    #: Ordinals are unique in the process, since what is in flight is counted by location.
    _ordinals: ClassVar[count[int]] = count()

    def __init__(
        self,
        devices: Sequence[SimDeviceSpec],
        *,
        links: Links | None = None,
        clock: SimClock | None = None,
        seed: int = 0,
    ) -> None:
        """Make the devices. The clock is virtual unless another is given; `seed` decides all jitter."""
        self.clock: SimClock = VirtualClock() if clock is None else clock
        self.seed = seed
        self._described = links or Links()
        self._core = Core(self.clock, self._idle, self.clock_died)
        self._host_ports = Port(), Port()
        self._devices: tuple[SimDevice, ...] = ()
        self._links: dict[tuple[DeviceLocation, DeviceLocation], LinkLane] = {}
        self._adding = threading.Lock()
        self.clock.attach(self)
        for spec in devices:
            self.add(spec)

    @property
    def devices(self) -> tuple[SimDevice, ...]:
        """The devices in order of their places, lost ones included."""
        return self._devices

    @property
    def links(self) -> tuple[LinkLane, ...]:
        """The links that there are now."""
        return tuple(self._links.values())

    def link(self, source: Memory, destination: Memory) -> LinkLane:
        """Return the link from one memory to another. `UserError` when there is none."""
        found = self._links.get((_location(source), _location(destination)))
        if found is None:
            raise UserError(f"there is no link from {_location(source)} to {_location(destination)}")
        return found

    def add(self, spec: SimDeviceSpec) -> SimDevice:
        """Add a device, with the links that the machine's description gives its place."""
        with self._adding:
            place, location = len(self._devices), DeviceLocation(SIM, next(self._ordinals))
            device = SimDevice(spec, location, self._core, f"{self.seed} device {place}", lambda: self.links)
            self._devices = (*self._devices, device)
            for other in range(HOST, place):
                self._connect(place, other)
                self._connect(other, place)
        if spec.lost_at_ns is not None:
            self.clock.call_at(spec.lost_at_ns, lambda: self.lose(device, "as described"))
        return device

    # --- what befalls it ------------------------------------------------------------------------------------

    def lose(self, device: SimDevice, reason: str = "it was taken away") -> None:
        """Lose a device at once: all that it has settles with `DeviceLost`, copies from and to it as well."""
        error = DeviceLost(str(device.location), reason)
        with self._core.lock:
            if device.site.lost is not None:
                return
            device.site.lost = error
            links = self._take_away(lambda link: device.location in (link.source, link.destination), error)
        for call in device.site.to_tell():
            try:
                call()
            except Exception:
                _log.exception("%r, which was told of the loss of %s, raised", call, device.location)
        for track in (*device.lanes, *links):
            track.abandon(error)

    def slow(self, target: SimDevice | LinkLane, factor: float) -> None:
        """Let everything on a device or a link take `factor` times as long as described, from now on; 1 ends it."""
        if not factor > 0:
            raise UserError(f"nothing takes {factor} times as long; use a positive number")
        with self._core.lock:
            target.site.timeline.change(self.clock.now_ns(), factor)
        for track in (target,) if isinstance(target, LinkLane) else target.lanes:
            track.retime()

    def cut(self, source: Memory, destination: Memory) -> None:
        """Take a link away: copies on it, and whoever still has its lane, fail with `TransferFailed`."""
        link = self.link(source, destination)
        error = TransferFailed(str(link.source), str(link.destination), "the link is cut")
        with self._core.lock:
            self._take_away(lambda other: other is link, error)
        link.abandon(error)

    def fail_next(self, target: SimDevice | LinkLane, error: BaseException) -> None:
        """Let the next submission to a device, or the next copy on a link, fail with `error` when its turn comes."""
        with self._core.lock:
            target.site.armed.append(error)

    def close(self) -> None:
        """Refuse further work. Threads end after what they hold; nothing is waited for. Idempotent."""
        for device in self._devices:
            device.close()
        with self._core.lock:
            self._core.closed = True
            idle = not self._core.pending_count
        if idle:
            self._idle()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the threads of a closed machine's lanes have ended, each for at most `timeout_s`."""
        for track in self._tracks():
            track.join(timeout_s)

    # --- inside ---------------------------------------------------------------------------------------------

    def clock_died(self, reason: str) -> None:
        """Lose everything, because a thread that would have brought it to an end is gone."""
        for device in self._devices:
            self.lose(device, reason)

    def _take_away(self, gone: Callable[[LinkLane], bool], error: FuelError) -> list[LinkLane]:
        """Forget links, and return them. The machine's lock is held."""
        links = [link for link in self._links.values() if gone(link)]
        self._links = {ends: link for ends, link in self._links.items() if link not in links}
        for link in links:
            link.site.lost = error
        return links

    def _idle(self) -> None:
        self.clock.detach(self)

    def _tracks(self) -> Iterator[Track]:
        for device in self._devices:
            yield from device.lanes
        yield from self.links

    def _connect(self, source: int, destination: int) -> None:
        spec = self._described.between(source, destination)
        if spec is None or self._in_host_memory(source) or self._in_host_memory(destination):
            return
        link = self._make_link(spec, source, destination)
        with self._core.lock:
            self._links = {**self._links, (link.source, link.destination): link}
        if spec.cut_at_ns is not None:
            self.clock.call_at(spec.cut_at_ns, self._cutter(link))

    def _make_link(self, spec: LinkSpec, source: int, destination: int) -> LinkLane:
        ports: dict[str, Port] = {}
        if self._described.sharing is Sharing.PORTS:
            (out, _), (_, into) = self._ports(source), self._ports(destination)
            ports = {f"out of {self._at(source)}": out, f"into {self._at(destination)}": into}
        return LinkLane(
            Site(self._core, spec.slowdowns, spec.jitter),
            spec,
            self._at(source),
            self._at(destination),
            Random(f"{self.seed} link {source} {destination}"),
            ports,
        )

    def _cutter(self, link: LinkLane) -> Callable[[], None]:
        def cut() -> None:
            if link.site.lost is None:
                self.cut(link.source, link.destination)

        return cut

    def _in_host_memory(self, place: int) -> bool:
        return place != HOST and self._devices[place].spec.in_host_memory

    def _at(self, place: int) -> DeviceLocation:
        return CPU_DEVICE if place == HOST else self._devices[place].location

    def _ports(self, place: int) -> tuple[Port, Port]:
        return self._host_ports if place == HOST else self._devices[place].ports

    def __repr__(self) -> str:
        return f"<SimMachine of {len(self._devices)} devices on {self.clock!r}>"


def _location(memory: Memory) -> DeviceLocation:
    return memory if isinstance(memory, DeviceLocation) else memory.location
