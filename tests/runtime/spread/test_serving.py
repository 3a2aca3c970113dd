"""Many runs on several devices at once: what they share, who goes first, and how many may wait."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.sim import SimDeviceSpec
from fuel_async.errors import Overloaded
from fuel_async.plan import make_plan
from fuel_async.runtime import plans as plans_module
from tests.runtime.spread.support import HOST, MS, Dag, Node, chain, digests, fork, one
from tests.runtime.support import PATIENCE_S

if TYPE_CHECKING:
    from tests.runtime.spread.support import Bytes, Stage, World

TENANT: ContextVar[int] = ContextVar("TENANT", default=0)


class OfTenant:
    """A feed that is made when it is looked at, from what the context says then."""

    def __init__(self, dag: Dag) -> None:
        self.dag, self.shape = dag, (dag.nbytes,)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Bytes:
        return self.dag.feed(TENANT.get())


def test_a_run_has_the_context_of_its_submission(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag, g = one(), world.graph(one())
        runs = []
        for tenant in range(1, 5):
            TENANT.set(tenant)
            runs.append(world.ex.submit(g, x=OfTenant(dag)))
        TENANT.set(99)
        for tenant, run in zip(range(1, 5), runs, strict=True):
            assert digests(await run) == dag.expected(dag.feed(tenant))

    stage(scenario)


def test_constants_are_sent_once_to_a_device_that_64_runs_meet_cold(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = Dag(tuple(Node(cost_ns=10_000 + number) for number in range(2)), constant_nbytes=50_000)
        await asyncio.gather(*[world.check(dag, seed) for seed in range(64)])
        links = [world.machine.link(HOST, device) for device in world.devices]
        assert sum(link.copies > 0 for link in links) > 1
        for link in links:
            feeds = max(link.copies - 1, 0)
            assert link.copied_nbytes == (50_000 if link.copies else 0) + feeds * dag.nbytes

    stage(scenario, 3)


def test_planning_goes_on_when_its_first_caller_is_cancelled(real: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go, planned = threading.Event(), threading.Event(), list[str]()

    def held(graph: Any, *rest: Any) -> Any:
        planned.append(graph.name)
        entered.set()
        assert go.wait(PATIENCE_S)
        return make_plan(graph, *rest)

    monkeypatch.setattr(plans_module, "make_plan", held)

    async def scenario(world: World) -> None:
        dag = chain(80, 20_000)
        first = world.start(dag)
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        others = [world.start(dag, seed) for seed in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go.set()
        for seed, task in enumerate(others):
            assert await task == dag.expected(dag.feed(seed))
        assert planned == ["dag"]
        found = world.ex.statistics()
        assert (found.plans_prepared, found.runs_cancelled, found.runs_on_lanes) == (1, 1, 5)

    real(scenario)


def test_runs_of_higher_priority_go_first(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        ended: list[int] = []

        async def run(priority: int) -> None:
            await world.check(one(), priority=priority)
            ended.append(priority)

        await asyncio.gather(*[run(priority) for priority in (0, 0, 0, 0, 1, 5, -1, 5)])
        first = world.devices[0].slot_capacity * len(world.devices)  # these were in the lanes already
        assert ended[:first] == [0] * first
        assert ended[first:] == sorted(ended[first:], reverse=True)

    virtual(scenario, 1)


def test_runs_of_one_priority_take_turns(virtual: Stage) -> None:
    """Each of them has four regions; none gets its third before all have had their first."""

    async def scenario(world: World) -> None:
        tasks = [world.start(chain(4), seed) for seed in range(6)]
        await asyncio.gather(*tasks)
        order = [(decision.run, decision.region) for decision in world.scheduler.decisions]
        given: Counter[int] = Counter()
        for run, _ in order:
            given[run] += 1
            assert given[run] - min(given[other] for other in range(1, 7)) <= 2, order

    virtual(scenario, 1)


def test_a_large_run_and_many_small_ones_both_make_progress(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        large, done = chain(20), [0] * 16
        task = world.start(large)

        async def endless(client: int) -> None:
            while not task.done():
                await world.check(one(), client)
                done[client] += 1

        await asyncio.gather(*[endless(client) for client in range(16)])
        assert await task == large.expected(large.feed())
        assert max(done) - min(done) <= 2, done
        assert 5 <= min(done) <= max(done) <= 22, done  # a region for each round of the others

    virtual(scenario, 1)


def test_too_many_submitted_are_refused(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag, g = one(), world.graph(one())
        runs = [world.ex.submit(g, x=dag.feed(seed)) for seed in range(7)]
        with pytest.raises(Overloaded) as caught:
            world.ex.submit(g, x=dag.feed())
        assert (caught.value.queued, caught.value.limit) == (5, 5)
        for seed, run in enumerate(runs):
            assert digests(await run) == dag.expected(dag.feed(seed))
        assert digests(await world.ex.submit(g, x=dag.feed())) == dag.expected(dag.feed())

    stage(scenario, max_inflight=2, max_queued=5)


def test_a_map_keeps_no_more_under_way_than_asked_for(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag, taken, most = fork(2), 0, 0

        def feeds() -> Any:
            nonlocal taken, most
            for seed in range(30):
                taken += 1
                most = max(most, taken - len(found))
                yield {"x": dag.feed(seed)}

        found: list[dict[str, str]] = []
        async for results in world.ex.map(world.graph(dag), feeds(), max_inflight=4):
            found += [digests(results)]
        assert found == [dag.expected(dag.feed(seed)) for seed in range(30)]
        assert most <= 5

    stage(scenario, [SimDeviceSpec(lanes=2), SimDeviceSpec(speed=2)])


def test_progress_is_told_by_regions_wherever_they_ran(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(4).on(world.at(0), world.at(1), world.at(0), world.at(1))
        run = world.ex.submit(world.graph(dag), x=dag.feed())
        seen = set()
        while not run.done():
            seen.add(run.progress)
            await world.sleep(MS / 4)
        assert seen >= {(done, 4) for done in range(4)}
        assert run.progress == (4, 4)

    virtual(scenario)
