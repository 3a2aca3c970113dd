"""The devices of an executor as the scheduler sees them: numbers only, and what has been given to each.

Devices, lanes and memories are numbered. Memory 0 is the host's; a device that has a memory of its own is alone in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from fuel_async.schedule.selector import LaneLoad

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.offers import Offer
    from fuel_async.schedule.shape import LaneShape
    from fuel_async.schedule.spread_state import SpreadState

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


#: What one copy at a time occupies: something numbered that several links share, or a link of its own.
Port: TypeAlias = int | tuple[int, int]


class Hop(NamedTuple):
    """One copy of a value on its way."""

    source: int
    memory: int
    copy_ns: int
    #: What its link shares with others.
    shared: tuple[int, ...] = ()

    @property
    def ports(self) -> Sequence[Port]:
        """What it occupies while it is made."""
        return self.shared or ((self.source, self.memory),)


class Links(Protocol):
    """What is known of the ways between memories. Learns from completions: answers change between calls."""

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        """Return the cheapest way for that many bytes, or None when there is none."""


class Prices(Protocol):
    """What is known of one plan's times. Learns from completions: answers change between calls."""

    def region_ns(self, region: int, device: int) -> int | None:
        """Return the predicted time of a region on a device; None when it lacks a kernel that the region needs."""

    def upload_ns(self, region: int, device: int) -> int:
        """Return the time to bring the constants that a region reads, and that are not there, to a device."""


@dataclass(slots=True)
class MemoryLoad:
    """What runs hold of one memory."""

    budget_nbytes: int
    held_nbytes: int = 0
    #: What lies there beside the shares of runs, and stays.
    others_nbytes: int = 0

    def fits(self, nbytes: int) -> bool:
        """Whether that much more could be held."""
        return self.held_nbytes + self.others_nbytes + nbytes <= self.budget_nbytes

    def tight(self, nbytes: int) -> bool:
        """Whether that much more would leave it nearly full."""
        return self.held_nbytes + self.others_nbytes + nbytes > TIGHT_ABOVE * self.budget_nbytes


@dataclass(slots=True)
class PortLoad:
    """What is on its way through one port, and when the port is expected to be through with it."""

    count: int = 0
    held_ns: int = 0
    free_ns: int = 0

    def take(self, copy_ns: int, end_ns: int) -> None:
        """Note a copy that is expected to end then."""
        self.count += 1
        self.held_ns += copy_ns
        self.free_ns = end_ns

    def give(self, copy_ns: int, now_ns: int) -> None:
        """Note that a copy has ended, or never will."""
        self.count -= 1
        self.held_ns -= copy_ns
        self.free_ns = now_ns + self.held_ns


@dataclass(slots=True)
class LaneQueue(LaneLoad):
    """A lane with what it holds in order, to tell when it will be through with it."""

    #: When what it reads would be there, and the predicted time, by run and region.
    jobs: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    #: Since when the first of them is first.
    since_ns: int = 0
    #: Whether its device is gone: then it is never free.
    gone: bool = False

    def add(self, job: tuple[int, int], ready_ns: int, predicted_ns: int, now_ns: int) -> None:
        """Note a submission."""
        if not self.jobs:
            self.since_ns = now_ns
        self.jobs[job] = ready_ns, predicted_ns
        self.take(predicted_ns)

    def drop(self, job: tuple[int, int], now_ns: int) -> None:
        """Note that a submission has settled, or will never start."""
        if next(iter(self.jobs)) == job:
            self.since_ns = now_ns
        self.give(self.jobs.pop(job)[1])
        self.free = not self.gone

    def delay(self, job: tuple[int, int], ready_ns: int, now_ns: int) -> None:
        """Note that a submission that was held back goes to the lane now, behind what is there."""
        predicted_ns = self.jobs[job][1]
        self.drop(job, now_ns)
        self.add(job, ready_ns, predicted_ns, now_ns)

    def end_ns(self, job: tuple[int, int], now_ns: int) -> int:
        """When it is expected to be through with a job that it holds."""
        ready_ns, predicted_ns = self.jobs[job]
        at_ns = max(self._before_ns(job, now_ns), ready_ns) + predicted_ns
        return 2 * now_ns - at_ns if at_ns < now_ns else at_ns

    def free_ns(self, now_ns: int, until: tuple[int, int] | None = None) -> int:
        """When it is expected to be through with what it holds, or with what it holds before a job.

        What is overdue is expected to be as late again.
        """
        return max(self._before_ns(until, now_ns), now_ns)

    def _before_ns(self, until: tuple[int, int] | None, now_ns: int) -> int:
        at_ns = self.since_ns
        for job, (ready_ns, predicted_ns) in self.jobs.items():
            if job == until:
                break
            at_ns = max(at_ns, ready_ns) + predicted_ns
            if at_ns < now_ns:
                at_ns = 2 * now_ns - at_ns
        return at_ns


