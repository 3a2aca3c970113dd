"""One pass of list scheduling with insertion, from the start to the end of the graph or from the end to its start.

Tasks are taken in a given order, and each goes where it would be done first, into a hole of a lane's time line if it
fits there: the inner loop of HEFT (Topcuoglu et al., 2002). Backwards, time is counted from the end of the schedule,
and what a task waits for are its dependents.

A pass notes by device when each task could have started. That is exactly what stands before the task if it is put
there, with queues and the places of all others: the look-ahead of a pass in the other direction (`ahead`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.problem import arrivals_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.tables import Tables

#: Holes of a lane that a task is tried in before it goes behind everything: a bound for the largest graphs.
HOLES = 128

_EVERY = 31
_UNMADE: list[float] = []


@dataclass(slots=True, eq=False)
class Pass:
    """A schedule. Times are ns from the start, or from the end where it is `backward`."""

    makespan_ns: float
    #: By task.
    devices: list[int]
    lanes: list[int]
    starts_ns: list[float]
    ends_ns: list[float]
    #: By task and device: when all that it waits for would be there.
    ready_ns: list[Row]
    backward: bool = False

    def order(self) -> list[int]:
        """The tasks for a pass in the other direction: what ends last first. Of equals what others wait for in it."""
        ends_ns = self.ends_ns
        tasks = range(len(ends_ns)) if self.backward else range(len(ends_ns) - 1, -1, -1)
        return sorted(tasks, key=ends_ns.__getitem__, reverse=True)

    def forward(self) -> Pass:
        """The same schedule told from its start."""
        if not self.backward:
            return self
        whole = self.makespan_ns
        return Pass(
            whole,
            self.devices,
            self.lanes,
            [whole - ns for ns in self.ends_ns],
            [whole - ns for ns in self.starts_ns],
            [],
        )


class Holes:
    """By lane: when it is free for good, and the holes before that, as sorted columns of starts and ends."""

    __slots__ = ("ends_ns", "free_ns", "starts_ns")

    def __init__(self, free_ns: Sequence[float]) -> None:
        self.free_ns = list(free_ns)
        self.starts_ns: list[list[float]] = [[] for _ in free_ns]
        self.ends_ns: list[list[float]] = [[] for _ in free_ns]

    def start_ns(self, lane: int, ready_ns: float, took_ns: float) -> float:
        """The earliest start on a lane of what is ready then and takes so long."""
        free = self.free_ns[lane]
        if ready_ns >= free:
            return ready_ns
        ends = self.ends_ns[lane]
        if ends:
            starts = self.starts_ns[lane]
            first = bisect_left(ends, ready_ns + took_ns)
            for place in range(first, min(len(ends), first + HOLES)):
                at = starts[place]
                if at < ready_ns:
                    at = ready_ns
                if at + took_ns <= ends[place]:
                    return at
        return free

    def take(self, lane: int, start_ns: float, end_ns: float, least_ns: float) -> None:
        """Occupy a lane from start to end; holes shorter than `least_ns` are forgotten."""
        free = self.free_ns[lane]
        if start_ns >= free:
            if start_ns - free >= least_ns and start_ns > free:
                self.starts_ns[lane].append(free)
                self.ends_ns[lane].append(start_ns)
            self.free_ns[lane] = end_ns
            return
        starts, ends = self.starts_ns[lane], self.ends_ns[lane]
        place = bisect_right(starts, start_ns) - 1
        last = ends[place]
        before, after = start_ns - starts[place] >= least_ns, last - end_ns >= least_ns
        if before:
            ends[place] = start_ns
            if after:
                starts.insert(place + 1, end_ns)
                ends.insert(place + 1, last)
        elif after:
            starts[place] = end_ns
        else:
            del starts[place], ends[place]


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """What a pass from the start goes on from: when lanes are free, and values of tasks that are not placed again."""

    free_ns: Sequence[float]
    #: By value: since (or from) when it is in which memories.
    places: Mapping[int, Mapping[int, float]]
    #: By port, when it is free, where that is not at once.
    ports_ns: Mapping[int, float] = field(default_factory=dict)


def sweep(
    tables: Tables,
    order: Sequence[int],
    *,
    backward: bool = False,
    ahead: Sequence[Row] | None = None,
    weight: float = 1.0,
    begun: Begun | None = None,
    breathe: Breathe = no_breath,
) -> Pass:
    """Place the tasks in `order`, which names what a task waits for before it; O(edges × devices) for few holes.

    A task goes where its end is earliest, with `weight` times what is `ahead` of it there, by task and device: nowhere
    where that is infinite. When a task can go nowhere at all, the makespan is infinite, and later ones have no place.
    """
    count, times_ns, lanes_of = len(tables), tables.times_ns, tables.lanes_of
    holes = Holes([0.0] * len(tables.lane_device) if begun is None else begun.free_ns)
    free, hole_ends, take, least_ns = holes.free_ns, holes.ends_ns, holes.take, tables.least_ns
    devices, lanes = [0] * count, [0] * count
    starts_ns, ends_ns = [0.0] * count, [0.0] * count
    ready_ns: list[Row] = [()] * count
    arrivals = Departures(tables, devices, ends_ns) if backward else Arrivals(tables, begun)
    ready_row, placed = arrivals.ready_row, arrivals.placed
    numbers = tables.devices
    makespan_ns = 0.0
    closing = tables.heads_ns if backward else tables.tails_ns
    for step, task in enumerate(order):
        row = ready_ns[task] = ready_row(task)
        times = times_ns[task]
        after = None if ahead is None else ahead[task]
        best = end_ns = math.inf
        for device in numbers:
            ready, took = row[device], times[device]
            bound = best if after is None else best - weight * after[device]
            if ready + took >= bound:
                continue
            for lane in lanes_of[device]:
                at = free[lane]
                if ready >= at:
                    at = ready
                elif hole_ends[lane]:
                    at = holes.start_ns(lane, ready, took)
                if at + took < bound:
                    bound = end_ns = at + took
                    best = bound if after is None else bound + weight * after[device]
                    chosen, on_lane, start_ns = device, lane, at
        if end_ns == math.inf:
            return Pass(math.inf, devices, lanes, starts_ns, ends_ns, ready_ns, backward)
        take(on_lane, start_ns, end_ns, least_ns[chosen])
        devices[task], lanes[task], starts_ns[task], ends_ns[task] = chosen, on_lane, start_ns, end_ns
        placed(task, chosen, end_ns)
        close = closing[task]
        if close is not None:
            end_ns += close[chosen]
        if end_ns > makespan_ns:
            makespan_ns = end_ns
        if not step & _EVERY:
            breathe()
    return Pass(makespan_ns, devices, lanes, starts_ns, ends_ns, ready_ns, backward)


class Arrivals:
    """When what a task reads would be on each device, of a pass from the start."""

    __slots__ = ("_away", "_heads", "_nbytes", "_none", "_reads", "_writes", "rows")

    def __init__(self, tables: Tables, begun: Begun | None = None) -> None:
        self._reads, self._writes, self._nbytes, self._away = tables.reads, tables.writes, tables.nbytes, tables.away
        self._heads = tables.heads_ns
        #: By value.
        self.rows: list[list[float]] = [_UNMADE] * len(tables.nbytes)
        self._none: Row = [0.0] * len(tables.devices)
        if begun is not None:
            for value, places in begun.places.items():
                self.rows[value] = arrivals_ns(tables.problem, value, places)

    def ready_row(self, task: int) -> Row:
        """By device: when all that a task reads is there."""
        rows: list[Row] = [row for value in self._reads[task] if (row := self.rows[value])]
        head = self._heads[task]
        if head is not None:
            rows.append(head)
        if not rows:
            return self._none
        return rows[0] if len(rows) == 1 else list(map(max, *rows))

    def placed(self, task: int, device: int, end_ns: float) -> None:
        """Note a task's place and end."""
        moves = self._away[device]
        for value in self._writes[task]:
            nbytes = self._nbytes[value]
            self.rows[value] = [end_ns + latency + nbytes * per_byte for latency, per_byte in moves]


