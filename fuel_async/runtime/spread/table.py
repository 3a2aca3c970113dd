"""The devices of an executor by number, and what is known of the ways between their memories.

The scheduler knows numbers only; here they meet the objects. Device and lane numbers follow the order in which devices
joined; memory 0 is the host's, and a device with a memory of its own has the memory of its number plus one.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.cost import LinkModel
from fuel_async.errors import UserError
from fuel_async.ir import CPU_DEVICE, DeviceLocation
from fuel_async.runtime.spread.constants import ConstantStore
from fuel_async.schedule import HOST, DeviceShape, Hop, LaneShape
from fuel_async.streams import HOST_CLOCK, Clock, HostLane, Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends import Device
    from fuel_async.cost import LinkEstimate
    from fuel_async.dispatch import DeviceKind


class Copies:
    """What went over one link so far."""

    __slots__ = ("actual_ns", "count", "model", "nbytes", "predicted_ns", "shared")

    def __init__(self, model: LinkModel, shared: tuple[int, ...]) -> None:
        self.model = model
        #: The ports that other links have, too, by their numbers.
        self.shared = shared
        self.count = self.nbytes = self.actual_ns = self.predicted_ns = 0

    def took(self, nbytes: int, predicted_ns: int, actual_ns: int) -> None:
        """Take note of a copy that has arrived."""
        self.count += 1
        self.nbytes += nbytes
        self.predicted_ns += predicted_ns
        self.actual_ns += actual_ns
        self.model.observe(nbytes, actual_ns)


class Totals:
    """What one device did for this executor so far. Written by whoever settles; a reader may see it a moment apart."""

    __slots__ = ("actual_ns", "kernels", "predicted_ns", "regions")

    def __init__(self) -> None:
        self.regions = self.kernels = self.predicted_ns = self.actual_ns = 0

    def took(self, kernels: int, predicted_ns: int, actual_ns: int) -> None:
        """Take note of a region that has finished there."""
        self.regions += 1
        self.kernels += kernels
        self.predicted_ns += predicted_ns
        self.actual_ns += actual_ns


class DeviceTable:
    """Devices, lanes, memories and links by number. Grows; nothing is ever taken out. Any thread."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._lock = threading.Lock()
        self.devices: list[Device] = []
        self.lanes: list[Lane] = []
        self.device_of: list[int] = []
        self.totals: list[Totals] = []
        #: By device: which kernels serve it.
        self.kinds: list[DeviceKind] = []
        self.stores: list[ConstantStore] = []
        #: By device: bytes of constants there that runs under way use.
        self.constants_nbytes: list[int] = []
        #: By memory: its location.
        self.locations: dict[int, DeviceLocation] = {HOST: CPU_DEVICE}
        self._copies: dict[tuple[int, int], Copies | None] = {}
        #: Numbers of ports that links share, by their names.
        self._ports: dict[str, int] = {}
        #: By (source, memory), which are never others: where they are, and whose lanes may copy between them.
        self._ends: dict[tuple[int, int], tuple[DeviceLocation, DeviceLocation, Sequence[Device]]] = {}
        for device in devices:
            self.add(device)

    def add(self, device: Device) -> tuple[DeviceShape, list[LaneShape]]:
        """Give a device the next number, and its lanes theirs; return what the scheduler is to know of it.

        `UserError` when there is one at its location that is not lost.
        """
        with self._lock:
            if any(other.location == device.location and other.lost is None for other in self.devices):
                raise UserError(f"{device.location} is among the executor's devices already")
            number = len(self.devices)
            self.devices.append(device)
            self.totals.append(Totals())
            self.kinds.append(device.capabilities.kind)
            self.stores.append(ConstantStore(device))
            self.constants_nbytes.append(0)
            self.lanes.extend(device.lanes)
            self.device_of.extend([number] * len(device.lanes))
            self.locations[self.memory(number)] = device.memory_location
            for pair, link in list(self._copies.items()):  # in one step: others may ask for links meanwhile
                if link is None:
                    del self._copies[pair]
            return self.shape(number)

    def count_constants(self, device: int, nbytes: int) -> None:
        """Note that runs under way use so many bytes of constants more there, or fewer."""
        with self._lock:
            self.constants_nbytes[device] += nbytes

    def memory(self, device: int) -> int:
        """The memory that a device works in."""
        return HOST if self.devices[device].memory_location == CPU_DEVICE else device + 1

    def device_in(self, memory: int) -> Device | None:
        """The device that has a memory of its own; None for the host's."""
        return None if memory == HOST else self.devices[memory - 1]

    def number(self, location: DeviceLocation) -> int | None:
        """The number of the device at a location, None when there is none."""
        for number, device in enumerate(self.devices):
            if device.location == location:
                return number
        return None

    @property
    def clock(self) -> Clock:
        """What times are read from: the first device's that does not go by the host's clock, else the host's."""
        return next((device.clock for device in self.devices if device.clock is not HOST_CLOCK), HOST_CLOCK)

    def shape(self, number: int) -> tuple[DeviceShape, list[LaneShape]]:
        """What the scheduler is to know of a device."""
        device = self.devices[number]
        # Host lanes share the interpreter: fine kernels stay on the first.
        lanes = [
            LaneShape(device.slot_capacity, takes_fine=not place or not isinstance(lane, HostLane))
            for place, lane in enumerate(device.lanes)
        ]
        return DeviceShape(str(device.location), self.memory(number), device.memory.budget_nbytes), lanes

    # --- links ------------------------------------------------------------------------------------

    def lane_between(self, source: int, memory: int) -> Lane | None:
        """The lane that copies from one memory straight to another, None when there is none any more."""
        start, end, devices = self._ends.get((source, memory)) or self._find_ends(source, memory)
        for device in devices:
            if device.lost is None and (lane := device.copy_lane(start, end)) is not None:
                return lane
        return None

    def _find_ends(self, source: int, memory: int) -> tuple[DeviceLocation, DeviceLocation, Sequence[Device]]:
        devices = [device for one in (memory, source) if (device := self.device_in(one)) is not None]
        found = self._ends[source, memory] = self.locations[source], self.locations[memory], devices
        return found

    def copies(self, source: int, memory: int) -> Copies | None:
        """What is known of a direct link, None when there is none."""
        pair = (source, memory)
        try:
            return self._copies[pair]
        except KeyError:
            start, end, devices = self._find_ends(source, memory)
            priors = [prior for device in devices if (prior := device.link(start, end)) is not None]
            return self._copies.setdefault(pair, self._first_seen(priors[0]) if priors else None)

    def _first_seen(self, prior: LinkEstimate) -> Copies:
        with self._lock:
            shared = tuple([self._ports.setdefault(port, len(self._ports)) for port in prior.ports])
        return Copies(LinkModel(prior), shared)

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        """See `schedule.Links`: the direct link, or two by way of the host's memory, whichever is faster."""
        direct = self._hop(source, memory, nbytes)
        if source == HOST or memory == HOST:
            return None if direct is None else (direct,)
        down, up = self._hop(source, HOST, nbytes), self._hop(HOST, memory, nbytes)
        if down is None or up is None:
            return None if direct is None else (direct,)
        if direct is None or down.copy_ns + up.copy_ns < direct.copy_ns:
            return (down, up)
        return (direct,)

    def _hop(self, source: int, memory: int, nbytes: int) -> Hop | None:
        link = self.copies(source, memory)
        if link is None or self.lane_between(source, memory) is None:
            return None
        return Hop(source, memory, link.model.copy_ns(nbytes), link.shared)

    def estimates(self) -> dict[tuple[DeviceLocation, DeviceLocation], LinkEstimate]:
        """What is known of all direct links that are there."""
        found: dict[tuple[DeviceLocation, DeviceLocation], LinkEstimate] = {}
        for source, start in self.locations.items():
            for memory, end in self.locations.items():
                link = self.copies(source, memory) if source != memory else None
                if link is not None and self.lane_between(source, memory) is not None:
                    found[start, end] = link.model.estimate
        return found

    def links(self) -> dict[tuple[DeviceLocation, DeviceLocation], Copies]:
        """The links that something went over, by their ends."""
        return {
            (self.locations[source], self.locations[memory]): link
            for (source, memory), link in list(self._copies.items())
            if link is not None and link.count
        }
