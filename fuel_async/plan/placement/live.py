"""A plan while it runs: what a free lane may start out of turn, and when the rest of the plan is made anew.

All of it is functions of what is known: nothing here looks at a clock. A run follows its plan's placement, and starts
what is ready in the planned order with a guard: a lane waits for the task that is planned next, if that is expected
soon, rather than fill itself with a later one. Every few finished tasks those that have not started are swept again,
with learned speeds and from where lanes and values are now, and the new placement is taken if it is shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.ports import contended_sweep
from fuel_async.plan.placement.sweep import Begun, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.plan.placement.place import Placement
    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.sweep import Pass
    from fuel_async.plan.placement.tables import Tables

#: A lane waits for what is planned next if that is expected within this share of the time of what it could start.
GUARD = 0.8
#: The weight of a new observation in a device's factor.
LEARNED = 0.15
#: The share of the tasks that finish between two looks at whether to sweep again.
EVERY = 0.05
#: What it takes: a factor that has moved by that share, or a run that is late by that share of its plan.
MOVED, LATE = 0.05, 0.02
#: The weight of what the plan has ahead, and how much shorter a new placement must be to be taken: with ports a little
#: more, since copies that were made for the old one are lost.
AHEAD_WEIGHT = 0.4
SHORTER = 0.01
SHORTER_WITH_PORTS = 0.03
#: The same, pass by pass, after the loss of a device: what the plan had ahead was to run there, too.
AGAIN_WEIGHTS = (0.4, 0.2)


def may_start(took_ns: float, next_ns: float, now_ns: float) -> bool:
    """Whether a free lane may start a task of that time, when the one planned before it is expected at `next_ns`."""
    return next_ns >= now_ns + GUARD * took_ns


def learned(factor: float, observed_ns: float, predicted_ns: float) -> float:
    """A device's factor, how many times longer than predicted tasks take there, after one more of them."""
    if predicted_ns <= 0:
        return factor
    return factor + LEARNED * (observed_ns / predicted_ns - factor)


def due(factors: Sequence[float], before: Sequence[float], late_ns: float, makespan_ns: float) -> bool:
    """Whether what is left should be swept again: what devices are like has changed, or the run is off its plan."""
    moved = any(abs(now - then) > MOVED * then for now, then in zip(factors, before, strict=True))
    return moved or abs(late_ns) > LATE * makespan_ns


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where a run is."""

    #: By lane: when it is free, or expected to be.
    free_ns: Sequence[float]
    #: Values of tasks that have started, and given ones: in which memories they are or will be, and from when. Not from
    #: before now, when no copy of them can begin any more.
    places: Mapping[int, Mapping[int, float]]
    #: The tasks that have not started, in the order of the plan.
    left: Sequence[int]
    #: By port, when it is expected to be through with the copies under way; others are free.
    ports_ns: Mapping[int, float] = field(default_factory=dict)
    #: When all tasks that have started are expected to have ended.
    begun_ns: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Resweep:
    """What is to be done with what is left. By task, of those that were left."""

    devices: Mapping[int, int]
    lanes: Mapping[int, int]
    starts_ns: Mapping[int, float]
    ends_ns: Mapping[int, float]
    #: When everything is expected to have ended: as it is planned now, and with the placement as it was.
    makespan_ns: float
    kept_ns: float
    #: Whether tasks go elsewhere; if not, only the times are new.
    adopted: bool


def ahead_of(tables: Tables, plan: Placement, breathe: Breathe = no_breath) -> list[Row]:
    """By task and device: what would still follow a task there, with everything else where the plan has it."""
    last_first = sorted(range(len(tables) - 1, -1, -1), key=plan.ends_ns.__getitem__, reverse=True)
    there = pinned(tables, plan.devices)
    return list(sweep(tables, last_first, backward=True, ahead=there, breathe=breathe).ready_ns)


def resweep(
    tables: Tables,
    devices: Sequence[int],
    ahead: Sequence[Row],
    progress: Progress,
    factors: Sequence[float],
    shorter: float | None = None,
    breathe: Breathe = no_breath,
) -> Resweep:
    """Sweep what is left again, on devices that take `factors` times longer than was told: infinite for lost ones.

    `devices` is the placement so far, `ahead` that of the plan (`ahead_of`). A new placement is taken if it is shorter
    by the share `shorter` of what is left; by default as is usual. The makespan is infinite when something of what is
    left can go nowhere. O(what is left × devices).
    """
    slower, contended = tables.slower(factors), tables.problem.fleet.contended
    begun = Begun(progress.free_ns, progress.places, progress.ports_ns)
    walk = partial(contended_sweep if contended else sweep, slower, breathe=breathe)
    kept = walk(progress.left, begun=begun, ahead=pinned(tables, devices))
    fresh = walk(progress.left, begun=begun, ahead=ahead, weight=AHEAD_WEIGHT)
    if kept.makespan_ns == math.inf > fresh.makespan_ns:
        fresh = _back_and_forth(walk, fresh, progress.left, begun)
    kept_ns, fresh_ns = max(kept.makespan_ns, progress.begun_ns), max(fresh.makespan_ns, progress.begun_ns)
    now_ns = min(progress.free_ns)
    if shorter is None:
        shorter = SHORTER_WITH_PORTS if contended else SHORTER
    adopted = fresh_ns < (kept_ns - shorter * (kept_ns - now_ns) if kept_ns < math.inf else math.inf)
    found = fresh if adopted else kept
    left = progress.left
    return Resweep(
        {task: found.devices[task] for task in left},
        {task: found.lanes[task] for task in left},
        {task: found.starts_ns[task] for task in left},
        {task: found.ends_ns[task] for task in left},
        fresh_ns if adopted else kept_ns,
        kept_ns,
        adopted,
    )


def _back_and_forth(walk: Callable[..., Pass], found: Pass, left: Sequence[int], begun: Begun) -> Pass:
    """The best of a schedule of what is left and some that go on from it: what was ahead in the plan is no more."""
    best, there = found, set(left)
    for weight in AGAIN_WEIGHTS:
        order = [task for task in found.order() if task in there]
        back = walk(order, backward=True, ahead=found.ready_ns, weight=weight)
        order = [task for task in back.order() if task in there]
        found = walk(order, begun=begun, ahead=back.ready_ns, weight=weight)
        best = min(best, found, key=lambda one: one.makespan_ns)
    return best


def pinned(tables: Tables, devices: Sequence[int]) -> list[Row]:
    """By task and device: what is `ahead` of tasks that may go nowhere else than to `devices`."""
    rows = [[0.0 if other == device else math.inf for other in tables.devices] for device in tables.devices]
    return [rows[device] for device in devices]
