"""Arena offsets: no interleaving of lanes that honours the regions' dependencies finds foreign bytes in an operand.

Graphs and region cuts are drawn at random. `Laws` proves the absence of conflicts pair by pair; `Lanes` also plays
random interleavings, in which rows of several regions are under way at once, and looks at every byte.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.dispatch import BindingEntry, KernelCall, SlotClass
from fuel_async.ir import FrozenGraph, OpKind
from fuel_async.plan.lower import _SLICE, Rows, lower
from fuel_async.plan.memory import ALIGNMENT, Arena, assign_offsets
from fuel_async.plan.plan import _before
from fuel_async.plan.regions import Cut, cut
from fuel_async.testing import Case, graphs, random_graph
from tests.plan.support import US, priced, table, target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

IN_PLACE = {OpKind.AddElementwise, OpKind.MulElementwise, OpKind.ExpElementwise, OpKind.NegElementwise}


def with_scratch(rows: Rows, sizes: Sequence[int]) -> Rows:
    """The same rows, whose calls want working memory, in turn of the given sizes."""
    calls: dict[int, KernelCall] = {}
    for call in rows.calls:
        nbytes = sizes[len(calls) % len(sizes)]
        calls.setdefault(id(call), replace(call, scratch_nbytes=(nbytes, nbytes // 2) if nbytes else ()))
    rows.calls = [calls[id(call)] for call in rows.calls]
    return rows


@dataclass
class Planned:
    """Rows with their places, under one cut."""

    rows: Rows
    regions: Cut
    order: list[int]
    arena: Arena

    @classmethod
    def of(cls, rows: Rows, regions: Cut) -> Planned:
        order = sorted(range(len(rows.calls)), key=regions.region_of.__getitem__)
        before = _before(regions, lambda: None)
        return cls(rows, regions, order, assign_offsets(rows, order, regions.region_of, before))

    def is_temporary(self, slot: int) -> bool:
        return self.rows.classes[slot] == SlotClass.TEMPORARY

    def blocks(self, slot: int) -> range:
        """The aligned blocks of the arena that hold the slot's bytes."""
        place, nbytes = self.rows.places[slot], self.rows.types[self.rows.bases[slot]].nbytes
        assert place >= 0
        assert place % ALIGNMENT == 0
        return range(place // ALIGNMENT, -(-(place + nbytes) // ALIGNMENT))

    def operands(self, row: int) -> set[int]:
        """Base slots in the arena that the row reads."""
        rows = self.rows
        return {rows.bases[slot] for slot in rows.slots[row][:-1] if self.is_temporary(rows.bases[slot])}

    def written(self, row: int) -> list[int]:
        """Slots in the arena that the row writes: its output and its scratch."""
        output = self.rows.slots[row][-1]
        return [*([output] if self.is_temporary(output) else []), *self.arena.scratch.get(row, ())]


def precedes(planned: Planned) -> Callable[[int, int], bool]:
    """Whether one row has ended before another starts, in every run."""
    region_of = planned.regions.region_of
    ancestors: list[frozenset[int]] = []
    for needs in planned.regions.needs:
        ancestors.append(needs.union(*[ancestors[need] for need in needs]))
    position = {row: at for at, row in enumerate(planned.order)}

    def before(one: int, other: int) -> bool:
        if region_of[one] == region_of[other]:
            return position[one] < position[other]
        return region_of[one] in ancestors[region_of[other]]

    return before


def prove(planned: Planned) -> None:
    """Two values share bytes only if all that touch one have ended before the other is written.

    The one exception: a row may write over an operand that nobody reads any more, of the same type, read as it lies or,
    in graphs with ops that are there to do so, in another shape.
    """
    rows, before = planned.rows, precedes(planned)
    writer = {slot: row for row in planned.order for slot in planned.written(row)}
    touching: dict[int, set[int]] = {slot: {row} for slot, row in writer.items()}
    for row in planned.order:
        for base in planned.operands(row):
            touching[base].add(row)
    values = list(writer)
    for at, one in enumerate(values):
        for other in values[:at]:
            if not set(planned.blocks(one)) & set(planned.blocks(other)):
                continue
            assert _ended(planned, touching[one], writer[other], one, other, before) or _ended(
                planned, touching[other], writer[one], other, one, before
            ), f"{rows.types[one]} of row {writer[one]} and {rows.types[other]} of row {writer[other]}"


def _ended(
    planned: Planned, touching: set[int], writer: int, old: int, new: int, before: Callable[[int, int], bool]
) -> bool:
    if all(before(row, writer) for row in touching):
        return True
    rows = planned.rows
    seen = {slot for slot in rows.slots[writer][:-1] if rows.bases[slot] == old}
    layouts = [rows.layouts[slot] for slot in seen]
    return (
        rows.calls[writer].in_place
        and rows.slots[writer][-1] == new
        and (seen == {old} or (rows.graph.destructive and len(seen) == 1))
        and {rows.types[slot] for slot in seen} == {rows.types[new]}
        and rows.types[old].nbytes == rows.types[new].nbytes
        and all(layout is None or (layout.is_contiguous and not layout.offset) for layout in layouts)
        and rows.places[old] == rows.places[new]
        and all(row == writer or before(row, writer) for row in touching)
    )


class Lanes:
    """A run on as many lanes as there are regions, played row by row with a tag on every block of the arena."""

    def __init__(self, planned: Planned, seed: int) -> None:
        self.planned, self.random = planned, random.Random(seed)
        self.tags = np.full(planned.arena.nbytes // ALIGNMENT + 1, -1, np.int64)
        self.todo: list[list[int]] = [[] for _ in planned.regions.needs]
        for row in planned.order:
            self.todo[planned.regions.region_of[row]].append(row)

    def play(self) -> None:
        started: dict[int, int] = {}
        ended: set[int] = set()
        while len(ended) < len(self.todo):
            ready = [r for r, needs in enumerate(self.planned.regions.needs) if r not in ended and needs <= ended]
            region = self.random.choice(ready)
            if region in started:
                self.end(started.pop(region))
                if not self.todo[region]:
                    ended.add(region)
            else:
                started[region] = self.todo[region].pop(0)
                self.start(started[region])

    def start(self, row: int) -> None:
        for base in self.planned.operands(row):
            self.expect(base, base)
        for slot in self.planned.written(row):
            self.tags[self.planned.blocks(slot)] = slot

    def end(self, row: int) -> None:
        written = self.planned.written(row)
        for slot in written:
            self.expect(slot, slot)
        over = {block for slot in written for block in self.planned.blocks(slot)}
        for base in self.planned.operands(row):
            if over.isdisjoint(self.planned.blocks(base)):
                self.expect(base, base)

    def expect(self, slot: int, tag: int) -> None:
        assert (self.tags[self.planned.blocks(slot)] == tag).all()


def check(planned: Planned, seeds: int = 3) -> None:
    prove(planned)
    for seed in range(seeds):
        Lanes(planned, seed).play()


@st.composite
def region_cuts(draw: st.DrawFn, rows: Rows) -> Cut:
    """Any cut whose dependencies go from lower to higher numbers, sensible or not."""
    region_of: list[int] = []
    for preds in rows.preds:
        lowest = max((region_of[pred] for pred in preds), default=0)
        region_of.append(lowest + draw(st.integers(0, 2)))
    number = {region: rank for rank, region in enumerate(sorted(set(region_of)))}
    region_of = [number[region] for region in region_of]
    needs: list[set[int]] = [set() for _ in number]
    for row, preds in enumerate(rows.preds):
        needs[region_of[row]].update(region_of[pred] for pred in preds)
    return Cut(region_of, [frozenset(some - {region}) for region, some in enumerate(needs)])


def bound(case: Case) -> FrozenGraph:
    return case.graph.freeze().bind(case.sizes)


HOST = target()

#: Every kernel is heavy: the real cut then makes many regions.
HEAVY = target(call_ns=60 * US)


def _check_any_cut(case: Case, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([0, 100, 300, 70_000]), min_size=1, max_size=4))
    rows = with_scratch(lower(bound(case), HOST), sizes)
    check(Planned.of(rows, data.draw(region_cuts(rows))))


@given(graphs(max_steps=16), st.data())
@settings(max_examples=30)
def test_any_cut_of_any_graph_is_safe_under_any_interleaving(case: Case, data: st.DataObject) -> None:
    _check_any_cut(case, data)


@pytest.mark.slow
@given(graphs(max_steps=40), st.data())
@settings(max_examples=500)
def test_any_cut_of_many_larger_graphs_is_safe_too(case: Case, data: st.DataObject) -> None:
    _check_any_cut(case, data)


@given(graphs(max_steps=20))
@settings(max_examples=25)
def test_the_cuts_that_plans_are_made_with_are_safe(case: Case) -> None:
    rows = lower(bound(case), HEAVY)
    check(Planned.of(rows, cut([call.cost_ns for call in rows.calls], rows.preds)))


@pytest.mark.parametrize("seed", range(8))
def test_larger_graphs_of_one_shape_are_safe(seed: int) -> None:
    """where reuse is densest: all values have one size, or two"""
    case = random_graph(seed, 120, shape=(8, 64), window=6 + 4 * seed, outputs=3)
    rows = lower(bound(case), HEAVY)
    planned = Planned.of(rows, cut([call.cost_ns for call in rows.calls], rows.preds))
    assert planned.regions.count > 8
    check(planned)


# --- one rule at a time ---


def planned(build: Callable[[fa.Graph], object], region_of: Sequence[int] | None = None) -> Planned:
    graph = fa.Graph("g")
    build(graph)
    rows = lower(graph.freeze(), target(table(_limited)))
    regions = list(region_of) if region_of is not None else [0] * len(rows.calls)
    needs: list[set[int]] = [set() for _ in range(max(regions) + 1)]
    for row, preds in enumerate(rows.preds):
        needs[regions[row]].update(regions[pred] for pred in preds if regions[pred] != regions[row])
    return Planned.of(rows, Cut(regions, [frozenset(some) for some in needs]))


def _limited(op: OpKind, dtypes: object, entry: BindingEntry) -> BindingEntry:
    """Only the ops of `IN_PLACE` may write over an operand."""
    return replace(entry, caps=replace(entry.caps, in_place=op in IN_PLACE))


def places(found: Planned) -> list[int]:
    """The block where each row's result lies, -1 for an output."""
    return [
        found.rows.places[slots[-1]] // ALIGNMENT if found.is_temporary(slots[-1]) else -1 for slots in found.rows.slots
    ]


def test_a_chain_of_ops_that_write_over_their_input_needs_one_value() -> None:
    found = planned(lambda g: g.output("y", (-(g.input("x", (64,)).exp() + 1.0)).exp().tanh()))
    assert places(found) == [0, 0, 0, 0, -1]
    assert found.arena.nbytes == 256


def test_other_ops_alternate_between_two() -> None:
    found = planned(lambda g: g.output("y", g.input("x", (64,)).tanh().sqrt().tanh().sqrt().tanh()))
    assert places(found) == [0, 1, 0, 1, -1]


def test_a_value_that_is_read_again_is_not_written_over() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (64,)).exp()
        g.output("y", (x.exp() + x).tanh())

    assert places(planned(build)) == [0, 1, 1, -1]


