"""Problems for tests of placement, and what makes a placement valid, told without the planner's code."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from fuel_async.plan.placement import STAYS, Fleet, Problem, Way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement import Placement
    from tests.plan.placement.heft_reference import Workflow

_CLOSE = 1e-6


def check_placement(problem: Problem, placement: Placement) -> None:
    """Every law of a schedule: durations, lanes, values where they are read, copies once each, ports, the makespan."""
    starts, ends, fleet = placement.starts_ns, placement.ends_ns, problem.fleet
    lane_device = [device for device, count in enumerate(fleet.lanes) for _ in range(count)]
    for task, device in enumerate(placement.devices):
        assert lane_device[placement.lanes[task]] == device
        assert math.isclose(ends[task] - starts[task], problem.times_ns[task][device], abs_tol=_CLOSE)
    assert sorted(task for line in placement.order for task in line) == list(range(len(problem)))
    for lane, line in enumerate(placement.order):
        assert all(placement.lanes[task] == lane for task in line)
        for before, after in itertools.pairwise(line):
            assert starts[after] >= ends[before] - _CLOSE
    arrivals = _arrivals(problem, placement)
    for task, reads in enumerate(problem.reads):
        memory = fleet.memories[placement.devices[task]]
        for value in reads:
            assert starts[task] >= arrivals[value][memory] - _CLOSE
    _check_ports(problem, placement)
    owed = [arrivals[value][memory] for value, memory in problem.owed.items()]
    assert math.isclose(placement.makespan_ns, max([0.0, *ends, *owed]), abs_tol=_CLOSE)
    assert placement.bound_ns <= placement.makespan_ns * (1 + 1e-9) + _CLOSE


def _arrivals(problem: Problem, placement: Placement) -> list[dict[int, float]]:
    """By value: when it is in which memory."""
    arrivals: list[dict[int, float]] = [dict(problem.given.get(value, {})) for value in range(len(problem.nbytes))]
    for task, writes in enumerate(problem.writes):
        for value in writes:
            arrivals[value] = {problem.fleet.memories[placement.devices[task]]: placement.ends_ns[task]}
    for copy in placement.copies:
        way = problem.fleet.ways[copy.source][copy.memory]
        assert copy.start_ns >= arrivals[copy.value][copy.source] - _CLOSE
        assert copy.memory not in arrivals[copy.value]
        assert math.isclose(copy.end_ns - copy.start_ns, way.copy_ns(problem.nbytes[copy.value]), abs_tol=_CLOSE)
        arrivals[copy.value][copy.memory] = copy.end_ns
    return arrivals


def _check_ports(problem: Problem, placement: Placement) -> None:
    busy: dict[int, list[tuple[float, float]]] = {}
    assert [copy.start_ns for copy in placement.copies] == sorted(copy.start_ns for copy in placement.copies)
    for copy in placement.copies:
        way = problem.fleet.ways[copy.source][copy.memory]
        sent_ns = copy.start_ns + way.sent_ns(problem.nbytes[copy.value])
        for port in set(way.ports or ()):
            busy.setdefault(port, []).append((copy.start_ns, sent_ns))
    for stretches in busy.values():
        for (_, end), (start, _) in itertools.pairwise(stretches):
            assert start >= end - _CLOSE


@st.composite
def problems(draw: st.DrawFn, max_tasks: int = 14) -> Problem:
    """Any problem: devices that share a memory, several values, readers at several places, tasks with few devices."""
    fleet = draw(fleets())
    devices, memories = len(fleet.lanes), max(fleet.memories) + 1
    count = draw(st.integers(0, max_tasks))
    random_numbers = random.Random(draw(st.integers(0, 2**32)))
    given = {value: _places(random_numbers, memories) for value in range(draw(st.integers(0, 3)))}
    values = len(given)
    times, reads, writes = [], [], []
    for _ in range(count):
        row = [float(random_numbers.choice((0, 1, 3, 10, 100, random_numbers.uniform(1, 50)))) for _ in range(devices)]
        for device in random_numbers.sample(range(devices), random_numbers.randint(0, devices - 1) // 2):
            row[device] = math.inf
        times.append(row)
        reads.append(sorted(random_numbers.sample(range(values), min(values, random_numbers.choice((0, 1, 1, 2, 3))))))
        made = random_numbers.choice((0, 1, 1, 1, 2))
        writes.append(list(range(values, values + made)))
        values += made
    nbytes = [float(random_numbers.choice((0, 1, 10, 100))) for _ in range(values)]
    made_values = [value for each in writes for value in each]
    owed = {value: random_numbers.randrange(memories) for value in made_values if random_numbers.random() < 0.2}
    problem = Problem(fleet, times, reads, writes, nbytes, given, owed)
    problem.verify()
    return problem


def _places(random_numbers: random.Random, memories: int) -> dict[int, float]:
    some = random_numbers.sample(range(memories), random_numbers.randint(1, memories))
    return {memory: float(random_numbers.choice((0, 0, 20))) for memory in some}


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Up to four devices, their copies free, with a port at each end, or with one for each way."""
    devices = draw(st.integers(1, 4))
    lanes = draw(st.lists(st.integers(1, 3), min_size=devices, max_size=devices))
    memories = [0, *[draw(st.integers(0, device)) for device in range(1, devices)]]
    count = max(memories) + 1
    memories = [sorted(set(memories)).index(memory) for memory in memories]
    ports = draw(st.sampled_from(("none", "ends", "ways")))

    def way(source: int, to: int) -> Way:
        if source == to:
            return STAYS
        latency, per_byte = draw(st.sampled_from((0.0, 1.0, 5.0))), draw(st.sampled_from((0.0, 0.1, 1.0)))
        number = source * count + to
        return Way(latency, per_byte, {"none": None, "ends": (source, count + to), "ways": (number, number)}[ports])

    count = max(memories) + 1
    return Fleet(lanes, memories, [[way(source, to) for to in range(count)] for source in range(count)])


def problem_of(workflow: Workflow) -> Problem:
    """A workflow whose edges cost the same between all processors."""
    edges = list(workflow.edges)
    processors = range(len(workflow.costs[0]))
    return Problem(
        Fleet([1] * len(processors), processors, [[Way(0.0, float(a != b)) for a in processors] for b in processors]),
        workflow.costs,
        reads=[[value for value, (_, to) in enumerate(edges) if to == task] for task in range(len(workflow.costs))],
        writes=[[value for value, (of, _) in enumerate(edges) if of == task] for task in range(len(workflow.costs))],
        nbytes=[workflow.edges[edge] for edge in edges],
    )


def random_problem(seed: int, tasks: int, lanes: Sequence[int], *, contended: bool = False) -> Problem:
    """One value a task, times without ties."""
    chance = random.Random(seed)
    devices = len(lanes)
    ways = [
        [
            STAYS
            if source == to
            else Way(chance.uniform(1, 5), chance.uniform(0.2, 2), (source, devices + to) if contended else None)
            for to in range(devices)
        ]
        for source in range(devices)
    ]
    speeds = [chance.uniform(0.5, 4) for _ in lanes]
    times = [[chance.uniform(20, 80) / speed * chance.uniform(0.8, 1.2) for speed in speeds] for _ in range(tasks)]
    reads = [sorted(chance.sample(range(task), min(task, chance.randint(0, 3)))) for task in range(tasks)]
    nbytes = [chance.uniform(1, 60) for _ in range(tasks)]
    return Problem(Fleet(lanes, range(devices), ways), times, reads, [[task] for task in range(tasks)], nbytes)
