"""Cutting lowered rows into regions: the units that are placed and launched.

A region starts where two sides predicted at 50 µs or more could run beside each other (the branches of a fork, a
requested output and what follows it, a join of two such branches), and wherever a region's predicted time would pass
2 ms. Regions are numbered so that dependencies only go from lower to higher numbers: a row joins the highest-numbered
region among those it reads, or a new one, so the region graph has no cycle by construction.

Rows too light to matter wait in *clusters* (no dependency outside, below 50 µs) until a row that reads them has a
region: a graph of ten thousand tiny kernels becomes a handful of regions, not thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuel_async.ir import Breathe, no_breath

#: From this predicted time on, running beside something else pays for a launch of its own.
HEAVY_NS = 50_000

#: A region is never interrupted on a GPU, and is what cancellation waits for: its predicted time is bounded.
LONGEST_NS = 2_000_000

#: A cut that yields regions of a mean below half of HEAVY_NS has shattered the graph; then time alone cuts it.
_SLACK_REGIONS = 8

_SINK, _OPEN = -1, -2


@dataclass(frozen=True, slots=True)
class Cut:
    """The region of each row, and for each region the ones it needs finished first."""

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
    if total < 2 * HEAVY_NS:
        regions = [0] * len(costs_ns)
    else:
        branches = _Branches(costs_ns, preds, breathe)
        regions = _Cutting(costs_ns, preds, output_rows, branches).run(breathe)
        if max(regions, default=0) + 1 > 2 * total // HEAVY_NS + _SLACK_REGIONS:
            regions = by_time(costs_ns)
    return Cut(regions, _needs(regions, preds, breathe))


def by_time(costs_ns: Sequence[int]) -> list[int]:
    """Cut into runs of consecutive rows of at most `LONGEST_NS` each: always valid, never parallel."""
    regions, region, spent = [], 0, 0
    for cost in costs_ns:
        if spent and spent + cost > LONGEST_NS:
            region, spent = region + 1, 0
        spent += cost
        regions.append(region)
    return regions


def _needs(regions: Sequence[int], preds: Sequence[tuple[int, ...]], breathe: Breathe) -> list[frozenset[int]]:
    needs: list[set[int]] = [set() for _ in range(max(regions, default=-1) + 1)]
    for row, sources in enumerate(preds):
        region = regions[row]
        for source in sources:
            if regions[source] != region:
                needs[region].add(regions[source])
        if not row & 1023:
            breathe()
    return [frozenset(some) for some in needs]


class _Branches:
    """Per row, the predicted time of the branch that starts with it, up to where branches meet again.

    Walked from the end: a branch runs on through single consumers, and through a fork all of whose branches meet in one
    join that nothing else feeds (a diamond); it ends before any other join. A row that is itself a join starts no
    branch: what it reads must be finished anyway.
    """

    def __init__(self, costs_ns: Sequence[int], preds: Sequence[tuple[int, ...]], breathe: Breathe) -> None:
        count = len(costs_ns)
        #: Time of the branch from each row on; the row itself included.
        self.branch_ns = list(costs_ns)
        #: Consumers of each row, and how many of them start a heavy branch.
        self.consumers = consumers = [0] * count
        self.heavy_branches = heavy = [0] * count
        below = [0] * count
        ends = [_SINK] * count
        for row in range(count - 1, -1, -1):
            end = ends[row]
            total = costs_ns[row] + below[row]
            if end >= 0 and consumers[row] == len(preds[end]) > 1:
                total += self.branch_ns[end]
                end = ends[end]
            self.branch_ns[row] = total
            ends[row] = end
            sources = preds[row]
            if len(sources) > 1:
                end, total = row, 0
            for source in sources:
                if not consumers[source]:
                    ends[source] = end
                elif ends[source] != end:
                    ends[source] = _OPEN
                consumers[source] += 1
                below[source] += total
                if total >= HEAVY_NS:
                    heavy[source] += 1
            if not row & 255:
                breathe()


class _Cutting:
    """The forward walk. Regions are numbers from 0; clusters of light rows are numbered from -2 downwards."""

    def __init__(
        self,
        costs_ns: Sequence[int],
        preds: Sequence[tuple[int, ...]],
        output_rows: frozenset[int],
        branches: _Branches,
    ) -> None:
        self.costs_ns, self.preds, self.outputs, self.branches = costs_ns, preds, output_rows, branches
        self.place = [0] * len(costs_ns)
        self.spent: list[int] = []
        self.reads: list[set[int]] = []
        #: Where rows go that would join a region which is full; and the join made after a region.
        self.follower: list[int] = []
        self.clusters: dict[int, tuple[list[int], int]] = {}
        self.next_cluster = -2

    def run(self, breathe: Breathe) -> list[int]:
        place, spent, heavy, outputs = self.place, self.spent, self.branches.heavy_branches, self.outputs
        for row, (cost, sources) in enumerate(zip(self.costs_ns, self.preds, strict=True)):
            if not row & 63:
                breathe()
            # The way of nearly all rows: what it reads is in one region, which is no heavy fork and has room.
            if sources:
                source = sources[0]
                region = place[source]
                if region >= 0 and spent[region] + cost <= LONGEST_NS:
                    if len(sources) == 1:
                        joins = heavy[source] < 2 and source not in outputs
                    else:
                        joins = len(sources) == 2 and place[sources[1]] == region
                    if joins:
                        place[row] = region
                        spent[region] += cost
                        continue
            self._assign(row)
        last = len(self.spent) - 1
        for number in list(self.clusters):
            self._absorb(number, last if last >= 0 else self._open())
            last = len(self.spent) - 1
        return self.place

    def _open(self) -> int:
        self.spent.append(0)
        self.reads.append(set())
        self.follower.append(-1)
        return len(self.spent) - 1

    def _assign(self, row: int) -> None:
        place, sources = self.place, self.preds[row]
        if len(sources) == 1 and place[sources[0]] >= 0:
            regions, light = {place[sources[0]]}, set[int]()
        else:
            regions = {place[s] for s in sources if place[s] >= 0}
            light = {place[s] for s in sources if place[s] < 0}
        if light and self._starts_branch(row, light):
            region = self._open()
            for number in sorted(light, reverse=True):
                self._absorb(number, region)
            regions.add(region)
            light = set()
        if not regions:
            self._join_cluster(row, light)
            return
        region = self._choose(row, regions)
        for number in light:
            self._absorb(number, region)
        self._put(row, region)
        self.reads[region].update(regions)

    def _starts_branch(self, row: int, light: set[int]) -> bool:
        """Whether a light producer forks into heavy branches, so that it must be finished before they start."""
        heavy = self.branches.heavy_branches
        return self.branches.branch_ns[row] >= HEAVY_NS and any(
            heavy[s] >= 2 for s in self.preds[row] if self.place[s] in light
        )

    def _choose(self, row: int, regions: set[int]) -> int:
        """The region of a row that reads `regions`: the highest of them, unless a cut is due."""
        highest = max(regions)
        branches, sources = self.branches, self.preds[row]
        cost = self.costs_ns[row]
        if len(regions) > 1:
            heavy = sum(self.spent[r] >= HEAVY_NS for r in regions)
            if heavy >= 2 and not regions - {highest} <= self.reads[highest]:
                joined = self.follower[highest]
                if joined >= 0 and regions <= self.reads[joined] and self._fits(joined, cost):
                    return joined
                made = self._open()
                self.follower[highest] = made
                return made
        if branches.branch_ns[row] >= HEAVY_NS:
            fork = any(
                branches.heavy_branches[s] >= 2 or (s in self.outputs and self.spent[highest] >= HEAVY_NS)
                for s in sources
                if self.place[s] == highest
            )
            if fork and len(sources) == 1:
                return self._open()
        while not self._fits(highest, cost):
            follower = self.follower[highest]
            if follower < 0:
                follower = self.follower[highest] = self._open()
            highest = follower
        return highest

    def _fits(self, region: int, cost: int) -> bool:
        return not self.spent[region] or self.spent[region] + cost <= LONGEST_NS

    def _put(self, row: int, region: int) -> None:
        self.place[row] = region
        self.spent[region] += self.costs_ns[row]

    def _absorb(self, cluster: int, region: int) -> None:
        for row in self.clusters.pop(cluster)[0]:
            self._put(row, region)

    def _join_cluster(self, row: int, light: set[int]) -> None:
        """Add a row without a region among its producers to their cluster; a cluster that has grown becomes one."""
        cost = self.costs_ns[row]
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
            self._absorb(number, self._open())
