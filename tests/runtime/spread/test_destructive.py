"""Ops that may write over their operand, over several devices: any placement gives the bytes of the host alone."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.destroying import DESTROYING
from tests.runtime.spread.support import Stage, digests

if TYPE_CHECKING:
    from tests.runtime.spread.support import World

OPS = (*DESTROYING, "add", "mul", "exp", "slice", "reshape", "permute", "contiguize", "concat", "matmul", "sum") * 2

THREE = [SimDeviceSpec(speed=1 + number, lanes=1 + number % 2, jitter=0.8) for number in range(3)]


async def on_the_host(case: Case) -> dict[str, str]:
    async with fa.Executor(devices=["cpu:0"]) as ex:
        return digests(await ex.run(case.graph, case.feeds))


def check(stage: Stage, case: Case, seed: int) -> None:
    """Concurrent runs, one after another, and one whose outputs stay where they are."""
    expected = asyncio.run(on_the_host(case))
    fed = digests(case.feeds)

    async def scenario(world: World) -> None:
        found = await asyncio.gather(*[world.ex.run(case.graph, case.feeds) for _ in range(3)])
        found.append(await world.ex.run(case.graph, case.feeds))
        for results in found:
            assert digests(results) == expected
        kept = await world.ex.run(case.graph, case.feeds, on_device=True)
        assert digests({name: array.numpy() for name, array in kept.items()}) == expected
        assert digests(case.feeds) == fed

    stage(
        scenario,
        THREE,
        links=Links.of(500, 10, peers=seed % 2 == 0),
        seed=seed,
        placement=random.Random(seed).choice,
        cpu=not stage.is_virtual,
    )


@pytest.mark.parametrize("seed", range(8))
def test_bytes_that_are_written_over_are_read_first_wherever_regions_run(
    stage: Stage, tiny_regions: None, seed: int
) -> None:
    check(stage, random_graph(seed, 120, ops=OPS, shape=(3, 4), window=8 + 4 * seed), seed)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=graphs(ops=OPS, max_steps=20), seed=st.integers(0, 1 << 16))
def test_drawn_graphs_agree_wherever_regions_run(virtual: Stage, tiny_regions: None, case: Case, seed: int) -> None:
    check(virtual, case, seed)


def test_an_op_waits_for_readers_on_other_devices(virtual: Stage, tiny_regions: None) -> None:
    """The op is pinned beside its operand; a slow reader is pinned elsewhere. The result takes the operand's place."""

    async def scenario(world: World) -> None:
        g = fa.Graph()
        x = g.input("x", (1_024,))
        with g.on(world.at(0)):
            t = x * 1
            over = t.neg_inplace()
            g.output("over", over + 0)
        with g.on(world.at(1)):
            g.output("late", t.exp().log())
        feed = np.linspace(1, 2, 1_024, dtype=np.float32)
        results = await world.ex.run(g, x=feed)
        assert results["over"].tolist() == (-feed).tolist()
        assert results["late"] == pytest.approx(feed, rel=1e-5)
        (prepared,) = world.engine.cache.all()
        plan = prepared.plan
        regions = {
            plan.graph.ops[node].name: number
            for number, region in enumerate(plan.regions)
            for node in region.program.nodes
        }
        assert regions["exp"] in plan.regions[regions["neg_inplace"]].needs
        assert regions["exp"] != regions["neg_inplace"]

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=0.1)])


def test_a_move_is_made_where_it_goes(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph()
        with g.on(world.at(0)):
            t = g.input("x", (4,)) * 2
        g.output("kept", t.sum())
        g.output("y", t.move(world.at(1)))
        feed = np.arange(4, dtype=np.float32)
        results = await world.ex.run(g, x=feed, on_device=True)
        assert results["y"].device == world.at(1)
        assert results["y"].numpy().tolist() == [0, 2, 4, 6]
        assert results["kept"].numpy() == 12

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec()])
