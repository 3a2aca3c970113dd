"""One run over several devices: three branches and a join, beside the longest branch and beside the best placement.

Simulated machines in virtual time: the figures are the same each time. There are ops that only take time, and matrix
products, whose results are compared with numpy's. Each graph runs twice: first with its constants still to be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import fuel_async as fa
from benchmarks.placements import best_ns, problem_of
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.timing import median
from fuel_async.backends.sim import Links, LinkSpec, SimDeviceSpec, SimMachine
from fuel_async.cost import Rates
from fuel_async.plan import Plan, make_plan
from fuel_async.testing import run_virtual, synthetic_op

if TYPE_CHECKING:
    from benchmarks.workloads import Array
    from fuel_async.backends.sim import VirtualClock
    from fuel_async.runtime import Statistics

TARGETS = {
    "equal_ratio": Target(max=1.1),
    "unequal_ratio": Target(max=1.15),
    "regions": Target(min=4),
    "devices": Target(min=3),
    "copies": Target(min=1),
}

EQUAL, UNEQUAL = (1.0, 1.0, 1.0), (4.0, 2.0, 1.0)

#: A device of speed 1: 10 Gflop/s in products, 10 GB/s, and 1 µs a call; a faster one is faster at all of them.
RATES = Rates(flops_per_ns=1.0, dense_flops_per_ns=10.0, bytes_per_ns=10.0, call_ns=1_000)
LINK = LinkSpec(latency_ns=10_000, bytes_per_ns=12.0)

BRANCHES = 3

#: Where each branch and the join must run; None leaves that to the scheduler.
Pins = Sequence[fa.DeviceLocation] | None


@dataclass(frozen=True, slots=True)
class Scale:
    """How large things are."""

    #: Of the products: rows of the feed, its width, and layers of a branch.
    rows: int = 64
    width: int = 256
    layers: int = 10
    #: Of the ops that only take time: milliseconds of a branch at speed 1, and the bytes that each gives.
    branch_ms: float = 15.6
    nbytes: int = 65_536
    #: Whether the executor itself is tried with every pinning, beside the search.
    pinnings: bool = True
    #: Graphs whose branches are of random lengths.
    random: int = 12


QUICK = Scale(rows=64, width=64, layers=90, nbytes=1_024, pinnings=False, random=2)


@dataclass(frozen=True, slots=True)
class Work:
    """A graph, made anew for each pinning, its feed and what it gives."""

    build: Callable[[Pins], fa.Graph]
    feed: Array
    expected: Array

    def check(self, result: Array) -> None:
        """`WrongResult` unless a run gave what one computation gives."""
        if not np.isfinite(result).all() or not np.allclose(result, self.expected, rtol=1e-4, atol=1e-5):
            raise WrongResult("a fork and join over several devices is not what one computation gives")


class Ran(NamedTuple):
    """How long the first and the second run took, by what plan, and what the executor counted in the first."""

    took_ns: Sequence[int]
    plan: Plan
    counted: Statistics


def measure(quick: bool) -> Report:
    """Measure in virtual time."""
    scale = QUICK if quick else Scale()
    works = {"ops": timed(scale, [scale.branch_ms] * BRANCHES), "products": products(scale)}
    figures: dict[str, float | None] = {}
    for name, work in works.items():
        figures |= _equal(name, work)
    for name, work in works.items():
        figures |= _unequal(name, work, scale.pinnings and name == "products")
    figures = {**_worst(figures), **figures, **_random(scale)}
    facts = {"speeds": "1:1:1 and 4:2:1", "link_us": LINK.latency_ns / 1e3, "link_gb_s": LINK.bytes_per_ns}
    return Report("forkjoin", {"virtual": figures}, TARGETS, facts)


# --- figures ----------------------------------------------------------------------------------------------------------


def _worst(figures: Mapping[str, float | None]) -> Figures:
    """Of each family that has a target its worst member."""

    def members(family: str) -> list[float]:
        return [value for name, value in figures.items() if name.startswith(f"{family}.") and value is not None]

    ratios = {family: max(members(f"{family}s")) for family in ("equal_ratio", "unequal_ratio")}
    return {**ratios, **{family: min(members(f"equal_{family}")) for family in ("regions", "devices", "copies")}}


def _equal(name: str, work: Work) -> Figures:
    """Equal devices: the makespan beside the longest branch, with the copy of its feed and that of its result."""
    ran = run_virtual(lambda clock: _run(clock, EQUAL, work))
    problem = problem_of(ran.plan, _specs(EQUAL), LINK, resident=True)
    copies_ns = LINK.true_estimate.copy_ns(work.feed.nbytes) + LINK.true_estimate.copy_ns(work.expected.nbytes)
    branch_ns = problem.longest_branch_ns() + copies_ns
    return {
        f"makespan_ms.{name}": ran.took_ns[1] / 1e6,
        f"longest_branch_ms.{name}": branch_ns / 1e6,
        **{f"equal_ratios.{name}_{which}": ns / branch_ns for which, ns in _by_run(ran.took_ns)},
        f"equal_regions.{name}": len(ran.plan.regions),
        f"equal_devices.{name}": sum(did.regions > 0 for did in ran.counted.devices.values()),
        f"equal_copies.{name}": sum(link.copies for link in ran.counted.links.values()),
    }


def _unequal(name: str, work: Work, pinnings: bool) -> Figures:
    """Devices of different speeds: the makespan beside the best of all placements."""
    ran = run_virtual(lambda clock: _run(clock, UNEQUAL, work))
    bests = [_best_ns(ran, number) for number in range(2)]
    figures: dict[str, float | None] = {}
    if pinnings:
        pinned = run_virtual(lambda clock: _best_pinned(clock, work))
        figures |= {f"best_pinned_ms.{name}_{which}": ns / 1e6 for which, ns in _by_run(pinned)}
        bests = [min(pair) for pair in zip(bests, pinned, strict=True)]
    ratios = [took_ns / best for took_ns, best in zip(ran.took_ns, bests, strict=True)]
    return {
        **figures,
        **{f"best_ms.{name}_{which}": ns / 1e6 for which, ns in _by_run(bests)},
        **{f"unequal_ratios.{name}_{which}": ratio for which, ratio in _by_run(ratios)},
    }


def _random(scale: Scale) -> Figures:
    """The same of graphs whose three branches are of random lengths, the longest up to five times the shortest."""
    ratios = []
    for seed in range(scale.random):
        work = timed(scale, np.random.default_rng(seed).uniform(5.0, 25.0, BRANCHES), steps=6)
        ran = run_virtual(lambda clock, work=work: _run(clock, UNEQUAL, work))  # type: ignore[misc]
        ratios.append(ran.took_ns[1] / _best_ns(ran, 1))
    return {"random_branches_ratio.median": median(ratios), "random_branches_ratio.worst": max(ratios)}


def _best_ns(ran: Ran, number: int) -> int:
    """The best of all placements of the first or the second run. `WrongResult` when the run was better."""
    best = best_ns(problem_of(ran.plan, _specs(UNEQUAL), LINK, resident=number > 0))
    if ran.took_ns[number] < best:
        raise WrongResult(f"{ran.plan} took {ran.took_ns[number]} ns, which no placement should: at least {best} ns")
    return best


def _by_run(values: Sequence[float]) -> list[tuple[str, float]]:
    return list(zip(("first", "second"), values, strict=True))


# --- runs -------------------------------------------------------------------------------------------------------------


async def _run(clock: VirtualClock, speeds: Sequence[float], work: Work, places: Sequence[int] | None = None) -> Ran:
    """Run a graph twice on a new machine, free or pinned to these of its devices."""
    machine = SimMachine(_specs(speeds), links=Links(LINK), clock=clock)
    graph = work.build(None if places is None else [machine.devices[place].location for place in places])
    took_ns: list[int] = []
    async with fa.Executor(machine.devices) as executor:
        counted = executor.statistics()
        for _ in range(2):
            started_ns = clock.now_ns()
            results = await executor.run(graph, x=work.feed)
            took_ns.append(clock.now_ns() - started_ns)
            work.check(results["y"])
            counted = counted if len(took_ns) > 1 else executor.statistics()
        target = (await executor.engine()).session.target(None)
    machine.close()
    return Ran(took_ns, make_plan(graph.freeze(), target), counted)


async def _best_pinned(clock: VirtualClock, work: Work) -> list[int]:
    """The least that a first and a second run took, over all placements of the branches and the join."""
    rans = [
        (await _run(clock, UNEQUAL, work, places)).took_ns
        for places in product(range(len(UNEQUAL)), repeat=BRANCHES + 1)
    ]
    return [min(took_ns[number] for took_ns in rans) for number in range(2)]


def _specs(speeds: Sequence[float]) -> list[SimDeviceSpec]:
    return [SimDeviceSpec(speed=speed, rates=RATES) for speed in speeds]


# --- graphs -----------------------------------------------------------------------------------------------------------


def timed(scale: Scale, lengths_ms: Iterable[float], steps: int = 4) -> Work:
    """Branches of ops that only take time, so long at speed 1; the host's executor says what comes out."""

    def build(pins: Pins) -> fa.Graph:
        graph = fa.Graph("timed ops")
        x, branches = graph.input("x", (scale.nbytes,), fa.u8), []
        for place, length_ms in enumerate(lengths_ms):
            branch, step_ns = x, int(length_ms * 1e6 / steps)
            with _on(graph, pins, place):
                for _ in range(steps):
                    branch = synthetic_op(graph, [branch], cost_ns=step_ns, nbytes=scale.nbytes)
            branches.append(branch)
        with _on(graph, pins, BRANCHES):
            graph.output("y", synthetic_op(graph, branches, cost_ns=100_000, nbytes=scale.nbytes))
        return graph

    async def computed() -> Array:
        async with fa.Executor(["cpu:0"]) as executor:
            return (await executor.run(build(None), x=feed))["y"]

    feed = np.random.default_rng(7).integers(0, 256, scale.nbytes).astype(np.uint8)
    return Work(build, feed, asyncio.run(computed()))


def products(scale: Scale) -> Work:
    """Branches of layers tanh(x @ weights), and the sum of what they give."""
    draw = np.random.default_rng(7)
    shape = (BRANCHES, scale.layers, scale.width, scale.width)
    weights = (draw.standard_normal(shape) / scale.width**0.5).astype(np.float32)

    def build(pins: Pins) -> fa.Graph:
        graph = fa.Graph("products")
        x, branches = graph.input("x", (scale.rows, scale.width)), []
        for place, layers in enumerate(weights):
            branch = x
            with _on(graph, pins, place):
                for layer in layers:
                    branch = (branch @ graph.constant(layer)).tanh()
            branches.append(branch)
        with _on(graph, pins, BRANCHES):
            graph.output("y", branches[0] + branches[1] + branches[2])
        return graph

    feed = draw.standard_normal((scale.rows, scale.width)).astype(np.float32)
    expected = np.zeros_like(feed)
    for layers in weights:
        branch = feed
        for layer in layers:
            branch = np.tanh(branch @ layer)
        expected += branch
    return Work(build, feed, expected)


def _on(graph: fa.Graph, pins: Pins, place: int) -> AbstractContextManager[None]:
    return nullcontext() if pins is None else graph.on(pins[place])
