"""The plan of a graph for one device: regions with their lane programs, ports, and the arena all of them share.

`make_plan` is pure and O(nodes): the same graph, target and options give the same plan. It calls `breathe` at least
every 64 nodes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.dispatch import BINDABLE, LaneProgram, SlotClass, SlotTable
from fuel_async.ir import Breathe, FrozenGraph, TensorType, no_breath
from fuel_async.plan.lower import Rows, lower
from fuel_async.plan.memory import Arena, assign_offsets
from fuel_async.plan.regions import Cut, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.resolve import Target

#: A C call over more items than this holds the interpreter for longer than a loop should wait.
_SLICE = 2_048


@dataclass(frozen=True, slots=True)
class Port:
    """A named value that enters or leaves a run."""

    name: str
    type: TensorType
    #: A truth value: delivered as numpy bool.
    boolean: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A unit that is placed and launched."""

    program: LaneProgram
    #: Regions whose results it reads; all of lower number.
    needs: frozenset[int]
    #: Regions that read its results.
    dependents: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How one graph with concrete shapes runs. Immutable; shared by all runs of equal structure."""

    graph: FrozenGraph
    regions: tuple[Region, ...]
    feeds: tuple[Port, ...]
    outputs: tuple[Port, ...]
    #: Nodes of the graph's constants, in the order of their places.
    constants: tuple[int, ...]
    arena_nbytes: int
    #: Bytes that each run allocates for its caller.
    output_nbytes: int
    predicted_ns: int
    kernels: int

    def __repr__(self) -> str:
        return f"<Plan of {self.graph.name!r}: {self.kernels} kernels in {len(self.regions)} regions>"


def make_plan(graph: FrozenGraph, target: Target, breathe: Breathe = no_breath) -> Plan:
    """Plan `graph`, whose symbols are bound, for `target`. `NoBackendForOp` when a node has no kernel there."""
    rows = lower(graph, target, breathe)
    costs = _costs(rows, breathe)
    regions = cut(costs, rows.preds, _output_rows(rows), breathe)
    order = _order(regions, breathe)
    arena = assign_offsets(rows, order, regions.region_of, _before(regions, breathe), breathe)
    slots = SlotTable(rows.classes, rows.places, rows.types, rows.layouts)
    programs = _programs(rows, regions, order, costs, slots, arena, breathe)
    for column in (rows.slots, rows.preds):
        _let_go(column, breathe)
    dependents: list[list[int]] = [[] for _ in programs]
    for number, needs in enumerate(regions.needs):
        for need in needs:
            dependents[need].append(number)
    outputs = tuple(Port(name, graph.types[node], name in graph.boolean) for name, node in graph.outputs.items())
    return Plan(
        graph=graph,
        regions=tuple(
            Region(program, needs, tuple(after))
            for program, needs, after in zip(programs, regions.needs, dependents, strict=True)
        ),
        feeds=tuple(Port(name, graph.types[node]) for name, node in graph.inputs.items()),
        outputs=outputs,
        constants=tuple(graph.constants),
        arena_nbytes=arena.nbytes,
        output_nbytes=sum(port.type.nbytes for port in outputs),
        predicted_ns=sum(program.predicted_ns for program in programs),
        kernels=len(costs),
    )


def _costs(rows: Rows, breathe: Breathe) -> array[int]:
    """Predicted time of each row."""
    costs = array("q")
    for start in range(0, len(rows.calls), _SLICE):
        costs.extend([call.cost_ns for call in rows.calls[start : start + _SLICE]])
        breathe()
    return costs


def _output_rows(rows: Rows) -> frozenset[int]:
    return frozenset([rows.writers[slot] for slot in _slots_of(rows, (SlotClass.OUTPUT,)) if rows.writers[slot] >= 0])


def _slots_of(rows: Rows, classes: Sequence[int]) -> list[int]:
    """The slots of the given classes, views included."""
    return np.flatnonzero(np.isin(np.frombuffer(bytes(rows.classes), np.uint8), classes)).tolist()


def _order(regions: Cut, breathe: Breathe) -> Sequence[int]:
    """The rows region by region, in their order within each."""
    if regions.count <= 1:
        return range(len(regions.region_of))
    members: list[list[int]] = [[] for _ in regions.needs]
    for row, region in enumerate(regions.region_of):
        members[region].append(row)
        if not row & 63:
            breathe()
    return [row for rows in members for row in rows]


def _before(regions: Cut, breathe: Breathe) -> list[int]:
    """Per region, the bit mask of all regions that precede it, directly or not, and of itself."""
    masks: list[int] = []
    for number, needs in enumerate(regions.needs):
        mask = 1 << number
        for need in needs:
            mask |= masks[need]
        masks.append(mask)
        if not number & 63:
            breathe()
    return masks


def _let_go(column: list[Any], breathe: Breathe) -> None:
    """Drop the items of a column bit by bit: dropping 10^5 tuples at once holds the interpreter for milliseconds."""
    while column:
        del column[-_SLICE:]
        breathe()


def _programs(
    rows: Rows,
    regions: Cut,
    order: Sequence[int],
    costs: array[int],
    slots: SlotTable,
    arena: Arena,
    breathe: Breathe,
) -> list[LaneProgram]:
    programs: list[LaneProgram] = []
    region_of, scratch, canonical = regions.region_of, arena.scratch, arena.canonical
    given = frozenset(_slots_of(rows, BINDABLE))
    start = 0
    while start < len(order):
        region, end = region_of[order[start]], start
        table: list[tuple[int, ...]] = []
        met: set[int] = set()
        while end < len(order) and region_of[order[end]] == region:
            row = order[end]
            entry = rows.slots[row]
            if not given.isdisjoint(entry):
                met.update(given.intersection(entry))
            entry = tuple([canonical[slot] for slot in entry])
            table.append(entry + scratch[row] if row in scratch else entry)
            end += 1
            if not end & 63:
                breathe()
        part = order[start:end]
        programs.append(
            LaneProgram(
                graph=rows.graph,
                slots=slots,
                nodes=array("i", [rows.nodes[row] for row in part]),
                calls=[rows.calls[row] for row in part],
                rows=table,
                ports=_ports(rows, met),
                predicted_ns=sum([costs[row] for row in part]),
                arena_nbytes=arena.nbytes,
            )
        )
        start = end
    return programs


def _ports(rows: Rows, slots: set[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The places of the given slots by class, sorted."""
    places: dict[int, set[int]] = {int(cls): set() for cls in BINDABLE}
    for slot in slots:
        places[rows.classes[slot]].add(rows.places[slot])
    feeds, outputs, sessions, scalars = (tuple(sorted(places[cls])) for cls in BINDABLE)
    return feeds, outputs, sessions, scalars