def test_an_operand_that_is_also_read_through_a_view_is_not_written_over() -> None:
    """x + x.T: element (i, j) is read after (j, i) would have been written"""

    def build(g: fa.Graph) -> None:
        x = g.input("x", (8, 8)).exp()
        g.output("y", (x + x.mT).tanh())

    assert places(planned(build)) == [0, 1, -1]


def test_an_operand_given_twice_may_be_written_over() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (8, 8)).exp()
        g.output("y", (x + x).tanh())

    assert places(planned(build)) == [0, 0, -1]


def test_an_operand_of_another_type_is_not_written_over() -> None:
    """a broadcast result is larger than the operand"""

    def build(g: fa.Graph) -> None:
        x = g.input("x", (1, 64)).exp()
        g.output("y", (x + g.input("z", (4, 64))).tanh())

    assert places(planned(build)) == [0, 1, -1]


def test_bytes_are_not_reused_beside_a_region_that_still_reads_them() -> None:
    """x is read in regions 1 and 2, beside each other: the second writes over neither x nor the first's result"""

    def build(g: fa.Graph) -> None:
        x = g.input("x", (64,)).exp()  # row 0
        a, b = -x, x.exp()  # rows 1 and 2
        g.output("y", (a + b).tanh())  # rows 3 and 4

    assert places(planned(build))[:3] == [0, 1, 0]
    found = planned(build, [0, 1, 2, 3, 3])
    assert len(set(places(found)[:3])) == 3
    check(found)


