"""Plans of graphs with ops that may write over their operand: no second buffer, and dependencies that allow for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import SlotClass
from fuel_async.plan import Plan, make_plan
from fuel_async.plan.lower import Rows, lower
from fuel_async.plan.overwrites import order_overwrites, overwritten
from fuel_async.testing import random_graph
from fuel_async.testing.destroying import DESTROYING
from tests.plan.support import US, listing, target

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import FrozenGraph

HOST = target()
#: Every kernel is a region of its own wherever it may run beside another.
HEAVY = target(call_ns=60 * US, spread=True)

#: Elements, and bytes, of a value of which there should be one.
COUNT, LARGE = 1 << 18, 1 << 20


def built(build: Callable[[fa.Graph, fa.Tensor], object]) -> FrozenGraph:
    """A graph over `t`, a large value of its own."""
    g = fa.Graph()
    build(g, g.input("x", (COUNT,)) + 1)
    return g.freeze()


def planned(build: Callable[[fa.Graph, fa.Tensor], object], kind: object = HOST) -> Plan:
    return make_plan(built(build), kind)  # type: ignore[arg-type]


def regions_by_op(plan: Plan) -> dict[str, int]:
    """The region of each op that occurs once."""
    return {
        plan.graph.ops[node].name: number for number, region in enumerate(plan.regions) for node in region.program.nodes
    }


# --- memory ---


def test_a_chain_in_place_has_one_buffer() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("y", t.exp_inplace().sqrt_inplace().affine_inplace(2, 1).clip_inplace(0, 1).sum())

    assert planned(build).arena_nbytes < LARGE + 64 * 1024


def test_a_chain_in_place_through_other_shapes_has_one_buffer() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        over = t.reshape((64, -1)).exp_inplace().reshape((-1, 4)).neg_inplace()
        g.output("y", over.reshape((COUNT,)).write_slice(g.input("part", (3,)), (5,)).sum())

    assert planned(build).arena_nbytes < LARGE + 64 * 1024


def test_writes_into_a_large_value_have_one_buffer() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        part, offset, position = g.input("part", (16,)), g.input("o", (), fa.i64), g.input("p", (), fa.u32)
        written = t.write_slice(part, (7,)).write_slice_at(part, offset).write_slice_rotating(part, position)
        g.output("y", written.zero_fill().write_slice(part, (0,)).sum())

    assert planned(build).arena_nbytes < LARGE + 64 * 1024


@pytest.mark.parametrize("kind", [HOST, HEAVY], ids=["one region", "many"])
def test_readers_that_were_built_later_cost_no_buffer(kind: object) -> None:
    """Without an order the op would have to keep its operand: two buffers."""

    def build(g: fa.Graph, t: fa.Tensor) -> None:
        over = t.exp_inplace()
        g.output("late", t.reshape((64, -1)).sum())
        g.output("mean", t.mean())
        g.output("y", over.sum())

    assert planned(build, kind).arena_nbytes < LARGE + 64 * 1024


def test_a_reader_that_depends_on_the_op_costs_one() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("y", (t.relu_inplace() + t).sum())

    assert 2 * LARGE <= planned(build).arena_nbytes < 2 * LARGE + 64 * 1024


def test_a_source_that_is_a_part_of_what_is_written_into_is_not_written_over() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("y", t.write_slice(t[: COUNT // 2], (COUNT // 4,)).sum())

    assert planned(build).arena_nbytes >= 2 * LARGE


@pytest.mark.parametrize("part", [slice(0, COUNT // 2), slice(COUNT // 2, COUNT), slice(None, None, -1)])
def test_a_part_of_a_value_is_not_written_where_it_lies(part: slice) -> None:
    """at its beginning, at its end, or all of it backwards"""

    def build(g: fa.Graph, t: fa.Tensor) -> None:
        over = t[part].exp_inplace()
        g.output("y", over.reshape((4, -1)).sum())

    assert planned(build).arena_nbytes >= LARGE + LARGE // 2


def test_what_is_fed_held_or_delivered_is_not_written_over() -> None:
    g = fa.Graph()
    x, one = g.input("x", (COUNT,)), g.constant(np.ones(COUNT, np.float32))
    kept = x + 1
    g.output("kept", kept)
    for value in (x, one, kept):
        g.output(f"y{value.index}", value.exp_inplace().sum())
    plan = make_plan(g.freeze(), HOST)
    slots = plan.regions[0].program.slots
    for region in plan.regions:
        for call, row in zip(region.program.calls, region.program.rows, strict=True):
            if "inplace" in call.kind.as_str():
                assert slots.classes[row[call.arity]] == SlotClass.TEMPORARY
                assert row[0] != row[call.arity]


# --- dependencies ---


def test_the_op_needs_the_regions_that_read_what_it_writes_over() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        over = t.exp_inplace()
        g.output("a", t.sin().sum())
        g.output("b", t.tanh().sum())
        g.output("y", over.cos().sum())

    plan = planned(build, HEAVY)
    regions = regions_by_op(plan)
    region = plan.regions[regions["exp_inplace"]]
    readers = {regions["sin"], regions["tanh"]}
    assert readers <= region.needs
    assert all(regions["exp_inplace"] in plan.regions[reader].dependents for reader in readers)
    # Of at least one it reads nothing: it only comes after it.
    assert readers - {plan.values[place].producer for place in region.reads}
    # The value, and what the two readers make of it beside each other; nothing for the op.
    assert plan.arena_nbytes < 3 * LARGE + 64 * 1024


def test_rows_that_copy_wait_for_nobody() -> None:
    g = fa.Graph()
    x = g.input("x", (4,))
    over = x.exp_inplace()
    g.output("a", x.sin())
    g.output("b", over.cos())
    rows = lower(g.freeze(), HOST)
    assert listing(rows) == ["exp_inplace(f0) -> t0", "sin(f0) -> o0", "cos(t0) -> o1"]
    assert rows.preds == [(), (), (0,)]


def test_a_result_that_the_caller_receives_waits_for_nobody() -> None:
    """It is written into the caller's array: nothing is written over"""

    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("y", t.exp_inplace())
        g.output("late", t.sin().sum())

    rows = lower(built(build), HOST)
    assert {overwritten(rows, row) for row in range(len(rows.calls))} == {-1}
    assert all(len(preds) <= 1 for preds in rows.preds)


