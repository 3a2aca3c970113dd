"""The best that any placement of a plan's regions could do, found by trying: nothing of the scheduler decides here.

A schedule puts regions one after the other behind what their devices have; each copy goes as early as its link allows.
Over all orders and all devices these are all schedules without needless idling, so the shortest is the optimum, if
regions and copies take what the machine's description says. Exponential: for a dozen regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.dispatch import SlotClass
from fuel_async.plan import region_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends.sim import LinkSpec, SimDeviceSpec
    from fuel_async.plan import Plan

#: The place of the host among memories: devices are counted from 0.
HOST = -1


@dataclass(frozen=True, slots=True)
class Job:
    """One region: its time on each device, the values it reads, and the time to send the constants it alone reads."""

    ns: Sequence[int]
    reads: Sequence[int] = ()
    upload_ns: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be placed. Each pair of memories has one link a direction, all alike."""

    #: In an order in which each reads only values of those before it.
    jobs: Sequence[Job]
    #: By value: the job that makes it, -1 for one that the host has from the beginning.
    makers: Sequence[int]
    #: By value: the time of a copy.
    copy_ns: Sequence[int]
    #: Values that the host must get.
    owed: Sequence[int]

    def needs(self, job: int) -> frozenset[int]:
        """The jobs whose values a job reads."""
        return frozenset([self.makers[value] for value in self.jobs[job].reads if self.makers[value] >= 0])

    def longest_branch_ns(self) -> int:
        """The longest way through all jobs but the last, each on its fastest device, without copies."""
        ends_ns: list[int] = []
        for job, one in enumerate(self.jobs[:-1]):
            ends_ns.append(min(one.ns) + max([ends_ns[need] for need in self.needs(job)], default=0))
        return max(ends_ns)


def problem_of(plan: Plan, devices: Sequence[SimDeviceSpec], link: LinkSpec, *, resident: bool) -> Problem:
    """Describe the regions of a plan by what the devices truly do; with `resident` constants are everywhere already."""
    copy_ns = link.true_estimate.copy_ns
    sent_ns = [0 if resident else copy_ns(plan.graph.types[node].nbytes) for node in plan.constants]
    return Problem(
        jobs=[
            Job(
                [region_ns(region.program, device.true_rates) for device in devices],
                region.reads,
                sum(sent_ns[place] for place in region.constants),
            )
            for region in plan.regions
        ],
        makers=[value.producer for value in plan.values],
        copy_ns=[copy_ns(value.nbytes) for value in plan.values],
        owed=[number for number, value in enumerate(plan.values) if value.kind is SlotClass.OUTPUT],
    )


def best_ns(problem: Problem) -> int:
    """The shortest time from the start until the host has what it is owed."""
    search = _Search(problem)
    places: list[dict[int, int]] = [{HOST: 0} if maker < 0 else {} for maker in problem.makers]
    search.visit(_Schedule({}, [0] * len(problem.jobs[0].ns), {}, places))
    assert search.best_ns is not None  # the first one tried is the best so far
    return search.best_ns


@dataclass(slots=True)
class _Schedule:
    """A schedule under construction."""

    #: By job that was put.
    ends_ns: Mapping[int, int]
    #: By device.
    free_ns: Sequence[int]
    #: By (source, destination): when the link is free.
    link_ns: dict[tuple[int, int], int]
    #: By value: when it is in which memory.
    places: list[dict[int, int]]

    def arrival_ns(self, value: int, memory: int, copy_ns: int) -> int:
        """Have a value in a memory, copied from where it can be there first; return when it is."""
        places = self.places[value]
        if memory not in places:
            arrivals = {
                source: max(since_ns, self.link_ns.get((source, memory), 0)) + copy_ns
                for source, since_ns in places.items()
            }
            source = min(arrivals, key=arrivals.__getitem__)
            places[memory] = self.link_ns[source, memory] = arrivals[source]
        return places[memory]


class _Search:
    """Depth first, what would be done first is tried first; a schedule that cannot become the best is left."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.best_ns: int | None = None
        jobs = problem.jobs
        self.needs = [problem.needs(job) for job in range(len(jobs))]
        self.least_ns = [min(job.ns) for job in jobs]
        #: By job: the least time from its start to the end of everything.
        self.rest_ns = [0] * len(jobs)
        for job in reversed(range(len(jobs))):
            after = [self.rest_ns[other] for other in range(len(jobs)) if job in self.needs[other]]
            self.rest_ns[job] = self.least_ns[job] + max(after, default=0)

    def visit(self, schedule: _Schedule) -> None:
        """Try all that can follow."""
        problem, ends_ns = self.problem, schedule.ends_ns
        if len(ends_ns) == len(problem.jobs):
            done_ns = max(schedule.arrival_ns(value, HOST, problem.copy_ns[value]) for value in problem.owed)
            self.best_ns = done_ns if self.best_ns is None else min(self.best_ns, done_ns)
            return
        ready = [job for job, needs in enumerate(self.needs) if job not in ends_ns and needs <= ends_ns.keys()]
        tried = [self._put(schedule, job, device) for job in ready for device in range(len(schedule.free_ns))]
        for end_ns, job, longer in sorted(tried, key=lambda one: one[:2]):
            least_ns = max(end_ns - self.least_ns[job] + self.rest_ns[job], self._least_ns(longer))
            if self.best_ns is None or least_ns < self.best_ns:
                self.visit(longer)

    def _put(self, schedule: _Schedule, job: int, device: int) -> tuple[int, int, _Schedule]:
        """The end of a job behind what a device has, the job, and the schedule with it."""
        problem, one = self.problem, self.problem.jobs[job]
        longer = _Schedule(
            schedule.ends_ns, schedule.free_ns, dict(schedule.link_ns), [dict(places) for places in schedule.places]
        )
        ready_ns = max([longer.arrival_ns(value, device, problem.copy_ns[value]) for value in one.reads], default=0)
        if one.upload_ns:
            sent_ns = longer.link_ns.get((HOST, device), 0) + one.upload_ns
            longer.link_ns[HOST, device] = sent_ns
            ready_ns = max(ready_ns, sent_ns)
        end_ns = max(ready_ns, schedule.free_ns[device]) + one.ns[device]
        longer.ends_ns = {**schedule.ends_ns, job: end_ns}
        longer.free_ns = [end_ns if number == device else ns for number, ns in enumerate(schedule.free_ns)]
        for value, maker in enumerate(problem.makers):
            if maker == job:
                longer.places[value] = {device: end_ns}
        return end_ns, job, longer

    def _least_ns(self, schedule: _Schedule) -> float:
        """No schedule that begins like this is shorter: by what waits for what, and by how much is left to do."""
        left = [job for job in range(len(self.problem.jobs)) if job not in schedule.ends_ns]
        if not left:
            return 0
        chains = [
            max([schedule.ends_ns.get(need, 0) for need in self.needs[job]], default=0) + self.rest_ns[job]
            for job in left
        ]
        # Work in time of each job's fastest device; a device is as fast as it is at what it does best.
        speeds = [
            max(self.least_ns[job] / self.problem.jobs[job].ns[device] for job in left)
            for device in range(len(schedule.free_ns))
        ]
        work_ns = sum(self.least_ns[job] for job in left)
        taken_ns = sum(speed * free_ns for speed, free_ns in zip(speeds, schedule.free_ns, strict=True))
        return max(*chains, (work_ns + taken_ns) / sum(speeds))
