"""The executor against the reference, over random graphs of all ops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from fuel_async.ir import BY_NAME, Graph
from fuel_async.runtime import Executor
from fuel_async.testing import Case, check_results, graphs, random_graph
from fuel_async.testing.graphs import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


async def check(cases: Iterable[Case]) -> None:
    """Run each case twice, the second time over what the first left behind."""
    async with Executor() as executor:
        for case in cases:
            first: dict[str, Any] = await executor.run(case.graph, case.feeds)
            check_results(case.graph, case.feeds, first)
            again: dict[str, Any] = await executor.run(case.graph, case.feeds)
            assert {name: bits(value) for name, value in again.items()} == {
                name: bits(value) for name, value in first.items()
            }


def bits(array: NDArray[Any]) -> bytes:
    return np.asarray(array).tobytes()


def test_random_graphs_give_the_references_values() -> None:
    asyncio.run(check(random_graph(seed, 50, dtypes=DTYPES, batch=seed % 4, window=16) for seed in range(12)))


@pytest.mark.slow
@settings(max_examples=300)
@given(graphs(max_steps=20))
def test_drawn_graphs_give_the_references_values(case: Case) -> None:
    asyncio.run(check([case]))


@pytest.mark.slow
@pytest.mark.parametrize("window", [8, 64, 512])
def test_large_graphs_give_the_references_values(window: int) -> None:
    asyncio.run(check([random_graph(window, 4_000, dtypes=DTYPES, batch=3, window=window)]))


@pytest.mark.parametrize("op", ["step", "erf", "gelu"])
def test_equal_calls_with_working_memory_at_different_places(op: str) -> None:
    """These ops work in memory of their own: the second one's is not where the first one's is."""
    graph = Graph()
    first = graph.node(BY_NAME[op], (graph.input("x", (3,)),)).clip(-1, 1).relu()
    kept = first.relu()  # where the first call worked
    graph.output("sum", first.relu().sum())
    second = graph.node(BY_NAME[op], (kept.relu() + 0.5,))
    graph.output("y", (second + second).relu())
    asyncio.run(check([Case(graph, {"x": np.array([0.5, -0.9, -1.8], np.float32)})]))


def test_an_empty_batch_over_one_matrix() -> None:
    graph = Graph()
    graph.output("y", graph.input("x", ("n", 2, 3)) @ graph.input("w", (3, 2)))
    feeds = {"x": np.zeros((0, 2, 3), np.float32), "w": np.ones((3, 2), np.float32)}
    asyncio.run(check([Case(graph, feeds)]))
