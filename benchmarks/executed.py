"""Task graphs run by an executor over a simulated machine, on its virtual clock, beside HEFT's plan of the same graphs.

Only machines whose devices differ in nothing but speed: that is what simulated devices say of themselves. The first
run of a graph is not counted, since its plan is made meanwhile. What a run takes has in it the feed of one byte, and
results of one byte that come back, which HEFT's plan is spared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from benchmarks.machines import MACHINES
from benchmarks.scheduled import LONGER, with_links
from benchmarks.simulated_run import Order, carried_out_ns
from fuel_async.backends.sim import Links, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.ir import no_breath
from fuel_async.plan.placement import Effort, place, tables_of
from fuel_async.testing import run_virtual, synthetic_op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.machines import Instance, Machine
    from fuel_async.plan.placement import Problem

#: Machines that can be said in speeds.
PLAIN = ("equal", "4:2:1")
#: Bytes are this many times fewer, and links slower: nobody computes with them.
FEWER = 1_000


def ratios(drawn: Iterator[Instance]) -> Iterator[tuple[str, float]]:
    """Times of runs beside that of HEFT's plan, carried out with a link for each pair of memories."""
    for one in drawn:
        if one.machine not in PLAIN:
            continue
        problem = with_links(one.problem)
        nbytes = [float(_bytes(size)) * FEWER for size in problem.nbytes]
        problem = replace(problem, nbytes=nbytes)
        heft = place(problem, Effort())
        heft_ns = carried_out_ns(tables_of(problem, no_breath), heft, problem.times_ns, order=Order.AS_THEY_COME)
        took_ns = run_virtual(lambda clock: _took_ns(problem, MACHINES[one.machine], clock))  # noqa: B023
        yield "executor_vs_heft", took_ns / heft_ns
        yield f"executor_vs_heft_on.{one.machine}", took_ns / heft_ns


def _bytes(nbytes: float) -> int:
    return max(round(nbytes / FEWER), 1)


async def _took_ns(problem: Problem, of: Machine, clock: VirtualClock) -> int:
    """The time of the second run of a problem as a graph."""
    latency_ns, bytes_per_ns = of.otherwise
    links = Links.of(LONGER * latency_ns, bytes_per_ns / LONGER / FEWER)
    machine = SimMachine([SimDeviceSpec(speed=device.speed) for device in of.devices], links=links, clock=clock)
    graph = fa.Graph("tasks")
    feed = graph.input("x", (1,), fa.u8)
    made: list[fa.Tensor] = []
    producers = problem.producers()
    read = {value for reads in problem.reads for value in reads}
    for task, (row, reads) in enumerate(zip(problem.times_ns, problem.reads, strict=True)):
        inputs = [made[producers[value]] for value in reads] or [feed]
        (value,) = problem.writes[task]
        nbytes = _bytes(problem.nbytes[value]) if value in read else 1
        made.append(synthetic_op(graph, inputs, cost_ns=round(row[0] * of.devices[0].speed), nbytes=nbytes))
        if value not in read:
            graph.output(f"y{task}", made[-1])
    try:
        async with fa.Executor(devices=machine.devices) as executor:
            x = np.zeros(1, np.uint8)
            await executor.run(graph, x=x)
            since_ns = clock.now_ns()
            await executor.run(graph, x=x)
            return clock.now_ns() - since_ns
    finally:
        machine.close()
