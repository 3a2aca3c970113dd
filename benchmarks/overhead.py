"""What a run costs beside its kernels: one long graph of small ops, one of one node, many tasks with short ones."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import fuel_async as fa
from benchmarks.report import Figures, Report, Target
from benchmarks.ticks import Ticks
from benchmarks.timing import Quiet, loop_factories, median, now_ns, quantile, run_on
from benchmarks.workloads import Array, Workload, chain, small_ops
from fuel_async.runtime import engine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TARGETS = {
    "ratio": Target(max=1.5),
    "single_inline_us": Target(max=15),
    "single_lane_ratio": Target(max=2),
    "runs_per_s": Target(min=50_000),
}

TASKS = 64


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    nodes: int = 10_000
    rounds: int = 9
    runs: int = 5
    awaits: int = 400
    peer_ops: int = 300
    window_s: float = 1.0
    patience_s: float = 60


QUICK = Scale(nodes=200, rounds=1, runs=1, awaits=20, peer_ops=10, window_s=0.02, patience_s=0)


def measure(quick: bool) -> Report:
    """Measure on each loop."""
    scale = QUICK if quick else Scale()
    quiet = Quiet(scale.patience_s)
    figures = {name: run_on(factory, _figures(scale, quiet)) for name, factory in loop_factories().items()}
    return Report("overhead", figures, TARGETS, {"nodes": scale.nodes, **quiet.facts})


async def _figures(scale: Scale, quiet: Quiet) -> Figures:
    async with fa.Executor(blas_threads=1) as executor:
        return {
            **await _repeated(executor, scale, quiet),
            **await _peers(scale, quiet),
            **await _single(executor, scale, quiet),
            **await _crowd(executor, scale, quiet),
        }


async def _run(executor: fa.Executor, work: Workload) -> dict[str, Array]:
    return await executor.run(work.graph, work.feeds)


async def _known(executor: fa.Executor, work: Workload) -> Workload:
    """Run a workload until its time is known, and compare what it computes."""
    for _ in range(4):
        work.check(await _run(executor, work))
    return work


async def _repeated(executor: fa.Executor, scale: Scale, quiet: Quiet) -> Figures:
    """A long graph again and again, between two walks over the same numpy calls."""
    work = await _known(executor, small_ops(scale.nodes))

    async def measured() -> tuple[float, float]:
        before_ns = work.bare_ns()
        started_ns = now_ns()
        for _ in range(scale.runs):
            await _run(executor, work)
        run_ns = (now_ns() - started_ns) / scale.runs / len(work)
        return (before_ns + work.bare_ns()) / 2, run_ns

    rounds = await quiet.rounds(scale.rounds, measured)
    work.check(await _run(executor, work))
    return {
        "bare_ns": median(bare for bare, _ in rounds),
        "run_ns": median(run for _, run in rounds),
        "ratio": median(run / bare for bare, run in rounds),
    }


async def _peers(scale: Scale, quiet: Quiet) -> Figures:
    """The same calls, one each, by what else there is for asyncio and for graphs."""
    loop, work = asyncio.get_running_loop(), chain(scale.peer_ops)

    async def hop() -> float:
        started_ns = now_ns()
        for call, args in work.steps:
            await loop.run_in_executor(None, call, *args)
        return (now_ns() - started_ns) / len(work)

    figures: dict[str, float | None] = {"run_in_executor_ns": None, "dask_threads_ns": None}
    figures["run_in_executor_ns"] = median(await quiet.rounds(scale.rounds, hop))
    if importlib.util.find_spec("dask") is not None:
        figures["dask_threads_ns"] = median(await quiet.rounds(scale.rounds, _dask(work)))
    return figures


def _dask(work: Workload) -> Callable[[], Awaitable[float]]:
    import dask.threaded

    graph: dict[str, Any] = {"k0": work.feeds["x"]}
    shift = work.steps[0][1][1]
    for index in range(len(work)):
        graph[f"k{index + 1}"] = (np.add, f"k{index}", shift)

    async def measured() -> float:
        started_ns = now_ns()
        dask.threaded.get(graph, f"k{len(work)}")
        return (now_ns() - started_ns) / len(work)

    return measured


# --- one node ---------------------------------------------------------------------------------------------------------


class _Hop:
    """The least that a lane can cost: through a queue to a thread, and back by `call_soon_threadsafe`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while (future := self._queue.get()) is not None:
            self._loop.call_soon_threadsafe(future.set_result, None)

    async def __call__(self) -> None:
        future = self._loop.create_future()
        self._queue.put(future)
        await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()


async def _awaited_us(call: Callable[[], Awaitable[object]], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        started_ns = now_ns()
        await call()
        taken.append((now_ns() - started_ns) / 1e3)
    return taken


async def _single(executor: fa.Executor, scale: Scale, quiet: Quiet) -> Figures:
    """Awaiting a graph of one node: in place, through a lane, and the bare hop that a lane cannot do without."""
    work, hop = await _known(executor, chain(1)), _Hop()

    async def run() -> None:
        await _run(executor, work)

    async def measured() -> tuple[list[float], list[float], list[float]]:
        inline = await _awaited_us(run, scale.awaits)
        with patch.object(engine, "INLINE_NS", -1):  # nothing is short enough to run in place
            lane = await _awaited_us(run, scale.awaits)
        return inline, lane, await _awaited_us(hop, scale.awaits)

    try:
        rounds = await quiet.rounds(scale.rounds, measured)
    finally:
        hop.close()
    work.check(await _run(executor, work))
    return {
        "single_inline_us": median(median(inline) for inline, _, _ in rounds),
        "single_inline_p99_us": median(quantile(inline, 0.99) for inline, _, _ in rounds),
        "single_lane_us": median(median(lane) for _, lane, _ in rounds),
        "bare_hop_us": median(median(hops) for _, _, hops in rounds),
        "single_lane_ratio": median(median(lane) / median(hops) for _, lane, hops in rounds),
    }


# --- many tasks -------------------------------------------------------------------------------------------------------


async def _crowd(executor: fa.Executor, scale: Scale, quiet: Quiet) -> Figures:
    """Tasks that run a short graph without pause, and a timer beside them that wants to be on time."""
    work = await _known(executor, chain(10))

    async def measured() -> tuple[float, float]:
        counts = [0] * TASKS
        until_ns = now_ns() + int(scale.window_s * 1e9)

        async def task(place: int) -> dict[str, Array]:
            results = {}
            while now_ns() < until_ns:
                results = await _run(executor, work)
                counts[place] += 1
            return results

        started_ns, ticks = now_ns(), Ticks().start()
        results = await asyncio.gather(*[task(place) for place in range(TASKS)])
        elapsed_s = (now_ns() - started_ns) / 1e9
        ticks.stop()
        for result in islice(filter(None, results), 4):
            work.check(result)
        return sum(counts) / elapsed_s, ticks.late_ms(0.99)

    rounds = await quiet.rounds(min(scale.rounds, 3), measured)
    return {
        "runs_per_s": median(rate for rate, _ in rounds),
        "runs_timer_p99_ms": median(late for _, late in rounds),
    }
