"""Graphs for one device: many kernels that do little, few that do much, and some that one workgroup does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from benchmarks.own_time import OwnTime
from benchmarks.report import WrongResult
from benchmarks.timing import now_ns

if TYPE_CHECKING:
    from benchmarks.workloads import Array

#: Kernels of the small and of the large region.
FEW, MANY = 10, 1_000

#: Floats of a feed: one workgroup.
WIDTH = 64


@dataclass(frozen=True, slots=True)
class Work:
    """A graph of one input and one output, its feed and what it gives."""

    graph: fa.Graph
    feed: Array
    expected: Array

    async def run(self, executor: fa.Executor) -> None:
        """Run it once. `WrongResult` unless it gave what numpy gives."""
        self.check((await executor.run(self.graph, x=self.feed))["y"])

    def check(self, result: Array) -> None:
        if not np.allclose(result, self.expected, rtol=1e-3, atol=1e-5):
            raise WrongResult(f"{self.graph.name} on a device is not what numpy gives")


async def warm(executor: fa.Executor, work: Work, runs: int) -> float:
    """The seconds of the shortest of some runs, of a graph that is one region. `WrongResult`."""
    taken_ns = []
    for _ in range(runs):
        started_ns = now_ns()
        await executor.run(work.graph, x=work.feed)
        taken_ns.append(now_ns() - started_ns)
    await work.run(executor)
    if len(executor.explain(work.graph).regions) != 1:
        raise WrongResult(f"{work.graph.name} was cut into several regions")
    return min(taken_ns) / 1e9


async def own_us(executor: fa.Executor, work: Work, runs: int) -> float:
    """What a run takes of the own threads' time, while there is nothing else to do."""
    for number in range(runs + runs // 10):
        if number == runs // 10:  # what came before has left the processor's caches to others
            own = OwnTime()
        await executor.run(work.graph, x=work.feed)
    return own.us() / runs


def chain(kernels: int) -> Work:
    """Kernels of one workgroup, one after the other."""
    graph = fa.Graph(f"a chain of {kernels}")
    y = graph.input("x", (WIDTH,))
    feed = expected = np.linspace(-1, 1, WIDTH, dtype=np.float32)
    for step in range(kernels):
        y, expected = (y.exp(), np.exp(expected)) if step % 2 else (y.tanh(), np.tanh(expected))
    graph.output("y", y)
    return Work(graph, feed, expected)


def heavy(size: int) -> Work:
    """As many kernels as in the small region: products of size³, each of which permutes columns."""
    graph = fa.Graph(f"{FEW - 3} products of {size}")
    start = np.random.default_rng(7).random((size, size)).astype(np.float32)
    turn = graph.constant(np.roll(np.eye(size, dtype=np.float32), 1, axis=1))
    feed = np.linspace(1, 2, WIDTH, dtype=np.float32)
    y = graph.input("x", (WIDTH,)).sum() * graph.constant(start)
    for _ in range(FEW - 3):
        y = y @ turn
    graph.output("y", y.sum(axis=0))
    return Work(graph, feed, np.roll(feed.sum() * start, FEW - 3, axis=1).sum(axis=0))


def one_group(products: int, inner: int = 1_024) -> Work:
    """Products of one workgroup that have much to do, added up."""
    graph, draw = fa.Graph("products of one workgroup"), np.random.default_rng(7)
    x = graph.input("x", (16, inner))
    feed = draw.random((16, inner)).astype(np.float32)
    expected = np.zeros((16, 16), np.float32)
    y = None
    for _ in range(products):
        weights = draw.random((inner, 16)).astype(np.float32)
        part = x @ graph.constant(weights)
        y, expected = part if y is None else y + part, expected + feed @ weights
    assert y is not None
    graph.output("y", y)
    return Work(graph, feed, expected)