def test_a_later_region_reuses_what_all_regions_before_it_have_done_with() -> None:
    found = planned(lambda g: g.output("y", g.input("x", (64,)).tanh().sqrt().tanh().sqrt().tanh()), [0, 1, 2, 3, 4])
    assert places(found) == [0, 1, 0, 1, -1]


def test_scratch_lies_beside_everything_that_its_row_touches_and_lives_for_that_row() -> None:
    g = fa.Graph("g")
    g.output("y", g.input("x", (64,)).tanh().sqrt().tanh().sqrt().tanh())
    rows = with_scratch(lower(g.freeze(), HOST), [1_000])
    found = Planned.of(rows, Cut([0] * len(rows.calls), [frozenset()]))
    assert found.arena.scratch.keys() == set(range(len(rows.calls)))
    for row, slots in found.arena.scratch.items():
        used = [block for slot in (*slots, *found.operands(row)) for block in found.blocks(slot)]
        output = rows.slots[row][-1]
        over = set(found.blocks(output)) if found.is_temporary(output) else set()
        scratch = [block for slot in slots for block in found.blocks(slot)]
        assert len(set(used)) == len(used)
        assert over.isdisjoint(scratch)
        assert [rows.types[slot].nbytes for slot in slots] == [1_000, 500]
    assert found.arena.nbytes <= 2 * 256 + 1_024 + 512 + 256
    check(found)


