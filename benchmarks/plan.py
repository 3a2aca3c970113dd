"""What planning a whole graph costs, in microseconds a task. No task is like another, but in the model told apart.

The collector is held, as callers for whom time matters do. The full planner on 2,000 tasks and eight devices, the
quick form on 100,000 and four, each with copies that do not wait for each other and with such that wait for ports; and
how the quick form's cost grows from a thousand tasks to 100,000. Then a model of 96 equal layers, of which a few are
planned for all (`fold.py` of the planner): what that costs, how many times less than to plan all of them, and how much
longer the plan is. Times are the thread's own: others on the machine
make them longer only as far as they slow its cores down.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from statistics import median
from time import thread_time_ns
from typing import TYPE_CHECKING

from benchmarks.collecting import held
from benchmarks.dags import layered, mixture
from benchmarks.machines import MACHINES, Device, Machine, problem_on
from benchmarks.report import Report, Target, WrongResult
from fuel_async.ir import no_breath
from fuel_async.plan.placement import Effort, Origin, effort_for, place, tables_of
from fuel_async.plan.placement.fold import shortened
from fuel_async.plan.placement.two_way import FEW, FULL, QUICK, heft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.plan.placement import Placement, Problem

TARGETS = {
    "full_us": Target(max=100),
    "full_with_ports_us": Target(max=100),
    "quick_us": Target(max=50),
    "exponent": Target(max=1.1),
    "memo_us": Target(max=30),
    "memo_gain": Target(min=1.3),
    "memo_gain_without_ports": Target(min=2),
    "memo_length": Target(max=1.02),
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
    layers: int = 96
    #: Rounds of the full planner; what takes seconds is measured once.
    rounds: int = 5


QUICK_LOOK = Scale(full=60, quick=200, sizes=(50, 100), devices=(1, 2), layers=16, rounds=1)


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
        figures |= _memo(scale.layers, scale.rounds)
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
        one_ns, placement = _timed(problem, effort)
        took_ns.append(one_ns)
        lengths_ns.add(placement.makespan_ns)
    if len(lengths_ns) > 1 or placement.makespan_ns < placement.bound_ns * (1 - 1e-9):
        raise WrongResult("equal problems get different plans, or one that is shorter than any can be")
    return median(took_ns) / tasks / 1e3


def _memo(layers: int, rounds: int) -> dict[str, float]:
    """A model of equal layers on the eight devices of the mixed machine, planned with and without folding by turns."""
    figures, machine, chance = dict[str, float](), replace(MACHINES["mixed"], jitter=0.0), random.Random(0)
    for name, ports in (("", True), ("_without_ports", False)):
        problem = problem_on(machine, mixture(layers), chance, None, contended=ports)
        effort = effort_for(len(problem), problem.fleet)
        took_ns = list[tuple[int, int]]()
        for _ in range(rounds):
            folded_ns, folded = _timed(problem, effort)
            whole_ns, whole = _timed(problem, effort._replace(folds=False))
            took_ns.append((folded_ns, whole_ns))
        if whole.origin is Origin.FOLDED or not shortened(tables_of(problem, no_breath)):
            raise WrongResult("it is not folded planning that is compared with planning of the whole")
        figures[f"memo{name}_us"] = median([folded for folded, _ in took_ns]) / len(problem) / 1e3
        figures[f"memo_gain{name}"] = median([whole / folded for folded, whole in took_ns])
        figures[f"memo_length{name}"] = folded.makespan_ns / whole.makespan_ns
    return figures


def _timed(problem: Problem, effort: Effort) -> tuple[int, Placement]:
    started_ns = thread_time_ns()
    placement = place(problem, effort)
    return thread_time_ns() - started_ns, placement


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
