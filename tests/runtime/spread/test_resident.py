"""Results that stay on the devices that made them, and runs that read them there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import SimMachine
from fuel_async.errors import DeviceLost, FeedError
from fuel_async.testing import synthetic_op
from tests.runtime.spread.support import HOST, MS, NBYTES, Dag, Node, chain, digests, fork, one

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World


async def kept(world: World, dag: Dag, seed: int = 0) -> dict[str, fa.DeviceArray]:
    return await world.ex.run(world.graph(dag), x=dag.feed(seed), on_device=True)


async def fed(world: World, dag: Dag, x: Any) -> dict[str, str]:
    return digests(await world.ex.run(world.graph(dag), x=x))


def test_results_stay_where_they_were_made(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = Dag((Node(pin=world.at(0)), Node(pin=world.at(1)), Node(pin=world.at(1), nbytes=100)))
        found = await kept(world, dag)
        assert {name: array.device for name, array in found.items()} == {
            "y0": world.at(0),
            "y1": world.at(1),
            "y2": world.at(1),
        }
        assert digests(found) == dag.expected(dag.feed())
        assert not [ends for ends in world.copies() if ends[1] == HOST]

    stage(scenario)


def test_a_result_is_read_where_it_lies(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        made = await kept(world, one().on(world.at(0)))
        before = world.copies()
        there = one().on(world.at(0))
        assert await fed(world, there, made["y0"]) == there.expected(made["y0"].numpy())
        after = world.copies()
        assert after.pop((world.at(0), HOST)) == before.get((world.at(0), HOST), 0) + 1  # what comes home
        assert after == {ends: count for ends, count in before.items() if ends != (world.at(0), HOST)}

    stage(scenario)


@pytest.mark.parametrize("nbytes", [64, 10_000])
def test_a_result_goes_straight_to_the_device_that_reads_it(stage: Stage, nbytes: int) -> None:
    async def scenario(world: World) -> None:
        made = await kept(world, Dag((Node(nbytes=nbytes, pin=world.at(0)),)))
        dag = Dag((Node(pin=world.at(1)),), nbytes=nbytes)
        before = world.copies()
        assert await fed(world, dag, made["y0"]) == dag.expected(made["y0"].numpy())
        after = world.copies()
        assert after[world.at(0), world.at(1)] == before.get((world.at(0), world.at(1)), 0) + 1
        assert after.get((world.at(0), HOST)) == before.get((world.at(0), HOST))
        assert after[HOST, world.at(0)] == before[HOST, world.at(0)]

    stage(scenario)


def test_without_a_link_between_them_it_goes_by_the_host(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        made = await kept(world, one().on(world.at(0)))
        world.machine.cut(world.devices[0], world.devices[1])
        dag = one().on(world.at(1))
        assert await fed(world, dag, made["y0"]) == dag.expected(made["y0"].numpy())

    stage(scenario)


def test_the_next_run_goes_to_where_its_feed_lies(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        made = await kept(world, one().on(world.at(1)))
        short = one(1_000)
        assert await fed(world, short, made["y0"]) == short.expected(made["y0"].numpy())
        assert world.scheduler.decisions[-1].chosen.device == 1

    virtual(scenario)


def test_a_result_may_be_fed_to_many_runs_and_twice_to_one(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        made = (await kept(world, one().on(world.at(0))))["y0"]
        before = made.numpy().copy()
        g = fa.Graph()
        a, b = g.input("a", made.shape, fa.u8), g.input("b", made.shape, fa.u8)
        g.output("y", synthetic_op(g, [a, b], cost_ns=MS, nbytes=NBYTES))
        found = await asyncio.gather(*[world.ex.run(g, a=made, b=made) for _ in range(12)])
        again = await world.ex.run(g, a=before, b=before)
        assert [digests(one_of_them) for one_of_them in found] == [digests(again)] * 12
        np.testing.assert_array_equal(made.numpy(), before)

    stage(scenario)


def test_truth_values_stay_and_are_fed_back(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph()
        x = g.input("x", (10_000,))
        with g.on(world.at(0)):
            g.output("y", x > 0)
        found = await world.ex.run(g, x=np.arange(-5_000, 5_000).astype(np.float32), on_device=True)
        assert found["y"].boolean
        dag = Dag((Node(pin=world.at(1)),), nbytes=10_000)
        assert await fed(world, dag, found["y"]) == dag.expected((np.arange(-5_000, 5_000) > 0).astype(np.uint8))

    stage(scenario)


def test_runs_do_not_write_over_what_a_caller_keeps(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = fork(2)
        found = [await kept(world, dag, seed) for seed in range(4)]
        await asyncio.gather(*[world.check(dag, seed) for seed in range(4, 10)])
        for seed, outputs in enumerate(found):
            assert digests(outputs) == dag.expected(dag.feed(seed))

    stage(scenario)


def test_an_executor_without_the_device_refuses_and_says_so(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        made = (await kept(world, one().on(world.at(0))))["y0"]
        machine = SimMachine([world.devices[0].spec], clock=world.machine.clock)
        async with fa.Executor(devices=machine.devices) as other:
            with pytest.raises(FeedError, match=f"lies on {world.at(0)}, which is not among") as caught:
                await other.run(one().graph(), x=made)
            assert list(caught.value.problems) == ["x"]
            assert other.statistics().runs_failed == 1
            found = await other.run(one().graph(), x=made.numpy().copy())
            assert digests(found) == one().expected(made.numpy())
        machine.close()

    virtual(scenario)


def test_a_result_on_a_device_that_is_lost_is_lost_with_it(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        made = (await kept(world, one().on(world.at(0))))["y0"]
        world.machine.lose(world.devices[0], "as told")
        for dag in (one(), one().on(world.at(1))):
            with pytest.raises(DeviceLost, match="as told"):
                await fed(world, dag, made)
        await world.check(chain(2))

    stage(scenario)


def test_what_was_kept_on_the_host_is_fed_to_devices(real: Stage) -> None:
    async def scenario(world: World) -> None:
        made = (await kept(world, one(10_000).on(HOST)))["y0"]
        assert made.device == HOST
        dag = one().on(world.at(0))
        assert await fed(world, dag, made) == dag.expected(made.numpy())

    real(scenario, cpu=True)
