"""How long plans of whole graphs take beside HEFT's, and beside a bound that no plan can beat.

    python -m benchmarks makespan --seed 7
    python -m benchmarks makespan --family encoder --family workflows

Plans are carried out in simulated time (`simulated_run.py`), HEFT's through the same links; graphs and machines are
drawn from the seed. Three comparisons: copies that do not wait for each other; copies that wait for ports; and tasks
that take other times than was told. Then what the scheduler makes of plans (`scheduled.py`), and an executor
over simulated devices (`executed.py`). At the end a stream of graphs, each to one device.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import arrivals, executed, scheduled
from benchmarks.collecting import held
from benchmarks.families import FAMILIES, WORKFLOWS
from benchmarks.machines import instances
from benchmarks.report import Report, Target, WrongResult
from benchmarks.simulated_run import Order, Policy, carried_out_ns
from benchmarks.workflows import WorkflowsMissing, has_workflows
from fuel_async.backends.sim import Sharing
from fuel_async.ir import no_breath
from fuel_async.plan.placement import Effort, place, tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.machines import Instance
    from fuel_async.plan.placement import Problem, Row

HARD = ("encoder", "ensemble", "layered-10")

TARGETS = {
    "vs_heft_mean": Target(max=0.93),
    "vs_heft": Target(max=0.99),
    "vs_heft_hard": Target(max=0.80),
    "vs_heft_worst": Target(max=1.0),
    "vs_bound.equal": Target(max=1.18),
    "vs_bound.4:2:1": Target(max=1.12),
    "vs_bound.slow-link": Target(max=1.55),
    "vs_bound.mixed": Target(max=1.95),
    "executed_vs_heft": Target(max=0.80),
    "executed_vs_heft_worst": Target(max=1.0),
    "executed_vs_promised": Target(max=1.05),
    "live_vs_heft.independent": Target(max=0.92),
    "live_vs_heft.drift": Target(max=0.87),
    "live_vs_heft.slow": Target(max=0.76),
    "scheduled_vs_heft": Target(max=0.93),
    "scheduled_vs_promised": Target(max=1.05),
    "scheduled_live_vs_heft.independent": Target(max=0.92),
    "scheduled_live_vs_heft.drift": Target(max=0.87),
    "scheduled_live_vs_heft.slow": Target(max=0.76),
    "executor_vs_heft_mean": Target(max=0.93),
    "executor_vs_heft": Target(max=0.99),
    "executor_vs_heft_hard": Target(max=0.80),
    "executor_vs_heft_worst": Target(max=1.0),
    "executor_vs_promised": Target(max=1.05),
    "executor_with_ports_vs_heft_mean": Target(max=0.80),
    "executor_with_ports_vs_promised": Target(max=1.05),
    "executor_live_vs_heft.drift": Target(max=0.87),
    "executor_live_vs_heft.slow": Target(max=0.76),
    "stream_of_capacity": Target(min=0.97),
    "stream_vs_count": Target(max=0.85),
}

#: What holds for each family. The others are for the mean of all of them.
OF_EACH = frozenset({"vs_heft", "vs_heft_hard", "vs_heft_worst", "executed_vs_heft_worst", "executed_vs_promised"})

#: Nothing but HEFT.
ONLY_HEFT = Effort()

#: No executed plan is further below the bound than rounding explains.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is drawn: sizes of graphs without and with ports, draws of each, and graphs of the stream.

    `live` are those of graphs that an executor runs on devices that are slower than they say: one of each.
    """

    sizes: Sequence[int] = (60, 250, 1_000)
    smaller: Sequence[int] = (60, 250)
    live: Sequence[int] = (120,)
    draws: int = 2
    arrivals: int = 60_000


QUICK = Scale(sizes=(30,), smaller=(30,), live=(30,), draws=1, arrivals=2_000)


