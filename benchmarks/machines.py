"""The machines that schedules are compared on, as data, and what a task graph comes to on one of them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.families import FAMILIES
from fuel_async.plan.placement import STAYS, Fleet, Problem, Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.dags import Dag

#: How good processors, graphics processors and integrated ones are at each kind of work, beside their speed.
_SKILLS: Mapping[str, Sequence[float]] = {
    "plain": (1.0, 1.0, 1.0),
    "processor": (1.0, 0.8, 0.5),
    "small processor": (1.0, 0.7, 0.4),
    "graphics": (1.0, 2.0, 6.0),
    "small graphics": (1.0, 1.5, 3.0),
    "integrated": (1.0, 0.9, 1.5),
}


@dataclass(frozen=True, slots=True)
class Device:
    speed: float
    lanes: int = 1
    skills: str = "plain"


@dataclass(frozen=True, slots=True)
class Machine:
    devices: Sequence[Device]
    #: (latency_ns, bytes_per_ns) between different devices, by what they are.
    links: Mapping[tuple[str, str], tuple[float, float]]
    otherwise: tuple[float, float]
    #: The devices that are linked more closely than others of their kind.
    paired: tuple[int, int] | None = None
    #: Relative spread of the time of a task on a device beside what speed and skills say.
    jitter: float = 0.0

    def link(self, source: int, to: int) -> tuple[float, float]:
        if {source, to} == set(self.paired or ()):
            return 5_000.0, 50.0
        skills = self.devices[source].skills, self.devices[to].skills
        return self.links.get(skills) or self.links.get(skills[::-1]) or self.otherwise

    def fleet(self, *, contended: bool) -> Fleet:
        """A memory for each device; if contended, each sends one value at a time and receives one."""
        numbers = range(len(self.devices))

        def way(source: int, to: int) -> Way:
            if source == to:
                return STAYS
            latency_ns, bytes_per_ns = self.link(source, to)
            return Way(latency_ns, 1 / bytes_per_ns, (source, len(numbers) + to) if contended else None)

        ways = [[way(source, to) for to in numbers] for source in numbers]
        return Fleet([device.lanes for device in self.devices], numbers, ways)


_CPU, _GPU = "small processor", "small graphics"

MACHINES: Mapping[str, Machine] = {
    "equal": Machine([Device(1.0)] * 4, {}, (8_000.0, 25.0)),
    "4:2:1": Machine([Device(4.0), Device(2.0), Device(1.0)], {}, (8_000.0, 12.0)),
    "slow-link": Machine(
        [Device(1.0, 2, "processor"), Device(8.0, 1, "graphics"), Device(8.0, 1, "graphics")],
        {("processor", "graphics"): (15_000.0, 3.0)},
        (25_000.0, 2.0),
        jitter=0.15,
    ),
    "mixed": Machine(
        [
            Device(0.5, 4, _CPU),
            Device(0.5, 2, _CPU),
            *[Device(speed, 1, _GPU) for speed in (4.0, 4.0, 2.0, 2.0, 2.0)],
            Device(1.0, 1, "integrated"),
        ],
        {
            (_CPU, _CPU): (10_000.0, 8.0),
            (_CPU, _GPU): (15_000.0, 6.0),
            (_CPU, "integrated"): (15_000.0, 6.0),
        },
        (10_000.0, 12.0),
        paired=(2, 3),
        jitter=0.25,
    ),
}


def problem_on(
    machine: Machine, dag: Dag, chance: random.Random, ratio: float | None, *, contended: bool = False
) -> Problem:
    """What a task graph comes to; with `ratio` sizes are scaled so that a move takes that much of a task on average."""
    fleet = machine.fleet(contended=contended)
    times_ns = [
        [
            work * _SKILLS[device.skills][kind] / device.speed * math.exp(chance.gauss(0.0, machine.jitter))
            for device in machine.devices
        ]
        for work, kind in zip(dag.work_ns, dag.kinds, strict=True)
    ]
    nbytes = list(dag.nbytes)
    if ratio is not None:
        factor = _bytes_for(fleet, dag, times_ns, ratio)
        nbytes = [factor * size for size in nbytes]
    return Problem(fleet, times_ns, dag.preds, [(task,) for task in range(len(dag.preds))], nbytes)


def _bytes_for(fleet: Fleet, dag: Dag, times_ns: Sequence[Sequence[float]], ratio: float) -> float:
    """The factor of sizes with which the mean move takes `ratio` of the mean task."""
    lanes = fleet.lanes
    work = [sum(ns * count for ns, count in zip(row, lanes, strict=True)) / sum(lanes) for row in times_ns]
    mean_ns = sum(work) / len(work)
    pairs = [way for source, row in enumerate(fleet.ways) for to, way in enumerate(row) if source != to]
    latency_ns = sum(way.latency_ns for way in pairs) / len(pairs)
    ns_per_byte = sum(way.ns_per_byte for way in pairs) / len(pairs)
    read = sorted({pred for preds in dag.preds for pred in preds})
    mean_nbytes = sum(dag.nbytes[task] for task in read) / max(len(read), 1)
    wanted_ns = max(ratio * mean_ns - latency_ns, 0.02 * ratio * mean_ns)
    return wanted_ns / ns_per_byte / mean_nbytes if mean_nbytes else 0.0


@dataclass(frozen=True, slots=True)
class Instance:
    family: str
    machine: str
    problem: Problem


def instances(
    seed: int, families: Sequence[str], sizes: Sequence[int], draws: int, *, contended: bool = False
) -> Iterator[Instance]:
    """Draw `draws` graphs of each family and size, each on every machine. The same ones for the same seed."""
    for family in families:
        for size in sizes:
            for number in range(draws):
                chance = random.Random(f"{seed}/{family}/{size}/{number}")
                dag, bounds = FAMILIES[family].draw(size, chance), FAMILIES[family].ratio
                ratio = None if bounds is None else bounds[0] * (bounds[1] / bounds[0]) ** chance.random()
                for name, machine in MACHINES.items():
                    own = random.Random(f"{seed}/{family}/{size}/{number}/{name}")
                    yield Instance(family, name, problem_on(machine, dag, own, ratio, contended=contended))
