"""List scheduling in which copies take time on ports: a copy occupies the ports of its way, and others wait for them.

The passes are those of `sweep.py`, in both directions, but a task's values arrive when ports let them. A value is
copied once to a memory, for all that read it there. Devices are tried in the order of what they could do at best, so
that few are asked what ports would make of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.problem import first_place
from fuel_async.plan.placement.sweep import Arrivals, Departures, Holes, Pass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement.problem import Row, Way
    from fuel_async.plan.placement.sweep import Begun
    from fuel_async.plan.placement.tables import Tables

_EVERY = 15

#: Holes below this share of the mean time of a copy are forgotten: to look through them costs more than they are worth.
SHORT = 1.0


#: Holes of two ports that are looked at before a copy goes behind everything, and holes of one that are remembered: the
#: earliest are forgotten first, since tasks are taken about in the order of time.
LOOKED_AT = 32
REMEMBERED = 512


class PortTimes:
    """When ports are free: sorted columns of holes, the last of which never ends."""

    __slots__ = ("_ends_ns", "_least_ns", "_starts_ns")

    def __init__(self, count: int, least_ns: float) -> None:
        """All are free; holes shorter than `least_ns` are forgotten."""
        self._least_ns = least_ns
        self._starts_ns = [[0.0] for _ in range(count)]
        self._ends_ns = [[math.inf] for _ in range(count)]

    def start_ns(self, ports: tuple[int, int], ready_ns: float, took_ns: float, limit_ns: float = math.inf) -> float:
        """The earliest moment from which both ports are free for so long; some moment before it, if past the limit."""
        one, other = ports
        starts, ends = self._starts_ns[one], self._ends_ns[one]
        starts_too, ends_too = self._starts_ns[other], self._ends_ns[other]
        if starts[-1] <= ready_ns >= starts_too[-1]:  # behind everything on both
            return ready_ns
        at, end = ready_ns, ready_ns + took_ns
        place, place_too = bisect_left(ends, end), bisect_left(ends_too, end)
        for _ in range(LOOKED_AT):
            if starts[place] > at:
                at = starts[place]
            if starts_too[place_too] > at:
                at = starts_too[place_too]
            end = at + took_ns
            if end >= limit_ns:
                return at
            if end > ends[place]:
                place += 1
            elif end > ends_too[place_too]:
                place_too += 1
            else:
                return at
        return max(at, starts[-1], starts_too[-1])

    def begin(self, free_ns: Mapping[int, float]) -> None:
        """Let ports be free from then on."""
        for port, ns in free_ns.items():
            self._starts_ns[port][0] = ns

    def take(self, ports: tuple[int, int], start_ns: float, end_ns: float) -> None:
        """Occupy both ports, which are free then."""
        for port in set(ports):
            starts, ends = self._starts_ns[port], self._ends_ns[port]
            place = bisect_right(starts, start_ns) - 1
            last = ends[place]
            before, after = start_ns - starts[place] > self._least_ns, last - end_ns > self._least_ns
            if before:
                ends[place] = start_ns
                if after:
                    starts.insert(place + 1, end_ns)
                    ends.insert(place + 1, last)
            elif after:
                starts[place] = end_ns
            else:
                del starts[place], ends[place]
            if len(starts) > REMEMBERED:
                del starts[0], ends[0]


#: A value that has to come from a memory (backwards: to go to one): since when it can, its number, the memory.
_Need: TypeAlias = tuple[float, int, int]
#: A copy that a place for a task would take: the value, its ports, start, end, and when it is there.
_Copy: TypeAlias = tuple[int, tuple[int, int], float, float, float]


def contended_sweep(
    tables: Tables,
    order: Sequence[int],
    *,
    backward: bool = False,
    ahead: Sequence[Row] | None = None,
    weight: float = 1.0,
    begun: Begun | None = None,
    breathe: Breathe = no_breath,
) -> Pass:
    """Place the tasks in `order` as `sweep` does, with copies on the time lines of ports."""
    one = _FromEnd(tables) if backward else _FromStart(tables, begun)
    return one.run(order, ahead, weight, breathe)


class _Contended:
    """One such pass."""

    backward: bool
    arrivals: Arrivals | Departures

    def __init__(self, tables: Tables) -> None:
        fleet, count = tables.problem.fleet, len(tables)
        self.tables, self.nbytes, self.memories = tables, tables.nbytes, fleet.memories
        #: By the memory at the other end and that of the task.
        self.ways: Sequence[Sequence[Way]] = fleet.ways
        self.ports = PortTimes(fleet.port_count, SHORT * tables.mean_sent_ns)
        self.holes = Holes([0.0] * len(tables.lane_device))
        self.devices, self.lanes = [0] * count, [0] * count
        self.starts_ns, self.ends_ns = [0.0] * count, [0.0] * count
        #: By value and memory: when what was copied is there.
        self.there_ns: dict[tuple[int, int], float] = {}

    def run(self, order: Sequence[int], ahead: Sequence[Row] | None, weight: float, breathe: Breathe) -> Pass:
        tables, holes, lanes_of, times_ns = self.tables, self.holes, self.tables.lanes_of, self.tables.times_ns
        rows: list[Row] = [()] * len(tables)
        makespan_ns = 0.0
        closing = tables.heads_ns if self.backward else tables.tails_ns
        for step, task in enumerate(order):
            times = later = times_ns[task]
            row = list(self.arrivals.ready_row(task))
            if ahead is not None:
                later = [took + weight * after for took, after in zip(times, ahead[task], strict=True)]
            needs = self.needs(task)
            best = math.inf
            for hope, device in sorted(zip(map(add, row, later), tables.devices, strict=True)):
                if hope >= best:
                    break
                ready, copies = self.ready(needs, device, best - later[device])
                if ready > row[device]:
                    row[device] = ready
                else:
                    ready = row[device]
                for lane in lanes_of[device]:
                    at = holes.start_ns(lane, ready, times[device])
                    if at + later[device] < best:
                        best, chosen, on_lane, start_ns, made = at + later[device], device, lane, at, copies
            rows[task] = row
            if best == math.inf:
                makespan_ns = math.inf
                break
            end_ns = start_ns + times[chosen]
            holes.take(on_lane, start_ns, end_ns, tables.least_ns[chosen])
            self.devices[task], self.lanes[task] = chosen, on_lane
            self.starts_ns[task], self.ends_ns[task] = start_ns, end_ns
            self.placed(task, chosen, end_ns, made)
            close = closing[task]
            makespan_ns = max(makespan_ns, end_ns if close is None else end_ns + close[chosen])
            if not step & _EVERY:
                breathe()
        return Pass(makespan_ns, self.devices, self.lanes, self.starts_ns, self.ends_ns, rows, self.backward)

    def needs(self, task: int) -> list[_Need]:
        """What a task waits for, in the order in which it can be had."""
        raise NotImplementedError

    def placed(self, task: int, device: int, end_ns: float, copies: Sequence[_Copy]) -> None:
        """Note a task's place, and make the copies it takes."""
        raise NotImplementedError

    def ready(self, needs: Sequence[_Need], device: int, limit_ns: float) -> tuple[float, list[_Copy]]:
        """When all would be there on a device, and the copies that takes; anything from the limit on if it is later."""
        memory, latest, copies = self.memories[device], 0.0, list[_Copy]()
        ways, there_ns, free = self.ways, self.there_ns, dict[int, float]()
        for since, value, far in needs:
            if far != memory:
                there = there_ns.get((value, memory))
                if there is None:
                    latency, per_byte, ports, setup = ways[far][memory]
                    took = setup + per_byte * self.nbytes[value]
                    if ports is None:
                        there = since + took + latency
                    else:
                        one, other = ports
                        if free:
                            since = max(since, free.get(one, 0.0), free.get(other, 0.0))
                        at = self.ports.start_ns(ports, since, took, limit_ns)
                        free[one] = free[other] = end = at + took
                        there = end + latency
                        copies.append((value, ports, at, end, there))
            else:
                there = since
            if there > latest:
                latest = there
                if latest >= limit_ns:
                    break
        return latest, copies


