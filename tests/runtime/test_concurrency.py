"""Many runs at once: exact results, no more instances than are admitted, and nothing shared between runs."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import FuelError
from fuel_async.runtime import instances
from fuel_async.testing.graphs import random_graph
from fuel_async.testing.reference import reference
from tests.runtime.support import Rig, chain, doubling, forgotten, gated, in_place, ints, ones, settled, turns


def mixed() -> fa.Graph:
    """Matrices, reductions and a chain: several kinds of kernels over one arena."""
    g = fa.Graph("mixed")
    x, w = g.input("x", (32, 32)), g.constant(np.eye(32, dtype=np.float32) * 2)
    total = x
    for _ in range(20):
        total = total + x @ w
    g.output("y", total)
    g.output("sum", total.sum(axis=0))
    return g


@pytest.mark.parametrize("most", [4, 64])
async def test_64_runs_of_one_plan_are_exact_over_few_instances(
    most: int, on_lanes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    bind = instances.Prepared.bind

    def counted(self: instances.Prepared, *args: object) -> instances.PlanInstance:
        nonlocal made
        made += 1
        return bind(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(instances.Prepared, "bind", counted)
    g = mixed()
    async with fa.Executor(max_inflight=most, host_lanes=2) as ex:
        feeds = [np.full((32, 32), value, np.float32) for value in range(64)]
        for _ in range(3):
            found = await asyncio.gather(*[ex.run(g, x=feed) for feed in feeds])
            for value, one in enumerate(found):
                np.testing.assert_array_equal(one["y"], np.full((32, 32), value * 41, np.float32))
                np.testing.assert_array_equal(one["sum"], np.full(32, value * 41 * 32, np.float32))
        await settled(ex)
        (prepared,) = (await ex.engine()).cache.all()
        assert len(prepared.idle) == made <= most


async def test_instances_are_as_many_as_runs_overlap(rig: Rig) -> None:
    """A run that waits in a lane holds an instance; one that waits for admission holds none."""
    async with fa.Executor(max_inflight=3) as ex:
        g = gated()
        tasks = [asyncio.create_task(ex.run(g, x=ints(number))) for number in range(8)]
        await rig.gate.entered()
        await turns(3)
        found = ex.statistics()
        assert (found.runs_active, found.runs_waiting) == (3, 5)
        rig.gate.open(8)
        for number, task in enumerate(tasks):
            np.testing.assert_array_equal((await task)["y"], ints(number))
        await settled(ex)
        (prepared,) = (await ex.engine()).cache.all()
        assert len(prepared.idle) <= 3


async def test_many_graphs_on_lanes_and_in_place_at_once(rig: Rig) -> None:
    """Random graphs, failing runs and cancellations through two lanes, for one executor."""
    cases = [random_graph(seed, 30, shape=(8, 8)) for seed in range(6)]
    wanted = [reference(case.graph, case.feeds) for case in cases]
    failing = fa.Graph()
    failing.output("y", abs(failing.input("x", (4,), fa.i64)))
    async with fa.Executor(max_inflight=16, host_lanes=2) as ex:
        first = [await ex.run(case.graph, case.feeds) for case in cases]
        for found, want in zip(first, wanted, strict=True):
            for name, value in want.items():
                assert found[name].shape == value.shape

        async def one(number: int) -> str:
            if number % 10 == 3:
                with pytest.raises(FuelError):
                    await ex.run(failing, x=ints())
                return "failed"
            case = cases[number % 6]
            found = await ex.run(case.graph, case.feeds, priority=number % 3)
            for name, value in first[number % 6].items():
                assert found[name].tobytes() == value.tobytes()
            return "ok"

        tasks = [asyncio.create_task(one(number)) for number in range(400)]
        for number, task in enumerate(tasks):
            if not number % 7:
                asyncio.get_running_loop().call_later(number % 40 / 1_000, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        wrong = [o for o in outcomes if isinstance(o, BaseException) and not isinstance(o, asyncio.CancelledError)]
        assert not wrong
        await settled(ex)
        assert ex.statistics().runs_failed >= outcomes.count("failed")


@pytest.mark.parametrize("way", ["lanes", "in place"])
@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_repeated_run_allocates_nothing_but_what_it_delivers(
    ex: fa.Executor, way: str, request: pytest.FixtureRequest
) -> None:
    g = fa.Graph()
    x = g.input("x", (64, 64))
    total = x
    for _ in range(10):  # temporaries of 16 KiB each
        total = (total * 0.5 + x).relu() @ g.constant(np.eye(64, dtype=np.float32))
    g.output("y", total.sum(axis=0))
    feed = np.ones((64, 64), np.float32)
    if way == "lanes":
        request.getfixturevalue("on_lanes")
        for _ in range(5):
            await ex.run(g, x=feed)
    else:
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setattr("fuel_async.runtime.engine.INLINE_NS", 1 << 40)
        await in_place(ex, g, x=feed)
    output_nbytes = 64 * 4
    numpy_only = [tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)]
    gc.collect()
    tracemalloc.start()
    try:
        kept = []
        await ex.run(g, x=feed)
        await forgotten(ex)
        before = tracemalloc.take_snapshot().filter_traces(numpy_only)
        before_nbytes = sum(trace.size for trace in before.traces)
        for _ in range(50):
            kept.append((await ex.run(g, x=feed))["y"])  # noqa: PERF401 - one after the other
        await forgotten(ex)
        after = tracemalloc.take_snapshot().filter_traces(numpy_only)
        after_nbytes = sum(trace.size for trace in after.traces)
        # But for what the lane's last job still holds: two numbers.
        assert abs(after_nbytes - before_nbytes - 50 * output_nbytes) <= 16
        # Nor anything for a while: the peak holds the results, Python's own objects, and no temporary of 16 KiB a run.
        tracemalloc.reset_peak()
        start_nbytes, _ = tracemalloc.get_traced_memory()
        await ex.run(g, x=feed)
        _, peak_nbytes = tracemalloc.get_traced_memory()
        assert peak_nbytes - start_nbytes < 16_384
    finally:
        tracemalloc.stop()
    assert all((y == kept[0]).all() for y in kept)


async def test_feeds_are_given_back_when_the_run_has_ended(ex: fa.Executor, on_lanes: None) -> None:
    """An idle instance holds none of a caller's arrays: neither feeds nor results."""
    g = fa.Graph()
    x = g.input("x", (2_000,))
    g.output("y", x + x)
    feed = np.zeros(2_000, np.float32)
    watched = weakref.ref(feed)
    found = await ex.run(g, x=feed)
    result = weakref.ref(found["y"])
    await forgotten(ex)
    del feed, found
    gc.collect()
    assert watched() is None
    assert result() is None


