"""Everything on one device: what is best where copies cost more than other devices gain.

List scheduling looks at one task at a time, and leaves a device as soon as that task gains. So plans in which nothing
leaves are looked at, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.live import pinned
from fuel_async.plan.placement.sweep import Pass, sweep
from fuel_async.plan.placement.two_way import upward_order

if TYPE_CHECKING:
    from fuel_async.plan.placement.tables import Tables

_EVERY = 63


def best_whole(tables: Tables, below_ns: float, breathe: Breathe = no_breath) -> Pass | None:
    """All tasks on the lanes of the device that promises most, in HEFT's order.

    None, and no pass, where no device could do it below a time: what each has to do at least is seen before.
    """
    least_ns, device = min([(_least_ns(tables, device, breathe), device) for device in tables.devices])
    if least_ns >= below_ns:
        return None
    there = pinned(tables, [device] * len(tables))
    return sweep(tables, upward_order(tables, breathe), ahead=there, breathe=breathe)


def _least_ns(tables: Tables, device: int, breathe: Breathe) -> float:
    """No schedule of all tasks on one device is shorter: the work for its lanes, or the longest way if it has several.

    Infinite where a task cannot run there.
    """
    times_ns, lanes = [row[device] for row in tables.times_ns], len(tables.lanes_of[device])
    breathe()
    work_ns = sum(times_ns) / lanes
    if lanes == 1:
        return work_ns
    ends_ns: list[float] = []
    for task, reads in enumerate(tables.reads):
        start_ns = max([ends_ns[maker] for value in reads if (maker := tables.producers[value]) >= 0], default=0.0)
        ends_ns.append(start_ns + times_ns[task])
        if not task & _EVERY:
            breathe()
    return max(work_ns, max(ends_ns, default=0.0))
