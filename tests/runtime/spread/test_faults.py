"""What befalls devices and links while runs are under way: exactly the runs concerned fail, with a typed error."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.errors import DeviceLost, KernelFailed, TransferFailed
from tests.runtime.spread.support import HOST, MS, Dag, Node, chain, failed_with, fork, one

if TYPE_CHECKING:
    from tests.runtime.spread.support import Stage, World


def test_a_device_lost_before_the_executor_opens_is_never_used(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        world.machine.lose(world.devices[0])
        await asyncio.gather(*[world.check(fork(4)) for _ in range(4)])
        assert world.scheduler.machine.devices[0].given == 0

    stage(scenario, 3)


def test_a_device_lost_between_runs_is_not_used_again(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(fork(4))
        world.machine.lose(world.devices[1])
        given = world.scheduler.machine.devices[1].given
        assert given
        await asyncio.gather(*[world.check(fork(4)) for _ in range(4)])
        assert world.scheduler.machine.devices[1].given == given

    stage(scenario, 3)


def test_a_device_lost_in_the_middle_of_a_region_fails_the_runs_that_it_works_for(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        there = [world.start(one().on(world.at(0)), seed) for seed in range(3)]
        elsewhere = [world.start(one().on(world.at(1)), seed) for seed in range(3)]
        await world.sleep(MS / 2)
        world.machine.lose(world.devices[0], "as told")
        for error in await failed_with(DeviceLost, *there):
            assert isinstance(error, DeviceLost)
            assert (error.device, error.reason) == (str(world.at(0)), "as told")
        for seed, task in enumerate(elsewhere):
            assert await task == one().on(world.at(1)).expected(one().feed(seed))
        found = world.ex.statistics()
        assert (found.runs_failed, found.runs_on_lanes, found.runs_cancelled) == (3, 3, 0)

    virtual(scenario)


def test_a_device_lost_while_values_lie_there_alone_fails_the_run(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(2).on(world.at(0), world.at(1))
        task = world.start(dag)
        while not world.copies().get((world.at(0), world.at(1))):  # what the first region made is under way
            await world.sleep(MS / 2)
            if any(link.pending_count for link in world.machine.links if link.source == world.at(0)):
                break
        world.machine.lose(world.devices[0])
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(outcome, DeviceLost) or outcome == dag.expected(dag.feed())

    virtual(scenario)


def test_a_run_hears_at_once_that_what_it_made_is_lost(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        a, b = world.at(0), world.at(1)
        dag = Dag((Node(cost_ns=100_000, pin=a), Node(cost_ns=20 * MS, pin=b), Node((0, 1), pin=b)))
        task = world.start(dag)
        await world.sleep(5 * MS)  # the first is done, and will be read once the second is
        world.machine.lose(world.devices[0])
        await failed_with(DeviceLost, task)
        assert world.machine.clock.now_ns() == 5 * MS

    # Nothing waits in the second device's lane, and without a plan nothing is sent ahead.
    virtual(scenario, [SimDeviceSpec(slot_capacity=1)] * 2, placement="spread")


def test_what_idles_on_a_device_goes_with_it(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one(constant_nbytes=1_000).on(world.at(0))
        await world.check(dag)
        task = world.start(dag)
        other = world.start(dag)
        await world.sleep(MS / 2)
        world.machine.lose(world.devices[0])
        await failed_with(DeviceLost, task, other)
        await world.settled()
        gc.collect()
        assert world.devices[0].memory.used_nbytes == 0

    virtual(scenario)


def test_a_value_that_is_elsewhere_too_is_not_lost_with_a_device(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(3).on(world.at(0), world.at(1), world.at(1))
        task = world.start(dag)
        await world.sleep(3 * MS)  # the second region is at work on the other device, with its operand
        assert world.copies()[world.at(0), world.at(1)] == 1
        world.machine.lose(world.devices[0])
        assert await task == dag.expected(dag.feed())

    virtual(scenario)


def test_a_device_lost_after_its_last_region_while_an_output_is_on_its_way_home(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        task = world.start(one().on(world.at(0)))
        home = world.machine.link(world.devices[0], HOST)
        while not home.pending_count:
            await world.sleep(5_000)
        world.machine.lose(world.devices[0])
        await failed_with(DeviceLost, task)

    virtual(scenario)


def test_runs_in_line_for_a_lost_device_go_elsewhere(virtual: Stage) -> None:
    """Only what was given to the device fails; late placement has left the rest free."""

    async def scenario(world: World) -> None:
        tasks = [world.start(one(), seed) for seed in range(24)]
        await world.sleep(MS / 2)
        held = world.scheduler.machine.lanes[0].held
        assert held
        world.machine.lose(world.devices[0])
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert len(lost) == held
        assert all(isinstance(error, DeviceLost) for error in lost)
        for seed, outcome in enumerate(outcomes):
            assert outcome in lost or outcome == one().expected(one().feed(seed))

    virtual(scenario)


def test_when_the_last_device_is_lost_all_runs_fail_and_so_do_later_ones(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(chain(20), seed) for seed in range(40)]
        await asyncio.sleep(0)
        for device in world.devices:
            world.machine.lose(device, "as told")
        await failed_with(DeviceLost, *tasks)
        for _ in range(2):
            with pytest.raises(DeviceLost):
                await world.run(one())
        await world.engine.idle()  # a run is counted when its last copy has ended, after its caller was told
        assert world.ex.statistics().runs_failed == 42

    stage(scenario)


def test_a_pin_to_a_lost_device_fails_with_its_loss(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        world.machine.lose(world.devices[1], "as told")
        with pytest.raises(DeviceLost, match="as told"):
            await world.run(chain(3).on(world.at(0), world.at(0), world.at(1)))
        await world.check(chain(3))

    stage(scenario)


def test_a_kernel_that_fails_names_its_node_and_leaves_other_runs_alone(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        tasks = [world.start(chain(2).on(world.at(0)), seed) for seed in range(4)]
        await world.sleep(100_000)
        world.machine.fail_next(world.devices[0], KernelFailed("synthetic", str(world.at(0)), "as told"))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert [type(error) for error in errors] == [KernelFailed]
        assert sum(outcome == chain(2).expected(chain(2).feed(seed)) for seed, outcome in enumerate(outcomes)) == 3

    virtual(scenario)


@pytest.mark.parametrize("way", ["in", "between", "out"])
def test_a_copy_that_fails_fails_its_run_alone(stage: Stage, way: str) -> None:
    async def scenario(world: World) -> None:
        dag = chain(2).on(world.at(0), world.at(1))
        ends = {"in": (HOST, world.at(0)), "between": (world.at(0), world.at(1)), "out": (world.at(1), HOST)}[way]
        link = next(link for link in world.machine.links if (link.source, link.destination) == ends)
        world.machine.fail_next(link, TransferFailed(str(ends[0]), str(ends[1]), "as told"))
        outcomes = await asyncio.gather(*[world.run(dag, seed) for seed in range(4)], return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert [type(error) for error in errors] == [TransferFailed]
        assert "as told" in str(errors[0])
        assert sum(outcome == dag.expected(dag.feed(seed)) for seed, outcome in enumerate(outcomes)) == 3
        await world.check(dag)

    stage(scenario)


def test_an_upload_of_a_constant_that_fails_is_made_again_for_the_next_run(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = Dag((Node(reads=(), pin=world.at(0)),), constant_nbytes=10_000)  # nothing else goes there
        link = world.machine.link(HOST, world.devices[0])
        world.machine.fail_next(link, OSError("as told"))
        tasks = [world.start(dag) for _ in range(3)]
        await failed_with(OSError, tasks[0])  # it failed at once
        for task in tasks[1:]:
            assert await task == dag.expected(dag.feed())
        assert link.copies == 1
        await world.check(dag)
        assert link.copies == 1

    virtual(scenario)


def test_runs_that_wait_for_the_same_constant_fail_with_its_copy(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        first = Dag((Node(pin=world.at(0)),), nbytes=100_000)
        dag = Dag((Node(reads=(), pin=world.at(0)),), constant_nbytes=10_000)
        link = world.machine.link(HOST, world.devices[0])
        ahead = world.start(first)  # its feed is on the link for a while
        await world.sleep(1_000)
        world.machine.fail_next(link, OSError("as told"))
        await failed_with(OSError, world.start(dag))
        assert await ahead == first.expected(first.feed())
        await world.check(dag)
        assert link.copies == 2

    virtual(scenario)


def test_without_a_direct_link_values_go_by_the_host(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(3).on(world.at(0), world.at(1), world.at(0))
        await world.check(dag)
        assert world.copies()[world.at(0), world.at(1)] == 1
        world.machine.cut(world.devices[0], world.devices[1])
        before = world.copies()
        await world.check(dag)
        now = world.copies()
        assert now[world.at(0), HOST] == before[world.at(0), HOST] + 2  # the value, and the output
        assert now[HOST, world.at(1)] == before.get((HOST, world.at(1)), 0) + 1

    stage(scenario)


def test_a_link_that_is_cut_under_a_copy_fails_the_run_that_waits_for_it(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = chain(2).on(world.at(0), world.at(1))
        task, other = world.start(dag), world.start(one().on(world.at(1)))
        link = world.machine.link(world.devices[0], world.devices[1])
        while not link.pending_count:
            await world.sleep(5_000)
        world.machine.cut(world.devices[0], world.devices[1])
        [error] = await failed_with(TransferFailed, task)
        assert isinstance(error, TransferFailed)
        assert (error.source, error.destination) == (str(world.at(0)), str(world.at(1)))
        assert await other == one().expected(one().feed())
        await world.check(dag)  # by the host

    virtual(scenario)


def test_without_any_way_the_run_fails_and_says_so(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        world.machine.cut(world.devices[0], HOST)
        world.machine.cut(world.devices[0], world.devices[1])
        with pytest.raises(TransferFailed, match="there is no way"):
            await world.run(chain(2).on(world.at(0), world.at(1)))
        with pytest.raises(TransferFailed, match="there is no way"):
            await world.run(one().on(world.at(0)))
        await world.check(one().on(world.at(1)))

    virtual(scenario)


def test_a_device_that_nothing_reaches_is_passed_over(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        world.machine.cut(HOST, world.devices[1])
        world.machine.cut(world.devices[0], world.devices[1])
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(6)])
        assert world.scheduler.machine.devices[1].given == 0

    stage(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=4)])


def test_a_device_from_which_nothing_comes_back_is_passed_over(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        world.machine.cut(world.devices[1], HOST)
        await asyncio.gather(*[world.check(fork(3), seed) for seed in range(6)])
        assert world.scheduler.machine.devices[1].given == 0

    stage(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=4)], links=Links.of(10_000, 12, peers=False))


def test_when_the_thread_of_the_clock_dies_everything_fails_and_nothing_hangs(real: Stage) -> None:
    async def scenario(world: World) -> None:
        class Dies(BaseException):
            pass

        def die() -> None:
            raise Dies("as told")

        tasks = [world.start(chain(20), seed) for seed in range(30)]
        await asyncio.sleep(0)
        world.machine.clock.call_at(0, die)
        await failed_with(DeviceLost, *tasks)
        with pytest.raises(DeviceLost, match="as told"):
            await world.run(one())

    real(scenario)


def test_a_bind_that_fails_fails_its_run_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        device = world.devices[0]
        make, failures = type(device).instantiate, [fa.DeviceError("as told")]

        def instantiate(self: object, *args: object) -> object:
            if self is device and failures:
                raise failures.pop()
            return make(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(type(device), "instantiate", instantiate)
        dags = [chain(2, cost).on(world.at(0)) for cost in (2 * MS, 2 * MS + 1)]
        outcomes = await asyncio.gather(*[world.run(dag) for dag in dags], return_exceptions=True)
        assert [str(outcome) for outcome in outcomes if isinstance(outcome, fa.DeviceError)] == ["as told"]
        assert sum(outcome == dag.expected(dag.feed()) for dag, outcome in zip(dags, outcomes, strict=True)) == 1
        await asyncio.gather(*[world.check(dag) for dag in dags])

    stage(scenario)