async def test_one_executor_beside_another(ex: fa.Executor) -> None:
    async with fa.Executor() as other:
        g = chain(100)
        found = await asyncio.gather(*[(ex, other)[number % 2].run(g, x=ones(16)) for number in range(40)])
        assert all((one["y"] == 101).all() for one in found)
        assert ex.statistics().runs == other.statistics().runs == 20


async def test_a_thousand_cancelled_at_any_moment_leave_nothing(rig: Rig) -> None:
    graphs = [chain(20), chain(200), doubling()]
    async with fa.Executor(max_inflight=8, host_lanes=2) as ex:

        async def one(number: int) -> None:
            g = graphs[number % 3]
            result = (await ex.run(g, x=ones(4 if number % 3 == 2 else 16), priority=number % 2))["y"]
            assert result[0] == (21, 201, 2)[number % 3]

        tasks = [asyncio.create_task(one(number)) for number in range(1_000)]
        for number, task in enumerate(tasks):
            if number % 3 == 0:
                await turns(number % 4)
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        wrong = [o for o in outcomes if o is not None and not isinstance(o, asyncio.CancelledError)]
        assert not wrong
        await settled(ex)
        found = ex.statistics()
        assert found.runs >= outcomes.count(None)
        for prepared in (await ex.engine()).cache.all():
            assert len(prepared.idle) <= 8
