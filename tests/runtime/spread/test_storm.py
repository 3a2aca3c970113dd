"""A thousand runs at once in real time, with failures, cancellations, losses and arrivals among them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.sim import LinkLane, Links, SimDevice, SimDeviceSpec
from fuel_async.errors import DeviceLost, TransferFailed, UserError
from fuel_async.registry import bump_topology_generation
from fuel_async.schedule import SpreadScheduler, check
from tests.runtime.spread.support import HOST, one, random_dag

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.spread.support import Stage, World

SPECS = [SimDeviceSpec(lanes=2, speed=20, jitter=0.5), SimDeviceSpec(speed=50), SimDeviceSpec(speed=10, jitter=1.0)]

FAST = Links.of(1_000, 50)


async def storm(world: World, runs: int, seed: int) -> Counter[str]:
    """Start that many runs, disturb them, and say how they ended; what ended well is compared."""
    rng = random.Random(seed)
    dags = [random_dag(number, 3) for number in range(8)]
    expected = [dag.expected(dag.feed()) for dag in dags]
    choices = [rng.randrange(len(dags)) for _ in range(runs)]
    tasks = [world.start(dags[choice]) for choice in choices]
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1

    for task in tasks:
        task.add_done_callback(count)
    disturbing = asyncio.create_task(disturb(world, rng, tasks, lambda: done))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await disturbing
    found: Counter[str] = Counter()
    for choice, outcome in zip(choices, outcomes, strict=True):
        match outcome:
            case dict():
                assert outcome == expected[choice]
                found["done"] += 1
            case asyncio.CancelledError():
                found["cancelled"] += 1
            case DeviceLost() | TransferFailed():
                found["failed"] += 1
            case OSError():
                assert str(outcome) == "as told"
                found["failed"] += 1
            case _:
                raise AssertionError(outcome)
    return found


async def disturb(world: World, rng: random.Random, tasks: list[asyncio.Task[dict[str, str]]], done: object) -> None:
    """Let something happen each time that some more runs have ended."""
    assert callable(done)
    machine, runs, last = world.machine, len(tasks), 0
    events = iter([*["fail", "cancel", "cancel", "fail", "change"] * 8, "add", "lose", "cut", *["fail", "cancel"] * 8])
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.00001)  # on the virtual clock, too, time must pass
        if done() - last < runs / 80:
            continue
        last = done()
        match next(events, None):
            case "fail":
                there: list[SimDevice | LinkLane] = [
                    *[device for device in machine.devices if device.lost is None],
                    *machine.links,
                ]
                machine.fail_next(rng.choice(there), OSError("as told"))
            case "cancel":
                for task in rng.sample(tasks, runs // 50):
                    task.cancel()
            case "change":
                bump_topology_generation()
            case "add":
                world.ex.add_device(machine.add(SimDeviceSpec(speed=30)))
            case "lose":
                machine.lose(machine.devices[0])
            case "cut":
                try:
                    machine.cut(machine.devices[1], machine.devices[2])
                except UserError:
                    machine.cut(HOST, machine.devices[2])
            case _:
                pass


def test_1000_runs_end_as_they_should(real: Stage) -> None:
    async def scenario(world: World) -> None:
        found = await storm(world, 1_000, 1)
        assert found["done"] > 500, found
        assert found["failed"] > 5, found
        assert found["cancelled"] > 50, found
        await world.settled()
        counted = world.ex.statistics()
        assert counted.runs_failed == found["failed"]
        assert counted.runs_on_lanes >= found["done"]
        assert counted.runs_on_lanes + counted.runs_cancelled == found["done"] + found["cancelled"]

    real(scenario, SPECS, links=FAST)


@pytest.fixture
def lawful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers are held against their laws after each step; a run in which one is broken fails with it."""
    for name in ("handle", "begin_alone", "end_alone"):
        monkeypatch.setattr(SpreadScheduler, name, _checked(getattr(SpreadScheduler, name)))


def _checked(step: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: SpreadScheduler, *args: Any) -> Any:
        told = step(self, *args)
        check(self)
        return told

    return checked


async def short_runs(world: World, rounds: int, seed: int) -> Counter[str]:
    """A few runs of one region at a time, of which some are cancelled, and parts fail."""
    rng, found = random.Random(seed), Counter[str]()
    dags = [one(cost_ns) for cost_ns in (1_000, 20_000, 200_000)]
    expected = [dag.expected(dag.feed()) for dag in dags]
    [device], links = world.devices, world.machine.links
    for _ in range(rounds):
        picked = [rng.randrange(len(dags)) for _ in range(rng.choice((1, 1, 2, 3, 6)))]
        if rng.random() < 0.2:
            targets: list[SimDevice | LinkLane] = [device, *links]
            world.machine.fail_next(rng.choice(targets), OSError("as told"))
        tasks = [world.start(dags[number]) for number in picked]
        if rng.random() < 0.2:
            await asyncio.sleep(rng.choice((0, 0, 0.0001, 0.001)))
            rng.choice(tasks).cancel()
        if rng.random() < 0.05:
            bump_topology_generation()
        for number, outcome in zip(picked, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
            if isinstance(outcome, dict):
                assert outcome == expected[number]
            found[type(outcome).__name__] += 1
    assert found.keys() <= {"dict", "CancelledError", "OSError"}
    return found


@pytest.mark.parametrize("lanes", [1, 2])
def test_short_runs_on_one_device_end_as_they_should(stage: Stage, lanes: int, lawful: None) -> None:
    async def scenario(world: World) -> None:
        found = await short_runs(world, 60, lanes)
        assert found["dict"] > 80, found
        assert found["OSError"] > 5, found
        assert found["CancelledError"] > 2, found
        await world.settled()
        counted = world.ex.statistics()
        # One that is cancelled when it has ended, before its caller is told, counts as it ended.
        assert counted.runs_on_lanes >= found["dict"]
        assert counted.runs_failed >= found["OSError"]
        assert counted.runs_on_lanes + counted.runs_failed + counted.runs_cancelled == found.total()
        assert world.scheduler.alone.begun > 40

    stage(scenario, [SimDeviceSpec(lanes=lanes, speed=10)], links=FAST)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_short_runs_on_one_device(real: Stage, seed: int, lawful: None) -> None:
    async def scenario(world: World) -> None:
        found = await short_runs(world, 1_500, seed)
        assert found["dict"] > 2_000, found

    real(scenario, [SimDeviceSpec(lanes=2, speed=10, jitter=1.0)], links=FAST)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_runs_with_the_host_among_the_devices(real: Stage, seed: int) -> None:
    async def scenario(world: World) -> None:
        found = await storm(world, 2_000, seed)
        assert found["done"] > 800, found

    real(scenario, SPECS, links=FAST, cpu=True)


@pytest.mark.slow
def test_a_storm_in_virtual_time(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        found = await storm(world, 1_000, 7)
        assert found["done"] > 500, found

    virtual(scenario, SPECS, links=FAST)
