"""Graphs of synthetic ops as data, and a stage: an executor over a simulated machine, with the look at base lines.

A scenario is a coroutine function of a `World`. It is played in virtual time, where a sleep takes none and everything
happens in the same order each time, or in real time on several loops.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import uvloop
from numpy.typing import NDArray

import fuel_async as fa
from fuel_async.backends.sim import Links, ScaledClock, SimDevice, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.ir import CPU_DEVICE, DeviceLocation
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.runtime.spread import SpreadEngine
from fuel_async.testing import Synthetic, run_virtual, synthetic_op
from fuel_async.testing.synthetic import _salt, mix
from tests.runtime.support import PATIENCE_S, join, our_threads

if TYPE_CHECKING:
    from fuel_async.schedule import SpreadScheduler

Bytes: TypeAlias = NDArray[np.uint8]

HOST = CPU_DEVICE

MS = 1_000_000

#: Too large to be copied at the door: devices get their own bytes by a copy over a link.
NBYTES = 8_192


class Node(NamedTuple):
    """One op: what it reads (-1 is the feed), how long it takes at speed 1, and where it must run."""

    reads: tuple[int, ...] = (-1,)
    cost_ns: int = MS
    nbytes: int = NBYTES
    pin: DeviceLocation | None = None


@dataclass(frozen=True)
class Dag:
    """A graph of synthetic ops. What nobody reads is an output, `y` with the node's number."""

    nodes: tuple[Node, ...]
    nbytes: int = NBYTES
    #: Bytes of a constant that every op reads.
    constant_nbytes: int = 0

    @property
    def outputs(self) -> list[int]:
        """Nodes that nobody reads."""
        read = {source for node in self.nodes for source in node.reads}
        return [number for number in range(len(self.nodes)) if number not in read]

    @property
    def constant(self) -> Bytes:
        """The constant's bytes."""
        return np.arange(self.constant_nbytes).astype(np.uint8)

    def graph(self, name: str = "dag") -> fa.Graph:
        """Build it."""
        g = fa.Graph(name)
        x = g.input("x", (self.nbytes,), fa.u8)
        more = [g.constant(self.constant)] if self.constant_nbytes else []
        made: list[fa.Tensor] = []
        for node in self.nodes:
            inputs = [x if source < 0 else made[source] for source in node.reads] + more
            if node.pin is None:
                made.append(synthetic_op(g, inputs, cost_ns=node.cost_ns, nbytes=node.nbytes))
            else:
                with g.on(node.pin):
                    made.append(synthetic_op(g, inputs, cost_ns=node.cost_ns, nbytes=node.nbytes))
        for number in self.outputs:
            g.output(f"y{number}", made[number])
        return g

    def feed(self, seed: int = 0) -> Bytes:
        """A feed of random bytes."""
        return np.random.default_rng(seed).integers(0, 256, self.nbytes).astype(np.uint8)

    def expected(self, x: Bytes) -> dict[str, str]:
        """What its outputs are, without any executor."""
        more = [self.constant] if self.constant_nbytes else []
        made: list[Bytes] = []
        for node in self.nodes:
            out = np.empty(node.nbytes, np.uint8)
            salt = _salt(Synthetic(node.cost_ns, node.nbytes, ()))
            mix([x if source < 0 else made[source] for source in node.reads] + more, out, salt)
            made.append(out)
        return digests({f"y{number}": made[number] for number in self.outputs})

    def on(self, *pins: DeviceLocation | None) -> Dag:
        """The same with its nodes pinned, the last pin for all that follow."""
        there = [*pins, *[pins[-1]] * len(self.nodes)]
        return replace(self, nodes=tuple(node._replace(pin=pin) for node, pin in zip(self.nodes, there, strict=False)))


def digests(found: Mapping[str, Any]) -> dict[str, str]:
    """What outputs are, short enough to be printed."""
    return {name: sha1(np.asarray(value).tobytes()).hexdigest()[:12] for name, value in found.items()}


def one(cost_ns: int = MS, **options: Any) -> Dag:
    """One op."""
    return Dag((Node(cost_ns=cost_ns),), **options)


def chain(length: int, cost_ns: int = 2 * MS) -> Dag:
    """Ops one after the other, each a region of its own when it takes 2 ms."""
    return Dag(tuple(Node((number - 1,), cost_ns) for number in range(length)))


def fork(width: int, cost_ns: int = MS) -> Dag:
    """As many ops beside each other, and one that reads them all."""
    return Dag((*[Node(cost_ns=cost_ns + number) for number in range(width)], Node(tuple(range(width)), cost_ns)))


def random_dag(seed: int, nodes: int, *, cheapest_ns: int = 100_000, dearest_ns: int = 3 * MS) -> Dag:
    """The one graph that belongs to the arguments: of mixed sizes and costs, with forks, joins and several outputs."""
    rng = random.Random(seed)
    made: list[Node] = []
    for number in range(nodes):
        reads = rng.choices(range(max(-1, number - 6), number), k=rng.choice((1, 1, 2, 3)))
        made.append(Node(tuple(reads), rng.randint(cheapest_ns, dearest_ns), rng.choice((64, 4_096, 10_000))))
    return Dag(tuple(made), nbytes=rng.choice((64, 5_000)))


