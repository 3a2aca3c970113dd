"""A problem that repeats itself, planned with a few of its layers; and that plan told for all of them.

    short = shortened(tables)                       # what comes first, KEPT layers of each repeat, what comes last
    whole = short.unfolded(place(short.problem))    # the others go where those went that took the least time

Layers meet in one task (`repeats.py`), so a layer that ends on the device where the one before it ended can follow
itself, since nothing else is under way there; and so can several by turns, as those do that go to and fro between equal
devices. In the plan of the short form the quickest of those are put in until there are as many layers as there should
be, with their devices and lanes, each time as much later. The starts that come of it are an order for lanes and copies
and no times: whoever takes the plan has it played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.problem import Problem
from fuel_async.plan.placement.repeats import Repeat, repeats_of
from fuel_async.plan.placement.sweep import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement.place import Placement
    from fuel_async.plan.placement.tables import Tables

#: Layers of a repeat that are kept, the first ones.
KEPT = 6
#: Planning the short form pays where it has at most that share of the tasks.
SHARE = 0.5

_EVERY = 63
_SLICE = 256


def shortened(tables: Tables, breathe: Breathe = no_breath) -> Short | None:
    """The short form of a problem; None where it does not repeat itself enough. O(size)."""
    if _different(tables, breathe) > SHARE * len(tables):
        return None
    repeats = repeats_of(tables, KEPT + 1, breathe)
    left = len(tables) - sum([len(_left_out(one)) for one in repeats])
    return Short(tables, repeats, breathe) if repeats and left <= SHARE * len(tables) else None


def _different(tables: Tables, breathe: Breathe) -> int:
    """How many tasks differ in their times: a look that costs little where nothing repeats itself."""
    rows, found = tables.times_ns, set[tuple[float, ...]]()
    for start in range(0, len(rows), _SLICE):
        found.update(map(tuple, rows[start : start + _SLICE]))
        breathe()
    return len(found)


def _left_out(one: Repeat) -> range:
    """The tasks of the layers that are not kept."""
    return range(one.first + KEPT * one.period, one.end)


class Short:
    """The short form, and how its tasks stand for all."""

    def __init__(self, tables: Tables, repeats: Sequence[Repeat], breathe: Breathe = no_breath) -> None:
        self._tables, self._repeats, self._breathe = tables, repeats, breathe
        gaps = [_left_out(one) for one in repeats]
        edges = [0, *[edge for gap in gaps for edge in (gap.start, gap.stop)], len(tables)]
        #: The tasks that are kept, in order.
        self._kept = [task for start, stop in zip(edges[::2], edges[1::2], strict=True) for task in range(start, stop)]
        self.problem = self._problem()

    # --- the problem ------------------------------------------------------------------------------

    def _problem(self) -> Problem:
        tables, whole = self._tables, self._tables.problem
        stand_ins, numbers = self._stand_ins(), dict[int, int]()
        reads, writes = list[list[int]](), list[list[int]]()
        for step, task in enumerate(self._kept):
            values = dict.fromkeys([stand_ins.get(value, value) for value in tables.reads[task]])
            reads.append([numbers.setdefault(value, len(numbers)) for value in values if value >= 0])
            writes.append([numbers.setdefault(value, len(numbers)) for value in tables.writes[task]])
            if not step & _EVERY:
                self._breathe()
        return Problem(
            whole.fleet,
            [tables.times_ns[task] for task in self._kept],
            reads,
            writes,
            [whole.nbytes[value] for value in numbers],
            {numbers[value]: places for value, places in whole.given.items() if value in numbers},
            {numbers[value]: memory for value, memory in whole.owed.items() if value in numbers},
        )

    def _stand_ins(self) -> dict[int, int]:
        """By value of a layer that is left out: the same of one as many layers earlier, -1 where there is none."""
        found, writes = dict[int, int](), self._tables.writes
        for one in self._repeats:
            for task in _left_out(one):
                kept = task - (one.layers - KEPT) * one.period
                values = writes[kept] if kept >= one.first else [-1] * len(writes[task])
                found.update(zip(writes[task], values, strict=True))
                if not task & _EVERY:
                    self._breathe()
        return found

    # --- the plan ---------------------------------------------------------------------------------

    def unfolded(self, plan: Placement) -> Pass | None:
        """A plan of the short form told for all tasks; its starts are an order, and no times.

        None where no layers of some repeat can follow themselves.
        """
        #: By task: the one of the short form that it is like, and how much later it starts.
        alike, later_ns = list[int](), list[float]()
        done, left_out, passed_ns = 0, 0, 0.0
        for one in self._repeats:
            found = _follow_themselves(plan, one.first - left_out, one.period)
            if found is None:
                return None
            layers, each_ns = found
            alike += range(done, layers.stop)
            later_ns += [passed_ns] * (layers.stop - done)
            turns = len(layers) // one.period
            for turn in range(one.layers - KEPT):
                place = turn % turns * one.period
                alike += layers[place : place + one.period]
                later_ns += [passed_ns + (turn // turns + 1) * turns * each_ns] * one.period
            passed_ns += (one.layers - KEPT) * each_ns
            done, left_out = layers.stop, left_out + len(_left_out(one))
        alike += range(done, len(self._kept))
        later_ns += [passed_ns] * (len(self._kept) - done)
        return self._told(plan, alike, later_ns)

    def _told(self, plan: Placement, alike: Sequence[int], later_ns: Sequence[float]) -> Pass:
        """The plan with tasks that start so much later than those they are like, or when what they read has ended."""
        tables = self._tables
        devices, lanes, starts_ns, ends_ns = list[int](), list[int](), list[float](), list[float]()
        for task, (one, later, values) in enumerate(zip(alike, later_ns, tables.reads, strict=True)):
            device, start = plan.devices[one], plan.starts_ns[one] + later
            for value in values:
                maker = tables.producers[value]
                if maker >= 0 and ends_ns[maker] > start:
                    start = ends_ns[maker]
            devices.append(device)
            lanes.append(plan.lanes[one])
            starts_ns.append(start)
            ends_ns.append(start + tables.times_ns[task][device])
            if not task & _EVERY:
                self._breathe()
        return Pass(max(ends_ns, default=0.0), devices, lanes, starts_ns, ends_ns, [])


def _follow_themselves(plan: Placement, first: int, period: int) -> tuple[range, float] | None:
    """Of the layers kept from a task on those that can follow themselves, and the time of one; None if there are none.

    One or several in a row, the quickest, of equals the fewest.
    """
    devices, ends_ns = plan.devices, plan.ends_ns
    meetings = range(first + period - 1, first + KEPT * period, period)
    found = [
        ((ends_ns[end] - ends_ns[begin]) / turns, turns, begin + 1)
        for turns in range(1, KEPT)
        for begin, end in zip(meetings, meetings[turns:], strict=False)
        if devices[begin] == devices[end]
    ]
    if not found:
        return None
    each_ns, turns, begin = min(found)
    return range(begin, begin + turns * period), each_ns
