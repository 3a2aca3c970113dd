"""The short way of runs of one region on the only device: the same results, counts and ends as by the ordinary way."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec
from fuel_async.errors import DeviceLost, KernelFailed, OutOfMemory, TransferFailed
from fuel_async.registry import bump_topology_generation
from fuel_async.runtime.spread.prepared import PreparedSpread
from fuel_async.schedule import SpreadScheduler
from fuel_async.testing import synthetic_op
from tests.runtime.spread.support import HOST, MS, NBYTES, Dag, chain, digests, failed_with, one

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.sim import LinkLane, SimDevice
    from tests.runtime.spread.support import Stage, World

#: A millisecond over the link each way, and one on the device.
SLOW = Links.of(MS, 12)

#: What a run of `one()` holds of a device.
SHARE = 2 * NBYTES


def begun(world: World) -> int:
    """How many runs took the short way."""
    return world.scheduler.alone.begun


def mixed() -> fa.Graph:
    """One region of two feeds, one of them small, with a constant and two outputs."""
    g = fa.Graph("mixed")
    x, y = g.input("x", (NBYTES,), fa.u8), g.input("y", (100,), fa.u8)
    made = synthetic_op(g, [x, y, g.constant(np.arange(300).astype(np.uint8))], cost_ns=200_000, nbytes=NBYTES)
    g.output("a", made)
    g.output("b", synthetic_op(g, [made], cost_ns=10_000, nbytes=64))
    return g


def feeds(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 256, size).astype(np.uint8) for name, size in (("x", NBYTES), ("y", 100))}


# --- which way ----------------------------------------------------------------------------------------------------


def test_runs_take_it_once_there_is_a_share(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        assert begun(world) == 0  # its programs had to be bound
        for seed in range(5):
            await world.check(dag, seed)
        assert begun(world) == 5

    stage(scenario, 1)


def test_one_that_fails_leaves_those_beside_it_alone(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await asyncio.gather(*[world.check(dag, seed) for seed in range(3)])
        world.machine.fail_next(world.devices[0], OSError("as told"))
        first, *others = [world.start(dag, seed) for seed in range(3)]
        await failed_with(OSError, first)
        for seed, task in enumerate(others, 1):
            assert await task == dag.expected(dag.feed(seed))
        assert begun(world) == 3

    virtual(scenario, [SimDeviceSpec(slot_capacity=3)])


def test_as_many_as_have_slots_and_shares_take_it_at_once(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        for _ in range(2):
            await asyncio.gather(*[world.check(dag, seed) for seed in range(6)])
        assert begun(world) == 3  # of the second six; the others wait in line

    virtual(scenario, [SimDeviceSpec(slot_capacity=3)])


@pytest.mark.parametrize(
    ("devices", "cpu", "dag"),
    [(2, False, one()), (1, True, one()), (1, False, chain(2))],
    ids=["two devices", "the host beside it", "two regions"],
)
def test_others_do_not_take_it(real: Stage, devices: int, cpu: bool, dag: Dag) -> None:
    async def scenario(world: World) -> None:
        for seed in range(4):
            await world.check(dag, seed)
        assert begun(world) == 0

    real(scenario, devices, cpu=cpu)


def test_a_policy_of_the_callers_own_is_asked_about_each_run(virtual: Stage) -> None:
    asked = []

    def policy(offers: Sequence[Any]) -> Any:
        asked.append(offers)
        return offers[0]

    async def scenario(world: World) -> None:
        for seed in range(3):
            await world.check(one(), seed)

    virtual(scenario, 1, placement=policy)
    assert len(asked) == 3


def test_a_device_that_joins_ends_it(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        for seed in range(3):
            await world.check(dag, seed)
        under_way = world.start(dag, 3)
        await asyncio.sleep(0)
        assert begun(world) == 3
        world.ex.add_device(world.machine.add(SimDeviceSpec()))
        for seed in range(4, 7):
            await world.check(dag, seed)
        assert await under_way == dag.expected(dag.feed(3))
        assert begun(world) == 3

    stage(scenario, 1)


def test_a_share_that_is_dropped_at_this_moment_is_bound_anew(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        take = PreparedSpread.take_share

        def gone(self: PreparedSpread, device: int) -> None:
            monkeypatch.setattr(PreparedSpread, "take_share", take)
            self.drop_idle_on(device)

        monkeypatch.setattr(PreparedSpread, "take_share", gone)
        await world.check(dag, 1)
        assert begun(world) == 1
        assert not world.scheduler.alone.runs
        await world.check(dag, 2)
        assert begun(world) == 2

    stage(scenario, 1)


# --- the same by both ways ----------------------------------------------------------------------------------------


@pytest.fixture(params=["short", "ordinary"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in turn."""
    found: str = request.param
    if found == "ordinary":
        monkeypatch.setattr(SpreadScheduler, "begin_alone", lambda *_: None)
    return found


