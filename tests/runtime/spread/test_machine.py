"""The executor as a state machine: whatever is asked of it and befalls it, its laws hold after every step."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import fuel_async as fa
from fuel_async.backends.sim import LinkLane, Links, SimDevice, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.errors import DeviceLost, OutOfMemory, TransferFailed
from fuel_async.registry import bump_topology_generation
from fuel_async.runtime.spread import SpreadEngine
from fuel_async.schedule import check
from fuel_async.testing import VirtualLoop
from tests.runtime.spread.support import Dag, World, random_dag

if TYPE_CHECKING:
    from collections.abc import Sequence

SPECS = st.builds(
    SimDeviceSpec,
    speed=st.sampled_from([1.0, 3.0, 10.0]),
    memory_nbytes=st.sampled_from([1 << 30, 1 << 30, 150_000, 5_000]),
    lanes=st.integers(1, 2),
    slot_capacity=st.integers(1, 2),
    jitter=st.sampled_from([0.0, 0.5]),
)

PLACES = st.integers(0, 15)


class Told(Exception):
    """What devices fail with."""


class Machine(RuleBasedStateMachine):
    """Runs of random graphs on a machine that changes, on the virtual clock. Nothing happens between two steps."""

    @initialize(
        specs=st.lists(SPECS, min_size=1, max_size=3),
        peers=st.booleans(),
        latency_ns=st.sampled_from([1_000, 300_000]),
        placement=st.sampled_from(["earliest_finish", "spread"]),
        most=st.sampled_from([3, 64]),
    )
    def begin(self, specs: list[SimDeviceSpec], peers: bool, latency_ns: int, placement: Any, most: int) -> None:
        clock = VirtualClock()
        self.loop = VirtualLoop(clock)
        self.faults = 0
        self.machine = SimMachine(specs, links=Links.of(latency_ns, 10, peers=peers), clock=clock)
        self.ex = fa.Executor(devices=self.machine.devices, placement=placement, max_inflight=most)
        engine = self.loop.run_until_complete(self.ex.engine())
        assert isinstance(engine, SpreadEngine)
        self.world = World(self.machine, self.ex, engine)
        self.tasks: list[tuple[Dag, int, asyncio.Task[dict[str, str]]]] = []
        #: Whether some device may be too small for some run.
        self.small = any(spec.memory_nbytes < 1 << 20 for spec in specs)

    # --- what is asked of it ---

    @rule(seed=st.integers(0, 40), nodes=st.integers(1, 8), feed=st.integers(0, 3), priority=st.integers(0, 1))
    def run(self, seed: int, nodes: int, feed: int, priority: int) -> None:
        self._start(random_dag(seed, nodes), feed, priority)

    @rule(seed=st.integers(0, 40), nodes=st.integers(1, 5), pins=st.lists(PLACES, min_size=1, max_size=4))
    def run_pinned(self, seed: int, nodes: int, pins: list[int]) -> None:
        devices = self.machine.devices
        self._start(random_dag(seed, nodes).on(*[devices[pin % len(devices)].location for pin in pins]), 0, 0)

    @rule(seed=st.integers(0, 40), count=st.integers(2, 12))
    def run_many(self, seed: int, count: int) -> None:
        for feed in range(count):
            self._start(random_dag(seed, 3), feed, 0)

    @precondition(lambda self: self.tasks)
    @rule(place=PLACES)
    def cancel(self, place: int) -> None:
        self.tasks[-1 - place % len(self.tasks)][2].cancel()
        self._turn()

    @rule()
    def replan(self) -> None:
        bump_topology_generation()
        self._turn()

    # --- what befalls it ---

    @rule(ns=st.sampled_from([1, 1_000, 100_000, 1_000_000, 20_000_000]))
    def let_time_pass(self, ns: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(ns / 1e9))

    @rule(place=PLACES, link=st.booleans())
    def fail_next(self, place: int, link: bool) -> None:
        target = self._target(place, link)
        if target is not None:
            self.machine.fail_next(target, Told("as told"))
            self.faults += 1

    @rule(place=PLACES)
    def lose(self, place: int) -> None:
        self.machine.lose(self.machine.devices[place % len(self.machine.devices)])
        self.faults += 1
        self._turn()

    @precondition(lambda self: len(self.machine.devices) < 6)
    @rule(spec=SPECS)
    def add(self, spec: SimDeviceSpec) -> None:
        self.small = self.small or spec.memory_nbytes < 1 << 20
        self.ex.add_device(self.machine.add(spec))
        self._turn()

    @rule(place=PLACES, link=st.booleans(), factor=st.sampled_from([0.1, 1.0, 20.0]))
    def change_speed(self, place: int, link: bool, factor: float) -> None:
        target = self._target(place, link)
        if target is not None:
            self.machine.slow(target, factor)

    @rule(place=PLACES)
    def cut(self, place: int) -> None:
        links = self.machine.links
        if links:
            link = links[place % len(links)]
            self.machine.cut(link.source, link.destination)
            self.faults += 1
            self._turn()

    # --- its laws ---

    @invariant()
    def the_schedulers_laws_hold(self) -> None:
        if hasattr(self, "world"):
            check(self.world.scheduler)
            assert len(self.world.scheduler.runs) == len(self.world.engine.driver.active)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            changed: list[SimDevice | LinkLane] = [*self.machine.devices, *self.machine.links]
            for one in changed:
                self.machine.slow(one, 1.0)
            self.loop.run_until_complete(self._end())
        finally:
            self.machine.close()
            self.loop.close()
        del self.tasks
        locations = self.machine.devices
        self.world = None  # type: ignore[assignment]
        gc.collect()
        assert not any(device.memory.used_nbytes for device in locations)

    async def _end(self) -> None:
        outcomes = await asyncio.gather(*[task for _, _, task in self.tasks], return_exceptions=True)
        await self.world.settled()
        for (dag, feed, _), outcome in zip(self.tasks, outcomes, strict=True):
            match outcome:
                case dict():
                    assert outcome == dag.expected(dag.feed(feed))
                case asyncio.CancelledError():
                    pass
                case OutOfMemory():
                    assert self.small, outcome
                case DeviceLost() | TransferFailed() | Told():
                    assert self.faults, outcome
                case _:
                    raise outcome
        found = self.ex.statistics()
        assert found.runs_on_lanes + found.runs_cancelled + found.runs_failed == len(self.tasks)
        await self.ex.aclose()

    def _start(self, dag: Dag, feed: int, priority: int) -> None:
        self.tasks.append((dag, feed, self.loop.create_task(self.world.run(dag, feed, priority=priority))))
        self._turn()

    def _turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def _target(self, place: int, link: bool) -> SimDevice | LinkLane | None:
        there: Sequence[Any] = self.machine.links if link else self.machine.devices
        return there[place % len(there)] if there else None


QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))


def test_the_laws_hold_whatever_happens() -> None:
    run_state_machine_as_test(Machine, settings=settings(QUIET, max_examples=15, stateful_step_count=20))


@pytest.mark.slow
def test_the_laws_hold_whatever_happens_for_long() -> None:
    run_state_machine_as_test(Machine, settings=settings(QUIET, max_examples=100, stateful_step_count=60))