def measure(quick: bool, seed: int = 0, families: Sequence[str] = ()) -> Report:
    """Draw, plan, carry out, compare; graphs of `families_of()`."""
    scale = QUICK if quick else Scale()
    targets, families = targets_of(families), families_of(families, quick)
    with held():
        figures = {
            **_without_ports(instances(seed, families, scale.sizes, scale.draws)),
            **_with_ports(instances(seed, families, scale.smaller, scale.draws, contended=True)),
            **_disturbed(instances(seed, families, scale.smaller, scale.draws), seed),
            **_disturbed(
                instances(seed, families, scale.smaller[:1], scale.draws, contended=True), seed, "_with_ports"
            ),
            **_scheduled(instances(seed, families, scale.smaller, scale.draws), seed),
            **_executed(seed, families, scale),
            **arrivals.figures(scale.arrivals, seed),
        }
    facts = {"seed": seed, "sizes": tuple(scale.sizes), "draws": scale.draws, "families": tuple(families)}
    return Report("makespan", {"simulated": figures}, targets, facts)


def families_of(chosen: Sequence[str], quick: bool) -> Sequence[str]:
    """Those chosen; all that there are where none is, or a few for a quick look. `WorkflowsMissing`."""
    if WORKFLOWS in chosen and not has_workflows():
        raise WorkflowsMissing
    if chosen or quick:
        return chosen or ("tree", *HARD)
    return [name for name in FAMILIES if name != WORKFLOWS or has_workflows()]


def targets_of(chosen: Sequence[str]) -> Mapping[str, Target]:
    """Where families are chosen, what holds for each of them."""
    return {name: target for name, target in TARGETS.items() if not chosen or name in OF_EACH}


class _Ratios:
    """Ratios by name; a name ends up with their mean."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, ratio: float) -> None:
        self._found[name].append(ratio)

    def means(self) -> dict[str, float]:
        return {name: sum(ratios) / len(ratios) for name, ratios in self._found.items()}

    def worst(self, name: str) -> float:
        return max(self._found[name])


def _without_ports(drawn: Iterator[Instance]) -> dict[str, float]:
    ratios = _Ratios()
    for one in drawn:
        tables, plan = tables_of(one.problem, no_breath), place(one.problem)
        heft_ns = carried_out_ns(tables, place(one.problem, ONLY_HEFT), one.problem.times_ns)
        took_ns = carried_out_ns(tables, plan, one.problem.times_ns)
        if took_ns < plan.bound_ns * (1 - _ROUNDING):
            raise WrongResult(f"a plan of {one.family} on {one.machine} takes less than any can")
        ratio = took_ns / heft_ns
        ratios.add("vs_heft_mean", ratio)
        ratios.add(f"{'vs_heft_hard' if one.family in HARD else 'vs_heft'}.{one.family}", ratio)
        ratios.add(f"vs_heft_on.{one.machine}", ratio)
        ratios.add(f"vs_bound.{one.machine}", took_ns / plan.bound_ns)
    return {**ratios.means(), "vs_heft_worst": ratios.worst("vs_heft_mean")}


def _with_ports(drawn: Iterator[Instance]) -> dict[str, float]:
    """HEFT's copies go as they come, ours as planned."""
    ratios = _Ratios()
    for one in drawn:
        tables, times_ns = tables_of(one.problem, no_breath), one.problem.times_ns
        plan, heft = place(one.problem), place(one.problem, ONLY_HEFT)
        heft_ns = carried_out_ns(tables, heft, times_ns, order=Order.AS_THEY_COME)
        took_ns = carried_out_ns(tables, plan, times_ns)
        ratios.add("executed_vs_heft", took_ns / heft_ns)
        ratios.add("executed_vs_promised", took_ns / plan.makespan_ns)
        ratios.add(f"executed_on.{one.machine}", took_ns / heft_ns)
    return {**ratios.means(), "executed_vs_heft_worst": ratios.worst("executed_vs_heft")}


def _scheduled(drawn: Iterator[Instance], seed: int) -> dict[str, float]:
    """What the scheduler of the executor makes of its plans."""
    found = _Ratios()
    for name, ratio in scheduled.ratios(drawn, NOISE, seed):
        found.add(name, ratio)
    return found.means()


