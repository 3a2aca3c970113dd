"""What planning a whole graph costs, in microseconds a task: no task is like another, and no plan is remembered.

The collector is held, as callers for whom time matters do. The full planner on 2,000 tasks and eight devices, the
quick form on 100,000 and four, each with copies that do not wait for each other and with such that wait for ports; and
how the quick form's cost grows from a thousand tasks to 100,000. Times are the thread's own: others on the machine
make them longer only as far as they slow its cores down.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median
from time import thread_time_ns
from typing import TYPE_CHECKING

from benchmarks.collecting import held
from benchmarks.dags import layered
from benchmarks.machines import Device, Machine, problem_on
from benchmarks.report import Report, Target, WrongResult
from fuel_async.ir import no_breath
from fuel_async.plan.placement import Effort, place, tables_of
from fuel_async.plan.placement.two_way import FEW, FULL, QUICK, heft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement import Problem

TARGETS = {
    "full_us": Target(max=100),
    "full_with_ports_us": Target(max=100),
    "quick_us": Target(max=50),
    "exponent": Target(max=1.1),
}

#: The mean time of a move in units of that of a task.
RATIO = 1.0


@dataclass(frozen=True, slots=True)
class Scale:
    full: int = 2_000
    quick: int = 100_000
    #: For the exponent.
    sizes: Sequence[int] = (1_000, 10_000, 100_000)
    devices: Sequence[int] = (1, 4, 16)
    #: Rounds of the full planner; what takes seconds is measured once.
    rounds: int = 5


QUICK_LOOK = Scale(full=60, quick=200, sizes=(50, 100), devices=(1, 2), rounds=1)


def measure(quick: bool) -> Report:
    scale = QUICK_LOOK if quick else Scale()
    figures: dict[str, float] = {}
    with held():
        for name, ports in (("", False), ("_with_ports", True)):
            figures[f"full{name}_us"] = _cost_us(scale.full, 8, FULL[ports, FEW < 8], scale.rounds, ports=ports)
            figures[f"quick{name}_us"] = _cost_us(scale.quick, 4, QUICK[ports], 1, ports=ports)
        figures["heft_us"] = _heft_us(scale.full, 8, scale.rounds)
        for devices in scale.devices:
            costs = {size: _cost_us(size, devices, QUICK[False], 1) for size in scale.sizes}
            figures[f"exponent.{devices}"] = _exponent(costs)
    return Report(
        "plan", {"this machine": figures}, TARGETS, {"full": scale.full, "quick": scale.quick, "collector": "held"}
    )


def _problem(tasks: int, devices: int, *, ports: bool) -> Problem:
    """A layered random graph on devices of speeds from 1 to 4."""
    chance = random.Random(f"{tasks}/{devices}")
    machine = Machine([Device(1.0 + number % 4) for number in range(devices)], {}, (10_000.0, 12.0), jitter=0.2)
    ratio = RATIO if devices > 1 else None
    return problem_on(machine, layered(tasks, chance), chance, ratio, contended=ports)


def _cost_us(tasks: int, devices: int, effort: Effort, rounds: int, *, ports: bool = False) -> float:
    problem = _problem(tasks, devices, ports=ports)
    took_ns, lengths_ns = list[int](), set[float]()
    for _ in range(rounds):
        started_ns = thread_time_ns()
        placement = place(problem, effort)
        took_ns.append(thread_time_ns() - started_ns)
        lengths_ns.add(placement.makespan_ns)
    if len(lengths_ns) > 1 or placement.makespan_ns < placement.bound_ns * (1 - 1e-9):
        raise WrongResult("equal problems get different plans, or one that is shorter than any can be")
    return median(took_ns) / tasks / 1e3


def _heft_us(tasks: int, devices: int, rounds: int) -> float:
    """HEFT alone: what the others are a multiple of."""
    problem = _problem(tasks, devices, ports=False)
    took_ns = list[int]()
    for _ in range(rounds):
        started_ns = thread_time_ns()
        heft(tables_of(problem, no_breath))
        took_ns.append(thread_time_ns() - started_ns)
    return median(took_ns) / tasks / 1e3


def _exponent(costs: Mapping[int, float]) -> float:
    """Of the power of the number of tasks that the whole cost grows with, by least squares of logarithms."""
    points = [(math.log(size), math.log(size * cost)) for size, cost in costs.items()]
    middle, height = (sum(column) / len(points) for column in zip(*points, strict=True))
    exponent: float = sum((x - middle) * (y - height) for x, y in points) / sum((x - middle) ** 2 for x, _ in points)
    return exponent
