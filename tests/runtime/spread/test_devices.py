"""Devices that join and leave while runs are under way."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import fuel_async as fa
from fuel_async.backends.sim import SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.errors import DeviceLost
from fuel_async.ir import DeviceLocation
from fuel_async.runtime.statistics import LinkStatistics
from tests.runtime.spread.support import MS, chain, failed_with, fork, one, random_dag
from tests.runtime.support import join

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World


def test_a_device_that_joins_takes_regions_of_runs_under_way(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(one(), seed) for seed in range(20)]
        await world.sleep(MS / 2)
        world.ex.add_device(world.machine.add(SimDeviceSpec(speed=8)))
        for seed, task in enumerate(tasks):
            assert await task == one().expected(one().feed(seed))
        assert world.scheduler.machine.devices[1].given > 10
        assert [device.location for device in world.ex.devices] == [world.at(0), world.at(1)]

    virtual(scenario, 1)


def test_devices_join_from_several_threads_at_once(real: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(fork(3, 100_000), seed) for seed in range(8)]
        joining = [
            threading.Thread(target=lambda device=device: world.ex.add_device(device))
            for device in [world.machine.add(SimDeviceSpec(speed=2)) for _ in range(4)]
        ]
        for thread in joining:
            thread.start()
        join(joining)
        for seed, task in enumerate(tasks):
            assert await task == fork(3, 100_000).expected(fork(3, 100_000).feed(seed))
        table, machine = world.engine.table, world.scheduler.machine
        assert [str(device.location) for device in table.devices] == [one.shape.name for one in machine.devices]
        for number, device in enumerate(table.devices):
            assert [table.lanes[lane] for lane in machine.devices[number].lanes] == list(device.lanes)
            await world.check(one(10_000).on(device.location))

    real(scenario)


def test_a_device_joins_once(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(fa.UserError, match="already"):
            world.ex.add_device(world.devices[0])
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(4)])
        assert len(world.ex.devices) == len(world.scheduler.machine.devices) == 2

    virtual(scenario)


def test_a_pin_to_a_device_that_joins_later(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        device = world.machine.add(SimDeviceSpec())
        dag = chain(2).on(device.location)
        with pytest.raises(fa.UserError, match="is pinned to"):
            await world.run(dag)
        world.ex.add_device(device)
        await world.check(dag)
        assert world.ex.statistics().runs_failed == 1

    virtual(scenario)


def test_a_device_that_was_lost_before_it_joins_gets_nothing(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        device = world.machine.add(SimDeviceSpec(speed=100))
        world.machine.lose(device)
        world.ex.add_device(device)
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(4)])
        assert world.scheduler.machine.devices[2].given == 0

    stage(scenario)


def test_after_the_loss_of_all_a_new_device_serves_again(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(chain(10), seed) for seed in range(8)]
        await asyncio.sleep(0)
        for device in world.devices:
            world.machine.lose(device)
        await failed_with(DeviceLost, *tasks)
        world.ex.add_device(world.machine.add(SimDeviceSpec()))
        await asyncio.gather(*[world.check(chain(2), seed) for seed in range(8)])

    stage(scenario)


def test_devices_come_and_go_under_a_stream_of_runs(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        lost = done = 0

        async def serve(worker: int) -> None:
            nonlocal lost, done
            for number in range(4):
                dag = random_dag(worker, 6, cheapest_ns=20_000, dearest_ns=100_000)
                try:
                    await world.check(dag, number)
                except DeviceLost:
                    lost += 1
                else:
                    done += 1

        async def change() -> None:
            for number in range(5):
                await asyncio.sleep(0.0002)
                world.ex.add_device(world.machine.add(SimDeviceSpec(speed=1 + number % 3)))
                world.machine.lose(world.devices[number])

        await asyncio.gather(change(), *[serve(worker) for worker in range(8)])
        assert lost + done == 32
        assert done
        await world.engine.idle()
        assert world.ex.statistics().runs_failed == lost

    stage(scenario, 3)


# --- one clock for all ---


def test_an_executor_takes_the_clock_of_its_devices() -> None:
    clock = VirtualClock()
    devices = SimMachine([SimDeviceSpec(), SimDeviceSpec()], clock=clock).devices
    assert fa.Executor(devices)._config.clock is clock
    assert fa.Executor(devices, clock=clock)._config.clock is clock


@pytest.mark.parametrize("others", [["cpu:0"], [], None], ids=["the host", "another machine", "what is found"])
def test_devices_of_different_clocks_are_refused(others: list[str] | None) -> None:
    machine = SimMachine([SimDeviceSpec()], clock=VirtualClock())
    with pytest.raises(fa.UserError, match="clock"):
        fa.Executor(None if others is None else [*machine.devices, *others], clock=VirtualClock())


def test_what_a_device_sent_and_received_is_told(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        for seed in range(4):
            await world.check(fork(3, 100_000), seed)
        found = world.ex.statistics()
        for device in world.devices:
            received, sent = found.received(device.location), found.sent(device.location)
            into = [link for (_, place), link in found.links.items() if place == device.location]
            assert received.copies == sum(link.copies for link in into) > 0
            assert received.nbytes == sum(link.nbytes for link in into) > 0
            assert sent.copies > 0
            assert sent.actual_s > 0
        assert found.received(DeviceLocation.parse("cuda:99")) == LinkStatistics(0, 0, 0, 0)

    virtual(scenario)