class _FromStart(_Contended):
    backward = False

    def __init__(self, tables: Tables, begun: Begun | None) -> None:
        super().__init__(tables)
        self.arrivals: Arrivals = Arrivals(tables, begun)
        if begun is not None:
            self.holes = Holes(begun.free_ns)
            self.ports.begin(begun.ports_ns)
        #: By value: where it was made or given, and since when.
        self.source = [-1] * len(tables.nbytes)
        self.since_ns = [0.0] * len(tables.nbytes)
        for value, places in (*tables.problem.given.items(), *(begun.places.items() if begun else ())):
            self.source[value] = source = first_place(places)
            self.since_ns[value] = places[source]
            self.there_ns.update({(value, memory): since for memory, since in places.items()})

    def needs(self, task: int) -> list[_Need]:
        since_ns, source = self.since_ns, self.source
        needs = [(since_ns[value], value, source[value]) for value in self.tables.reads[task]]
        if len(needs) > 1:
            needs.sort()
        return needs

    def placed(self, task: int, device: int, end_ns: float, copies: Sequence[_Copy]) -> None:
        memories = self.memories
        for value, ports, start_ns, sent_ns, there_ns in copies:
            self.ports.take(ports, start_ns, sent_ns)
            self.there_ns[value, memories[device]] = there_ns
            row = self.arrivals.rows[value]
            if row:
                for other, memory in enumerate(memories):
                    if memory == memories[device]:
                        row[other] = there_ns
        self.arrivals.placed(task, device, end_ns)
        for value in self.tables.writes[task]:
            self.source[value], self.since_ns[value] = memories[device], end_ns


class _FromEnd(_Contended):
    backward = True

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.arrivals = Departures(tables, self.devices, self.ends_ns)
        self.ways = list(zip(*tables.problem.fleet.ways, strict=True))

    def needs(self, task: int) -> list[_Need]:
        needs: list[_Need] = []
        tables, memories, devices, ends_ns = self.tables, self.memories, self.devices, self.ends_ns
        owed = tables.problem.owed
        for value in tables.writes[task]:
            latest: dict[int, float] = {}
            for reader in tables.readers[value]:
                memory = memories[devices[reader]]
                if ends_ns[reader] > latest.get(memory, -1.0):
                    latest[memory] = ends_ns[reader]
            if value in owed:
                latest.setdefault(owed[value], 0.0)
            needs += [(since, value, memory) for memory, since in latest.items()]
        if len(needs) > 1:
            needs.sort()
        return needs

    def placed(self, task: int, device: int, end_ns: float, copies: Sequence[_Copy]) -> None:
        for _, ports, start_ns, sent_ns, _ in copies:
            self.ports.take(ports, start_ns, sent_ns)