class World:
    """A machine and an open executor over all of its devices."""

    def __init__(self, machine: SimMachine, ex: fa.Executor, engine: SpreadEngine) -> None:
        self.machine, self.ex, self.engine = machine, ex, engine
        self._graphs: dict[Dag, fa.Graph] = {}

    @property
    def devices(self) -> tuple[SimDevice, ...]:
        return self.machine.devices

    @property
    def scheduler(self) -> SpreadScheduler:
        return self.engine.driver._scheduler

    def at(self, place: int) -> DeviceLocation:
        """Where the machine's device of that number is."""
        return self.machine.devices[place].location

    async def sleep(self, ns: float) -> None:
        """Let that much time pass, on the virtual clock."""
        await asyncio.sleep(ns / 1e9)

    def start(self, dag: Dag, seed: int = 0, **options: Any) -> asyncio.Task[dict[str, str]]:
        """Run a graph in a task of its own."""
        return asyncio.create_task(self.run(dag, seed, **options))

    async def run(self, dag: Dag, seed: int = 0, **options: Any) -> dict[str, str]:
        """Run a graph, always the same one for equal dags; digests of its outputs."""
        return digests(await self.ex.run(self.graph(dag), x=dag.feed(seed), **options))

    def graph(self, dag: Dag) -> fa.Graph:
        """The graph of a dag, made once."""
        if dag not in self._graphs:
            self._graphs[dag] = dag.graph()
        return self._graphs[dag]

    async def check(self, dag: Dag, seed: int = 0, **options: Any) -> None:
        """Run a graph and compare it with what it should be."""
        assert await self.run(dag, seed, **options) == dag.expected(dag.feed(seed))

    def copies(self) -> dict[tuple[DeviceLocation, DeviceLocation], int]:
        """How many copies each link has done."""
        return {(link.source, link.destination): link.copies for link in self.machine.links if link.copies}

    async def settled(self) -> None:
        """Wait until no run is under way, and look whether everything is back where it was."""
        async with asyncio.timeout(PATIENCE_S):
            await self.engine.idle()
        at_base_line(self.engine, self.machine)


def at_base_line(engine: SpreadEngine, machine: SimMachine) -> None:
    """Nothing is in flight, nothing held, nothing known of any run."""
    driver, scheduler, admission = engine.driver, engine.driver._scheduler, engine.admission
    assert not driver.active
    assert not driver._events
    assert not scheduler.runs
    assert not scheduler.alone.runs
    assert [(load.held, load.held_ns) for load in scheduler.loads] == [(0, 0)] * len(scheduler.loads)
    assert not any(memory.held_nbytes for memory in scheduler.machine.memories.values())
    assert (admission.runs, admission.held_nbytes, admission.waiting) == (0, 0, 0)
    assert engine.preparing.flights._flying == {}
    for device in machine.devices:
        assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)
        assert [(lane.pending_count, lane.pending_ns) for lane in device.lanes] == [(0, 0)] * len(device.lanes)
    assert inflight_count(HOST) == 0


Scenario: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Stage:
    """Plays scenarios: on the virtual clock, or in real time on a loop of some kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def is_virtual(self) -> bool:
        return self.kind == "virtual"

    def __call__(
        self,
        scenario: Scenario,
        devices: Sequence[SimDeviceSpec] | int = 2,
        *,
        links: Links | None = None,
        cpu: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Open an executor over a machine of `devices` (and the host, with `cpu`), play, and look at what is left."""
        specs = [SimDeviceSpec()] * devices if isinstance(devices, int) else devices
        threads = set(our_threads())
        machine: SimMachine | None = None

        async def main(clock: Any) -> None:
            nonlocal machine
            machine = SimMachine(specs, links=links, clock=clock, seed=seed)
            async with asyncio.timeout(None if self.is_virtual else PATIENCE_S):
                await self._play(scenario, machine, cpu, options)

        if self.is_virtual:
            run_virtual(main, clock=VirtualClock())
        else:
            clock = ScaledClock()
            with asyncio.Runner(loop_factory=LOOPS[self.kind]) as runner:
                runner.run(main(clock))
        assert machine is not None
        gc.collect()  # a link that was taken away ends its thread with its last holder
        join([thread for thread in our_threads() if thread not in threads])
        assert [device.memory.used_nbytes for device in machine.devices] == [0] * len(machine.devices)

    async def _play(self, scenario: Scenario, machine: SimMachine, cpu: bool, options: dict[str, Any]) -> None:
        try:
            async with fa.Executor(devices=[*machine.devices, *(["cpu:0"] if cpu else [])], **options) as ex:
                engine = await ex.engine()
                assert isinstance(engine, SpreadEngine)
                world = World(machine, ex, engine)
                await scenario(world)
                await world.settled()
            assert not engine.driver._watched
        finally:
            machine.close()


async def failed_with(kind: type[BaseException], *tasks: asyncio.Task[Any]) -> list[BaseException]:
    """The errors that tasks end with, all of one kind."""
    found: list[BaseException] = []
    for task in tasks:
        error = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(error, kind), error
        found.append(error)
    return found
