"""Chains merged to single tasks, and schedules of the merged tasks told for the tasks they were made of.

A chain is tasks that each have one predecessor whose only dependent they are. It stays one task while the chain's own
dynamic programme over devices would not change the device: merging then loses next to nothing, and sweeps have fewer
tasks to place, with a longer view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.sweep import Pass
from fuel_async.plan.placement.tables import made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement.problem import Row
    from fuel_async.plan.placement.tables import Tables

#: Merging that leaves more than that share of the tasks gains less than it costs.
WORTH = 0.95

_EVERY = 63


@dataclass(slots=True, eq=False)
class Chains:
    """The merged tasks, and the tasks that each of them is made of, in order."""

    tables: Tables
    members: Sequence[Sequence[int]]


def merge(tables: Tables, breathe: Breathe = no_breath) -> Chains | None:
    """Merge what are chains; None where too few are to be worth it. O(edges + merged tasks × devices)."""
    chain_of, members = list[int](), list[list[int]]()
    #: By chain: the time of the whole on each device.
    whole_ns: list[Row] = []
    for task in range(len(tables)):
        before = _before(tables, task)
        chain = -1 if before < 0 else chain_of[before]
        if chain >= 0 and _stays(tables, whole_ns[chain], before, task):
            members[chain].append(task)
            whole_ns[chain] = [ns + more for ns, more in zip(whole_ns[chain], tables.times_ns[task], strict=True)]
        else:
            chain = len(members)
            members.append([task])
            whole_ns.append(tables.times_ns[task])
        chain_of.append(chain)
        if not task & _EVERY:
            breathe()
    if len(members) > WORTH * len(tables):
        return None
    reads = [tables.reads[chain[0]] for chain in members]
    writes = [tables.writes[chain[-1]] for chain in members]
    return Chains(made(tables.problem, whole_ns, reads, writes, breathe), members)


def _before(tables: Tables, task: int) -> int:
    """The task that `task` would continue as a chain; -1 where it starts one."""
    reads = tables.reads[task]
    if not reads or tables.heads_ns[task] is not None:
        return -1
    before = tables.producers[reads[0]]
    if before < 0 or tables.tails_ns[before] is not None:
        return -1
    if len(reads) > 1 and any(tables.producers[value] not in (before, -1) for value in reads):
        return -1
    readers = tables.readers
    alone = all(reader == task for value in tables.writes[before] for reader in readers[value])
    return before if alone else -1


def _stays(tables: Tables, whole: Row, before: int, task: int) -> bool:
    """Whether the programme of a chain, continued by `task`, ends on the device where it was."""
    times = tables.times_ns[task]
    together = [ns + more for ns, more in zip(whole, times, strict=True)]
    least = min(together)
    if least == math.inf:
        return False
    if least == min(whole) + min(times):  # the same device is the fastest for both
        return True
    nbytes = max([tables.nbytes[value] for value in tables.writes[before]])
    away, devices = tables.away, tables.devices
    return all(
        least <= whole[source] + times[to] + away[source][to][0] + nbytes * away[source][to][1]
        for source in devices
        for to in devices
        if source != to
    )


def expanded(chains: Chains, tables: Tables, found: Pass, breathe: Breathe = no_breath) -> Pass:
    """Tell a schedule of chains for their tasks, in its own direction: what a pass the other way can go on from."""
    count, backward = len(tables), found.backward
    devices, lanes = [0] * count, [0] * count
    starts_ns, ends_ns = [0.0] * count, [0.0] * count
    ready_ns: list[Row] = [()] * count
    reads, writes, times_ns, nbytes = tables.reads, tables.writes, tables.times_ns, tables.nbytes
    for chain, members in enumerate(chains.members):
        device, lane = found.devices[chain], found.lanes[chain]
        at_ns, end_ns = found.starts_ns[chain], found.ends_ns[chain]
        moves = tables.towards[device] if backward else tables.away[device]
        row = found.ready_ns[chain]
        if not chain & _EVERY:
            breathe()
        last = members[0] if backward else members[-1]
        for task in reversed(members) if backward else members:
            devices[task], lanes[task], starts_ns[task], ready_ns[task] = device, lane, at_ns, row
            at_ns = min(at_ns + times_ns[task][device], end_ns)  # rounded, it must not reach into what follows
            ends_ns[task] = at_ns
            if task != last:
                size = max([nbytes[value] for value in (reads[task] if backward else writes[task])])
                row = [at_ns + latency + size * per_byte for latency, per_byte in moves]
    return Pass(found.makespan_ns, devices, lanes, starts_ns, ends_ns, ready_ns, backward)
