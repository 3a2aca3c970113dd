"""Memory of devices: runs wait for what others hold, give up what can never fit, and drop what idles."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.errors import OutOfMemory
from tests.runtime.spread.support import HOST, MS, NBYTES, Dag, Node, chain, failed_with, fork, one

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World

#: What a run of `one()` holds of a device: its feed and its output.
SHARE = 2 * NBYTES


def test_what_can_never_fit_fails_at_once_and_names_the_sizes(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(OutOfMemory) as caught:
            await world.run(one())
        error = caught.value
        assert (error.device, error.wanted_nbytes, error.budget_nbytes) == (str(world.at(1)), SHARE, SHARE - 1)
        await world.check(Dag((Node(nbytes=64),), nbytes=64))

    stage(scenario, [SimDeviceSpec(memory_nbytes=100), SimDeviceSpec(memory_nbytes=SHARE - 1)])


def test_a_device_that_is_too_small_is_passed_over(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(6)])
        assert world.scheduler.machine.devices[0].given == 0
        with pytest.raises(OutOfMemory):
            await world.run(fork(3).on(world.at(0)))

    stage(scenario, [SimDeviceSpec(memory_nbytes=100, speed=10), SimDeviceSpec()])


def test_runs_wait_for_memory_that_others_hold(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        most = 0

        async def watched(seed: int) -> None:
            nonlocal most
            await world.check(one(), seed)
            most = max(most, world.scheduler.machine.memories[1].held_nbytes)

        await asyncio.gather(*[watched(seed) for seed in range(20)])
        assert most <= 2 * SHARE + 100

    stage(scenario, [SimDeviceSpec(memory_nbytes=2 * SHARE + 100, lanes=4)])


def test_runs_that_need_two_memories_do_not_wait_for_one_another(stage: Stage) -> None:
    """Each device has room for one run; half of the runs begin on the one, half on the other."""

    async def scenario(world: World) -> None:
        there, back = chain(2).on(world.at(0), world.at(1)), chain(2).on(world.at(1), world.at(0))
        await asyncio.gather(*[world.check(dag, seed) for seed in range(6) for dag in (there, back)])

    stage(scenario, [SimDeviceSpec(memory_nbytes=40_000)] * 2)


def test_idle_shares_of_other_plans_are_dropped_for_a_new_one(stage: Stage) -> None:
    """There is room for two runs; what they leave for the next ones of their kind must go when others come."""

    async def scenario(world: World) -> None:
        for cost_ns in (MS, MS + 1, MS + 2, MS):
            await asyncio.gather(*[world.check(one(cost_ns), seed) for seed in range(4)])

    stage(scenario, [SimDeviceSpec(memory_nbytes=2 * SHARE + 100)])


def test_runs_wait_for_room_beside_constants(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one(constant_nbytes=20_000)
        await asyncio.gather(*[world.check(dag, seed) for seed in range(12)])
        assert world.engine.table.constants_nbytes == [0]

    stage(scenario, [SimDeviceSpec(memory_nbytes=20_000 + 2 * SHARE + 100, lanes=4)])


def test_constants_of_plans_that_idle_are_dropped_for_a_new_one(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dags = [one(MS + number, constant_nbytes=20_000) for number in range(3)]
        for dag in (*dags, *dags):
            await world.check(dag)
        before = world.copies()[HOST, world.at(0)]
        await world.check(dags[-1])  # these are there
        assert world.copies()[HOST, world.at(0)] == before + 1

    stage(scenario, [SimDeviceSpec(memory_nbytes=20_000 + 2 * SHARE)])


def test_results_that_callers_keep_on_a_device_hold_its_memory(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        kept = await world.ex.run(world.graph(dag), x=dag.feed(), on_device=True)
        assert world.devices[0].memory.used_nbytes >= NBYTES
        [error] = await failed_with(OutOfMemory, world.start(dag))
        assert isinstance(error, OutOfMemory)
        assert error.device == str(world.at(0))
        del kept
        gc.collect()
        await world.check(dag)

    virtual(scenario, [SimDeviceSpec(memory_nbytes=SHARE + NBYTES - 1)])


def test_nothing_waits_for_the_collector(virtual: Stage) -> None:
    """What a run used of a device is free as soon as it is dropped: there is no cycle around it."""

    async def scenario(world: World) -> None:
        gc.collect()
        gc.disable()
        try:
            dag = random = chain(3).on(world.at(0), world.at(1), world.at(0))
            await world.check(dag)
            await world.check(random)
            idle = world.engine.cache.all()
            assert sum(device.memory.used_nbytes for device in world.devices)
            for prepared in idle:
                prepared.drop_idle()
            assert [device.memory.used_nbytes for device in world.devices] == [0, 0]
        finally:
            gc.enable()

    virtual(scenario)


@pytest.mark.parametrize("staged_first", [True, False])
def test_what_is_staged_in_the_hosts_memory_is_there_for_the_host(real: Stage, staged_first: bool) -> None:
    """A value goes from one device to another by the host, which reads it as well, before or after."""

    async def scenario(world: World) -> None:
        a, b = world.at(0), world.at(1)
        cpu = Node((0,), 100_000, pin=HOST)
        sim = Node((0,), 100_000 if staged_first else 5 * MS, pin=b)
        late = Node((1,), 5 * MS, pin=b)
        dag = Dag((Node(pin=a), sim, late, cpu._replace(reads=(2, 0) if staged_first else (0,)), Node((0, 3), pin=b)))
        for seed in range(4):
            await world.check(dag, seed)
        await asyncio.gather(*[world.check(dag, seed) for seed in range(8)])

    real(scenario, cpu=True, links=Links.of(10_000, 12, peers=False))
