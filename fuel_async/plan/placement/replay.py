"""What a plan comes to when copies wait for ports: played from start to end, each step as soon as it can be.

Lanes run their tasks in the order of the plan. A value is copied to each memory where the plan has a reader, from the
memory where it was made. Of the copies that wait for free ports, the one goes first whose first reader the plan starts
first (`planned`), or the one that was there first. Times are those of the problem, or others: what truly happens.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import InternalError
from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.problem import first_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.sweep import Pass
    from fuel_async.plan.placement.tables import Tables

_EVERY = 31


class Copy(NamedTuple):
    """A copy of a value from memory to memory. It holds its ports until `sent_ns`, and is there at `end_ns`."""

    value: int
    source: int
    memory: int
    start_ns: float
    sent_ns: float
    end_ns: float


class Played(NamedTuple):
    """What happened. By task, and the copies in the order in which they began."""

    makespan_ns: float
    starts_ns: list[float]
    ends_ns: list[float]
    copies: list[Copy]


def replay(
    tables: Tables,
    plan: Pass,
    *,
    planned: bool = True,
    times_ns: Sequence[Row] | None = None,
    breathe: Breathe = no_breath,
) -> Played:
    """Play a plan that is told from its start. O((tasks + copies) × log, copies × memories)."""
    return _Play(tables, plan, planned, tables.times_ns if times_ns is None else times_ns).run(breathe)


#: What is to come: a task ends on a lane, a value can be copied to a memory, it is there, a way is free again.
_DONE, _ASKED, _THERE, _SENT = range(4)


class _Play:
    def __init__(self, tables: Tables, plan: Pass, planned: bool, times_ns: Sequence[Row]) -> None:
        fleet, count = tables.problem.fleet, len(tables)
        self.tables, self.plan, self.planned, self.times_ns = tables, plan, planned, times_ns
        self.ways = fleet.ways
        self.memory_of = [fleet.memories[device] for device in plan.devices]
        self.queues = lane_orders(tables, plan)
        self.next_of, self.busy = [0] * len(self.queues), [False] * len(self.queues)
        #: By task: what it reads and is not in its memory yet.
        self.missing = [len(reads) for reads in tables.reads]
        #: By value: where it is made or given, and memories with the planned start of its first reader there.
        self.sources = [-1] * len(tables.nbytes)
        self.wanted = list[dict[int, float]]()
        #: What waits for ports, by (source, memory), the most urgent first.
        self.waiting: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
        #: By port: whether a copy holds it, and the ways on which copies wait that need it.
        self.taken = [False] * fleet.port_count
        self.lines: list[set[tuple[int, int]]] = [set() for _ in range(fleet.port_count)]
        self.owed = tables.problem.owed
        #: (when, turn, what, and two numbers that say of what)
        self.to_come: list[tuple[float, int, int, int, int]] = []
        self.turn = self.done = 0
        self.makespan_ns = 0.0
        self.starts_ns, self.ends_ns, self.copies = [0.0] * count, [0.0] * count, list[Copy]()

    def run(self, breathe: Breathe) -> Played:
        for value in range(len(self.tables.nbytes)):
            self.wanted.append(self._wanted(value))
            if not value & _EVERY:
                breathe()
        for value, places in self.tables.problem.given.items():
            self._place(value, first_place(places), places)
        for lane in range(len(self.queues)):
            self._begin(lane, 0.0)
        events = {_DONE: self._ended, _ASKED: self._ask, _THERE: self._arrived, _SENT: self._sent}
        while self.to_come:
            now, _, what, one, other = heappop(self.to_come)
            events[what](one, other, now)
            if not self.turn & _EVERY:
                breathe()
        if self.done < len(self.tables):
            raise InternalError(f"the plan cannot end: {self.done} of {len(self.tables)} tasks could run")
        return Played(self.makespan_ns, self.starts_ns, self.ends_ns, self.copies)

    def _wanted(self, value: int) -> dict[int, float]:
        first: dict[int, float] = {}
        for reader in self.tables.readers[value]:
            memory, start = self.memory_of[reader], self.plan.starts_ns[reader]
            if start < first.get(memory, math.inf):
                first[memory] = start
        if value in self.tables.problem.owed:
            first.setdefault(self.tables.problem.owed[value], math.inf)
        return first

    def _later(self, at_ns: float, what: int, one: int, other: int) -> None:
        self.turn += 1
        heappush(self.to_come, (at_ns, self.turn, what, one, other))

    def _place(self, value: int, source: int, places: Mapping[int, float]) -> None:
        """A value is in some memories since then; where it is wanted and is not, it will be copied from one of them."""
        self.sources[value] = source
        for memory in self.wanted[value]:
            at_ns = places.get(memory)
            if at_ns is None:
                self._later(places[source], _ASKED, value, memory)
            else:
                self._later(at_ns, _THERE, value, memory)

    # --- lanes ------------------------------------------------------------------------------------

    def _begin(self, lane: int, now: float) -> None:
        """Start the next task of a lane, if the lane is free and everything is there."""
        place, queue = self.next_of[lane], self.queues[lane]
        if self.busy[lane] or place == len(queue) or self.missing[queue[place]]:
            return
        task = queue[place]
        self.next_of[lane], self.busy[lane] = place + 1, True
        self.starts_ns[task] = now
        self.ends_ns[task] = end_ns = now + self.times_ns[task][self.plan.devices[task]]
        self._later(end_ns, _DONE, task, lane)

    def _ended(self, task: int, lane: int, now: float) -> None:
        self.done += 1
        self.busy[lane] = False
        self.makespan_ns = now
        memory = self.memory_of[task]
        for value in self.tables.writes[task]:
            self.sources[value] = memory
            wanted = self.wanted[value]
            if memory in wanted:
                self._arrived(value, memory, now)
            for other in wanted:
                if other != memory:
                    self._ask(value, other, now)
        self._begin(lane, now)

    def _arrived(self, value: int, memory: int, now: float) -> None:
        missing, memory_of = self.missing, self.memory_of
        if self.owed and value in self.owed and now > self.makespan_ns:
            self.makespan_ns = now
        for reader in self.tables.readers[value]:
            if memory_of[reader] == memory:
                missing[reader] -= 1
                if not missing[reader]:
                    self._begin(self.plan.lanes[reader], now)

    # --- ports ------------------------------------------------------------------------------------

    def _ask(self, value: int, memory: int, now: float) -> None:
        source, taken = self.sources[value], self.taken
        ports = self.ways[source][memory].ports
        if ports is None or not (taken[ports[0]] or taken[ports[1]]):
            self._copy(value, source, memory, now)
            return
        self.turn += 1
        pair = source, memory
        line = self.waiting.get(pair)
        if line is None:
            line = self.waiting[pair] = []
            self.lines[ports[0]].add(pair)
            self.lines[ports[1]].add(pair)
        heappush(line, (self.wanted[value][memory] if self.planned else 0.0, self.turn, value))

    def _copy(self, value: int, source: int, memory: int, now: float) -> None:
        latency, per_byte, ports, setup = self.ways[source][memory]
        sent_ns = now + setup + per_byte * self.tables.nbytes[value]
        self.copies.append(Copy(value, source, memory, now, sent_ns, sent_ns + latency))
        if ports is not None:
            self.taken[ports[0]] = self.taken[ports[1]] = True
            self._later(sent_ns, _SENT, source, memory)
        self._later(sent_ns + latency, _THERE, value, memory)

    def _sent(self, source: int, memory: int, now: float) -> None:
        """Ports are free again: the most urgent copies that can go now do."""
        waiting, ways, taken = self.waiting, self.ways, self.taken
        one, other = ways[source][memory].ports or (0, 0)
        taken[one] = taken[other] = False
        lines = self.lines[one] | self.lines[other]
        while lines:
            free = []
            for pair in lines:
                ports = ways[pair[0]][pair[1]].ports or (0, 0)
                if not (taken[ports[0]] or taken[ports[1]]):
                    free.append((waiting[pair][0], pair))
            if not free:
                return
            (_, _, value), pair = min(free)
            heappop(waiting[pair])
            if not waiting[pair]:
                del waiting[pair]
                lines.discard(pair)
                for port in ways[pair[0]][pair[1]].ports or ():
                    self.lines[port].discard(pair)
            self._copy(value, *pair, now)


def lane_orders(tables: Tables, plan: Pass) -> list[list[int]]:
    """The tasks of each lane in the order of their planned starts."""
    queues: list[list[int]] = [[] for _ in tables.lane_device]
    starts_ns, ends_ns = plan.starts_ns, plan.ends_ns
    for task in sorted(range(len(tables)), key=lambda task: (starts_ns[task], ends_ns[task], task)):
        queues[plan.lanes[task]].append(task)
    return queues