def told_by(stage: Stage, scenario: Callable[[World], Any], *machine: Any, **options: Any) -> list[Any]:
    """What a scenario returns by the short way, and by the ordinary one."""
    found: list[Any] = []
    begin = SpreadScheduler.begin_alone

    async def play(world: World) -> None:
        found.append(await scenario(world))
        await world.settled()
        assert (begun(world) > 0) is (SpreadScheduler.begin_alone is begin)

    stage(play, *machine, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SpreadScheduler, "begin_alone", lambda *_: None)
        stage(play, *machine, **options)
    return found


def figures(world: World) -> list[Any]:
    """All that is counted and predicted, and the time; devices of another machine have other names."""
    found = world.ex.statistics()
    counted = [found.devices[world.at(0)], found.received(world.at(0)), found.sent(world.at(0))]
    runs = (found.runs_on_lanes, found.runs_failed, found.runs_cancelled, found.used_nbytes, found.plans_prepared)
    histories = [
        history.predicted_ns
        for prepared in world.engine.cache.all()
        if isinstance(prepared, PreparedSpread)
        for history in prepared._histories[0]
        if history is not None
    ]
    given = [device.given for device in world.scheduler.machine.devices]
    links = list(world.engine.table.estimates().values())
    return [runs, *counted, histories, given, links, world.machine.clock.now_ns()]


@pytest.mark.parametrize("keep", [False, True])
def test_values_statistics_and_times_are_the_same(virtual: Stage, keep: bool) -> None:
    async def scenario(world: World) -> Any:
        g, found = mixed(), []
        for seed in range(12):
            made: Any = await world.ex.run(g, feeds(seed), on_device=keep)  # type: ignore[call-overload]
            found.append(digests(made))
        return found, figures(world)

    short, ordinary = told_by(virtual, scenario, [SimDeviceSpec(jitter=0.3)], links=SLOW)
    assert short == ordinary
    assert short[1][0] == (12, 0, 0, 0, 1)


def test_feeds_that_lie_there_are_not_sent(virtual: Stage) -> None:
    async def scenario(world: World) -> Any:
        dag = one()
        state: Any = dag.feed()
        for _ in range(6):
            state = (await world.ex.run(world.graph(dag), x=state, on_device=True))["y0"]
        return digests({"y": state}), figures(world)

    short, ordinary = told_by(virtual, scenario, 1, links=SLOW)
    assert short == ordinary
    _, received, sent = short[1][1:4]
    assert (received.copies, sent.copies) == (1, 0)


def test_several_at_a_time_end_in_the_same_time_on_several_lanes(virtual: Stage) -> None:
    async def scenario(world: World) -> Any:
        dags = [one(cost_ns) for cost_ns in (3 * MS, 300_000, MS)]
        ended: list[tuple[int, int]] = []

        async def timed(number: int, dag: Dag) -> None:
            await world.check(dag, number)
            ended.append((number, world.machine.clock.now_ns()))

        for _ in range(3):
            await asyncio.gather(*[timed(number, dag) for number, dag in enumerate(dags)])
        return ended, figures(world)

    short, ordinary = told_by(virtual, scenario, [SimDeviceSpec(lanes=3)], links=Links.of(100_000, 12))
    assert short == ordinary


