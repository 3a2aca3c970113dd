"""Plans: shared by graphs of equal structure, made once for all who want one, kept within bounds."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async import plan
from fuel_async.ir import BackendId, OpKind
from fuel_async.registry import extend_global_bindings
from fuel_async.runtime import plans as plans_module
from tests.runtime.support import PATIENCE_S, Rig, chain, doubling, forgotten, in_place, ints, ones, settled, turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import FrozenGraph


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the graphs that were planned, in order."""
    names: list[str] = []
    make = plan.make_plan

    def counted(graph: FrozenGraph, *rest: Any) -> Any:
        names.append(graph.name)
        return make(graph, *rest)

    monkeypatch.setattr(plans_module, "make_plan", counted)
    return names


class Held:
    """Keeps the planning thread inside of one plan until told."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def wrap(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any) -> Any:
            self.entered.set()
            assert self.go.wait(PATIENCE_S)
            return make(*args)

        return held


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    one = Held()
    monkeypatch.setattr(plans_module, "make_plan", one.wrap(plan.make_plan))
    return one


async def test_64_first_runs_of_a_large_graph_plan_once(ex: fa.Executor, planned: list[str]) -> None:
    g = chain(2_000)
    found = await asyncio.gather(*[ex.run(g, x=ones(16)) for _ in range(64)])
    assert all((one["y"] == 2_001).all() for one in found)
    assert planned == ["chain"]
    assert ex.statistics().plans_prepared == 1
    assert (await ex.engine()).preparing.flights._flying == {}
    await settled(ex)


async def test_64_first_runs_of_a_small_graph_plan_once(ex: fa.Executor, planned: list[str]) -> None:
    g = doubling()
    await asyncio.gather(*[ex.run(g, x=ones()) for _ in range(64)])
    assert planned == ["doubling"]


async def test_a_cancelled_caller_does_not_cancel_planning_for_the_others(ex: fa.Executor, held: Held) -> None:
    await ex.__aenter__()
    g = chain(200)
    first = asyncio.create_task(ex.run(g, x=ones(16)))
    await asyncio.to_thread(held.entered.wait, PATIENCE_S)
    others = [asyncio.create_task(ex.run(g, x=ones(16))) for _ in range(5)]
    await turns(2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    held.go.set()
    for task in others:
        assert ((await task)["y"] == 201).all()
    assert ex.statistics().plans_prepared == 1
    assert ex.statistics().runs_cancelled == 1


async def test_planning_that_nobody_waits_for_any_more_leaves_a_plan_and_nothing_else(
    ex: fa.Executor, held: Held
) -> None:
    await ex.__aenter__()
    g = chain(200)
    task = asyncio.create_task(ex.run(g, x=ones(16)))
    await asyncio.to_thread(held.entered.wait, PATIENCE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.go.set()
    engine = await ex.engine()
    await engine.session.call(lambda breathe: None)[0]  # behind the plan, on the same thread
    assert engine.preparing.flights._flying == {}
    assert engine.cache.all() == []  # the graph that was frozen is gone
    held.entered.clear()
    assert ((await ex.run(g, x=ones(16)))["y"] == 201).all()
    assert not held.entered.is_set()
    watched = weakref.ref(g.frozen)
    del g, task
    gc.collect()
    assert watched() is None
    assert engine.cache.all() == []
    assert ex.statistics().idle_nbytes == 0


async def test_an_error_of_planning_comes_to_each_caller_afresh(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    for _ in range(100):
        x = x.floor()
    g.output("y", x)
    outcomes = await asyncio.gather(*[ex.run(g, x=ints()) for _ in range(10)], return_exceptions=True)
    assert all(isinstance(outcome, fa.UserError) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 10
    assert ex.statistics().runs_failed == 10


async def test_graphs_of_equal_structure_share_a_plan(ex: fa.Executor, planned: list[str]) -> None:
    for number in range(20):  # a graph built anew for each request
        g = chain(100, name=f"request {number}")
        await ex.run(g, x=ones(16))
    assert planned == ["request 0"]
    assert ex.statistics().plans_prepared == 20


@pytest.mark.parametrize(
    "other",
    [
        lambda: chain(101),
        lambda: chain(100, size=17),
    ],
)
async def test_other_structures_have_plans_of_their_own(
    ex: fa.Executor, planned: list[str], other: Callable[[], fa.Graph]
) -> None:
    one, two = chain(100), other()
    size = two.inputs["x"].nbytes // 4
    for _ in range(3):
        assert (await ex.run(one, x=ones(16)))["y"][0] == 101
        await ex.run(two, x=ones(size))
    assert len(planned) == 2


async def test_each_size_of_a_symbol_has_a_plan(ex: fa.Executor, planned: list[str]) -> None:
    g = fa.Graph("symbolic")
    x = g.input("x", ("n", 3))
    g.output("y", (x + x).sum(axis=0))
    for size in (2, 5, 2, 0, 5):
        np.testing.assert_array_equal((await ex.run(g, x=np.ones((size, 3), np.float32)))["y"], [2 * size] * 3)
    assert planned == ["symbolic"] * 3


async def test_a_graph_that_grew_is_planned_again(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (4,))
    g.output("y", x + x)
    assert list(await ex.run(g, x=ones())) == ["y"]
    g.output("z", x * 3)
    found = await ex.run(g, x=ones())
    assert list(found) == ["y", "z"]
    assert found["z"][0] == 3


async def test_a_graph_that_grows_while_it_is_planned_is_run_as_it_was(ex: fa.Executor, held: Held) -> None:
    await ex.__aenter__()
    g = chain(200)
    task = asyncio.create_task(ex.run(g, x=ones(16)))
    await asyncio.to_thread(held.entered.wait, PATIENCE_S)
    g.output("later", g.constant(1.0))
    held.go.set()
    assert list(await task) == ["y"]
    assert list(await ex.run(g, x=ones(16))) == ["y", "later"]


async def test_new_kernels_make_new_plans(ex: fa.Executor, rig: Rig, planned: list[str]) -> None:
    """Old plans go with the topology generation: a kernel that was registered meanwhile is found."""
    g = fa.Graph("late")
    g.output("y", g.input("x", (4,), fa.i16) + 1)
    with pytest.raises(fa.UserError, match="no kernel for add"):
        await ex.run(g, x=ints(dtype=np.int16))
    await in_place(ex, doubling(), x=ones())

    def extend(table: fa.KernelBindingTable) -> None:
        add = OpKind.AddElementwise
        row = table.lookup_entry(add, (fa.i64,) * 3, BackendId.CPU)
        table.register_entry(add, (fa.i16,) * 3, BackendId.CPU, row)

    extend_global_bindings(extend)
    np.testing.assert_array_equal((await ex.run(g, x=ints(dtype=np.int16)))["y"], ints(4))
    assert planned.count("late") == 2


async def test_plans_and_prepared_plans_are_bounded(
    ex: fa.Executor, monkeypatch: pytest.MonkeyPatch, planned: list[str]
) -> None:
    monkeypatch.setattr(plans_module, "MOST_PLANS", 4)
    monkeypatch.setattr(plans_module, "MOST_PREPARED", 3)
    graphs = [doubling(size) for size in range(1, 8)]
    for g, size in zip(graphs, range(1, 8), strict=True):
        await ex.run(g, x=ones(size))
    engine = await ex.engine()
    assert len(engine.cache.all()) == 3
    assert len(engine.cache._plans) == 4
    assert ex.statistics().idle_nbytes == sum(one.idle_nbytes for one in engine.cache.all())
    before = len(planned)
    await ex.run(graphs[-1], x=ones(7))  # the newest is there
    assert len(planned) == before
    await ex.run(graphs[3], x=ones(4))  # its plan is
    assert len(planned) == before
    await ex.run(graphs[0], x=ones(1))  # the oldest is not
    assert len(planned) == before + 1
    await settled(ex)


async def test_a_graph_that_is_gone_leaves_no_prepared_plan(ex: fa.Executor) -> None:
    g = chain(100, size=512)
    await in_place(ex, g, x=ones(512))
    await forgotten(ex)
    assert ex.statistics().idle_nbytes > 0
    del g
    gc.collect()
    assert (await ex.engine()).cache.all() == []
    assert ex.statistics().idle_nbytes == 0
    await settled(ex)


async def test_results_of_a_dropped_plan_arrive_all_the_same(
    ex: fa.Executor, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache forgets the plan, and the caller its graph, while a run is in its lane."""
    monkeypatch.setattr(plans_module, "MOST_PREPARED", 1)
    g = fa.Graph()
    g.output("y", -g.input("x", (4,), fa.i64))
    task = asyncio.create_task(ex.run(g, x=ints()))
    await rig.gate.entered()
    del g
    other = asyncio.create_task(ex.run(doubling(), x=ones()))
    await turns(2)
    gc.collect()
    rig.gate.open()
    assert (await task)["y"][0] == 3
    await other
    await settled(ex)