def test_one_slot_stands_for_all_row_major_values_of_one_type_at_one_place() -> None:
    """so that an instance makes one array of them"""
    found = planned(lambda g: g.output("y", (-(g.input("x", (64,)).exp() + 1.0)).exp().tanh()))
    outputs = [slots[-1] for slots in found.rows.slots[:-1]]
    assert {found.arena.canonical[slot] for slot in outputs} == {outputs[0]}


def test_values_without_elements_take_no_bytes() -> None:
    found = planned(lambda g: g.output("y", g.input("x", (0, 3)).exp().tanh().sqrt()))
    assert found.arena.nbytes == 0


def test_it_breathes_at_least_every_64_rows() -> None:
    g = fa.Graph("g")
    y = g.input("x", (1,))
    for _ in range(6_400):
        y = y + y
    g.output("y", y)
    rows, breaths = lower(g.freeze(), HOST), list[None]()
    assign_offsets(rows, range(6_400), [0] * 6_400, [1], lambda: breaths.append(None))
    assert len(breaths) >= 6_400 // 64 + 6_400 // _SLICE


# --- how much ---


def peak_nbytes(found: Planned) -> int:
    """The most bytes that are live at once when rows run one after the other: nothing can do with less.

    Writing over an operand counts as if it were always possible where it is allowed.
    """
    rows = found.rows
    last = {base: row for row in found.order for base in found.operands(row)}
    live = most = 0
    for row in found.order:
        output, call = rows.slots[row][-1], rows.calls[row]
        dying = [base for base in found.operands(row) if last[base] == row]
        new = _blocks_nbytes(found, output) if found.is_temporary(output) else 0
        over = call.in_place and any(rows.types[base] is rows.types[output] for base in dying)
        scratch = sum(_blocks_nbytes(found, slot) for slot in found.arena.scratch.get(row, ()))
        most = max(most, live + scratch + (0 if over else new))
        live += new - sum(_blocks_nbytes(found, base) for base in dying)
        if output not in last:
            live -= new
        most = max(most, live)
    return most


def _blocks_nbytes(found: Planned, slot: int) -> int:
    return len(found.blocks(slot)) * ALIGNMENT


