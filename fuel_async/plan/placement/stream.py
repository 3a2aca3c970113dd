"""Graphs that arrive one after the other: whether one goes whole to a device, and to which, or over several.

Whole graphs go where they are expected to end first, by learned speeds: that is HEFT's rule with graphs for tasks. A
graph that is spread ends sooner on idle devices, but while it runs some of them wait for each other. That costs nothing
as long as there is little else to do, so a graph that splits badly is spread only below a certain load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.live import pinned
from fuel_async.plan.placement.problem import first_place
from fuel_async.plan.placement.sweep import sweep
from fuel_async.plan.placement.two_way import upward_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement.place import Placement
    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.tables import Tables

#: Above this load a graph is spread only if it keeps the devices busy for more than that share of its time.
HIGH_LOAD, WELL_SPLIT = 0.7, 0.6


@dataclass(frozen=True, slots=True)
class Arriving:
    """What is known of a graph before it comes: made once for all its runs."""

    #: By device: how long it takes there alone; infinite where it cannot run.
    whole_ns: Row
    #: How long it takes over all devices, as its plan promises; infinite where the plan uses one device only.
    spread_ns: float
    #: The share of what all devices could do in that time that it uses.
    busy: float

    @property
    def together_ns(self) -> float:
        """The time in which all devices could do one such graph, if it split perfectly."""
        speed = sum([1 / whole for whole in self.whole_ns if whole])
        return 1 / speed if speed else 0.0

    def slower(self, factors: Sequence[float]) -> Arriving:
        """The same on devices that take so many times longer than was told."""
        if all(factor == 1 for factor in factors):
            return self
        whole_ns = [whole * factor for whole, factor in zip(self.whole_ns, factors, strict=False)]
        slower_ns = Arriving(whole_ns, 0.0, 0.0).together_ns
        before_ns = self.together_ns
        return Arriving(whole_ns, self.spread_ns * slower_ns / before_ns if before_ns else self.spread_ns, self.busy)


def arriving(tables: Tables, plan: Placement, breathe: Breathe = no_breath) -> Arriving:
    """Tell what is known of a graph with a plan. One pass for each device that has several lanes."""
    order, count = list[int](), len(tables)
    whole: list[float] = []
    for device in tables.devices:
        possible = all(row[device] < math.inf for row in tables.times_ns)
        if not possible:
            whole.append(math.inf)
        elif len(tables.lanes_of[device]) == 1:
            whole.append(_alone_ns(tables, device))
        else:
            alone = pinned(tables, [device] * count)
            order = order or upward_order(tables, breathe)
            whole.append(sweep(tables, order, ahead=alone, breathe=breathe).makespan_ns)
    # Worth of a device's time: how much of the whole graph its lanes do in a nanosecond.
    work = [sum([row[device] for row in tables.times_ns]) for device in tables.devices]
    used = sum([row[device] / (work[device] or 1) for row, device in zip(tables.times_ns, plan.devices, strict=True)])
    could = sum([len(lanes) / ns for lanes, ns in zip(tables.lanes_of, work, strict=True) if 0 < ns < math.inf])
    span = plan.makespan_ns * could
    spread_ns = plan.makespan_ns if len(set(plan.devices)) > 1 else math.inf
    return Arriving(whole, spread_ns, used / span if span else 1.0)


def _alone_ns(tables: Tables, device: int) -> float:
    """How long a graph takes on the one lane of a device. What is given comes one after the other; so goes the owed."""
    problem = tables.problem
    memory, ways = problem.fleet.memories[device], problem.fleet.ways
    there_ns: dict[int, float] = {}
    now_ns = come_ns = gone_ns = 0.0
    for row, reads, writes in zip(tables.times_ns, tables.reads, tables.writes, strict=True):
        for value in reads:
            places = problem.given.get(value)
            if places is not None:
                if value not in there_ns:
                    source = memory if memory in places else first_place(places)
                    way = ways[source][memory]
                    come_ns = max(come_ns, places[source]) + way.sent_ns(tables.nbytes[value])
                    there_ns[value] = come_ns + way.latency_ns
                now_ns = max(now_ns, there_ns[value])
        now_ns += row[device]
        for value in writes:
            if value in problem.owed:
                way = ways[memory][problem.owed[value]]
                gone_ns = max(gone_ns, now_ns + way.latency_ns) + way.sent_ns(tables.nbytes[value])
    return max(now_ns, gone_ns)


def destination(graph: Arriving, free_ns: Sequence[float], now_ns: float, load: float) -> int | None:
    """The device that a whole graph goes to, or None if it is to be spread over all.

    `free_ns` is by device, when its lanes are expected to be through with what they have; `load` is the share of what
    the devices can do that is asked of them.
    """
    waits = [max(free - now_ns, 0.0) for free in free_ns]
    ends = [wait + whole for wait, whole in zip(waits, graph.whole_ns, strict=True)]
    device = min(range(len(ends)), key=ends.__getitem__)
    if ends[device] == math.inf:
        return None
    if load > HIGH_LOAD and graph.busy < WELL_SPLIT:
        return device
    # Spread, it waits for devices as much as it uses them.
    speeds = [1 / whole if whole else 0.0 for whole in graph.whole_ns]
    wait = sum([wait * speed for wait, speed in zip(waits, speeds, strict=True)]) / (sum(speeds) or 1.0)
    return device if ends[device] <= wait + graph.spread_ns else None
