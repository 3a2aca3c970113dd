"""HEFT and CPOP as their paper states them (Topcuoglu, Hariri, Wu, 2002), plain and slow, with nothing of the planner.

A processor runs one task at a time; the cost of an edge is paid between different processors and is the same for all
pairs unless told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass
class Workflow:
    #: By task and processor.
    costs: Sequence[Sequence[float]]
    #: By edge (from, to): what it costs on average.
    edges: Mapping[tuple[int, int], float]
    #: What an edge costs between two processors.
    comm: Callable[[tuple[int, int], int, int], float] | None = None
    preds: list[list[int]] = field(init=False)
    succs: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.preds = [[] for _ in self.costs]
        self.succs = [[] for _ in self.costs]
        for source, to in self.edges:
            self.preds[to].append(source)
            self.succs[source].append(to)

    def mean(self, task: int) -> float:
        return sum(self.costs[task]) / len(self.costs[task])

    def edge_cost(self, edge: tuple[int, int], source: int, to: int) -> float:
        if source == to:
            return 0.0
        return self.edges[edge] if self.comm is None else self.comm(edge, source, to)

    def upward(self) -> list[float]:
        ranks = [0.0] * len(self.costs)
        for task in reversed(self.topological()):
            later = [self.edges[task, after] + ranks[after] for after in self.succs[task]]
            ranks[task] = self.mean(task) + max(later, default=0.0)
        return ranks

    def downward(self) -> list[float]:
        ranks = [0.0] * len(self.costs)
        for task in self.topological():
            earlier = [ranks[pred] + self.mean(pred) + self.edges[pred, task] for pred in self.preds[task]]
            ranks[task] = max(earlier, default=0.0)
        return ranks

    def topological(self) -> list[int]:
        order: list[int] = []
        while len(order) < len(self.costs):
            order += [
                task
                for task in range(len(self.costs))
                if task not in order and all(p in order for p in self.preds[task])
            ]
        return order


@dataclass
class Schedule:
    """(processor, start, end) by task."""

    workflow: Workflow
    places: dict[int, tuple[int, float, float]] = field(default_factory=dict)

    @property
    def makespan(self) -> float:
        return max(end for _, _, end in self.places.values())

    def put(self, task: int, processors: Sequence[int]) -> None:
        """On the processor where it ends first, in the first gap that is long enough."""
        tried = [self._on(task, processor) for processor in processors]
        self.places[task] = min(tried, key=lambda place: place[2])

    def _on(self, task: int, processor: int) -> tuple[int, float, float]:
        workflow = self.workflow
        ready = 0.0
        for pred in workflow.preds[task]:
            source, _, end = self.places[pred]
            ready = max(ready, end + workflow.edge_cost((pred, task), source, processor))
        took, start = workflow.costs[task][processor], ready
        for _, begins, ends in sorted(place for place in self.places.values() if place[0] == processor):
            if start + took <= begins:
                break
            start = max(start, ends)
        return processor, start, start + took


def heft(workflow: Workflow) -> Schedule:
    ranks, schedule = workflow.upward(), Schedule(workflow)
    for task in sorted(range(len(ranks)), key=lambda task: -ranks[task]):
        schedule.put(task, range(len(workflow.costs[task])))
    return schedule


def cpop(workflow: Workflow) -> Schedule:
    """Critical path on a processor."""
    up, down = workflow.upward(), workflow.downward()
    priority = [one + other for one, other in zip(up, down, strict=True)]
    entry = max((task for task in range(len(up)) if not workflow.preds[task]), key=priority.__getitem__)
    path = [entry]
    while workflow.succs[path[-1]]:
        path.append(min(workflow.succs[path[-1]], key=lambda task: abs(priority[task] - priority[entry])))
    processors = range(len(workflow.costs[0]))
    critical = min(processors, key=lambda processor: sum(workflow.costs[task][processor] for task in path))
    schedule = Schedule(workflow)
    while len(schedule.places) < len(up):
        ready = [
            task
            for task in range(len(up))
            if task not in schedule.places and all(pred in schedule.places for pred in workflow.preds[task])
        ]
        task = max(ready, key=priority.__getitem__)
        schedule.put(task, [critical] if task in path else processors)
    return schedule


#: The example of the paper: 10 tasks, 3 processors.
EXAMPLE = Workflow(
    costs=[
        (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
        (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
    ],
    edges={
        (0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14, (1, 7): 19, (1, 8): 16, (2, 6): 23,
        (3, 7): 27, (3, 8): 23, (4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11, (8, 9): 13,
    },
)  # fmt: skip
#: Its HEFT schedule: (processor, start, end).
EXAMPLE_HEFT = (
    (2, 0, 9), (0, 27, 40), (2, 9, 28), (1, 18, 26), (2, 28, 38),
    (1, 26, 42), (2, 38, 49), (0, 57, 62), (1, 56, 68), (1, 73, 80),
)  # fmt: skip
EXAMPLE_HEFT_MAKESPAN, EXAMPLE_CPOP_MAKESPAN = 80, 86
