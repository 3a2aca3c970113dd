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


def arriving(tables: Tables, plan: Placement, breathe: Breathe = no_breath) -> Arriving:
    """Tell what is known of a graph with a plan. One pass for each device."""
    order = upward_order(tables, breathe)
    count = len(tables)
    whole = []
    for device in tables.devices:
        possible = all(row[device] < math.inf for row in tables.times_ns)
        alone = pinned(tables, [device] * count)
        whole.append(sweep(tables, order, ahead=alone, breathe=breathe).makespan_ns if possible else math.inf)
    # Worth of a device's time: how much of the whole graph its lanes do in a nanosecond.
    work = [sum([row[device] for row in tables.times_ns]) for device in tables.devices]
    used = sum([row[device] / work[device] for row, device in zip(tables.times_ns, plan.devices, strict=True)])
    could = sum([len(lanes) / ns for lanes, ns in zip(tables.lanes_of, work, strict=True) if ns < math.inf])
    span = plan.makespan_ns * could
    spread_ns = plan.makespan_ns if len(set(plan.devices)) > 1 else math.inf
    return Arriving(whole, spread_ns, used / span if span else 1.0)


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
