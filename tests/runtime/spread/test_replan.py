"""Plans go out of date while runs stand in line: those of which nothing was issued are planned anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.plan import make_plan
from fuel_async.registry import bump_topology_generation
from fuel_async.runtime import plans as plans_module
from tests.runtime.spread.support import MS, chain, one

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the graphs that were planned, in order."""
    names: list[str] = []

    def counted(graph: Any, *rest: Any) -> Any:
        names.append(graph.name)
        return make_plan(graph, *rest)

    monkeypatch.setattr(plans_module, "make_plan", counted)
    return names


def test_runs_in_line_are_planned_anew(virtual: Stage, planned: list[str]) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(one(), seed) for seed in range(20)]
        await world.sleep(MS / 2)
        issued = sum(state.issued for state in world.scheduler.runs.values())
        old = world.scheduler.runs.copy()
        assert 0 < issued < 20
        bump_topology_generation()
        kept = [number for number in world.scheduler.runs if number in old]
        assert len(kept) == issued  # these go on by the plan that they have
        for seed, task in enumerate(tasks):
            assert await task == one().expected(one().feed(seed))
        await world.settled()
        assert planned == ["dag", "dag"]
        found = world.ex.statistics()
        assert (found.runs_on_lanes, found.runs_failed, found.runs_cancelled) == (20, 0, 0)
        assert len(world.engine.cache.all()) == 1

    virtual(scenario)


def test_a_run_that_is_planned_anew_can_be_cancelled(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(one(), seed) for seed in range(12)]
        await world.sleep(MS / 2)
        bump_topology_generation()
        for task in tasks[6:]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert outcomes[:6] == [one().expected(one().feed(seed)) for seed in range(6)]
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[6:])
        await world.settled()
        found = world.ex.statistics()
        assert (found.runs_on_lanes, found.runs_failed, found.runs_cancelled) == (6, 0, 6)

    virtual(scenario)


def test_the_world_changes_all_the_time(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        changing = True

        async def change() -> None:
            while changing:
                bump_topology_generation()
                await asyncio.sleep(0.0005)

        changer = asyncio.create_task(change())
        await asyncio.gather(*[world.check(chain(2, 200_000), seed) for seed in range(40)])
        changing = False
        await changer
        await world.settled()
        found = world.ex.statistics()
        assert (found.runs_on_lanes, found.runs_failed, found.runs_cancelled) == (40, 0, 0)

    stage(scenario)


def test_a_closed_executor_does_not_hear_of_changes(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(one())
        await world.ex.aclose()
        heard = len(world.scheduler._story)
        bump_topology_generation()
        assert len(world.scheduler._story) == heard

    virtual(scenario)
