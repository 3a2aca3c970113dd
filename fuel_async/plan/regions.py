"""Cutting lowered rows into regions: the units that are placed and launched.

A region starts where two sides predicted at 50 µs or more could run beside each other (the branches of a fork, a
requested output and what follows it, a join of two such branches), and wherever a region's predicted time would pass
2 ms. A region can start only when all that it reads has ended, so a row is not put where it would make others wait.

Each region has an estimated start, that of the graph on as many lanes as it can use. Dependencies only go from
earlier to later starts, and a start moves only while nothing depends on its region: so the region graph has no cycle,
and regions are numbered by their starts.

Rows too light to matter wait in *clusters* (no dependency outside, below 50 µs) until a row that reads them has a
region: a graph of ten thousand tiny kernels becomes a handful of regions, not thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.branches import HEAVY_NS as HEAVY_NS
from fuel_async.plan.branches import Branches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: A region is never interrupted on a GPU, and is what cancellation waits for: its predicted time is bounded.
LONGEST_NS = 2_000_000

#: A cut that yields regions of a mean below half of HEAVY_NS has shattered the graph; then time alone cuts it.
_SLACK_REGIONS = 8

#: Regions that are looked at for a row that reads more of them: those that end last.
_LOOKED_AT = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """The region of each row, and for each region the ones it needs finished first, all of lower number."""

    region_of: Sequence[int]
    needs: Sequence[frozenset[int]]

    @property
    def count(self) -> int:
        """The number of regions."""
        return len(self.needs)


def cut(
    costs_ns: Sequence[int],
    preds: Sequence[tuple[int, ...]],
    output_rows: frozenset[int] = frozenset(),
    breathe: Breathe = no_breath,
) -> Cut:
    """Assign each row to a region. Rows are in topological order: each reads only rows before it. O(rows)."""
    total = sum(costs_ns)
    breathe()
    if total < 2 * HEAVY_NS:
        regions = [0] * len(costs_ns)
    else:
        regions = _Cutting(costs_ns, preds, output_rows, Branches(costs_ns, preds, breathe)).run(breathe)
        if max(regions) + 1 > 2 * total // HEAVY_NS + _SLACK_REGIONS:
            regions = by_time(costs_ns)
    return Cut(regions, needs_of(regions, preds, breathe))


def by_time(costs_ns: Sequence[int]) -> list[int]:
    """Cut into runs of consecutive rows of at most `LONGEST_NS` each: always valid, never parallel."""
    regions, region, spent = [], 0, 0
    for cost in costs_ns:
        if spent and spent + cost > LONGEST_NS:
            region, spent = region + 1, 0
        spent += cost
        regions.append(region)
    return regions


def needs_of(regions: Sequence[int], preds: Sequence[tuple[int, ...]], breathe: Breathe) -> list[frozenset[int]]:
    """Which other regions each region reads, given the region of each row."""
    needs: list[set[int]] = [set() for _ in range(max(regions, default=-1) + 1)]
    breathe()
    for row, sources in enumerate(preds):
        region = regions[row]
        for source in sources:
            if regions[source] != region:
                needs[region].add(regions[source])
        if not row & 63:
            breathe()
    return [frozenset(some) for some in needs]


class _Cutting:
    """The forward walk. `place` is a region from 0 on, or a cluster of light rows from -2 downwards."""

    def __init__(
        self,
        costs_ns: Sequence[int],
        preds: Sequence[tuple[int, ...]],
        output_rows: frozenset[int],
        branches: Branches,
    ) -> None:
        self.costs_ns, self.preds, self.outputs, self.branches = costs_ns, preds, output_rows, branches
        self.place = [0] * len(costs_ns)
        #: 1 for rows whose readers are not put beside them without a second look.
        self.cuts = bytearray(branches.forks)
        for row in output_rows:
            self.cuts[row] = 1
        # --- by region ---
        self.start_ns: list[int] = []
        self.spent_ns: list[int] = []
        #: What it may grow to. Once another region depends on it, its growth delays that one: then little is left.
        self.limit_ns: list[int] = []
        #: How much of its work may still be made to wait for one more need.
        self.slack_ns: list[int] = []
        self.needs: list[set[int]] = []
        self.has_dependents: list[bool] = []
        #: Where rows go that would join a region which cannot take them.
        self.follower: list[int] = []
        # --- light rows ---
        self.clusters: dict[int, tuple[list[int], int]] = {}
        self.next_cluster = -2
        #: Rows that were put into the region of their first reader, with their whole cluster, and have other readers.
        self.guests: dict[int, list[int]] = {}

    def run(self, breathe: Breathe) -> list[int]:
        place, spent, limit, cuts = self.place, self.spent_ns, self.limit_ns, self.cuts
        for row, (cost, sources) in enumerate(zip(self.costs_ns, self.preds, strict=True)):
            if not row & 63:
                breathe()
            # The way of nearly all rows: what it reads is in one region, which is not cut there and has room.
            if sources:
                source = sources[0]
                region = place[source]
                if region >= 0 and spent[region] + cost <= limit[region] and not cuts[source]:  # noqa: SIM102
                    if len(sources) == 1 or (
                        len(sources) == 2 and place[sources[1]] == region and not cuts[sources[1]]
                    ):
                        place[row] = region
                        spent[region] += cost
                        continue
            self._assign(row, cost, sources)
        self._leftovers()
        by_start = sorted(range(len(spent)), key=self.start_ns.__getitem__)
        number = [0] * len(by_start)
        for rank, region in enumerate(by_start):
            number[region] = rank
        for start in range(0, len(place), 1_024):
            place[start : start + 1_024] = [number[region] for region in place[start : start + 1_024]]
            breathe()
        return place

    def _assign(self, row: int, cost: int, sources: tuple[int, ...]) -> None:
        place, branches = self.place, self.branches
        heavy = branches.branch_ns[row] >= HEAVY_NS
        light = {place[source] for source in sources if place[source] < 0}
        extra = sum([self.clusters[number][1] for number in light])
        if light and (
            extra + cost > LONGEST_NS
            or (heavy and any(branches.forks[source] for source in sources if place[source] < 0))
        ):
            self._promote(light)
            light, extra = set(), 0
        if self.guests:
            self._send_out(sources, heavy)
        regions = {place[source] for source in sources if place[source] >= 0}
        if not regions:
            self._join_cluster(row, cost, light)
            return
        region = self._choose(row, cost + extra, regions, heavy)
        for number in light:
            self._absorb(number, region)
        place[row] = region
        self.spent_ns[region] += cost
        regions.discard(region)
        self._depend(region, regions)

    # --- regions ----------------------------------------------------------------------------------

    def _open(self, start_ns: int) -> int:
        self.start_ns.append(start_ns)
        self.spent_ns.append(0)
        self.limit_ns.append(LONGEST_NS)
        self.slack_ns.append(HEAVY_NS)
        self.needs.append(set())
        self.has_dependents.append(False)
        self.follower.append(-1)
        return len(self.spent_ns) - 1

    def _end_ns(self, region: int) -> int:
        """When it ends; always after its start."""
        return self.start_ns[region] + (self.spent_ns[region] or 1)

    def _depend(self, region: int, on: Collection[int]) -> None:
        self.needs[region].update(on)
        for need in on:
            if not self.has_dependents[need]:
                self.has_dependents[need] = True
                self.limit_ns[need] = min(LONGEST_NS, self.spent_ns[need] + HEAVY_NS)

    def _choose(self, row: int, cost: int, regions: set[int], heavy: bool) -> int:
        """The region of a row that reads `regions`: of those the one that ends last, unless a cut is due."""
        barred = self._barred(row) if heavy else set[int]()
        for region in nlargest(_LOOKED_AT, regions - barred, key=self._end_ns):
            if self._takes(region, regions, cost):
                return region
        ready = max(0, *[self._end_ns(region) for region in regions])
        if not barred:
            for region in {self.follower[region] for region in regions}:
                late = heavy and region >= 0 and self._end_ns(region) - ready >= HEAVY_NS
                if region >= 0 and not late and self._takes(region, regions, cost):
                    return region
        made = self._open(ready)
        if not barred:
            for region in regions:
                self.follower[region] = made
        return made

    def _barred(self, row: int) -> set[int]:
        """The regions of which a row that starts a heavy branch cannot become a part: it runs beside what follows."""
        place, forks, outputs, spent = self.place, self.branches.forks, self.outputs, self.spent_ns
        return {
            place[source]
            for source in self.preds[row]
            if place[source] >= 0 and (forks[source] or (source in outputs and spent[place[source]] >= HEAVY_NS))
        }

    def _takes(self, region: int, regions: set[int], cost: int) -> bool:
        """Whether a row that reads `regions` may join `region`; then moves its start to where they have ended."""
        spent, start = self.spent_ns[region], self.start_ns[region]
        if spent + cost > self.limit_ns[region]:
            return False
        ends = [self._end_ns(need) for need in regions - self.needs[region] if need != region]
        ready = max(ends, default=start)
        if ready > start:
            waits = min(ready - start, spent)
            if self.has_dependents[region] or waits >= self.slack_ns[region]:
                return False
            self.slack_ns[region] -= waits
            self.start_ns[region] = ready
        return True

    # --- light rows -------------------------------------------------------------------------------

    def _join_cluster(self, row: int, cost: int, light: set[int]) -> None:
        """Add a row without a region among its producers to their cluster; a cluster that has grown becomes one."""
        if light:
            number, *others = sorted(light, key=lambda n: -len(self.clusters[n][0]))
            rows, spent = self.clusters[number]
            for other in others:
                more, extra = self.clusters.pop(other)
                for moved in more:
                    self.place[moved] = number
                rows.extend(more)
                spent += extra
        else:
            number, rows, spent = self.next_cluster, [], 0
            self.next_cluster -= 1
        rows.append(row)
        self.place[row] = number
        self.clusters[number] = (rows, spent + cost)
        if spent + cost >= HEAVY_NS:
            self._move(self.clusters.pop(number)[0], self._open(0))

    def _absorb(self, cluster: int, region: int) -> None:
        """Put a cluster into the region of the row that reads it."""
        rows = self.clusters.pop(cluster)[0]
        self._move(rows, region)
        for row in rows:
            if self.branches.consumers[row] > 1:
                self.guests[row] = rows
                self.cuts[row] = 1

    def _promote(self, clusters: Collection[int]) -> None:
        """Put clusters into as few regions of their own as the bound allows. They end before anything else starts."""
        region = -1
        for number in sorted(clusters, reverse=True):
            rows, spent = self.clusters.pop(number)
            if region < 0 or self.spent_ns[region] + spent > LONGEST_NS:
                region = self._open(0)
            self._move(rows, region)
            self.start_ns[region] = -1 - self.spent_ns[region]

    def _send_out(self, sources: tuple[int, ...], heavy: bool) -> None:
        """Make a region of guests whose host would keep another reader waiting: that only needs them."""
        place, guests = self.place, self.guests
        for source in sources:
            rows = guests.get(source)
            if rows is None:
                continue
            host = place[source]
            if any(place[other] == host and other not in guests for other in sources):
                continue  # it reads the host itself
            others = {place[other] for other in sources if place[other] >= 0} - {host}
            if others:
                joined = max(others, key=self._end_ns)
                late = host not in self.needs[joined] and (
                    self._end_ns(host) - max(self.start_ns[joined], 0) >= HEAVY_NS
                )
            else:
                late = heavy and self._end_ns(host) >= HEAVY_NS
            if late:
                made = self._open(0)
                self._move(rows, made)
                self.spent_ns[host] -= self.spent_ns[made]
                self.start_ns[made] = min(self.start_ns[host], 0) - 1 - self.spent_ns[made]
                self._depend(host, (made,))
                for row in rows:
                    guests.pop(row, None)

    def _move(self, rows: Sequence[int], region: int) -> None:
        for row in rows:
            self.place[row] = region
            self.spent_ns[region] += self.costs_ns[row]

    def _leftovers(self) -> None:
        """Clusters that no region reads."""
        spent = sum([spent for _, spent in self.clusters.values()])
        last = len(self.spent_ns) - 1
        if last >= 0 and spent < HEAVY_NS and self.spent_ns[last] + spent <= LONGEST_NS:
            for number in list(self.clusters):
                self._absorb(number, last)
        else:
            self._promote(list(self.clusters))
