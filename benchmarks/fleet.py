"""A simulated machine of unequal devices with something in front of it: an executor over all, or one of the usual ways.

The usual ways have an executor for each device and choose by what a load balancer sees: whose turn it is, or how many
requests each device has. None of them looks at how long those take.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from benchmarks.report import WrongResult
from fuel_async.backends.sim import SimDeviceSpec, SimMachine
from fuel_async.cost import Rates
from fuel_async.plan import Plan, make_plan, region_ns

if TYPE_CHECKING:
    from benchmarks.workloads import Array
    from fuel_async.backends.sim import SimClock

SPEEDS = (4.0, 2.0, 1.0)

#: A device of speed 1, which all devices claim to be: 10 Gflop/s in products, 10 GB/s, and 1 µs a call.
RATES = Rates(flops_per_ns=1.0, dense_flops_per_ns=10.0, bytes_per_ns=10.0, call_ns=1_000)

#: Chooses a device, given how many requests each has that have not been answered.
Dispatch = Callable[[Sequence[int]], int]


def in_turn() -> Dispatch:
    """One device after the other."""
    turns = count()
    return lambda held: next(turns) % len(held)


def fewest(held: Sequence[int]) -> int:
    """The device that has the fewest requests."""
    return min(range(len(held)), key=held.__getitem__)


def at_random() -> Dispatch:
    """Equal shares, drawn."""
    draw = random.Random(7)
    return lambda held: draw.randrange(len(held))


def first_done(held: Sequence[int]) -> int:
    """The device that would be done first, by the speeds that they truly have: what nobody in front of them knows."""
    return min(range(len(held)), key=lambda place: (held[place] + 1) / SPEEDS[place])


#: What one could put in front of devices; None is one executor over all of them.
WAYS: Mapping[str, Callable[[], Dispatch | None]] = {
    "ours": lambda: None,
    "round_robin": in_turn,
    "least_count": lambda: fewest,
    "equal_split": at_random,
    "knowing_speeds": lambda: first_done,
}


@dataclass(frozen=True, slots=True)
class Requests:
    """One graph, layers of tanh(x @ weights), with a feed and a result for each request."""

    graph: fa.Graph
    feeds: Sequence[Array]
    results: Sequence[Array]

    def check(self, number: int, result: Array) -> None:
        """`WrongResult` unless a request got what numpy gives."""
        if not np.allclose(result, self.results[number], rtol=1e-4, atol=1e-5):
            raise WrongResult(f"request {number} of {len(self.feeds)} got another result than numpy gives")


def make_requests(number: int, layers: int, rows: int = 48, width: int = 256) -> Requests:
    """Two layers of the default size are one region of 1.5 ms at speed 1, six are three of them."""
    draw = np.random.default_rng(7)
    weights = (draw.standard_normal((layers, width, width)) / width**0.5).astype(np.float32)
    graph = fa.Graph(f"{layers} layers")
    y = graph.input("x", (rows, width))
    feeds = draw.standard_normal((number, rows, width)).astype(np.float32)
    results = feeds.reshape((-1, width))
    for layer in weights:
        y = (y @ graph.constant(layer)).tanh()
        results = np.tanh(results @ layer)
    graph.output("y", y)
    return Requests(graph, list(feeds), list(results.reshape(feeds.shape)))


@dataclass(slots=True)
class Fleet:
    """The devices, open, and who is in front of them."""

    clock: SimClock
    machine: SimMachine
    requests: Requests
    executors: Sequence[fa.Executor]
    dispatch: Dispatch | None
    plan: Plan
    held: list[int] = field(default_factory=lambda: [0] * len(SPEEDS))

    @property
    def work_ns(self) -> int:
        """What a request takes at speed 1."""
        return sum(region_ns(region.program, RATES) for region in self.plan.regions)

    async def answer(self, number: int) -> int:
        """Run one request and compare its result; how long that took."""
        place = 0 if self.dispatch is None else self.dispatch(self.held)
        since_ns = self.clock.now_ns()
        self.held[place] += 1
        results = await self.executors[place].run(self.requests.graph, x=self.requests.feeds[number])
        self.held[place] -= 1
        took_ns = self.clock.now_ns() - since_ns
        self.requests.check(number, results["y"])
        return took_ns

    async def flood(self) -> int:
        """Start all requests at once; the time until the last is answered."""
        since_ns = self.clock.now_ns()
        await asyncio.gather(*map(self.answer, range(len(self.requests.feeds))))
        return self.clock.now_ns() - since_ns

    async def stream(self, load: float) -> list[int]:
        """Start the requests at random moments (Poisson), `load` of what the devices can do; how long each took."""
        draw, at_ns = random.Random(7), float(self.clock.now_ns())
        answers: list[asyncio.Task[int]] = []
        async with asyncio.TaskGroup() as tasks:
            for number in range(len(self.requests.feeds)):
                answers.append(tasks.create_task(self.answer(number)))
                at_ns += draw.expovariate(sum(SPEEDS) * load / self.work_ns)
                await asyncio.sleep((at_ns - self.clock.now_ns()) / 1e9)
        return [answer.result() for answer in answers]


@asynccontextmanager
async def opened(
    clock: SimClock,
    requests: Requests,
    way: str = "ours",
    *,
    jitter: float = 0.0,
    slower_at_ns: int | None = None,
) -> AsyncIterator[Fleet]:
    """Open new devices; the fastest takes four times as long from `slower_at_ns` on."""
    slower = () if slower_at_ns is None else ((slower_at_ns, 4.0),)
    specs = [
        SimDeviceSpec(
            speed=speed, rates=RATES, advertised=RATES, jitter=jitter, slowdowns=slower if speed == max(SPEEDS) else ()
        )
        for speed in SPEEDS
    ]
    machine, dispatch = SimMachine(specs, clock=clock), WAYS[way]()
    groups = [machine.devices] if dispatch is None else [(device,) for device in machine.devices]
    # Behind a load balancer there is no other line than its own.
    most = None if dispatch is None else len(requests.feeds)
    async with AsyncExitStack() as stack:
        stack.callback(machine.close)
        executors = [await stack.enter_async_context(fa.Executor(group, max_inflight=most)) for group in groups]
        target = (await executors[0].engine()).session.target(None)
        yield Fleet(clock, machine, requests, executors, dispatch, make_plan(requests.graph.freeze(), target))
