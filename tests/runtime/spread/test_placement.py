"""Where runs go, by policy, by pins and by force; wherever they go, the bytes are the same."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.testing import random_graph
from tests.runtime.spread.support import HOST, MS, Dag, Node, Stage, chain, digests, fork, one, random_dag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.schedule import Offer
    from tests.runtime.spread.support import World


def anywhere(seed: int) -> Callable[[Sequence[Offer]], Offer]:
    """A policy that follows nothing but chance."""
    return random.Random(seed).choice


def test_earliest_finish_leaves_a_slow_device_idle(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(chain(6))
        assert [device.given for device in world.scheduler.machine.devices] == [0, 6]
        assert set(world.copies()) == {(HOST, world.at(1)), (world.at(1), HOST)}

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=8)])


def test_spread_gives_every_device_as_many(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await asyncio.gather(*[world.check(one(), seed) for seed in range(12)])
        assert [device.given for device in world.scheduler.machine.devices] == [4, 4, 4]

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=4), SimDeviceSpec()], placement="spread")


def test_a_policy_of_the_callers_own_is_asked(stage: Stage) -> None:
    asked: list[int] = []

    def last(offers: Sequence[Offer]) -> Offer:
        asked.append(len(offers))
        return offers[-1]

    async def scenario(world: World) -> None:
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(4)])
        assert [device.given for device in world.scheduler.machine.devices] == [0, 0, 16]
        assert set(asked) <= {1, 2, 3}

    stage(scenario, 3, placement=last)


def test_a_policy_that_fails_fails_the_run_and_no_other(virtual: Stage) -> None:
    broken = True

    def policy(offers: Sequence[Offer]) -> Offer:
        if broken:
            raise ZeroDivisionError("as told")
        return offers[0]

    async def scenario(world: World) -> None:
        nonlocal broken
        with pytest.raises(ZeroDivisionError, match="as told"):
            await world.run(one())
        broken = False
        await asyncio.gather(*[world.check(one(), seed) for seed in range(8)])

    virtual(scenario, placement=policy)


def test_a_policy_that_makes_up_an_offer_is_refused(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(fa.UserError, match="one of the offers"):
            await world.run(one())

    virtual(scenario, placement=lambda offers: None)


def test_pins_are_obeyed(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(5).on(world.at(2), world.at(0), world.at(1), world.at(0), world.at(2))
        await world.check(dag)
        assert [device.given for device in world.scheduler.machine.devices] == [2, 1, 2]
        with pytest.raises(fa.UserError, match="is pinned to sim:"):
            await world.run(one().on(fa.DeviceLocation(world.at(0).backend, 1 << 40)))
        with pytest.raises(fa.UserError, match="is pinned to cpu:0, which is not among"):
            await world.run(one().on(HOST))

    stage(scenario, 3)


def test_to_moves_a_value_to_a_device(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph()
        x = g.input("x", (4_000,))
        g.output("y", x.to(world.at(1)))
        found = await world.ex.run(g, x=np.arange(4_000, dtype=np.float32), on_device=True)
        assert found["y"].device == world.at(1)
        np.testing.assert_array_equal(found["y"].numpy(), np.arange(4_000))

    stage(scenario)


#: As unlike one another as machines are.
FORCED = [
    ([SimDeviceSpec()], None, "earliest_finish"),
    ([SimDeviceSpec(lanes=4, jitter=0.5)], None, "spread"),
    *[
        (
            [SimDeviceSpec(speed=speed, lanes=lanes, jitter=jitter) for speed in speeds],
            Links.of(latency, 5, peers=bool(lanes % 2)),
            policy,
        )
        for speeds, lanes, jitter, latency, policy in (
            ((1, 1), 1, 0, 10_000, "earliest_finish"),
            ((1, 10), 2, 0.3, 100, "earliest_finish"),
            ((1, 2, 4), 1, 0.5, 500_000, "spread"),
            ((5, 1, 1), 3, 1.0, 1_000, "spread"),
            ((1, 1, 1, 1), 2, 0.2, 10, "earliest_finish"),
            *[((1, 2, 3), 1 + seed % 3, 0.5, 10 ** (1 + seed % 5), seed) for seed in range(13)],
        )
    ],
]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_20_schedules_give_the_same_bytes(virtual: Stage, seed: int) -> None:
    dag = random_dag(seed, 16)
    expected = [dag.expected(dag.feed(number)) for number in range(2)]
    placements = set()

    async def scenario(world: World) -> None:
        found = await asyncio.gather(*[world.run(dag, number) for number in range(2)])
        assert found == expected
        placements.add(tuple(decision.chosen.device for decision in world.scheduler.decisions))

    assert len(FORCED) == 20
    for number, (specs, links, policy) in enumerate(FORCED):
        placement = anywhere(policy) if isinstance(policy, int) else policy
        virtual(scenario, specs, links=links, seed=number, placement=placement)
    assert len(placements) >= 15


@pytest.mark.parametrize("seed", range(6))
def test_bytes_that_temporaries_share_are_not_written_too_early(
    stage: Stage, tiny_regions: None, seed: int, reference: Callable[[int, int], dict[str, str]]
) -> None:
    """Tiny regions of real kernels over arenas in which dead values make room, in any order that the edges allow."""
    case = random_graph(seed, 90)
    expected = reference(seed, 90)

    async def scenario(world: World) -> None:
        found = await asyncio.gather(*[world.ex.run(case.graph, case.feeds) for _ in range(4)])
        found.append(await world.ex.run(case.graph, case.feeds))
        for results in found:
            assert digests(results) == expected
        kept = await world.ex.run(case.graph, case.feeds, on_device=True)
        assert digests({name: array.numpy() for name, array in kept.items()}) == expected

    stage(
        scenario,
        [SimDeviceSpec(speed=1 + number, lanes=1 + (seed + number) % 3, jitter=0.8) for number in range(3)],
        links=Links.of(500, 10, peers=seed % 2 == 0),
        seed=seed,
        placement=anywhere(seed),
        cpu=not stage.is_virtual,
    )


@pytest.fixture(scope="module")
def reference() -> Callable[[int, int], dict[str, str]]:
    """What the host alone makes of a random graph."""
    known: dict[tuple[int, int], dict[str, str]] = {}

    async def run(seed: int, nodes: int) -> dict[str, str]:
        case = random_graph(seed, nodes)
        async with fa.Executor(devices=["cpu:0"]) as ex:
            return digests(await ex.run(case.graph, case.feeds))

    def look_up(seed: int, nodes: int) -> dict[str, str]:
        if (seed, nodes) not in known:
            known[seed, nodes] = asyncio.run(run(seed, nodes))
        return known[seed, nodes]

    return look_up


def test_random_graphs_are_cut_into_many_regions(virtual: Stage, tiny_regions: None) -> None:
    """Else the tests before this one would show nothing."""

    async def scenario(world: World) -> None:
        cases = [random_graph(seed, 90) for seed in range(6)]  # plans go with their graphs
        for case in cases:
            await world.ex.run(case.graph, case.feeds)
        prepared = world.engine.cache.all()
        assert sum(len(one.plan.regions) for one in prepared) >= 20
        assert all(one.plan.values for one in prepared)

    virtual(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_deep_graph_of_many_regions_over_one_small_arena(stage: Stage, tiny_regions: None, seed: int) -> None:
    """All temporaries are alive only shortly: their bytes are used again and again, on every device."""
    dag = Dag(
        tuple(
            Node(tuple({max(number - back, -1) for back in (1, 1 + (number + seed) % 3)}), 800 + 100 * number, 4_096)
            for number in range(30)
        )
    )

    async def scenario(world: World) -> None:
        await asyncio.gather(*[world.check(dag, number) for number in range(4)])
        [prepared] = world.engine.cache.all()
        assert len(prepared.plan.regions) >= 10
        assert prepared.plan.arena_nbytes <= 6 * 4_096

    stage(
        scenario,
        [SimDeviceSpec(speed=1 + number, lanes=2, jitter=1.0) for number in range(3)],
        links=Links.of(300, 10, peers=seed % 2 == 0),
        seed=seed,
        placement=anywhere(seed),
    )


def test_a_wide_graph_is_faster_on_more_devices(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        wide = Dag((*[Node(cost_ns=10 * MS + number) for number in range(4)], Node((0, 1, 2, 3), MS)))
        before_ns = world.machine.clock.now_ns()
        await world.check(wide)
        assert world.machine.clock.now_ns() - before_ns < 12 * MS

    virtual(scenario, 4)
