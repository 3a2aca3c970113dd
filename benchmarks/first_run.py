"""What the first run of a fresh graph costs a node: building, freezing, planning, binding and running it."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import fuel_async as fa
from benchmarks.report import Figures, Report, Target
from benchmarks.timing import Quiet, loop_factories, median, now_ns, run_on
from benchmarks.workloads import Mixed, mixed
from fuel_async.plan import make_plan
from fuel_async.runtime.instances import Prepared
from fuel_async.runtime.measured import Measured
from fuel_async.streams import LoopShare

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS = {"us_per_node": Target(max=15), "flatness": Target(max=1.3)}

PHASES = ("build", "freeze", "plan", "bind", "run")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: graphs of each size a round."""

    sizes: tuple[tuple[int, int], ...] = ((1_000, 30), (10_000, 4), (100_000, 1))
    rounds: int = 7
    patience_s: float = 60


QUICK = Scale(sizes=((100, 1), (200, 1), (400, 1)), rounds=1, patience_s=0)


def measure(quick: bool) -> Report:
    """Measure on each loop; the phases, which know no loop, on the first."""
    scale = QUICK if quick else Scale()
    quiet, seeds, figures = Quiet(scale.patience_s), count(), dict[str, Figures]()
    for name, factory in loop_factories().items():
        figures[name] = run_on(factory, _figures(scale, quiet, seeds))
    first = next(iter(figures))
    figures[first] = {**figures[first], **run_on(loop_factories()[first], _phases(scale, quiet, seeds))}
    return Report("first-run", figures, TARGETS, quiet.facts)


async def _figures(scale: Scale, quiet: Quiet, seeds: Iterator[int]) -> Figures:
    async def measured() -> dict[int, float]:
        # A plan is kept for graphs of equal structure: no seed comes twice, and no round meets another's plans.
        async with fa.Executor(blas_threads=1) as executor:
            taken_us: dict[int, float] = {}
            for size, graphs in scale.sizes:
                gc.collect()  # what others left; the collections that this work causes are part of its time
                taken_us[size] = median([await _first_us(executor, size, seeds) for _ in range(graphs)])
            return taken_us

    rounds = await quiet.rounds(scale.rounds, measured)
    us_per_node = {f"us_per_node.{size}": median(one[size] for one in rounds) for size, _ in scale.sizes}
    return {**us_per_node, "flatness": median(max(one.values()) / min(one.values()) for one in rounds)}


async def _first_us(executor: fa.Executor, size: int, seeds: Iterator[int]) -> float:
    """Build a graph and run it once; µs a node."""
    seed = next(seeds)
    started_ns = now_ns()
    work = mixed(size, seed)
    results = await executor.run(work.graph, work.feeds)
    taken_us = (now_ns() - started_ns) / 1e3 / len(work.graph)
    work.check(results)
    return taken_us


async def _phases(scale: Scale, quiet: Quiet, seeds: Iterator[int]) -> Figures:
    """Where the time goes, on this thread, without giving the interpreter away; µs a node at the largest size."""
    size = scale.sizes[-1][0]

    async def measured() -> dict[str, float]:
        async with fa.Executor(blas_threads=1) as executor:
            return await _phases_of(executor, size, next(seeds))

    rounds = await quiet.rounds(min(scale.rounds, 3), measured)
    return {f"phase_us.{phase}": median(one[phase] for one in rounds) for phase in PHASES}


async def _phases_of(executor: fa.Executor, size: int, seed: int) -> dict[str, float]:
    session = (await executor.engine()).session
    target, device = session.target(None), session.device
    gc.collect()
    clock = [now_ns()]
    work: Mixed = mixed(size, seed)
    clock.append(now_ns())
    frozen = work.graph.freeze()
    clock.append(now_ns())
    plan = make_plan(frozen.without_constants(), target)
    clock.append(now_ns())
    prepared = Prepared(plan, frozen, device, 0, Measured(plan.predicted_ns), lambda nbytes: None)
    instance = prepared.bind()
    clock.append(now_ns())
    feeds, outputs = list(work.feeds.values()), prepared.allocate_outputs()
    calm, programs = LoopShare.running().calm, list[Any](instance.programs)
    for program in programs:
        read, written = program.program.feeds, program.program.outputs
        arrays = [feeds[place] for place in read], [outputs[place] for place in written]
        calm.run(partial(program.execute, *arrays, (), (), None, None))
    clock.append(now_ns())
    work.check(prepared.deliver(outputs))
    taken = [(end - start) / 1e3 / len(work.graph) for start, end in pairwise(clock)]
    return dict(zip(PHASES, taken, strict=True))