def _executed(seed: int, families: Sequence[str], scale: Scale) -> dict[str, float]:
    """What an executor over a simulated machine makes of graphs, in virtual time."""
    found = _Ratios()

    def drawn() -> Iterator[Instance]:
        return instances(seed, families, scale.smaller[:1], scale.draws)

    for name, sharing in (("executor", Sharing.NONE), ("executor_with_ports", Sharing.PORTS)):
        for one, vs_heft, vs_promised in executed.ratios(drawn(), sharing):
            found.add(f"{name}_vs_heft_mean", vs_heft)
            found.add(f"{name}_vs_heft{'_hard' if one.family in HARD else ''}.{one.family}", vs_heft)
            found.add(f"{name}_vs_heft_on.{one.machine}", vs_heft)
            found.add(f"{name}_vs_promised", vs_promised)
    for name, slower in SLOWER.items():
        unsteady = instances(seed, families, scale.live, 1)
        for _, vs_heft, _ in executed.ratios(unsteady, Sharing.NONE, partial(slower, seed)):
            found.add(f"executor_live_vs_heft.{name}", vs_heft)
    worst = {
        # To a tenth of a percent: an executor's times are whole.
        f"{name}_vs_heft_worst": round(found.worst(f"{name}_vs_heft_mean"), 3)
        for name in ("executor", "executor_with_ports")
    }
    return {**found.means(), **worst}


# --- other times than were told ---------------------------------------------------------------------------------------


def _around_one(chance: random.Random, spread: float) -> float:
    """A factor whose mean is 1, log-normal."""
    return math.exp(chance.gauss(-spread * spread / 2, spread))


def _independent(problem: Problem, chance: random.Random) -> list[Row]:
    """20 % for each task."""
    return [[ns * factor for ns in row] for row in problem.times_ns for factor in [_around_one(chance, 0.2)]]


def _drift(problem: Problem, chance: random.Random) -> list[Row]:
    """20 % for each device, 10 % for each task."""
    devices = [_around_one(chance, 0.2) for _ in problem.fleet.lanes]
    return [
        [ns * factor * device for ns, device in zip(row, devices, strict=True)]
        for row in problem.times_ns
        for factor in [_around_one(chance, 0.1)]
    ]


def _slow(problem: Problem, chance: random.Random) -> list[Row]:
    """20 % for each task, and one device at half its speed."""
    slow = chance.randrange(len(problem.fleet.lanes))
    return [
        [ns * (2 if device == slow else 1) for device, ns in enumerate(row)] for row in _independent(problem, chance)
    ]


NOISE: Mapping[str, Callable[[Problem, random.Random], Sequence[Row]]] = {
    "independent": _independent,
    "drift": _drift,
    "slow": _slow,
}


def _drifted(seed: int, one: Instance) -> Sequence[float]:
    """20 % for each device."""
    chance = random.Random(f"{seed}/{one.family}/{one.machine}/drifted")
    return [_around_one(chance, 0.2) for _ in one.problem.fleet.lanes]


def _one_slow(seed: int, one: Instance) -> Sequence[float]:
    """One device at half its speed."""
    devices = len(one.problem.fleet.lanes)
    slow = random.Random(f"{seed}/{one.family}/{one.machine}/slow").randrange(devices)
    return [2.0 if device == slow else 1.0 for device in range(devices)]


#: By device: how many times longer than they say tasks take.
SLOWER: Mapping[str, Callable[[int, Instance], Sequence[float]]] = {"drift": _drifted, "slow": _one_slow}


def _disturbed(drawn: Iterator[Instance], seed: int, where: str = "") -> dict[str, float]:
    """Live runs beside HEFT's plan as it was made, both with the same times; and beside our own as it was made."""
    ratios = _Ratios()
    for one in drawn:
        tables, plan, heft = tables_of(one.problem, no_breath), place(one.problem), place(one.problem, ONLY_HEFT)
        for name, noise in NOISE.items():
            truth_ns = noise(one.problem, random.Random(f"{seed}/{one.family}/{one.machine}/{len(tables)}/{name}"))
            heft_ns = carried_out_ns(tables, heft, truth_ns, order=Order.AS_THEY_COME)
            static_ns = carried_out_ns(tables, plan, truth_ns)
            live_ns = carried_out_ns(tables, plan, truth_ns, Policy.ROLLING)
            ratios.add(f"live{where}_vs_heft.{name}", live_ns / heft_ns)
            ratios.add(f"live{where}_vs_static.{name}", live_ns / static_ns)
    return ratios.means()