@dataclass(slots=True)
class DeviceLoad:
    """One device: its lanes, and whether it is still there."""

    shape: DeviceShape
    #: Numbers of its lanes, and of those that fine regions may go to: all where none is set apart for them.
    lanes: Sequence[int]
    fine_lanes: Sequence[int]
    gone: BaseException | None = None
    #: Predicted time of what others than this executor have in flight there.
    foreign_ns: int = 0
    #: Planned time of what runs have for it and have not issued, and how many times longer than promised regions take.
    planned_ns: int = 0
    factor: float = 1.0
    #: Regions given to it so far; one that joins later starts with what the others have.
    given: int = 0


@dataclass(slots=True)
class Machine:
    """All devices with their loads. Changed by the scheduler only."""

    devices: list[DeviceLoad] = field(default_factory=list)
    lanes: list[LaneQueue] = field(default_factory=list)
    #: The device of each lane.
    device_of: list[int] = field(default_factory=list)
    memories: dict[int, MemoryLoad] = field(default_factory=dict)
    ports: dict[Port, PortLoad] = field(default_factory=dict)

    def add(self, shape: DeviceShape, lanes: Sequence[LaneShape]) -> None:
        """Add an idle device."""
        first = len(self.lanes)
        numbers = range(first, first + len(lanes))
        fine = [number for number, lane in zip(numbers, lanes, strict=True) if lane.takes_fine]
        given = min((device.given for device in self.devices if device.gone is None), default=0)
        self.devices.append(DeviceLoad(shape, numbers, fine or numbers, given=given))
        self.lanes.extend(LaneQueue(lane) for lane in lanes)
        self.device_of.extend([len(self.devices) - 1] * len(lanes))
        self.memories.setdefault(shape.memory, MemoryLoad(shape.budget_nbytes))

    def lose(self, device: int, error: BaseException) -> None:
        """Give nothing to a device from now on."""
        self.devices[device].gone = error
        for lane in self.devices[device].lanes:
            self.lanes[lane].gone, self.lanes[lane].free = True, False

    def memory_of(self, lane: int) -> int:
        """The memory that a lane works in."""
        return self.devices[self.device_of[lane]].shape.memory

    def memories_of(self, pins: AbstractSet[int | None]) -> frozenset[int]:
        """The memories of devices that regions are pinned to."""
        return frozenset([self.devices[pin].shape.memory for pin in pins if pin is not None])

    def name_of(self, memory: int) -> str:
        """What errors call a memory: its device, or the host."""
        names = [device.shape.name for device in self.devices if device.shape.memory == memory]
        return names[0] if names and memory != HOST else "the host"

    def free_ns(self, now_ns: int) -> list[int]:
        """By lane: when it is expected to be through with what it holds, its part of what others gave it included."""
        foreign_ns = [device.foreign_ns // max(len(device.lanes), 1) for device in self.devices]
        return [
            lane.free_ns(now_ns) + foreign_ns[device] for lane, device in zip(self.lanes, self.device_of, strict=True)
        ]

    def port_free_ns(self, port: Port) -> int:
        """When a port is expected to be through with what is on its way."""
        load = self.ports.get(port)
        return 0 if load is None else load.free_ns

    def take(self, job: tuple[int, int], offer: Offer, now_ns: int) -> None:
        """Note that a lane is given a region as offered."""
        self.devices[offer.device].given += 1
        self.lanes[offer.lane].add(job, offer.ready_ns, offer.predicted_ns, now_ns)

    def take_shares(self, state: SpreadState, memories: AbstractSet[int]) -> None:
        """Note that a run holds its share of more memories."""
        for memory in memories:
            state.memories.add(memory)
            self.memories[memory].held_nbytes += state.spread.share_nbytes

    @property
    def roomy(self) -> bool:
        """Whether some lane of a device that is there has a free slot."""
        return any(load.free for load in self.lanes)
