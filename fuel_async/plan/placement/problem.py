"""What is to be placed, and on what: tasks that exchange values, devices with lanes, and the ways between memories.

    fleet = Fleet(lanes=(1, 1), memories=(0, 1), ways=all_ways(2, latency_ns=10_000, bytes_per_ns=12.0))
    problem = Problem(fleet, times_ns=[(9e5, 2e5), (8e5, 3e5)], reads=[(), (0,)], writes=[(0,), ()], nbytes=[4_096])

A task is what is placed whole, a region of a plan or a single kernel. It starts when all that it reads is in the memory
of its device, and runs on one lane until it ends. A value is copied at most once to each memory. Devices may share one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from fuel_async.errors import InternalError

#: One number for each device.
Row: TypeAlias = Sequence[float]


class Way(NamedTuple):
    """What a copy from one memory to another takes. What it occupies it occupies for all but the latency."""

    latency_ns: float
    ns_per_byte: float
    #: The ports that no two copies occupy at the same time; both numbers are equal where there is one.
    ports: tuple[int, int] | None = None
    #: What a copy takes whatever its size, and occupies its ports for, too.
    setup_ns: float = 0.0

    def sent_ns(self, nbytes: float) -> float:
        """The time for which a copy occupies its ports."""
        return self.setup_ns + self.ns_per_byte * nbytes

    def copy_ns(self, nbytes: float) -> float:
        """The time of a copy with nothing in its way."""
        return self.latency_ns + self.setup_ns + self.ns_per_byte * nbytes


#: Within one memory.
STAYS = Way(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The devices. Immutable."""

    #: By device: how many lanes it has, and the memory it works in. Memories are numbered from 0.
    lanes: Sequence[int]
    memories: Sequence[int]
    #: By source and destination, both memories. There is a way between any two, if need be over others.
    ways: Sequence[Sequence[Way]]

    @property
    def contended(self) -> bool:
        """Whether copies can get in each other's way."""
        return any(way.ports is not None for row in self.ways for way in row)

    @property
    def port_count(self) -> int:
        """One more than the highest number of a port."""
        return 1 + max((port for row in self.ways for way in row for port in way.ports or ()), default=-1)

    def between(self, source: int, destination: int) -> Way:
        """The way between the memories of two devices."""
        return self.ways[self.memories[source]][self.memories[destination]]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What is to be placed. Immutable. Times are ns from the start."""

    fleet: Fleet
    #: By task and device; `math.inf` where the task cannot run.
    times_ns: Sequence[Row]
    #: By task: the values it reads, none of them twice and none made by itself or a later task, and those it makes.
    reads: Sequence[Sequence[int]]
    writes: Sequence[Sequence[int]]
    #: By value.
    nbytes: Sequence[float]
    #: Values that no task makes: since when they are in which memories. Elsewhere they come from where they are first.
    given: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    #: Values that must end in a memory, whoever reads them.
    owed: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times_ns)

    def producers(self) -> list[int]:
        """The task that makes each value, -1 for what is given."""
        made_by = [-1] * len(self.nbytes)
        for task, writes in enumerate(self.writes):
            for value in writes:
                made_by[value] = task
        return made_by

    def verify(self) -> None:
        """`InternalError` when this is no problem: for tests, and for those who make problems. O(size)."""
        made_by, devices = [-1] * len(self.nbytes), len(self.fleet.lanes)
        if not devices or min(self.fleet.lanes) < 1:
            raise InternalError("a placement needs devices with lanes")
        for task, (row, reads, writes) in enumerate(zip(self.times_ns, self.reads, self.writes, strict=True)):
            if len(row) != devices or not 0 <= min(row) < math.inf:
                raise InternalError(f"task {task} has no time on any device, or not one for each: {row}")
            for value in reads:
                if made_by[value] < 0 and value not in self.given:
                    raise InternalError(f"task {task} reads value {value}, which is not there")
            for value in writes:
                if made_by[value] >= 0 or value in self.given:
                    raise InternalError(f"value {value} is made twice")
                made_by[value] = task
        if any(made_by[value] < 0 for value in self.owed):
            raise InternalError("what is owed is made by no task")


def first_place(places: Mapping[int, float]) -> int:
    """Where a value that nobody makes is first, and is copied from."""
    return min(places, key=lambda memory: (places[memory], memory))


def arrivals_ns(problem: Problem, value: int, places: Mapping[int, float]) -> list[float]:
    """By device: when a value that is in some memories since then would be there, if no copy waits."""
    source, nbytes, ways = first_place(places), problem.nbytes[value], problem.fleet.ways
    return [
        places[memory] if memory in places else places[source] + ways[source][memory].copy_ns(nbytes)
        for memory in problem.fleet.memories
    ]


def all_ways(
    memories: int, latency_ns: float, bytes_per_ns: float, *, contended: bool = False
) -> Sequence[Sequence[Way]]:
    """Equal ways between all memories. If contended, a memory sends one value at a time, and receives one."""
    return [
        [
            STAYS if source == to else Way(latency_ns, 1 / bytes_per_ns, (source, memories + to) if contended else None)
            for to in range(memories)
        ]
        for source in range(memories)
    ]
