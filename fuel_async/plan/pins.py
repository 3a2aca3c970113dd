"""Cutting a graph of which some nodes may not go everywhere: no region holds rows of two marks.

A mark says where a row may go: its pin, and the kinds of devices that have a kernel for it. Rows are staged by how
often the mark changes on the way to them: a stage holds the rows of one level and one mark, and what it reads of other
stages is of lower levels. Each stage is cut as a graph of its own. So the region graph has no cycle, and regions are
numbered stage by stage. Rows that may go anywhere have a mark of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fuel_async.ir import Breathe, DeviceLocation, Form, no_breath
from fuel_async.plan.regions import Cut, cut, needs_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from fuel_async.plan.lower import Rows

Pins = list["DeviceLocation | None"]

Mark = TypeVar("Mark", bound="Hashable")


def row_pins(rows: Rows, breathe: Breathe = no_breath) -> Pins:
    """The pin of each row: its node's, also for copies made on the node's behalf. O(rows).

    A view that became a copy has the pin of the row that makes what is copied.
    """
    pins, ops, found = rows.graph.pins, rows.graph.ops, Pins()
    for row, node in enumerate(rows.nodes):
        pin = pins.get(node)
        if pin is None and ops[node].form is Form.VIEW and rows.preds[row]:
            pin = found[rows.preds[row][0]]
        found.append(pin)
        if not row & 63:
            breathe()
    return found


def cut_marked(
    costs_ns: Sequence[int],
    preds: Sequence[tuple[int, ...]],
    output_rows: frozenset[int],
    marks: Sequence[Mark],
    breathe: Breathe = no_breath,
) -> tuple[Cut, list[Mark]]:
    """Assign each row to a region; return the cut and each region's mark. Rows are in topological order. O(rows)."""
    stages = _stages(preds, marks, breathe)
    region_of = [0] * len(costs_ns)
    region_marks: list[Mark] = []
    place = [-1] * len(costs_ns)
    for members in stages:
        for index, row in enumerate(members):
            place[row] = index
        found = cut(
            [costs_ns[row] for row in members],
            _within(members, preds, place, breathe),
            frozenset([place[row] for row in output_rows.intersection(members)]),
            breathe,
        )
        first = len(region_marks)
        for row, region in zip(members, found.region_of, strict=True):
            region_of[row] = first + region
            place[row] = -1
        region_marks.extend([marks[members[0]]] * found.count)
        breathe()
    return Cut(region_of, needs_of(region_of, preds, breathe)), region_marks


def _stages(preds: Sequence[tuple[int, ...]], marks: Sequence[Mark], breathe: Breathe) -> list[list[int]]:
    """The rows by stage, stages by level; within a stage in their order."""
    levels: list[int] = []
    stages: dict[tuple[int, Mark], list[int]] = {}
    for row, (sources, mark) in enumerate(zip(preds, marks, strict=True)):
        level = max([levels[source] + (marks[source] != mark) for source in sources], default=0)
        levels.append(level)
        stages.setdefault((level, mark), []).append(row)
        if not row & 63:
            breathe()
    return [stages[key] for key in sorted(stages, key=lambda key: (key[0], stages[key][0]))]


def _within(
    members: Sequence[int], preds: Sequence[tuple[int, ...]], place: Sequence[int], breathe: Breathe
) -> list[tuple[int, ...]]:
    """What each row of a stage reads of the same stage, by place in the stage."""
    found: list[tuple[int, ...]] = []
    for index, row in enumerate(members):
        found.append(tuple([place[source] for source in preds[row] if place[source] >= 0]))
        if not index & 63:
            breathe()
    return found
