"""Task graphs run by an executor over a simulated machine, on its virtual clock, beside HEFT's plan of the same graphs.

The machines are those of `machines.py`. A processor works in the host's memory where the machine has one; every memory
sends one copy at a time and receives one, or each link goes its own way. Devices say of each task what it takes there,
so that nothing has to be learned. HEFT's plan is given what a run has beside its tasks: the graph's inputs come from
the host, and results go back there. The first run of a graph is not counted, since its plan is made meanwhile. Before
the second, devices may become slower than they say.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from benchmarks.machines import MACHINES
from benchmarks.simulated_run import Order, carried_out_ns
from fuel_async.backends.sim import HOST, Links, LinkSpec, Sharing, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.cost import Rates
from fuel_async.ir import no_breath
from fuel_async.plan.placement import STAYS, Effort, Fleet, Problem, Way, place, tables_of
from fuel_async.testing import run_virtual, synthetic_op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.machines import Instance
    from fuel_async.ir import CostEstimate, OpKind

    Slower = Callable[[Instance], Sequence[float]]

#: Everything is made longer until no task takes less than this: no region has two tasks, and no task is so short that
#: a run is not planned anew while it goes.
SHORTEST_NS = 2.5e6
#: Tasks that read one input: an input with many readers is copied once more by an executor.
READERS = 8
#: Bytes are this many times fewer, and links slower: nobody computes with them.
FEWER = 1_000
#: What devices that work in the host's memory are good at.
IN_HOST = ("processor", "small processor")


@dataclass(frozen=True, slots=True)
class _Known(Rates):
    """What a device says of tasks, which it knows by their costs."""

    times_ns: Mapping[int, int] = field(default_factory=dict)

    def predict_ns(self, kind: OpKind, estimate: CostEstimate) -> int:
        """See `Rates`."""
        known_ns = self.times_ns.get(estimate.flops)
        return Rates.predict_ns(self, kind, estimate) if known_ns is None else known_ns


def ratios(
    drawn: Iterator[Instance], sharing: Sharing, slower: Slower | None = None
) -> Iterator[tuple[Instance, float, float]]:
    """Of each instance: the time of a run beside that of HEFT's plan, whose copies go as they come, and beside what the
    plan promised, or a dry run where no plan is followed. `slower` says how many times longer than they say tasks take
    on each device.
    """
    for one in drawn:
        posed = _Posed(one, sharing)
        factors = [1.0] * len(posed.machine.devices) if slower is None else slower(one)
        truth_ns = [[ns * factor for ns, factor in zip(row, factors, strict=True)] for row in posed.problem.times_ns]
        heft, tables = place(posed.problem, Effort()), tables_of(posed.problem, no_breath)
        heft_ns = carried_out_ns(tables, heft, truth_ns, order=Order.AS_THEY_COME)
        took_ns, promised_ns = run_virtual(partial(posed.took_ns, factors))
        yield one, took_ns / heft_ns, took_ns / promised_ns


class _Posed:
    """An instance with the host's memory, as a problem and as a graph for a simulated machine."""

    def __init__(self, one: Instance, sharing: Sharing) -> None:
        self.machine, self.sharing = MACHINES[one.machine], sharing
        self.longer = max(SHORTEST_NS / min(map(min, one.problem.times_ns)), 1.0)
        self.in_host = next((n for n, device in enumerate(self.machine.devices) if device.skills in IN_HOST), None)
        self.problem = _by_start(self._with_host(one.problem))

    def _link(self, source: int, to: int) -> tuple[float, float]:
        """(latency_ns, bytes_per_ns) between places, in the time and the bytes of a run."""
        ends = [self.in_host if place == HOST else place for place in (source, to)]
        known = None not in ends
        latency_ns, bytes_per_ns = self.machine.link(*ends) if known else self.machine.otherwise  # type: ignore[arg-type]
        return self.longer * latency_ns, bytes_per_ns / self.longer / FEWER

    def _with_host(self, problem: Problem) -> Problem:
        """The problem with one more memory, number 0, where inputs of one byte lie and unread values go."""
        places = [HOST, *range(len(self.machine.devices))]
        shared = self.sharing is Sharing.PORTS

        def way(source: int, to: int) -> Way:
            if source == to:
                return STAYS
            latency_ns, bytes_per_ns = self._link(source, to)
            first, last = source + 1, to + 1
            pair = len(places) * first + last
            return Way(0.0, 1 / bytes_per_ns, (first, len(places) + last) if shared else (pair, pair), latency_ns)

        memories = [0 if number == self.in_host else number + 1 for number in range(len(places) - 1)]
        fleet = Fleet(problem.fleet.lanes, memories, [[way(source, to) for to in places] for source in places])
        made = len(problem.nbytes)
        read = {value for reads in problem.reads for value in reads}
        unread = [value for value in range(made) if value not in read]
        nbytes = [1.0 if value in unread else _bytes(size) for value, size in enumerate(problem.nbytes)]
        roots = [task for task, reads in enumerate(problem.reads) if not reads]
        fed = {task: made + number // READERS for number, task in enumerate(roots)}
        feeds = sorted(set(fed.values()))
        return replace(
            problem,
            fleet=fleet,
            times_ns=[[float(round(self.longer * ns)) for ns in row] for row in problem.times_ns],
            reads=[reads or (fed[task],) for task, reads in enumerate(problem.reads)],
            nbytes=[*nbytes, *[1.0] * len(feeds)],
            given={feed: {0: 0.0} for feed in feeds},
            owed=dict.fromkeys(unread, 0),
        )

    def _simulated(self, clock: VirtualClock) -> tuple[SimMachine, Sequence[int]]:
        """The machine, and what tasks cost, each something else."""
        devices = self.machine.devices
        costs, known = list[int](), [dict[int, int]() for _ in devices]
        for row in self.problem.times_ns:
            cost = round(min(row))
            while cost in known[0]:
                cost += 1
            costs.append(cost)
            for times, ns in zip(known, row, strict=True):
                times[cost] = int(ns)
        specs = [
            SimDeviceSpec(
                lanes=device.lanes,
                advertised=_Known(times_ns=times),
                in_host_memory=number == self.in_host,
                name=f"device {number}",
            )
            for number, (device, times) in enumerate(zip(devices, known, strict=True))
        ]
        places = range(HOST, len(devices))
        matrix = {(one, to): LinkSpec(*self._link(one, to)) for one in places for to in places if one != to}
        return SimMachine(specs, links=Links(matrix=matrix, sharing=self.sharing), clock=clock), costs

    async def took_ns(self, factors: Sequence[float], clock: VirtualClock) -> tuple[int, float]:
        """The time of the second run of the problem as a graph, and what was promised before it."""
        problem = self.problem
        machine, costs = self._simulated(clock)
        graph = fa.Graph("tasks")
        feeds = {value: graph.input(f"x{value}", (1,), fa.u8) for value in problem.given}
        made: list[fa.Tensor] = []
        producers = problem.producers()
        for task, (row, reads) in enumerate(zip(problem.times_ns, problem.reads, strict=True)):
            inputs = [made[producers[value]] if producers[value] >= 0 else feeds[value] for value in reads]
            (value,) = problem.writes[task]
            own_ns = {device.location: int(ns) for device, ns in zip(machine.devices, row, strict=True)}
            nbytes = int(problem.nbytes[value])
            made.append(synthetic_op(graph, inputs, cost_ns=costs[task], nbytes=nbytes, own_ns=own_ns))
            if value in problem.owed:
                graph.output(f"y{task}", made[-1])
        try:
            async with fa.Executor(devices=machine.devices) as executor:
                given = {f"x{value}": np.zeros(1, np.uint8) for value in feeds}
                await executor.run(graph, given)
                said = executor.explain(graph, given)
                follows = said.promised_s is not None and said.makespan_s == said.planned_s
                promised_ns = 1e9 * (said.promised_s if follows and said.promised_s is not None else said.makespan_s)
                for device, factor in zip(machine.devices, factors, strict=True):
                    machine.slow(device, factor)
                since_ns = clock.now_ns()
                await executor.run(graph, given)
                return clock.now_ns() - since_ns, promised_ns
        finally:
            machine.close()


def _by_start(problem: Problem) -> Problem:
    """The problem with its tasks numbered as an executor numbers regions: by when they could start on enough devices.

    Of tasks that are equally urgent HEFT takes the lower number first. Where many are, its plan can be nearly twice as
    long by one numbering as by another: so both have the same numbers.
    """
    producers, starts_ns = problem.producers(), list[float]()
    for reads in problem.reads:
        before = [producers[value] for value in reads if producers[value] >= 0]
        starts_ns.append(max([starts_ns[task] + problem.times_ns[task][0] for task in before], default=0.0))
    order = sorted(range(len(starts_ns)), key=starts_ns.__getitem__)
    return replace(
        problem,
        times_ns=[problem.times_ns[task] for task in order],
        reads=[problem.reads[task] for task in order],
        writes=[problem.writes[task] for task in order],
    )


def _bytes(nbytes: float) -> float:
    return float(max(round(nbytes / FEWER), 1))
