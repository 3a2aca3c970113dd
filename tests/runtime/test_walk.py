"""Looking at a graph kernel by kernel: the handles, the results, and an end before the end."""

from __future__ import annotations

import asyncio
import weakref
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import KernelFailed, UserError
from fuel_async.runtime import pipelined
from fuel_async.storage import Storage, alloc_cpu
from tests.runtime.support import Rig, chain, in_flight, ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.ir import DType


async def test_a_walk_gives_a_handle_a_kernel_and_then_the_outputs(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (2, 3))
    g.output("transposed", (x + x).T)
    g.output("positive", x > 1)
    walk = ex.walk(g, x=np.arange(6, dtype=np.float32).reshape(2, 3))
    g.output("late", x)
    for early in ("graph", "results"):
        with pytest.raises(UserError, match="walk has"):
            getattr(walk, early)
    handles = [handle async for handle in walk]
    named = [walk.graph.ops[handle.node].name for handle in handles if handle.node is not None]
    assert named == ["add", "gt"]
    assert all(handle.done() for handle in handles)
    assert list(walk.results) == ["transposed", "positive"]
    assert walk.results["transposed"].tolist() == [[0, 6], [2, 8], [4, 10]]
    assert walk.results["positive"].tolist() == [[False, False, True], [True] * 3]
    with pytest.raises(StopAsyncIteration):
        await anext(walk)


async def test_a_walk_that_failed_has_no_results_however_often_it_is_asked(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph()
    g.output("y", abs(g.input("x", (4,), fa.i64)))
    walk = ex.walk(g, x=ints())
    assert (await anext(walk)).node == 1
    with pytest.raises(KernelFailed):
        await anext(walk)
    with pytest.raises(StopAsyncIteration):
        await anext(walk)
    with pytest.raises(UserError, match="failed"):
        _ = walk.results


async def test_a_walk_of_nothing_ends_at_once(ex: fa.Executor) -> None:
    g = fa.Graph()
    walk = ex.walk(g)
    assert [handle async for handle in walk] == []
    assert walk.results == {}


async def test_a_closed_walk_leaves_nothing_in_flight(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    g.output("y", (-x).sign() + x)
    walk = ex.walk(g, x=ints())
    await walk.aclose()
    await anext(walk)
    await rig.gate.entered()
    await anext(walk)
    assert in_flight()[0] == 2
    rig.gate.open()
    await walk.aclose()
    assert in_flight() == (0, 0)
    with pytest.raises(StopAsyncIteration):
        await anext(walk)
    with pytest.raises(UserError, match="no results"):
        _ = walk.results


async def _take_turns(turns: Iterator[int]) -> None:
    for _ in turns:
        await asyncio.sleep(0)


@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_walk_keeps_the_loop_alive_and_lets_go_of_what_nobody_needs(
    ex: fa.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Storage]] = []

    def alloc(dtype: DType, count: int) -> Storage:
        storage = alloc_cpu(dtype, count)
        made.append(weakref.ref(storage))
        return storage

    monkeypatch.setattr(pipelined, "alloc_cpu", alloc)
    turns = count()
    other = asyncio.create_task(_take_turns(turns))
    walk = ex.walk(chain(500), x=np.ones(16, np.float32))
    assert len([handle async for handle in walk]) == len(made) == 500
    other.cancel()
    assert next(turns) > 500 // 10
    assert [ref() is not None for ref in made] == [False] * 499 + [True]
    assert walk.results["y"].tolist() == [501] * 16
