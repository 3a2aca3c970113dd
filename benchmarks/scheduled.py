"""What the scheduler of the executor makes of task graphs on idle devices, with a plan of the whole and without one.

The scheduler is the real one; its effects are played (`dry_run`), as predicted or with other times than were told. It
has a link for each pair of memories, and copies wait for each other on it; so do those of HEFT's plan that it is
compared with.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.simulated_run import Order, carried_out_ns
from fuel_async.ir import no_breath
from fuel_async.plan.placement import STAYS, Effort, Fleet, Problem, Way, place, tables_of
from fuel_async.schedule import (
    HOST,
    DeviceShape,
    Hop,
    LaneShape,
    RunShape,
    SpreadShape,
    dry_run,
    earliest_finish,
    prior_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.machines import Instance
    from fuel_async.plan.placement import Row

#: Submissions that a lane holds, and bytes of a memory: no run waits for room.
SLOTS, ROOM = 2, 1 << 62

#: Tasks of 20 ms: runs that take a few milliseconds only are not planned anew while they go.
LONGER = 100.0


class _Known:
    """Times and ways of a problem, as the scheduler asks for them. Device d has memory d + 1."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def region_ns(self, region: int, device: int) -> int:
        return int(self._problem.times_ns[region][device])

    def upload_ns(self, region: int, device: int) -> int:
        return 0

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop]:
        if HOST in (source, memory):  # nothing comes from there or goes there
            return (Hop(source, memory, 0),)
        return (Hop(source, memory, int(self._problem.fleet.ways[source - 1][memory - 1].copy_ns(nbytes))),)


def with_links(problem: Problem) -> Problem:
    """The same problem with a port for each way, in times that are worth planning anew."""
    fleet = problem.fleet
    count = len(fleet.ways)
    ways = [
        [
            STAYS
            if source == to
            else Way(0.0, LONGER * way.ns_per_byte, (source * count + to, source * count + to), LONGER * way.latency_ns)
            for to, way in enumerate(row)
        ]
        for source, row in enumerate(fleet.ways)
    ]
    times_ns = [[LONGER * ns for ns in row] for row in problem.times_ns]
    return replace(problem, fleet=Fleet(fleet.lanes, fleet.memories, ways), times_ns=times_ns)


def as_run(problem: Problem, known: _Known) -> RunShape:
    """A problem as a run: tasks are regions."""
    made_by = problem.producers()
    needs = [frozenset([made_by[value] for value in reads]) for reads in problem.reads]
    dependents: list[list[int]] = [[] for _ in needs]
    readers = [0] * len(problem.nbytes)
    for task, reads in enumerate(problem.reads):
        for value in reads:
            readers[value] += 1
        for need in needs[task]:
            dependents[need].append(task)
    return RunShape(
        needs=needs,
        dependents=dependents,
        predicted_ns=[int(sum(row) / len(row)) for row in problem.times_ns],
        fine=[False] * len(needs),
        spread=SpreadShape(
            reads=problem.reads,
            writes=problem.writes,
            nbytes=[int(size) for size in problem.nbytes],
            producers=made_by,
            readers=readers,
            outputs=frozenset(),
            pins=[None] * len(needs),
            share_nbytes=1,
            prices=known,
        ),
    )


def ratios(
    drawn: Iterator[Instance], noise: Mapping[str, Callable[[Problem, random.Random], Sequence[Row]]], seed: int
) -> Iterator[tuple[str, float]]:
    """Makespans beside those of HEFT's plan with the same links and the same times, by what they are of."""
    for one in drawn:
        problem = with_links(one.problem)
        tables, heft = tables_of(problem, no_breath), place(problem, Effort())
        known = _Known(problem)
        run = as_run(problem, known)
        devices = [
            (DeviceShape(f"device {number}", number + 1, ROOM), [LaneShape(SLOTS)] * lanes)
            for number, lanes in enumerate(problem.fleet.lanes)
        ]
        prior = prior_of(run, devices, known)
        assert prior is not None
        planned = replace(run, prior=prior)
        heft_ns = carried_out_ns(tables, heft, problem.times_ns, order=Order.AS_THEY_COME)
        with_plan_ns = dry_run(devices, known, earliest_finish, planned).makespan_ns
        bare_ns = dry_run(devices, known, earliest_finish, run).makespan_ns
        if bare_ns < with_plan_ns:  # the executor does not keep such a plan
            planned = run
        yield "scheduled_vs_heft", min(with_plan_ns, bare_ns) / heft_ns
        yield "scheduled_vs_promised", with_plan_ns / prior.makespan_ns
        yield "scheduled_without_plan_vs_heft", bare_ns / heft_ns
        for name, times in noise.items():
            truth_ns = times(problem, random.Random(f"{seed}/{one.family}/{one.machine}/{len(tables)}/{name}"))
            live_ns = dry_run(
                devices,
                known,
                earliest_finish,
                planned,
                took_ns=lambda region, device: int(truth_ns[region][device]),  # noqa: B023
            ).makespan_ns
            yield (
                f"scheduled_live_vs_heft.{name}",
                live_ns / carried_out_ns(tables, heft, truth_ns, order=Order.AS_THEY_COME),
            )
