"""The plan of a graph: regions with their lane programs, ports, and the arena all of them share.

It is for one device or, where the target says so, for any division of its regions among several: offsets and slots are
the same on all of them, and what crosses regions is listed. Devices of different kinds run different kernels; a region
then has a program for each kind that can run all of it, and no region holds rows of which only some can run somewhere.

`make_plan` is pure and O(nodes): the same graph, target and options give the same plan. It calls `breathe` at least
every 64 nodes, and where a C call goes through many of them, every few thousand.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fuel_async.dispatch import BINDABLE, LaneProgram, SlotClass, SlotTable
from fuel_async.ir import Breathe, FrozenGraph, TensorType, no_breath
from fuel_async.plan.indices import IndexCheck, index_checks
from fuel_async.plan.kinds import on_kind, row_kinds, with_scratch
from fuel_async.plan.lower import Rows, lower
from fuel_async.plan.memory import Arena, assign_offsets
from fuel_async.plan.pins import Pins, cut_marked, row_pins
from fuel_async.plan.regions import Cut, cut
from fuel_async.plan.values import Crossing, Value, cross

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import DeviceKind, KernelCall
    from fuel_async.ir import DeviceLocation
    from fuel_async.plan.resolve import Target

#: A C call over more items than this holds the interpreter for longer than a loop should wait.
_SLICE = 2_048
_SHORT_SLICE = 256


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
    #: The only device it may run on; None for any.
    pin: DeviceLocation | None = None
    # --- empty when the plan is for one device ---
    #: Places in the plan's values of those made outside of it that it reads, feeds included, sorted.
    reads: tuple[int, ...] = ()
    #: Places in the plan's values of those it makes that another region reads or the caller receives, sorted.
    writes: tuple[int, ...] = ()
    #: Places of the constants it reads, sorted.
    constants: tuple[int, ...] = ()
    #: Its programs by kind of device, None for kinds that cannot run it; empty when all devices are of one kind.
    programs: tuple[LaneProgram | None, ...] = ()

    def on(self, kind: int) -> LaneProgram | None:
        """The program for devices of a kind, by its number in the plan; None when they cannot run the region."""
        return self.programs[kind] if self.programs else self.program


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
    #: What crosses regions; empty when the plan is for one device.
    values: tuple[Value, ...] = ()
    #: The kinds of devices that it is for, the preferred first.
    kinds: tuple[DeviceKind, ...] = ()
    #: Indices to look at before a run; empty where all kernels are the host's.
    checks: tuple[IndexCheck, ...] = ()

    def __repr__(self) -> str:
        return f"<Plan of {self.graph.name!r}: {self.kernels} kernels in {len(self.regions)} regions>"


def make_plan(graph: FrozenGraph, target: Target, breathe: Breathe = no_breath) -> Plan:
    """Plan `graph`, whose symbols are bound, for `target`. `NoBackendForOp` when a node has no kernel there."""
    rows = lower(graph, target, breathe)
    costs = _costs(rows, breathe)
    kinds = target.kinds if target.others else ()
    regions, pins = _cut(rows, costs, len(kinds), breathe)
    order = _order(regions, breathe)
    arena = assign_offsets(rows, order, regions.region_of, _before(regions, breathe), breathe)
    slots = SlotTable(rows.classes, rows.places, rows.types, rows.layouts)
    programs = _programs(rows, regions, order, slots, arena, len(kinds), breathe)
    # Kernels of the host look at their indices themselves.
    checks = index_checks(rows, breathe) if any(not kind.backend.is_host for kind in target.kinds) else ()
    crossing = cross(rows, regions.region_of, regions.count, arena.canonical, breathe) if target.spread else None
    for column in (rows.slots, rows.preds):
        _let_go(column, breathe)
    outputs = tuple(Port(name, graph.types[node], name in graph.boolean) for name, node in graph.outputs.items())
    return Plan(
        graph=graph,
        regions=_regions(programs, regions, pins, crossing),
        feeds=tuple(Port(name, graph.types[node]) for name, node in graph.inputs.items()),
        outputs=outputs,
        constants=tuple(graph.constants),
        arena_nbytes=arena.nbytes,
        output_nbytes=sum(port.type.nbytes for port in outputs),
        predicted_ns=sum(costs),
        kernels=len(costs),
        values=() if crossing is None else crossing.values,
        kinds=target.kinds,
        checks=checks,
    )


def _regions(programs: Sequence[Programs], regions: Cut, pins: Pins, crossing: Crossing | None) -> tuple[Region, ...]:
    dependents: list[list[int]] = [[] for _ in programs]
    for number, needs in enumerate(regions.needs):
        for need in needs:
            dependents[need].append(number)
    made = []
    for number, (each, needs, after, pin) in enumerate(zip(programs, regions.needs, dependents, pins, strict=True)):
        reads: tuple[int, ...] = ()
        writes, constants = reads, reads
        if crossing is not None:
            reads, writes, constants = crossing.reads[number], crossing.writes[number], crossing.constants[number]
        first = next(program for program in each if program is not None)
        made.append(Region(first, needs, tuple(after), pin, reads, writes, constants, each if len(each) > 1 else ()))
    return tuple(made)


def _cut(rows: Rows, costs: array[int], several: int, breathe: Breathe) -> tuple[Cut, Pins]:
    """Assign rows to regions, for so many kinds of devices if they are `several`; with the pin of each region."""
    outputs = _output_rows(rows)
    pins = row_pins(rows, breathe) if rows.graph.pins else [None]
    kinds = row_kinds(rows, breathe) if several else []
    if rows.graph.pins or kinds:
        marks = list(zip(pins if rows.graph.pins else repeat(None), kinds or repeat(0), strict=False))
        found, met = cut_marked(costs, rows.preds, outputs, marks, breathe)
        return found, [pin for pin, _ in met]
    found = cut(costs, rows.preds, outputs, breathe)
    return found, [None] * found.count


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
    wanted = np.zeros(256, np.bool_)
    wanted[list(classes)] = True
    return np.flatnonzero(wanted[np.frombuffer(bytes(rows.classes), np.uint8)]).tolist()


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


#: The programs of a region by kind of device.
Programs: TypeAlias = "tuple[LaneProgram | None, ...]"


def _programs(
    rows: Rows,
    regions: Cut,
    order: Sequence[int],
    slots: SlotTable,
    arena: Arena,
    kinds: int,
    breathe: Breathe,
) -> list[Programs]:
    """The programs of each region: one for each of so many kinds of devices, a single one for no kinds."""
    programs: list[Programs] = []
    given = frozenset(_slots_of(rows, BINDABLE))
    start = 0
    for count in _sizes(regions):
        part = order[start : start + count]
        start += count
        table, met = _table(rows, part, arena, given, breathe)
        nodes, ports = array("i", [rows.nodes[row] for row in part]), _ports(rows, met)

        def program(calls: list[KernelCall], table: list[tuple[int, ...]]) -> LaneProgram:
            return LaneProgram(
                graph=rows.graph,
                slots=slots,
                nodes=nodes,  # noqa: B023 - called before the next round
                calls=calls,
                rows=table,
                ports=ports,  # noqa: B023
                predicted_ns=sum([call.cost_ns for call in calls]),
                arena_nbytes=arena.nbytes,
            )

        calls = [rows.calls[row] for row in part]
        if kinds:
            found = [on_kind(rows, arena, part, table, calls, kind) for kind in range(kinds)]
            programs.append(tuple([None if one is None else program(*one) for one in found]))
        else:
            programs.append((program(calls, with_scratch(arena, part, table)),))
    return programs


def _sizes(regions: Cut) -> list[int]:
    """Rows of each region."""
    return np.bincount(regions.region_of, minlength=regions.count).tolist()  # type: ignore[no-any-return]


def _table(
    rows: Rows, part: Sequence[int], arena: Arena, given: frozenset[int], breathe: Breathe
) -> tuple[list[tuple[int, ...]], set[int]]:
    """The slots of each row of a region, and those of `given` among them."""
    table: list[tuple[int, ...]] = []
    met: set[int] = set()
    canonical = arena.canonical
    for start in range(0, len(part), _SHORT_SLICE):
        some = part[start : start + _SHORT_SLICE]
        entries = [rows.slots[row] for row in some]
        met.update(given.intersection(chain.from_iterable(entries)))
        # Nearly all rows have one input or two: spelled out, they take a third of the time.
        table += [
            (canonical[entry[0]], canonical[entry[1]], canonical[entry[2]])
            if len(entry) == 3
            else (canonical[entry[0]], canonical[entry[1]])
            if len(entry) == 2
            else tuple([canonical[slot] for slot in entry])
            for entry in entries
        ]
        breathe()
    return table, met


def _ports(rows: Rows, slots: set[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The places of the given slots by class, sorted."""
    places: dict[int, set[int]] = {int(cls): set() for cls in BINDABLE}
    for slot in slots:
        places[rows.classes[slot]].add(rows.places[slot])
    feeds, outputs, sessions, scalars = (tuple(sorted(places[cls])) for cls in BINDABLE)
    return feeds, outputs, sessions, scalars