def encoder(batch: int, tokens: int, width: int = 96, layers: int = 3) -> fa.Graph:
    """A transformer encoder: attention of four heads, residual connections, a wider layer of its own."""
    g = fa.Graph("encoder")
    ones = np.ones
    x = g.input("x", (batch * tokens, width))
    for _ in range(layers):
        normed = x.layer_norm()
        parts = []
        for _ in range(3):
            part = normed @ g.constant(ones((width, width), np.float32)) + g.constant(ones(width, np.float32))
            parts.append(part.reshape((batch, tokens, 4, width // 4)).permute_dims((0, 2, 1, 3)))
        query, key, value = parts
        mixed = (query @ key.mT * 0.1).softmax() @ value
        mixed = mixed.permute_dims((0, 2, 1, 3)).reshape((batch * tokens, width))
        x = x + mixed @ g.constant(ones((width, width), np.float32))
        wide = (x.layer_norm() @ g.constant(ones((width, 4 * width), np.float32))).gelu()
        x = x + wide @ g.constant(ones((4 * width, width), np.float32))
    g.output("y", x)
    return g


def pyramid() -> fa.Graph:
    """Levels that halve, and come back with what each was before."""
    g = fa.Graph("pyramid")
    y, kept, size = g.input("x", (256, 64)) * 1.0, list[fa.Tensor](), 256
    for _ in range(5):
        y = y.tanh().exp()
        kept.append(y)
        size //= 2
        y = y.reshape((size, 2, 64)).mean(axis=1)
    for level in reversed(kept):
        y = (fa.concat([y, y]) + level).tanh()
    g.output("y", y)
    return g


def perceptron(widths: Sequence[int], batch: int) -> fa.Graph:
    g = fa.Graph("perceptron")
    x = g.input("x", (batch, widths[0]))
    for wide, narrow in pairwise(widths):
        x = (x @ g.constant(np.ones((wide, narrow), np.float32)) + g.constant(np.ones(narrow, np.float32))).relu()
    g.output("y", x)
    return g


def growing(steps: int) -> fa.Graph:
    """Every value is larger than all before it: no two have one size."""
    g = fa.Graph("growing")
    x = g.input("x", (64,))
    y = x + 1.0
    for _ in range(steps):
        y = fa.concat([y, x]) * 0.5
    g.output("y", y)
    return g


def models() -> Iterator[tuple[str, fa.Graph, float]]:
    """Graphs like those of models, with the most that their arenas may exceed the live peak by."""
    yield "encoder of one short text", encoder(1, 16), 1.35
    yield "encoder of a batch", encoder(8, 32), 1.15
    yield "pyramid", pyramid(), 1.05
    yield "perceptron of one width", perceptron([256] * 9, 64), 1.05
    yield "perceptron that narrows", perceptron([784, 512, 256, 128, 64, 10], 32), 1.05
    yield "perceptron that widens", perceptron([100 + 37 * i for i in range(30)], 16), 1.6
    yield "growing", growing(100), 1.6


@pytest.mark.parametrize(("graph", "most"), [pytest.param(g, most, id=name) for name, g, most in models()])
def test_the_arena_is_little_larger_than_the_live_peak(graph: fa.Graph, most: float) -> None:
    rows = lower(graph.freeze(), HOST)
    found = Planned.of(rows, Cut([0] * len(rows.calls), [frozenset()]))
    prove(found)
    assert peak_nbytes(found) <= found.arena.nbytes <= most * peak_nbytes(found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [None, (8, 64), (64, 512)])
def test_the_same_for_random_graphs(seed: int, shape: tuple[int, ...] | None) -> None:
    rows = lower(bound(random_graph(seed, 150, shape=shape, window=12, outputs=4)), HOST)
    found = Planned.of(rows, Cut([0] * len(rows.calls), [frozenset()]))
    assert found.arena.nbytes <= 1.5 * peak_nbytes(found)


def test_regions_beside_each_other_cost_what_is_live_in_them_and_no_more() -> None:
    """three branches of twenty steps from one trunk: each needs its own value, and the trunk's lives on"""
    g = fa.Graph("branches")
    x, ends = g.input("x", (64, 64)).exp(), list[fa.Tensor]()
    for _ in range(3):
        y = x
        for _ in range(20):
            y = -y
        ends.append(y)
    g.output("y", ends[0] + ends[1] + ends[2])
    rows = lower(g.freeze(), target(table(priced(lambda shapes: 100_000)), call_ns=1, flops_per_ns=1.0))
    found = Planned.of(rows, cut([call.cost_ns for call in rows.calls], rows.preds))
    assert found.regions.count >= 5
    check(found)
    assert found.arena.nbytes <= 4 * 64 * 64 * 4
