"""Ranks: how urgent tasks are, and what is still to come after each, if nothing stood in the way.

Upward rank, the longest way to the end, and downward rank, the longest way from the start: Topcuoglu et al., HEFT and
CPOP, 2002. The optimistic rest is what is still to come by device: Arabnejad and Barbosa's cost table of PEFT, 2014,
with the mean time of a move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.tables import Tables

_EVERY = 63
_SLICE = 256


def upward(
    tables: Tables, times_ns: Sequence[float], moves_ns: Sequence[float], breathe: Breathe = no_breath
) -> list[float]:
    """The longest way from the start of each task to the end, with the given times by task and moves by value."""
    ranks, readers, writes = [0.0] * len(tables), tables.readers, tables.writes
    for task in range(len(tables) - 1, -1, -1):
        later = 0.0
        for value in writes[task]:
            read_by = readers[value]
            if read_by:
                one = moves_ns[value] + (
                    ranks[read_by[0]] if len(read_by) == 1 else max([ranks[reader] for reader in read_by])
                )
                if one > later:
                    later = one
        ranks[task] = times_ns[task] + later
        if not task & _EVERY:
            breathe()
    return ranks


def downward(
    tables: Tables, times_ns: Sequence[float], moves_ns: Sequence[float], breathe: Breathe = no_breath
) -> list[float]:
    """The longest way from the start of everything to the start of each task."""
    ranks, producers = [0.0] * len(tables), tables.producers
    for task, values in enumerate(tables.reads):
        earlier = 0.0
        for value in values:
            maker = producers[value]
            if maker >= 0:
                one = ranks[maker] + times_ns[maker] + moves_ns[value]
                if one > earlier:
                    earlier = one
        ranks[task] = earlier
        if not task & _EVERY:
            breathe()
    return ranks


def optimistic_rest(tables: Tables, breathe: Breathe = no_breath) -> list[Row]:
    """The least time from the end of each task to the end of everything, by device that the task is on.

    Every later task has the best device for itself, and a move takes its mean.
    """
    count = len(tables)
    rest: list[Row] = [()] * count
    #: From a task's start, by device, and the least of them.
    whole: list[Row] = [()] * count
    least = [0.0] * count
    nothing = [0.0] * len(tables.devices)
    readers, writes, moves_ns, tails = tables.readers, tables.writes, tables.mean_move_ns, tables.tails_ns
    for task in range(count - 1, -1, -1):
        rows = []
        tail = tails[task]
        if tail is not None:
            rows.append(tail)
        for value in writes[task]:
            move_ns = moves_ns[value]
            for reader in readers[value]:
                moved = least[reader] + move_ns
                rows.append([ns if ns < moved else moved for ns in whole[reader]])  # noqa: FURB136 - a call for each is slow
        if not rows:
            row: Row = nothing
        else:
            row = rows[0] if len(rows) == 1 else list(map(max, *rows))
        rest[task] = row
        mine = [ns + after for ns, after in zip(tables.times_ns[task], row, strict=True)]
        whole[task], least[task] = mine, min(mine)
        if not task & _EVERY:
            breathe()
    return rest


def speed_means(tables: Tables, breathe: Breathe = no_breath) -> list[float]:
    """The harmonic mean of each task's times over all lanes: the time on a lane of the mean speed."""
    counts = [len(lanes) for lanes in tables.lanes_of]
    total, means = sum(counts), list[float]()
    for start in range(0, len(tables), _SLICE):
        some = tables.times_ns[start : start + _SLICE]
        means += [total / sum([count / (ns or 1.0) for ns, count in zip(row, counts, strict=True)]) for row in some]
        breathe()
    return means


def falling(ranks: Sequence[float], *, backward: bool = False) -> list[int]:
    """The tasks, highest rank first; of equals that of lower number, or backward of higher: others may wait for it."""
    tasks = range(len(ranks) - 1, -1, -1) if backward else range(len(ranks))
    return sorted(tasks, key=ranks.__getitem__, reverse=True)
