"""What the plan of a whole run was made from, kept for runs that go on by another one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_async.plan import ahead_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import Breathe
    from fuel_async.plan import Arriving, Placement, Row, Tables
    from fuel_async.schedule.machine import Port
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.shape import SpreadShape

#: What is left of a run is swept again only where its plan takes this long for each region, in ns: with less the answer
#: would come when half of that has run.
ROLLS_FROM_NS = 30_000
#: The fewest regions of such a run. One with fewer that lasts as long is swept only when it must be: when its device is
#: lost, or is too slow for a run that is all there.
ROLLS_FROM = 20


class Basis:
    """One problem and its first plan. Shared by the runs of a shape; what it computes is kept. Any thread."""

    __slots__ = (
        "_ahead",
        "_placement",
        "_spread",
        "_whole",
        "arriving",
        "lasts",
        "memories",
        "ports",
        "rolls",
        "tables",
    )

    def __init__(
        self,
        tables: Tables,
        placement: Placement,
        memories: Sequence[int],
        ports: Mapping[Port, int],
        spread: SpreadShape,
        arriving: Arriving,
    ) -> None:
        """`memories` are the executor's, by their numbers in the problem; `ports` tells those of ports."""
        self.tables, self.memories, self.ports, self._spread = tables, memories, ports, spread
        #: What is known of such a run before it comes.
        self.arriving = arriving
        #: Whether runs are swept again when they must be, and whenever they are off their plan.
        self.lasts = placement.makespan_ns >= ROLLS_FROM_NS * max(len(tables), ROLLS_FROM)
        self.rolls = self.lasts and len(tables) >= ROLLS_FROM
        self._placement = placement
        self._ahead: list[Row] | None = None
        self._whole: dict[int, Prior] = {}

    def ahead(self, breathe: Breathe) -> Sequence[Row]:
        """See `ahead_of`."""
        ahead = self._ahead
        if ahead is None:  # two threads may both compute it: it comes out the same
            ahead = self._ahead = ahead_of(self.tables, self._placement, breathe)
        return ahead

    def whole_on(self, device: int, prior: Prior) -> Prior:
        """The plan of a run that goes to one device, its regions in the order of another plan."""
        found = self._whole.get(device)
        if found is None:
            times_ns, starts_ns, at_ns = self.tables.times_ns, [0] * len(self.tables), 0
            for region in sorted(range(len(self.tables)), key=prior.starts_ns.__getitem__):
                starts_ns[region], at_ns = at_ns, at_ns + int(times_ns[region][device])
            found = self._whole[device] = replace(
                prior,
                devices=[device] * len(starts_ns),
                starts_ns=starts_ns,
                ends_ns=[at_ns + int(row[device]) for at_ns, row in zip(starts_ns, times_ns, strict=True)],
                sends=[()] * len(starts_ns),
                makespan_ns=at_ns,
                basis=None,
                is_whole=True,
            )
        return found

    def sends(self, devices: Sequence[int], starts_ns: Sequence[float]) -> list[list[tuple[int, int, int]]]:
        """By region: (value, memory, start of the first reader there) of what it makes, in the order of the readers."""
        first: dict[tuple[int, int], float] = {}
        numbers = self.tables.problem.fleet.memories
        for region, reads in enumerate(self._spread.reads):
            memory = self.memories[numbers[devices[region]]]
            for value in reads:
                pair = value, memory
                first[pair] = min(first.get(pair, math.inf), starts_ns[region])
        sends: list[list[tuple[int, int, int]]] = [[] for _ in self._spread.reads]
        for value, memory in sorted(first, key=lambda pair: (first[pair], pair)):
            producer = self._spread.producers[value]
            if producer >= 0:
                sends[producer].append((value, memory, int(first[value, memory])))
        return sends
