"""Two-way list scheduling: the best of several starts, then passes back and forth, each looking ahead with the last.

Starts are HEFT and list schedules of merged chains that weigh the optimistic rest. Passes alternate their direction and
cycle their weight of what is ahead; the last of them are on the tasks themselves, so that chains can be split again.
Never longer than HEFT, which is one of the starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.chains import expanded, merge
from fuel_async.plan.placement.ports import contended_sweep
from fuel_async.plan.placement.ranks import downward, falling, optimistic_rest, speed_means, upward
from fuel_async.plan.placement.sweep import Pass, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.plan.placement.problem import Fleet
    from fuel_async.plan.placement.tables import Tables

#: Weights of what is ahead, pass by pass. Below 1: what is ahead assumes that nothing else will be in its way.
WEIGHTS = (0.6, 0.4, 0.2)
#: Of passes with ports on their time lines, and of the optimistic rest in the first pass of each kind.
PORT_WEIGHTS = (0.5, 0.3, 0.15)
FIRST_WEIGHT = 0.75


class Effort(NamedTuple):
    """How much is tried."""

    #: Without ports: list schedules to start from, passes that go on from the best, and passes behind them on the
    #: tasks that chains are made of. No starts: nothing is.
    starts: int = 0
    passes: int = 0
    last_passes: int = 0
    #: Evaluations of a task that the search among critical tasks may take, for each task.
    searched: int = 0
    #: With ports on their time lines: passes behind the first, and how many of the plans are played. 0: nothing is.
    port_passes: int = 0
    played: int = 0
    #: Whether a graph that repeats itself is planned with a few of its layers.
    folds: bool = False


#: Of a graph that may take its time, by whether copies wait for ports and whether there are more than FEW devices.
FULL: Mapping[tuple[bool, bool], Effort] = {
    (False, False): Effort(starts=4, passes=8, last_passes=4, searched=30, folds=True),
    (False, True): Effort(starts=2, passes=5, last_passes=2, searched=10, folds=True),
    (True, False): Effort(port_passes=4, played=2, folds=True),
    (True, True): Effort(port_passes=1, played=1, folds=True),
}
#: Of a small graph with ports and more than FEW devices: what it takes for a task grows with their number, too.
SMALL = Effort(port_passes=2, played=2, folds=True)
#: Of a large graph, by whether copies wait for ports.
QUICK: Mapping[bool, Effort] = {False: Effort(starts=1, passes=3, folds=True), True: Effort(played=1, folds=True)}

#: The cost of a pass grows with the number of devices: up to so many there are more passes.
FEW = 4
#: Graphs of up to so many tasks may take their time, and are small.
FULL_TASKS = 2_000
SMALL_TASKS = 500


def effort_for(tasks: int, fleet: Fleet) -> Effort:
    """How much to try: about as much time for a task whatever the machine, and less in large graphs."""
    if tasks > FULL_TASKS:
        return QUICK[fleet.contended]
    many = len(fleet.lanes) > FEW
    return SMALL if fleet.contended and many and tasks <= SMALL_TASKS else FULL[fleet.contended, many]


def heft(tables: Tables, breathe: Breathe = no_breath) -> Pass:
    """HEFT: by falling upward rank, each where it is done first."""
    return sweep(tables, upward_order(tables, breathe), breathe=breathe)


def upward_order(tables: Tables, breathe: Breathe = no_breath) -> list[int]:
    """The tasks by falling upward rank, HEFT's order."""
    return falling(upward(tables, tables.mean_ns, tables.mean_move_ns, breathe))


class TwoWay:
    """The schedules of one graph, with what all of them are made from."""

    def __init__(self, tables: Tables, breathe: Breathe = no_breath) -> None:
        self.tables, self.breathe = tables, breathe
        self.chains = merge(tables, breathe)
        #: The tasks, or what they were merged to.
        self.merged = tables if self.chains is None else self.chains.tables
        self.rest = optimistic_rest(self.merged, breathe)
        half = [ns / 2 for ns in self.merged.mean_move_ns]
        self.by_speed = falling(upward(self.merged, speed_means(self.merged, breathe), half, breathe))

    def best(self, first: Pass, effort: Effort, enough_ns: float = 0.0) -> Pass:
        """The shortest schedule found, told from its start; not longer than `first`. Without ports.

        No better one is looked for than one of `enough_ns`.
        """
        begun = self._starts(effort.starts)
        if self.chains is None:
            begun.append(first)
        best = self._back_and_forth(self.merged, min(begun, key=_length), effort.passes, enough_ns)
        if self.chains is None:
            return best.forward()
        best = expanded(self.chains, self.tables, best, self.breathe)
        if first.makespan_ns < best.makespan_ns:
            best = first
        return self._back_and_forth(self.tables, best, effort.last_passes, enough_ns).forward()

    def with_ports(self, effort: Effort) -> list[Pass]:
        """Schedules made with ports on their time lines, told from their start, those that promise most first."""
        if not effort.played:
            return []
        merged, breathe = self.merged, self.breathe
        current = contended_sweep(merged, self.by_speed, ahead=self.rest, weight=FIRST_WEIGHT, breathe=breathe)
        found = [current]
        for number in range(effort.port_passes):
            weight = PORT_WEIGHTS[number % len(PORT_WEIGHTS)]
            current = contended_sweep(
                merged,
                current.order(),
                backward=not current.backward,
                ahead=current.ready_ns,
                weight=weight,
                breathe=breathe,
            )
            found.append(current)
        found.sort(key=_length)
        if self.chains is not None:
            found = [expanded(self.chains, self.tables, one, breathe) for one in found[: effort.played]]
        return [one.forward() for one in found[: effort.played]]

    def _starts(self, count: int) -> list[Pass]:
        """So many list schedules by different ranks and views of what is to come."""
        tables, rest, breathe = self.merged, self.rest, self.breathe
        begun = [sweep(tables, self.by_speed, ahead=rest, weight=FIRST_WEIGHT, breathe=breathe)]
        if count > 1:
            by_mean = upward_order(tables, breathe)
            begun.append(sweep(tables, by_mean, ahead=rest, weight=0.5, breathe=breathe))
        if count > 2:
            before = downward(tables, tables.mean_ns, tables.mean_move_ns, breathe)
            from_end = falling([head + ns for head, ns in zip(before, tables.mean_ns, strict=True)], backward=True)
            begun.append(sweep(tables, from_end, backward=True, breathe=breathe))
        if count > 3:
            begun.append(sweep(tables, by_mean, breathe=breathe))
        return begun

    def _back_and_forth(self, tables: Tables, found: Pass, passes: int, enough_ns: float) -> Pass:
        """The shortest of `found` and so many passes that go on from it."""
        best = current = found
        for number in range(passes):
            if best.makespan_ns <= enough_ns:
                break
            current = sweep(
                tables,
                current.order(),
                backward=not current.backward,
                ahead=current.ready_ns,
                weight=WEIGHTS[number % len(WEIGHTS)],
                breathe=self.breathe,
            )
            if current.makespan_ns < best.makespan_ns:
                best = current
        return best


def _length(found: Pass) -> float:
    return found.makespan_ns