async def test_a_precision_floor_has_a_plan_of_its_own(ex: fa.Executor, planned: list[str]) -> None:
    g = doubling()
    stable, exact = fa.PrecisionGuarantee(bit_stable_on_same_hardware=True), fa.PrecisionGuarantee(max_ulp=0)
    for _ in range(4):
        await ex.run(g, x=ones())
        assert ((await ex.run(g, x=ones(), precision=stable))["y"] == 2).all()
    assert planned == ["doubling"] * 2
    with pytest.raises(fa.UserError, match="no kernel on cpu meets the precision floor"):
        await ex.run(g, x=ones(), precision=exact)
    assert ((await ex.run(g, x=ones()))["y"] == 2).all()


async def test_plans_are_bounded_by_what_they_hold(ex: fa.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large plans leave sooner than their number says; the newest stays, however large."""
    monkeypatch.setattr(plans_module, "MOST_KERNELS", 50)
    graphs = [chain(20) for _ in range(4)]
    for g in graphs:
        await ex.run(g, x=ones(16))
    cache = (await ex.engine()).cache
    assert [cache.find(g.freeze(), ((), None)) is not None for g in graphs] == [False, False, True, True]
    large = chain(100)
    await ex.run(large, x=ones(16))
    assert len(cache.all()) == 1
    assert cache.find(large.freeze(), ((), None)) is not None
