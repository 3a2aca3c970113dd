"""The devices of an executor as the scheduler sees them: numbers only, and what has been given to each.

Devices, lanes and memories are numbered. Memory 0 is the host's; a device that has a memory of its own is alone in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fuel_async.schedule.selector import LaneLoad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.offers import Offer
    from fuel_async.schedule.shape import LaneShape

#: The host's memory.
HOST = 0

#: A memory is tight when more than this share of its budget is held.
TIGHT_ABOVE = 0.85


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """One device: what it is called, whose memory it works in, and how much of that runs may hold."""

    name: str
    memory: int
    budget_nbytes: int


class Hop(NamedTuple):
    """One copy of a value on its way."""

    source: int
    memory: int
    copy_ns: int


class Links(Protocol):
    """What is known of the ways between memories. Learns from completions: answers change between calls."""

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        """Return the cheapest way for that many bytes, or None when there is none."""


class Prices(Protocol):
    """What is known of one plan's times. Learns from completions: answers change between calls."""

    def region_ns(self, region: int, device: int) -> int:
        """Return the predicted time of a region on a device."""

    def upload_ns(self, region: int, device: int) -> int:
        """Return the time to bring the constants that a region reads, and that are not there, to a device."""


@dataclass(slots=True)
class MemoryLoad:
    """What runs hold of one memory."""

    budget_nbytes: int
    held_nbytes: int = 0

    def fits(self, nbytes: int) -> bool:
        """Whether that much more could be held."""
        return self.held_nbytes + nbytes <= self.budget_nbytes

    def tight(self, nbytes: int) -> bool:
        """Whether that much more would leave it nearly full."""
        return self.held_nbytes + nbytes > TIGHT_ABOVE * self.budget_nbytes


@dataclass(slots=True)
class DeviceLoad:
    """One device: its lanes, and whether it is still there."""

    shape: DeviceShape
    #: Numbers of its lanes.
    lanes: list[int]
    gone: BaseException | None = None
    #: Predicted time of what others than this executor have in flight there.
    foreign_ns: int = 0
    #: Regions given to it so far.
    given: int = 0


@dataclass(slots=True)
class Machine:
    """All devices with their loads. Changed by the scheduler only."""

    devices: list[DeviceLoad] = field(default_factory=list)
    lanes: list[LaneLoad] = field(default_factory=list)
    #: The device of each lane.
    device_of: list[int] = field(default_factory=list)
    memories: dict[int, MemoryLoad] = field(default_factory=dict)
    #: When each link is expected to be through with what it was given: by (source, memory).
    link_free_ns: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, shape: DeviceShape, lanes: Sequence[LaneShape]) -> None:
        """Add an idle device."""
        first = len(self.lanes)
        self.devices.append(DeviceLoad(shape, list(range(first, first + len(lanes)))))
        self.lanes.extend(LaneLoad(lane) for lane in lanes)
        self.device_of.extend([len(self.devices) - 1] * len(lanes))
        self.memories.setdefault(shape.memory, MemoryLoad(shape.budget_nbytes))

    def memory_of(self, lane: int) -> int:
        """The memory that a lane works in."""
        return self.devices[self.device_of[lane]].shape.memory

    def name_of(self, memory: int) -> str:
        """What errors call a memory: its device, or the host."""
        names = [device.shape.name for device in self.devices if device.shape.memory == memory]
        return names[0] if names and memory != HOST else "the host"

    def take(self, offer: Offer, now_ns: int) -> None:
        """Note that a lane was given a region as offered."""
        load, device = self.lanes[offer.lane], self.devices[offer.device]
        device.given += 1
        busy_until_ns = load.free_ns if load.held else now_ns
        load.take(offer.predicted_ns)
        load.free_ns = max(busy_until_ns, offer.ready_ns, now_ns) + offer.predicted_ns

    def give(self, lane: int, promised_ns: int, now_ns: int) -> None:
        """Note that a lane is through with a region that was promised to take that long."""
        load = self.lanes[lane]
        load.give(promised_ns)
        load.free_ns = now_ns + load.held_ns
        load.free = load.free and self.devices[self.device_of[lane]].gone is None

    @property
    def roomy(self) -> bool:
        """Whether some lane of a device that is there has a free slot."""
        return any(load.free for load in self.lanes)
