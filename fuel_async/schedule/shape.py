"""What the scheduler needs to know of a plan and of the lanes: numbers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan import Plan
    from fuel_async.schedule.machine import Prices
    from fuel_async.schedule.prior import Prior

#: Kernels below this mean predicted time never release the interpreter for long: two lanes of them only convoy on it.
FINE_KERNEL_NS = 4_000


@dataclass(frozen=True, slots=True, eq=False)
class RunShape:
    """The dependency graph of a plan's regions."""

    needs: Sequence[frozenset[int]]
    dependents: Sequence[Sequence[int]]
    predicted_ns: Sequence[int]
    #: Regions of kernels so small that they are kept on one host lane.
    fine: Sequence[bool]
    #: What runs that may be spread over devices need beside.
    spread: SpreadShape | None = None
    #: A plan of the whole run, where one was made.
    prior: Prior | None = None
    #: Number of needs of each region, and the regions without any: where every run starts.
    missing: Sequence[int] = field(init=False)
    roots: Sequence[int] = field(init=False)
    #: Of runs that may be spread, how urgent each region is: by its planned start, or without a plan by the predicted
    #: time from its start to the run's end, along the longest way.
    ranks: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        missing = [len(needs) for needs in self.needs]
        object.__setattr__(self, "missing", missing)
        roots = [region for region, count in enumerate(missing) if not count]
        ranks: list[int] = []
        if self.spread is not None and self.prior is not None:
            ranks = list(self.prior.ranks)
            roots.sort(key=ranks.__getitem__, reverse=True)
        elif self.spread is not None:
            ranks = [0] * len(missing)
            for region in reversed(range(len(missing))):
                later = max([ranks[dependent] for dependent in self.dependents[region]], default=0)
                ranks[region] = self.predicted_ns[region] + later
            roots.sort(key=ranks.__getitem__, reverse=True)
        object.__setattr__(self, "ranks", ranks)
        object.__setattr__(self, "roots", roots)

    def __len__(self) -> int:
        return len(self.needs)


@dataclass(frozen=True, slots=True, eq=False)
class SpreadShape:
    """What a plan's regions exchange, and what is known of their times."""

    #: By region: the values it reads that are made outside of it, and those it makes for others.
    reads: Sequence[Sequence[int]]
    writes: Sequence[Sequence[int]]
    #: By value: its size, the region that makes it (-1 for a feed), and how many regions read it.
    nbytes: Sequence[int]
    producers: Sequence[int]
    readers: Sequence[int]
    #: Values that the caller receives in the host's memory.
    outputs: frozenset[int]
    #: By region: the number of the device that it must run on, None where it is free.
    pins: Sequence[int | None]
    #: What a run holds of every memory that a region of it runs in.
    share_nbytes: int
    prices: Prices


@dataclass(frozen=True, slots=True)
class LaneShape:
    """One lane: how many submissions it should hold, and whether fine regions may go there."""

    slot_capacity: int
    takes_fine: bool = True


def shape_of(plan: Plan, spread: SpreadShape | None = None) -> RunShape:
    """Return the shape of a plan's runs; of those that are spread over devices with `spread`."""
    programs = [region.program for region in plan.regions]
    return RunShape(
        needs=[region.needs for region in plan.regions],
        dependents=[region.dependents for region in plan.regions],
        predicted_ns=[program.predicted_ns for program in programs],
        fine=[program.predicted_ns < FINE_KERNEL_NS * len(program) for program in programs],
        spread=spread,
    )