def test_a_copy_made_on_the_ops_behalf_is_what_is_written_over() -> None:
    """A copied feed is the plan's own bytes: they may be written over when all others have read them."""
    g = fa.Graph()
    x = g.input("x", (4,))
    over = x.exp_inplace()
    for number in range(17):
        g.output(f"y{number}", x + number)
    g.output("y", over.sum())
    rows = lower(g.freeze(), HOST)
    (row,) = [row for row in range(len(rows.calls)) if overwritten(rows, row) >= 0]
    assert rows.graph.ops[rows.nodes[row]].name == "exp_inplace"
    # Feeds are never destroyed for the order of nodes, so the readers come later, and it copies.
    assert rows.preds[row] == (0,)


def test_an_op_that_is_not_last_adds_no_dependency() -> None:
    def build(g: fa.Graph, t: fa.Tensor) -> None:
        g.output("y", (t.relu_inplace() + t).sum())

    rows = lower(built(build), HOST)
    before = list(rows.preds)
    order_overwrites(rows)
    assert rows.preds == before
    assert all(len(preds) <= 2 for preds in rows.preds)


def test_it_breathes_at_least_every_64_rows() -> None:
    graph = random_graph(4, 2_000, ops=tuple(DESTROYING), shape=(4,)).graph.freeze()
    rows, breaths = lower(graph, HOST), 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    order_overwrites(rows, breathe)
    assert breaths >= 2 * len(rows.calls) // 64


def test_equal_graphs_have_equal_rows() -> None:
    def rows() -> Rows:
        return lower(random_graph(7, 300, ops=(*DESTROYING, "add"), shape=(3, 4)).graph.freeze(), HOST)

    one, other = rows(), rows()
    assert (listing(one), one.preds) == (listing(other), other.preds)
