"""Where a problem repeats itself: layer after layer of tasks that are alike in all that placing them looks at.

    Repeat(first=1, period=14, layers=96)    tasks 1 to 14 × 96, of which each is like the one 14 before it

Two tasks are alike when their times, the sizes of what they write and where that is owed are equal, and each reads
either what a task so far before it has written, or the same value as the other: one that is no part of the repeat.
Nothing is compared but by equality, and the facts of each task are hashed once.

Layers meet: each ends with a task that all of it leads to, and that all of the next one comes from. When that task has
ended nothing of its layer is under way, so how best to go on depends on nothing but where it was. Streams that run
beside each other, layer by layer, do not meet, nor do copies of a graph, nor layers that read from further back.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuel_async.plan.placement.tables import Tables

#: Periods that are looked into, those that most tasks speak for; and tasks of a layer that could be where layers meet.
PERIODS = 8
MEETINGS = 8
#: The share of the work that may go on beside: of a layer beside where layers meet, of the rest beside the repeats.
BESIDE = 0.05

_EVERY = 63


class Repeat(NamedTuple):
    """Layers of `period` tasks each, one after the other; the last task of each is where it meets the next."""

    first: int
    period: int
    layers: int

    @property
    def end(self) -> int:
        """One more than the last task."""
        return self.first + self.period * self.layers


def repeats_of(tables: Tables, least: int, breathe: Breathe = no_breath) -> tuple[Repeat, ...]:
    """The repeats of at least so many layers, three or more, in their order; none overlaps another. O(size).

    None at all where they do not follow each other, or where much else goes on beside them.
    """
    likeness = _Likeness(tables, breathe)
    found = [
        one
        for period in likeness.periods(breathe)
        for start, stop in _stretches(likeness, period, least, breathe)
        if (one := _met(tables, start, stop, period, breathe)) is not None and one.layers >= least
    ]
    found.sort(key=lambda one: (one.period * (least - one.layers), one.period, one.first))
    chosen: list[Repeat] = []
    for one in found:
        if all(one.end <= other.first or other.end <= one.first for other in chosen):
            chosen.append(one)
    chosen.sort()
    return tuple(chosen) if chosen and _follow(tables, chosen, breathe) else ()


# --- tasks that are alike ---------------------------------------------------------------------------------------------


class _Likeness:
    """What is compared of each task, as numbers: equal ones for equal facts."""

    def __init__(self, tables: Tables, breathe: Breathe) -> None:
        self.reads, self.producers = tables.reads, tables.producers
        owed, nbytes = tables.problem.owed, tables.nbytes
        #: By value: its place among those that its task makes.
        self.slots = [0] * len(nbytes)
        kinds, exact = dict[object, int](), dict[object, int]()
        #: By task: all but where its reads come from; and all, with reads by their distance.
        self.kinds, self.exact = list[int](), list[int]()
        for task, (row, reads, writes) in enumerate(zip(tables.times_ns, tables.reads, tables.writes, strict=True)):
            for slot, value in enumerate(writes):
                self.slots[value] = slot
            told = (*row, len(reads), *[(nbytes[value], owed.get(value)) for value in writes])
            kind = kinds.setdefault(told, len(kinds))
            self.kinds.append(kind)
            self.exact.append(exact.setdefault((kind, *[self._far(task, value) for value in reads]), len(exact)))
            if not task & _EVERY:
                breathe()

    def _far(self, task: int, value: int) -> tuple[int, int]:
        """How far before the task a value is made, and its place there; which value it is, if nobody makes it."""
        maker = self.producers[value]
        return (task - maker, self.slots[value]) if maker >= 0 else (0, value)

    def periods(self, breathe: Breathe) -> list[int]:
        """How far apart tasks are that are the same in all: the distances that most of them have."""
        last, votes = dict[int, int](), Counter[int]()
        for task, number in enumerate(self.exact):
            if number in last:
                votes[task - last[number]] += 1
            last[number] = task
            if not task & _EVERY:
                breathe()
        return [period for period, _ in votes.most_common(PERIODS)]

    def shared(self, task: int, period: int) -> int | None:
        """Of a task and the one a period later: who makes the latest value that both read, -1 for nobody.

        None where they are not alike.
        """
        latest = -1
        for value, other in zip(self.reads[task], self.reads[task + period], strict=True):
            if value == other:
                latest = max(latest, self.producers[value])
            elif self._far(task, value) != self._far(task + period, other):
                return None
        return latest


def _stretches(likeness: _Likeness, period: int, least: int, breathe: Breathe) -> Iterator[tuple[int, int]]:
    """The longest stretches with that period, of so many layers at least: their first tasks, and where they end."""
    kinds, exact = likeness.kinds, likeness.exact
    last = len(exact) - period
    start, task, long = 0, 0, least * period
    while task <= last:
        if not task & _EVERY:
            breathe()
        latest: int | None = -1
        if task == last or kinds[task] != kinds[task + period]:
            latest = None
        elif exact[task] != exact[task + period]:
            latest = likeness.shared(task, period)
        if latest is None or latest >= start:  # what several layers read is made before all of them
            if task + period - start >= long:
                yield start, task + period
            start = (task if latest is None else latest) + 1
        task += 1


# --- where layers meet ------------------------------------------------------------------------------------------------


def _met(tables: Tables, start: int, stop: int, period: int, breathe: Breathe) -> Repeat | None:
    """The layers of a stretch, begun behind a task where they meet; None where they do not."""
    last = start + (stop - start) // period * period - period
    for place in _not_passed(tables, start, last, period, breathe)[:MEETINGS]:
        meeting = last - period + place
        layer = range(meeting + 1, meeting + 1 + period)
        led = _led(layer, meeting, lambda task: [tables.producers[value] for value in tables.reads[task]], breathe)
        leads = _led(layer[-2::-1], layer[-1], lambda task: _readers(tables, task), breathe)
        work_ns = sum([tables.mean_ns[task] for task in layer])
        beside_ns = sum([tables.mean_ns[task] for task in layer if task not in led or task not in leads])
        if layer[-1] in led and beside_ns <= BESIDE * work_ns:
            first = start + (place + 1) % period
            return Repeat(first, period, (stop - first) // period)
    return None


def _not_passed(tables: Tables, start: int, last: int, period: int, breathe: Breathe) -> list[int]:
    """The places of a layer past which no value of the stretch is read, told by its last layer; the last place first.

    None where layers read from further back than the one before: they do not meet.
    """
    before = last - period
    #: By place from the layer before on: how many values more than at the one before it are read past it.
    more = [0] * (2 * period + 1)
    for task in range(last, last + period):
        if not task & _EVERY:
            breathe()
        makers = [maker for value in tables.reads[task] if (maker := tables.producers[value]) >= start]
        if any(task - maker > period for maker in makers):
            return []
        for maker in makers:
            more[maker + 1 - before] += 1
            more[task - before] -= 1
    past = list(accumulate(more))
    return [place for place in (period - 1, *range(period - 1)) if not past[place] and not past[place + period]]


def _led(tasks: Sequence[int], begin: int, steps: Callable[[int], Sequence[int]], breathe: Breathe) -> set[int]:
    """Of the tasks those from which steps lead to `begin`, and that one."""
    led = {begin}
    for task in tasks:
        if not led.isdisjoint(steps(task)):
            led.add(task)
        if not task & _EVERY:
            breathe()
    return led


def _readers(tables: Tables, task: int) -> list[int]:
    return [reader for value in tables.writes[task] for reader in tables.readers[value]]


# --- what is no part of them ------------------------------------------------------------------------------------------


def _follow(tables: Tables, chosen: Sequence[Repeat], breathe: Breathe) -> bool:
    """Whether repeats follow each other, with hardly anything beside them: neither before one nor after another."""
    outside = list(_outside(len(tables), chosen))
    after = _after(tables, chosen, outside, breathe)
    for number, one in enumerate(chosen[1:]):
        layer = range(one.first, one.first + one.period)
        if all(after.get(tables.producers[value]) != number for task in layer for value in tables.reads[task]):
            return False
    before = _before(tables, chosen, outside, breathe)
    beside_ns = 0.0
    for gap, task in outside:
        leads, led = before.get(task) == gap, after.get(task) == gap - 1
        if not (leads or gap == len(chosen)) or not (led or not gap):
            beside_ns += tables.mean_ns[task]
    return beside_ns <= BESIDE * sum(tables.mean_ns)


def _outside(count: int, chosen: Sequence[Repeat]) -> Iterator[tuple[int, int]]:
    """The tasks of no repeat, each behind the number of repeats that stand before it."""
    starts, ends = [one.first for one in chosen], [one.end for one in chosen]
    for gap, (start, stop) in enumerate(zip([0, *ends], [*starts, count], strict=True)):
        yield from zip(repeat(gap), range(start, stop), strict=False)


def _after(
    tables: Tables, chosen: Sequence[Repeat], outside: Sequence[tuple[int, int]], breathe: Breathe
) -> dict[int, int]:
    """By task of a last layer, or of no repeat: the last repeat that it has waited for, if any."""
    after = {task: number for number, one in enumerate(chosen) for task in range(one.end - one.period, one.end)}
    for _, task in outside:
        found = [after[maker] for value in tables.reads[task] if (maker := tables.producers[value]) in after]
        if found:
            after[task] = max(found)
        if not task & _EVERY:
            breathe()
    return after


def _before(
    tables: Tables, chosen: Sequence[Repeat], outside: Sequence[tuple[int, int]], breathe: Breathe
) -> dict[int, int]:
    """By task of a first layer, or of no repeat: the first repeat that waits for it, if any."""
    before = {task: number for number, one in enumerate(chosen) for task in range(one.first, one.first + one.period)}
    for _, task in reversed(outside):
        found = [before[reader] for reader in _readers(tables, task) if reader in before]
        if found:
            before[task] = min(found)
        if not task & _EVERY:
            breathe()
    return before
