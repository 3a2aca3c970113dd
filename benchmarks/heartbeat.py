"""What an event loop feels while an executor works beside it, and what a lane gets done beside a busy loop.

Idle and loaded rounds alternate; a delta is the lateness of the 99th percentile of ticks under load minus that of the
idle round before it. `worst_own_stall_ms` is the latest tick under any load, without the time in which the machine gave
the loop's thread no core.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import fuel_async as fa
from benchmarks import minilm
from benchmarks.report import Figures, Report, Target
from benchmarks.ticks import Ticks, idle_ticks
from benchmarks.timing import Quiet, loop_factories, median, now_ns, run_on
from benchmarks.workloads import Array, Workload, chain, mixed, rare_release, small_ops
from examples.minilm_assets import AssetsMissing

TARGETS = {
    "p99_delta_ms": Target(max=0.8),
    "first_run_p99_delta_ms": Target(max=2.5),
    "worst_own_stall_ms": Target(max=10),
    "lane_under_busy_loop.64": Target(max=4),
    "lane_under_busy_loop.1024": Target(max=15),
    "lane_under_busy_loop.262144": Target(max=8),
}

TASKS = 64

Load = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    nodes: int = 10_000
    first_nodes: int = 100_000
    rounds: int = 10
    window_s: float = 0.5
    #: Floats and nodes of the chains that lanes walk beside a busy loop.
    chains: tuple[tuple[int, int], ...] = ((64, 10_000), (1_024, 3_000), (262_144, 50))
    chain_rounds: int = 5
    chain_window_s: float = 0.8
    sentences: int = 8
    tokens: int = 64
    patience_s: float = 120


QUICK = Scale(
    nodes=500,
    first_nodes=500,
    rounds=1,
    window_s=0.01,
    chains=((64, 100), (1_024, 100), (262_144, 5)),
    chain_rounds=1,
    chain_window_s=0.01,
    sentences=1,
    tokens=4,
    patience_s=0,
)


def measure(quick: bool) -> Report:
    """Measure on each loop."""
    scale = QUICK if quick else Scale()
    quiet, seeds = Quiet(scale.patience_s), count()
    try:
        batch = minilm.load_batch(scale.sentences, scale.tokens)
    except AssetsMissing:
        batch = None
    figures = {
        name: run_on(factory, _figures(scale, batch, quiet, seeds)) for name, factory in loop_factories().items()
    }
    return Report("heartbeat", figures, TARGETS, quiet.facts)


async def _figures(scale: Scale, batch: minilm.Batch | None, quiet: Quiet, seeds: Iterator[int]) -> Figures:
    async with fa.Executor(blas_threads=1, max_inflight=2 * TASKS) as executor:
        deltas: dict[str, float | None] = {"minilm": None}
        pairs: list[_Pair] = []
        for name, load in _loads(executor, scale, batch).items():
            beside = await quiet.rounds(scale.rounds, partial(_pair, load, scale.window_s))
            deltas[name] = median(pair.delta_ms for pair in beside)
            pairs += beside
        naive = await quiet.rounds(
            min(scale.rounds, 3), partial(_pair, partial(_naive, small_ops(scale.nodes)), scale.window_s)
        )
        lane = {
            f"lane_under_busy_loop.{size}": await _beside_busy_loop(executor, size, nodes, scale, quiet)
            for size, nodes in scale.chains
        }
    first = await quiet.rounds(scale.rounds, partial(_first_run, scale, seeds))
    everything = [*pairs, *first]
    return {
        **{f"p99_delta_ms.{name}": delta for name, delta in deltas.items()},
        "first_run_p99_delta_ms": median(pair.delta_ms for pair in first),
        "worst_own_stall_ms": max(pair.loaded.worst_own_ns for pair in everything) / 1e6,
        **lane,
        "worst_stall_ms": max(pair.loaded.worst_ms for pair in everything),
        "first_run_own_stall_ms": max(pair.loaded.worst_own_ns for pair in first) / 1e6,
        "idle_p99_ms": median(pair.idle.late_ms(0.99) for pair in everything),
        "idle_worst_ms": max(pair.idle.worst_ms for pair in everything),
        "idle_worst_own_ms": max(pair.idle.worst_own_ns for pair in everything) / 1e6,
        "naive_p99_delta_ms": median(pair.delta_ms for pair in naive),
    }


@dataclass(frozen=True, slots=True)
class _Pair:
    """An idle round and the loaded one after it."""

    idle: Ticks
    loaded: Ticks

    @property
    def delta_ms(self) -> float:
        return self.loaded.late_ms(0.99) - self.idle.late_ms(0.99)


async def _pair(load: Load, window_s: float) -> _Pair:
    idle = await idle_ticks(window_s)
    async with load():
        return _Pair(idle, await idle_ticks(window_s))


# --- loads ------------------------------------------------------------------------------------------------------------


def _loads(executor: fa.Executor, scale: Scale, batch: minilm.Batch | None) -> dict[str, Load]:
    works = {"small_ops": small_ops(scale.nodes), "rare_release": rare_release(scale.nodes)}
    loads: dict[str, Load] = {
        name: partial(_repeated, executor, work.graph, work.feeds, work.check) for name, work in works.items()
    }
    if batch is not None:
        loads["minilm"] = partial(_repeated, executor, batch.graph, batch.feeds, batch.check)
    return loads


@asynccontextmanager
async def _repeated(
    executor: fa.Executor,
    graph: fa.Graph,
    feeds: Mapping[str, Array],
    check: Callable[[dict[str, Array]], None],
) -> AsyncIterator[None]:
    """One task runs the graph again and again."""
    for _ in range(3):
        results = await executor.run(graph, feeds)
    stopping = False

    async def work() -> dict[str, Array]:
        latest = results
        while not stopping:
            latest = await executor.run(graph, feeds)
        return latest

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        stopping = True
        latest = await task
    check(latest)


@asynccontextmanager
async def _naive(work: Workload) -> AsyncIterator[None]:
    """A thread that does the same and never thinks of the loop."""
    stopping = threading.Event()

    def walk() -> None:
        while not stopping.is_set():
            work.bare()

    thread = threading.Thread(target=walk)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


async def _first_run(scale: Scale, seeds: Iterator[int]) -> _Pair:
    """A graph's first run: freezing, planning, binding, running. It is built before, which is the caller's own time."""
    async with fa.Executor(blas_threads=1) as executor:  # its plans go with it
        work = mixed(scale.first_nodes, next(seeds))
        gc.collect()
        idle = await idle_ticks(2 * scale.window_s)
        ticks = Ticks().start()
        try:
            results = await executor.run(work.graph, work.feeds)
        finally:
            ticks.stop()
        work.check(results)
    return _Pair(idle, ticks)


# --- the other way round ----------------------------------------------------------------------------------------------


async def _beside_busy_loop(executor: fa.Executor, size: int, nodes: int, scale: Scale, quiet: Quiet) -> float:
    """A node on a lane while tasks keep the loop busy with inline runs, in units of the bare call."""
    work, short = chain(nodes, size), chain(10)
    for known in (work, short):
        for _ in range(4):
            known.check(await executor.run(known.graph, known.feeds))

    async def measured() -> float:
        before_ns = min(work.bare_ns() for _ in range(3))
        stopping = False

        async def inline() -> None:
            while not stopping:
                await executor.run(short.graph, short.feeds)

        tasks = [asyncio.create_task(inline()) for _ in range(TASKS)]
        started_ns, runs, results = now_ns(), 0, dict[str, Array]()
        while not runs or now_ns() - started_ns < scale.chain_window_s * 1e9:
            results = await executor.run(work.graph, work.feeds)
            runs += 1
        node_ns = (now_ns() - started_ns) / runs / nodes
        stopping = True
        await asyncio.gather(*tasks)
        work.check(results)
        return node_ns / min(before_ns, *(work.bare_ns() for _ in range(3)))

    return median(await quiet.rounds(scale.chain_rounds, measured))
