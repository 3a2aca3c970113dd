"""What the scheduler of the executor makes of task graphs on idle devices, with a plan of the whole and without one.

The scheduler is the real one, played as predicted (`dry_run`). It has a link for each pair of memories, and copies wait
for each other on it; so does HEFT's plan that it is compared with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_async.plan.placement import STAYS, Effort, Fleet, Problem, Way, place
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
    from collections.abc import Iterator, Sequence

    from benchmarks.machines import Instance

#: Submissions that a lane holds, and bytes of a memory: no run waits for room.
SLOTS, ROOM = 2, 1 << 62


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
    """The same problem with a port for each way."""
    fleet = problem.fleet
    count = len(fleet.ways)
    ways = [
        [
            STAYS if source == to else Way(way.latency_ns, way.ns_per_byte, (source * count + to, source * count + to))
            for to, way in enumerate(row)
        ]
        for source, row in enumerate(fleet.ways)
    ]
    return replace(problem, fleet=Fleet(fleet.lanes, fleet.memories, ways))


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


def ratios(drawn: Iterator[Instance]) -> Iterator[tuple[str, float]]:
    """Makespans beside HEFT's, by what they are of."""
    for one in drawn:
        problem = with_links(one.problem)
        heft_ns = place(problem, Effort()).makespan_ns
        known = _Known(problem)
        run = as_run(problem, known)
        devices = [
            (DeviceShape(f"device {number}", number + 1, ROOM), [LaneShape(SLOTS)] * lanes)
            for number, lanes in enumerate(problem.fleet.lanes)
        ]
        planned = replace(run, prior=prior_of(run, devices, known))
        bare_ns = dry_run(devices, known, earliest_finish, run).makespan_ns
        with_plan_ns = dry_run(devices, known, earliest_finish, planned).makespan_ns
        yield "scheduler_vs_heft.with_plan", min(with_plan_ns, bare_ns) / heft_ns
        yield "scheduler_vs_heft.without_plan", bare_ns / heft_ns
