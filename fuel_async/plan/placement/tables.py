"""A problem as columns, in the form that sweeps walk: both directions alike, and nothing looked up twice."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuel_async.plan.placement.problem import arrivals_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir import Breathe
    from fuel_async.plan.placement.problem import Problem, Row, Way

#: By device: (latency_ns, ns_per_byte) of its way to each device, or of the ways from each to it.
Moves = list[list[tuple[float, float]]]

_EVERY = 63
_SLICE = 256


@dataclass(slots=True, eq=False)
class Tables:
    """The columns. Not changed once made."""

    problem: Problem
    times_ns: Sequence[Row]
    reads: Sequence[Sequence[int]]
    writes: Sequence[Sequence[int]]
    nbytes: Sequence[float]
    #: By value: the task that makes it, -1 for none, and the tasks that read it.
    producers: list[int]
    readers: list[list[int]]
    #: By task: when what it reads and nobody makes is there, and how long what it makes and is owed takes to get there,
    #: by device; None where that is no time at all.
    heads_ns: list[Row | None]
    tails_ns: list[Row | None]
    #: Lanes are numbered device by device.
    lanes_of: list[Sequence[int]]
    lane_device: list[int]
    away: Moves
    towards: Moves
    #: By device: the shortest time of a task there. No hole shorter than that is worth remembering.
    least_ns: list[float]
    #: By task: the mean of its times over the lanes that can run it. By value: the mean time of a copy.
    mean_ns: list[float]
    mean_move_ns: list[float]
    #: The mean time for which a copy occupies its ports.
    mean_sent_ns: float
    devices: range

    def __len__(self) -> int:
        return len(self.times_ns)

    def slower(self, factors: Sequence[float]) -> Tables:
        """The same tasks on devices that take so many times longer; nothing runs where that is infinite."""
        if all(factor == 1 for factor in factors):
            return self
        never = [0.0 if factor < math.inf else math.inf for factor in factors]
        by = [(factor if factor < math.inf else 1.0, more) for factor, more in zip(factors, never, strict=True)]
        times_ns = [[ns * factor + more for ns, (factor, more) in zip(row, by, strict=True)] for row in self.times_ns]
        least_ns = [ns * factor + more for ns, (factor, more) in zip(self.least_ns, by, strict=True)]
        return replace(self, times_ns=times_ns, least_ns=least_ns)


def tables_of(problem: Problem, breathe: Breathe) -> Tables:
    """Return the columns of a problem. O(size × devices)."""
    return made(problem, problem.times_ns, problem.reads, problem.writes, breathe)


def made(
    problem: Problem,
    times_ns: Sequence[Row],
    reads: Sequence[Sequence[int]],
    writes: Sequence[Sequence[int]],
    breathe: Breathe,
) -> Tables:
    """Return columns of tasks that exchange a problem's values: its own tasks, or such as several were merged to."""
    fleet = problem.fleet
    devices = range(len(fleet.lanes))
    producers, readers = [-1] * len(problem.nbytes), [list[int]() for _ in problem.nbytes]
    for task, (values, made_values) in enumerate(zip(reads, writes, strict=True)):
        for value in values:
            readers[value].append(task)
        for value in made_values:
            producers[value] = task
        if not task & _EVERY:
            breathe()
    lanes_of, lane_device = list[range](), list[int]()
    for device, count in enumerate(fleet.lanes):
        lanes_of.append(range(len(lane_device), len(lane_device) + count))
        lane_device += [device] * count
    ways = [[fleet.between(source, to) for to in devices] for source in devices]
    away = [[(way.latency_ns + way.setup_ns, way.ns_per_byte) for way in row] for row in ways]
    latency_ns, ns_per_byte = _mean_move(away)
    move_ns = [latency_ns + ns_per_byte * nbytes for nbytes in problem.nbytes]
    return Tables(
        problem=problem,
        times_ns=times_ns,
        reads=reads,
        writes=writes,
        nbytes=problem.nbytes,
        producers=producers,
        readers=readers,
        heads_ns=_heads(problem, reads),
        tails_ns=_tails(problem, writes, devices),
        lanes_of=list(lanes_of),
        lane_device=lane_device,
        away=away,
        towards=[[away[source][to] for source in devices] for to in devices],
        least_ns=[min([row[device] for row in times_ns], default=0.0) for device in devices],
        mean_ns=mean_times(times_ns, fleet.lanes, breathe),
        mean_move_ns=move_ns,
        mean_sent_ns=_mean_setup_ns(ways) + ns_per_byte * sum(problem.nbytes) / max(len(problem.nbytes), 1),
        devices=devices,
    )


def mean_times(times_ns: Sequence[Row], lanes: Sequence[int], breathe: Breathe) -> list[float]:
    """The mean time of each task over the lanes that can run it: HEFT's mean over processors."""
    total, means = sum(lanes), list[float]()
    for start in range(0, len(times_ns), _SLICE):
        some = times_ns[start : start + _SLICE]
        means += [sum([ns * count for ns, count in zip(row, lanes, strict=True)]) / total for row in some]
        breathe()
    for task, mean in enumerate(means):
        if mean == math.inf:
            there = [(ns, count) for ns, count in zip(times_ns[task], lanes, strict=True) if ns < math.inf]
            means[task] = sum([ns * count for ns, count in there]) / sum([count for _, count in there])
    return means


def _mean_move(away: Moves) -> tuple[float, float]:
    """The mean latency and time a byte over the pairs of devices."""
    pairs = [move for source, moves in enumerate(away) for to, move in enumerate(moves) if source != to]
    count = max(len(pairs), 1)
    return sum([latency for latency, _ in pairs]) / count, sum([per_byte for _, per_byte in pairs]) / count


def _mean_setup_ns(ways: Sequence[Sequence[Way]]) -> float:
    pairs = [way.setup_ns for source, row in enumerate(ways) for to, way in enumerate(row) if source != to]
    return sum(pairs) / max(len(pairs), 1)


def _heads(problem: Problem, reads: Sequence[Sequence[int]]) -> list[Row | None]:
    given = problem.given
    if not given:
        return [None] * len(reads)
    arrivals = {value: arrivals_ns(problem, value, places) for value, places in given.items()}
    heads: list[Row | None] = []
    for values in reads:
        rows = [arrivals[value] for value in values if value in arrivals]
        head = [max(column) for column in zip(*rows, strict=True)] if rows else []
        heads.append(head if any(head) else None)
    return heads


def _tails(problem: Problem, writes: Sequence[Sequence[int]], devices: range) -> list[Row | None]:
    owed, fleet = problem.owed, problem.fleet
    if not owed:
        return [None] * len(writes)
    tails: list[Row | None] = []
    for values in writes:
        rows = [
            [fleet.ways[fleet.memories[device]][owed[value]].copy_ns(problem.nbytes[value]) for device in devices]
            for value in values
            if value in owed
        ]
        tail = [max(column) for column in zip(*rows, strict=True)] if rows else []
        tails.append(tail if any(tail) else None)
    return tails
