"""`Executor.map`: results in order, a bounded number under way, an end in every way out."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import FeedError, KernelFailed, UserError
from tests.runtime.support import Rig, doubling, failing, gated, in_flight, ints, settled, turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def feeds(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"x": np.full(4, number, np.float32)}


async def slowly(count: int) -> AsyncIterator[dict[str, Any]]:
    for one in feeds(count):
        await asyncio.sleep(0)
        yield one


async def collect(results: AsyncIterator[Any], found: list[Any]) -> None:
    async for out in results:
        found.append(out)  # noqa: PERF401 - what came before an error is wanted


@pytest.mark.parametrize("source", [feeds, lambda n: list(feeds(n)), lambda n: tuple(feeds(n)), slowly])
@pytest.mark.parametrize("most", [None, 1, 3])
async def test_results_come_in_order(ex: fa.Executor, source: Any, most: int | None) -> None:
    g = doubling()
    found = [out["y"][0] async for out in ex.map(g, source(100), max_inflight=most)]
    assert found == [2 * number for number in range(100)]
    assert [out async for out in ex.map(g, source(0))] == []


async def test_results_come_in_order_whoever_waits(rig: Rig, on_lanes: None) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    g.output("y", -x)
    async with fa.Executor(host_lanes=1, max_inflight=8) as ex:
        results = ex.map(g, [{"x": ints(number)} for number in range(6)])
        first = asyncio.create_task(anext(results))
        await rig.gate.entered()
        rig.gate.open(6)
        found = [(await first)["y"][0], *[out["y"][0] async for out in results]]
    assert found == list(range(6))


@pytest.mark.parametrize("sync", [True, False])
async def test_no_more_are_under_way_than_asked_for(ex: fa.Executor, rig: Rig, on_lanes: None, sync: bool) -> None:
    taken = 0

    def source() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for number in range(10):
            taken += 1
            yield {"x": ints(number)}

    async def asynchronous() -> AsyncIterator[dict[str, Any]]:
        for one in source():
            yield one

    results = ex.map(gated(), source() if sync else asynchronous(), max_inflight=3)
    assert taken == 0  # nothing is taken before a result is asked for
    for number in range(10):
        following = asyncio.create_task(anext(results))
        await rig.gate.entered()
        await turns(5)
        assert ex.statistics().runs_active + ex.statistics().runs_waiting <= 3
        assert taken <= number + 3 + (not sync)  # a reader holds the next feeds in its hand
        rig.gate.open()
        assert (await following)["y"][0] == number
    with pytest.raises(StopAsyncIteration):
        await anext(results)
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_results_come_while_the_source_waits_for_more(ex: fa.Executor) -> None:
    """A source that needs the result of its last feeds to make the next."""
    ready: asyncio.Queue[float] = asyncio.Queue()
    ready.put_nowait(1.0)

    async def source() -> AsyncIterator[dict[str, Any]]:
        while True:
            value = await ready.get()
            if value > 500:
                return
            yield {"x": np.full(4, value, np.float32)}

    found = []
    async for out in ex.map(doubling(), source()):
        found.append(out["y"][0])
        ready.put_nowait(found[-1])
    assert found == [2.0**power for power in range(1, 10)]


async def test_a_source_may_hold_scopes_across_its_items(ex: fa.Executor) -> None:
    """It is read by one task, so that a cancel scope or task group in it is left where it was entered."""

    async def source() -> AsyncIterator[dict[str, Any]]:
        async with anyio.create_task_group() as group:
            with anyio.fail_after(20):
                for one in feeds(10):
                    await anyio.lowlevel.checkpoint()
                    yield one
            group.cancel_scope.cancel()

    assert [out["y"][0] async for out in ex.map(doubling(), source())] == [2 * n for n in range(10)]


@pytest.mark.parametrize("sync", [True, False])
async def test_an_error_comes_in_its_place_and_the_rest_is_cancelled(
    ex: fa.Executor, rig: Rig, sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    g.output("y", abs(x.sign()))
    rig.from_value = 3
    sources = [{"x": ints(number)} for number in range(50)]

    async def asynchronous() -> AsyncIterator[dict[str, Any]]:
        for one in sources:
            yield one

    found: list[Any] = []
    with caplog.at_level(logging.ERROR), pytest.raises(KernelFailed):
        await collect(ex.map(g, sources if sync else asynchronous(), max_inflight=8), found)
    assert len(found) == 3
    await settled(ex)
    gc.collect()
    assert len(rig.calls) < 50
    assert caplog.records == []  # the others' errors are nobody's business any more


@pytest.mark.parametrize("sync", [True, False])
async def test_an_error_of_the_source_comes_in_its_place(ex: fa.Executor, sync: bool) -> None:
    def source() -> Iterator[dict[str, Any]]:
        yield from feeds(5)
        raise LookupError("the source is dry")

    async def asynchronous() -> AsyncIterator[dict[str, Any]]:
        for one in source():
            yield one

    found: list[Any] = []
    with pytest.raises(LookupError, match="dry"):
        await collect(ex.map(doubling(), source() if sync else asynchronous(), max_inflight=3), found)
    assert [out["y"][0] for out in found] == [0, 2, 4, 6, 8]
    await settled(ex)


async def test_wrong_feeds_come_in_their_place(ex: fa.Executor) -> None:
    results = ex.map(doubling(), [*feeds(2), {"z": 1}, *feeds(2)])
    assert (await anext(results))["y"][0] == 0
    assert (await anext(results))["y"][0] == 2
    with pytest.raises(FeedError):
        await anext(results)
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def first_of(results: AsyncIterator[Any]) -> None:
    async for out in results:
        assert out["y"][0] == 0
        break


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("way", ["aclose", "break", "cancel", "break in a finished task"])
async def test_leaving_cancels_what_is_under_way(
    ex: fa.Executor, rig: Rig, on_lanes: None, way: str, sync: bool
) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    g.output("y", -x)
    closed = []

    async def asynchronous() -> AsyncIterator[dict[str, Any]]:
        try:
            for number in range(1_000):
                yield {"x": ints(number)}
        finally:
            closed.append(True)

    source = ({"x": ints(number)} for number in range(1_000)) if sync else asynchronous()
    results = ex.map(g, source, max_inflight=4)
    rig.gate.open()
    if way == "break in a finished task":
        await asyncio.create_task(first_of(results))
    else:
        await first_of(results)
    await rig.gate.entered()
    await rig.gate.entered()  # the second run is in the kernel
    if way == "aclose":
        await results.aclose()
        await results.aclose()
    elif way == "cancel":
        task = asyncio.create_task(anext(results))
        await turns(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    del results
    gc.collect()
    await turns(5)
    assert ex.statistics().runs_waiting == 0
    assert in_flight()[0] <= 2  # one in the kernel, one behind it
    rig.gate.open(1_000)
    await settled(ex)
    assert rig.gate.passed == 2
    del source
    gc.collect()
    await turns(3)
    assert closed == ([] if sync else [True])


async def test_a_map_that_was_never_begun_leaves_nothing(ex: fa.Executor) -> None:
    results = ex.map(doubling(), feeds(3))
    await results.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(results)
    ex.map(doubling(), slowly(3))
    gc.collect()


def test_a_map_that_outlives_its_loop_is_dropped_in_silence() -> None:
    executor = fa.Executor()
    kept = []

    async def begin() -> None:
        for source in (feeds(100), slowly(100)):
            results = executor.map(doubling(), source, max_inflight=4)
            await anext(results)
            kept.append(results)

    asyncio.run(begin())
    kept.clear()
    gc.collect()
    asyncio.run(executor.aclose())


async def test_what_it_cannot_take_is_refused(ex: fa.Executor) -> None:
    with pytest.raises(UserError, match="max_inflight=0 must be at least 1"):
        ex.map(doubling(), feeds(3), max_inflight=0)
    with pytest.raises(TypeError, match="not iterable"):
        ex.map(doubling(), 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a mapping"):
        async for _ in ex.map(doubling(), [5]):  # type: ignore[list-item]
            pass
    gc.collect()


async def test_two_maps_at_once(ex: fa.Executor) -> None:
    async def one(factor: int) -> list[float]:
        source = ({"x": np.full(4, number * factor, np.float32)} for number in range(100))
        return [out["y"][0] async for out in ex.map(doubling(), source, max_inflight=8)]

    found = await asyncio.gather(one(1), one(3), one(7))
    assert list(found) == [[2 * factor * number for number in range(100)] for factor in (1, 3, 7)]


async def test_a_failing_run_beside_a_full_line_ends_the_map(ex: fa.Executor, rig: Rig) -> None:
    with pytest.raises(KernelFailed):
        async for _ in ex.map(failing(), [{"x": ints()}] * 200):
            pass
    await settled(ex)