def test_progress_is_told(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        run = world.ex.submit(world.graph(dag), x=dag.feed())
        await world.sleep(2.5 * MS)
        assert run.progress == (0, 1)
        await world.sleep(MS)
        assert (run.progress, run.done()) == ((1, 1), False)  # its output is on its way
        await run
        assert begun(world) == 1

    virtual(scenario, 1, links=Links.of(2 * MS, 12))


def test_feeds_are_not_to_be_written_until_it_has_ended(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        asyncio.get_running_loop().set_debug(True)
        dag = one()
        await world.check(dag)
        x = dag.feed()
        task = asyncio.create_task(world.ex.run(world.graph(dag), x=x))
        await world.sleep(MS / 2)
        assert not x.flags.writeable
        await task
        assert x.flags["WRITEABLE"]
        assert begun(world) == 1

    virtual(scenario, 1, links=SLOW)


# --- what comes up ------------------------------------------------------------------------------------------------


def part(world: World, name: str) -> SimDevice | LinkLane:
    """What does a part of a run."""
    device = world.devices[0]
    if name == "region":
        return device
    return world.machine.link(HOST, device) if name == "feed" else world.machine.link(device, HOST)


@pytest.mark.parametrize("where", ["feed", "region", "output"])
def test_a_part_that_fails_fails_the_run_alone(stage: Stage, where: str, way: str) -> None:
    async def scenario(world: World) -> None:
        dag, short = one(), way == "short"
        await world.check(dag)
        error = KernelFailed("synthetic", "sim", "as told") if where == "region" else OSError("as told")
        world.machine.fail_next(part(world, where), error)
        with pytest.raises(type(error), match="as told"):
            await world.run(dag, 1)
        assert begun(world) == short
        await world.settled()
        found = world.ex.statistics()
        assert (found.runs_failed, found.runs_on_lanes, found.runs_cancelled) == (1, 1, 0)
        assert found.received(world.at(0)).copies == 2 - (where == "feed")
        assert found.sent(world.at(0)).copies == 1
        if short:
            assert found.devices[world.at(0)].regions == 1 + (where == "output")
        await world.check(dag, 2)
        assert begun(world) == 2 * short

    stage(scenario, 1)


@pytest.mark.parametrize("where", ["region", "output"])
def test_a_failure_that_the_scheduler_has_not_heard_of_is_no_end_as_any_other(virtual: Stage, where: str) -> None:
    """It has been left to a thread that is about to come back to the scheduler."""

    async def scenario(world: World) -> None:
        dag, driver = one(), world.engine.driver
        await world.check(dag)
        world.machine.fail_next(part(world, where), OSError("as told"))
        task = world.start(dag)
        await world.sleep(MS / 2)
        driver._pump = lambda: None  # type: ignore[method-assign]
        await world.sleep(5 * MS)
        assert len(driver._events) == 2
        del driver._pump
        driver._pump()
        await failed_with(OSError, task)
        assert begun(world) == 1

    virtual(scenario, 1, links=SLOW)


def test_an_error_is_told_while_another_part_is_under_way(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        g = mixed()
        for _ in range(2):
            await world.ex.run(g, feeds(0))
        assert begun(world) == 1
        before_ns = world.machine.clock.now_ns()
        world.machine.fail_next(part(world, "feed"), OSError("as told"))  # the first of two
        with pytest.raises(OSError, match="as told"):
            await world.ex.run(g, feeds(1))
        assert world.machine.clock.now_ns() - before_ns < 2 * MS
        assert world.scheduler.alone.runs  # the other is still read
        await world.settled()
        assert begun(world) == 2

    virtual(scenario, 1, links=SLOW)


@pytest.mark.parametrize("moment", range(14))
def test_one_cancelled_at_any_moment_leaves_nothing(virtual: Stage, moment: int, way: str) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        task = world.start(dag)
        await world.sleep(moment * MS / 4)
        cancelled = task.cancel()
        assert cancelled is (moment < 13)
        before_ns = world.machine.clock.now_ns()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError) is cancelled
        assert world.machine.clock.now_ns() == before_ns
        await world.settled()
        found = world.ex.statistics()
        assert (found.runs_cancelled, found.runs_on_lanes, found.runs_failed) == (cancelled, 2 - cancelled, 0)
        # Nothing comes home of a run that was cancelled while its region was at work.
        assert found.sent(world.at(0)).copies == 1 + (moment > 8)
        await world.check(dag)
        assert begun(world) == (2 if way == "short" else 0)

    virtual(scenario, 1, links=SLOW)


@pytest.mark.parametrize("moment", range(14))
def test_a_device_lost_at_any_moment_fails_it_with_the_loss(virtual: Stage, moment: int, way: str) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        task = world.start(dag)
        await world.sleep(moment * MS / 4)
        done = task.done()
        assert done is (moment == 13)
        world.machine.lose(world.devices[0], "as told")
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert outcome == dag.expected(dag.feed()) if done else isinstance(outcome, DeviceLost)
        await world.settled()
        assert begun(world) == (way == "short")
        with pytest.raises(DeviceLost, match="as told"):
            await world.check(dag)
        gc.collect()
        assert world.devices[0].memory.used_nbytes == 0

    virtual(scenario, 1, links=SLOW)


@pytest.mark.parametrize("end", ["feed", "output"])
def test_a_link_that_is_cut_between_runs_fails_them_as_ever(stage: Stage, end: str, way: str) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        device = world.devices[0]
        world.machine.cut(*((HOST, device) if end == "feed" else (device, HOST)))
        for _ in range(2):
            with pytest.raises(TransferFailed, match="there is no way"):
                await world.run(dag)
        assert begun(world) == 0

    stage(scenario, 1)


@pytest.mark.parametrize("end", ["feed", "output"])
def test_a_link_that_is_cut_under_it_fails_it(virtual: Stage, end: str) -> None:
    async def scenario(world: World) -> None:
        dag, device = one(), world.devices[0]
        await world.check(dag)
        task = world.start(dag)
        await world.sleep(MS / 2)
        world.machine.cut(*((HOST, device) if end == "feed" else (device, HOST)))
        await failed_with(TransferFailed, task)
        assert begun(world) == 1

    virtual(scenario, 1, links=SLOW)


def test_what_idles_is_dropped_for_outputs_that_callers_keep(stage: Stage) -> None:
    """There is room for two runs; after the second way each keeps an output, and other plans must give theirs up."""

    async def scenario(world: World) -> None:
        dag, other = one(), one(MS + 1)
        await world.check(dag)
        await world.check(other)
        kept = [(await world.ex.run(world.graph(dag), x=dag.feed(), on_device=True))["y0"] for _ in range(2)]
        assert begun(world) == 2
        assert [digests({"y0": one_of_them}) for one_of_them in kept] == [dag.expected(dag.feed())] * 2

    stage(scenario, [SimDeviceSpec(memory_nbytes=2 * SHARE)])


def test_without_room_for_an_output_it_fails_and_the_next_goes_well(stage: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        kept = await world.ex.run(world.graph(dag), x=dag.feed(), on_device=True)
        with pytest.raises(OutOfMemory):
            await world.run(dag)
        await world.settled()
        assert begun(world) == 2
        del kept
        gc.collect()
        await world.check(dag)
        assert world.ex.statistics().runs_failed == 1

    stage(scenario, [SimDeviceSpec(memory_nbytes=SHARE + 100)])


def test_plans_that_are_out_of_date_do_not_disturb_it(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        task = world.start(dag, 1)
        await world.sleep(MS / 2)
        bump_topology_generation()
        assert await task == dag.expected(dag.feed(1))
        assert begun(world) == 1

    virtual(scenario, 1, links=SLOW)


def test_a_law_that_is_broken_ends_one_run_and_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    # What captures logs keeps the frames of the error, and with them the run.
    monkeypatch.setattr(logging.getLogger("fuel_async"), "disabled", True)

    async def scenario(world: World) -> None:
        dag = one()
        await world.check(dag)
        end = SpreadScheduler.end_alone

        def broken(self: SpreadScheduler, run: int, now_ns: int = 0) -> None:
            monkeypatch.setattr(SpreadScheduler, "end_alone", end)
            raise RuntimeError("as told")

        monkeypatch.setattr(SpreadScheduler, "end_alone", broken)
        with pytest.raises(fa.errors.InvariantBroken, match="as told"):
            await world.run(dag)
        await world.check(dag)
        assert world.ex.statistics().runs_failed == 1

    stage(scenario, 1)


def test_its_loop_may_be_closed_under_it(real: Stage) -> None:
    async def scenario(world: World) -> None:
        dag = one(20 * MS)
        await world.check(dag)

        async def leave() -> None:
            task = asyncio.ensure_future(world.ex.run(world.graph(dag), x=dag.feed()))
            while begun(world) == 0:  # noqa: ASYNC110 - has no event
                await asyncio.sleep(0)
            assert not task.done()
            pending.append(task)

        def elsewhere() -> None:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave())
            loop.close()

        pending: list[Any] = []
        await asyncio.to_thread(elsewhere)
        await world.settled()  # nobody waits for it, and what it held comes back
        pending.pop()._log_destroy_pending = False
        await world.check(dag, 1)
        assert begun(world) == 2

    real(scenario, 1)
