"""Problems that repeat themselves, built layer by layer; and what makes a repeat one, without the planner's code."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from fuel_async.plan.placement import Fleet, Problem, all_ways
from tests.plan.placement.support import fleets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement import Row
    from fuel_async.plan.placement.repeats import Repeat

TWO = Fleet([1, 1], [0, 1], all_ways(2, 2.0, 1.0))


@dataclass(slots=True)
class Model:
    """A problem under construction. Each task makes one value, or as many as are given sizes."""

    fleet: Fleet = TWO
    times_ns: list[Row] = field(default_factory=list)
    reads: list[Sequence[int]] = field(default_factory=list)
    writes: list[Sequence[int]] = field(default_factory=list)
    nbytes: list[float] = field(default_factory=list)
    given: dict[int, Mapping[int, float]] = field(default_factory=dict)
    owed: dict[int, int] = field(default_factory=dict)

    def value(self, nbytes: float = 4.0) -> int:
        """A value that is given in memory 0."""
        self.nbytes.append(nbytes)
        self.given[len(self.nbytes) - 1] = {0: 0.0}
        return len(self.nbytes) - 1

    def task(self, reads: Sequence[int] = (), ns: float | Row = 10.0, nbytes: Sequence[float] = (8.0,)) -> int:
        """A task, of that time on every device or of those times; return the first value that it makes."""
        self.times_ns.append([ns] * len(self.fleet.lanes) if isinstance(ns, float) else ns)
        self.reads.append(list(dict.fromkeys(reads)))
        self.writes.append(range(len(self.nbytes), len(self.nbytes) + len(nbytes)))
        self.nbytes += nbytes
        return self.writes[-1][0]

    def fork(self, last: int, branches: Sequence[float] = (30.0, 20.0, 40.0)) -> int:
        """One layer: branches of these times, and a join that reads all of them."""
        return self.task([self.task([last], ns) for ns in branches], 5.0)

    def forks(self, last: int, layers: int) -> int:
        for _ in range(layers):
            last = self.fork(last)
        return last

    def done(self) -> Problem:
        problem = Problem(self.fleet, self.times_ns, self.reads, self.writes, self.nbytes, self.given, self.owed)
        problem.verify()
        return problem


@dataclass(frozen=True, slots=True)
class Block:
    """A layer: which tasks of it each task reads, the layer before it if none; the last joins what nobody reads."""

    reads: Sequence[Sequence[int]]
    times_ns: Sequence[Row]
    nbytes: Sequence[float]
    #: Tasks that read a value that is there for all layers, and such whose value the host gets.
    shared: frozenset[int]
    owed: frozenset[int]

    def put(self, model: Model, last: int, shared: int) -> int:
        """One more layer; return the value that the next one reads."""
        made: list[int] = []
        read = {place for reads in self.reads for place in reads}
        for place, reads in enumerate(self.reads):
            values = [made[one] for one in reads] or [last]
            if place == len(self.reads) - 1:
                values += [value for one, value in enumerate(made) if one not in read]
            values += [shared] if place in self.shared else []
            made.append(model.task(values, self.times_ns[place], (self.nbytes[place],)))
            if place in self.owed:
                model.owed[made[-1]] = 0
        return made[-1]


def block(chance: random.Random, devices: int, tasks: int) -> Block:
    """Times and sizes of which some are equal, and tasks that cannot run everywhere."""

    def row() -> Row:
        some = [float(chance.choice((0, 5, 5, 20, chance.uniform(1, 50)))) for _ in range(devices)]
        for device in chance.sample(range(devices), chance.randint(0, devices - 1) // 2):
            some[device] = math.inf
        return some

    return Block(
        [sorted(chance.sample(range(task), min(task, chance.choice((0, 1, 1, 2))))) for task in range(tasks)],
        [row() for _ in range(tasks)],
        [float(chance.choice((0, 1, 10, 40))) for _ in range(tasks)],
        frozenset(task for task in range(tasks) if chance.random() < 0.15),
        frozenset(task for task in range(tasks) if chance.random() < 0.1),
    )


@st.composite
def models(draw: st.DrawFn, least: int = 1, most: int = 20) -> Problem:
    """Something first, up to three stretches of equal layers, something last that may read anything."""
    fleet = draw(fleets())
    chance = random.Random(draw(st.integers(0, 2**32)))
    stretches = draw(st.lists(st.integers(least, most), min_size=1, max_size=3))
    model = Model(fleet)
    shared, last = model.value(), model.task((), 7.0)
    for _ in range(chance.randint(0, 3)):
        last = model.task([last], chance.choice((3.0, 7.0)))
    shared = chance.choice((shared, last))
    for layers in stretches:
        one = block(chance, len(fleet.lanes), chance.randint(1, 5))
        for _ in range(layers):
            last = one.put(model, last, shared)
    for _ in range(chance.randint(0, 3)):
        model.task([last, *chance.sample(range(len(model.nbytes)), chance.choice((0, 1, 3)))], 7.0)
    return model.done()


def check_repeat(problem: Problem, one: Repeat) -> None:
    """Each task is like the one a period later, and no value of the repeat is read past the end of a layer."""
    made_by = problem.producers()
    places = {value: place for writes in problem.writes for place, value in enumerate(writes)}

    def owed(values: Sequence[int]) -> list[tuple[float, int | None]]:
        return [(problem.nbytes[value], problem.owed.get(value)) for value in values]

    for task in range(one.first, one.end - one.period):
        later = task + one.period
        assert problem.times_ns[task] == problem.times_ns[later]
        assert owed(problem.writes[task]) == owed(problem.writes[later])
        for value, other in zip(problem.reads[task], problem.reads[later], strict=True):
            if value == other:
                assert made_by[value] < one.first
            else:
                assert made_by[other] - made_by[value] == one.period
                assert made_by[value] >= 0
                assert places[value] == places[other]
    for task in range(one.first + one.period, one.end):
        for value in problem.reads[task]:
            if made_by[value] >= one.first:
                ends = range(one.first + one.period - 1, one.end, one.period)
                assert not any(made_by[value] < end < task for end in ends)