class Departures:
    """When what reads a task's values would have to wait for it no more, of a pass from the end."""

    __slots__ = ("_devices", "_ends", "_nbytes", "_none", "_readers", "_tails", "_towards", "_writes")

    def __init__(self, tables: Tables, devices: Sequence[int], ends_ns: Sequence[float]) -> None:
        self._readers, self._writes, self._nbytes = tables.readers, tables.writes, tables.nbytes
        self._towards, self._tails = tables.towards, tables.tails_ns
        self._devices, self._ends = devices, ends_ns
        self._none: Row = [0.0] * len(tables.devices)

    def ready_row(self, task: int) -> Row:
        """By device: when all that reads what a task makes has been waited for."""
        rows: list[Row] = []
        ends, devices, towards = self._ends, self._devices, self._towards
        for value in self._writes[task]:
            nbytes = self._nbytes[value]
            readers = self._readers[value]
            if len(readers) == 1:
                latest = {devices[readers[0]]: ends[readers[0]]}
            else:
                latest = {}
                for reader in readers:
                    device, end = devices[reader], ends[reader]
                    if end > latest.get(device, -1.0):
                        latest[device] = end
            for device, end in latest.items():
                rows.append([end + latency + nbytes * per_byte for latency, per_byte in towards[device]])
        tail = self._tails[task]
        if tail is not None:
            rows.append(tail)
        if not rows:
            return self._none
        return rows[0] if len(rows) == 1 else list(map(max, *rows))

    def placed(self, task: int, device: int, end_ns: float) -> None:
        """Nothing to do: who waits for it asks."""
