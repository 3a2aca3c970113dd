"""Nodes with several outputs in plans: one slot of bytes, views of it, and which of them cross regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fuel_async as fa
from fuel_async.dispatch import KernelBindingTable, SlotClass
from fuel_async.ir import BY_NAME, DType, FrozenGraph, Layout, SelectiveScan
from fuel_async.plan import make_plan
from fuel_async.plan.lower import lower
from tests.extremes import extremes, register
from tests.plan.support import US, listing, table, target

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import Bundle
    from fuel_async.plan import Target

SCAN = BY_NAME["selective_scan"]
HOST = target()
#: Every kernel is a region.
APART = target(call_ns=60 * US, spread=True)
SHAPES = {"u": (2, 3, 4), "delta": (2, 3, 4), "a": (4, 5), "b": (2, 3, 5), "c": (2, 3, 5)}
Y_NBYTES, STATE_NBYTES = 96, 160


def scanned(g: fa.Graph) -> Bundle:
    return g.bundle(SCAN, [g.input(f"{name}{len(g)}", shape) for name, shape in SHAPES.items()], SelectiveScan(False))


def with_extremes() -> Target:
    made = KernelBindingTable()
    for op, dtypes, backend, entry in table().iter_entries():
        made.register_entry(op, dtypes, backend, entry)
    register(made)
    return target(made.finalize())


def frozen(*outputs: fa.Tensor) -> FrozenGraph:
    for number, output in enumerate(outputs):
        output.graph.output(f"y{number}", output)
    return outputs[0].graph.freeze()


# --- rows -------------------------------------------------------------------------------------------------------


def test_slots_are_views_of_one_slot_of_bytes() -> None:
    g = fa.Graph()
    y, last = scanned(g).slots()
    graph = frozen(y.exp(), last[:, 1:].exp())
    rows = lower(graph, HOST)
    assert listing(rows) == [
        "selective_scan(f0, f1, f2, f3, f4) -> t0", "exp(t0') -> o0", "exp(t0') -> o1",
    ]  # fmt: skip
    (bundle,) = graph.bundles
    kind = rows.types[bundle]
    assert (kind.dtype, kind.shape, kind.nbytes) == (DType.U8, (Y_NBYTES + STATE_NBYTES,), Y_NBYTES + STATE_NBYTES)
    first, second = bundle + 1, bundle + 2
    assert [graph.ops[node].name for node in (first, second, second + 2)] == ["view_slot", "view_slot", "slice"]
    assert rows.layouts[first] == Layout.contiguous((2, 3, 4))
    assert rows.layouts[second] == Layout.contiguous((2, 4, 5), Y_NBYTES // 4)
    assert {rows.bases[slot] for slot in (first, second, second + 2)} == {bundle}
    call = rows.calls[0]
    assert call.bundle == graph.bundles[bundle]
    assert all(not other.bundle for other in rows.calls[1:])


def test_a_copied_slot_is_a_kernel_of_its_own() -> None:
    g = fa.Graph()
    made = scanned(g)
    rows = lower(frozen(made.owned(1), made.owned(1).exp(), made.slot(0)), HOST)
    assert listing(rows) == [
        "selective_scan(f0, f1, f2, f3, f4) -> t0",
        "copy(t0') -> o0",  # where the caller receives it
        "copy(t0') -> t1",
        "exp(t1) -> o1",
        "copy(t0') -> o2",  # views are copied at the end
    ]
    assert rows.calls[1] is rows.calls[2]


def test_equal_calls_are_one_and_types_of_equal_sizes_too() -> None:
    g = fa.Graph()
    first, second = scanned(g), scanned(g)
    graph = frozen(first.slot(0) + second.slot(0))
    rows = lower(graph, HOST)
    assert rows.calls[0] is rows.calls[1]
    one, other = graph.bundles
    assert rows.types[one] is rows.types[other]


def test_dtypes_have_layouts_in_their_own_elements() -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    graph = frozen(*made.slots())
    rows = lower(graph, with_extremes())
    (bundle,) = graph.bundles
    assert [view.offset for view in graph.bundles[bundle]] == [0, 16, 40]
    assert rows.types[bundle].nbytes == 80
    assert [rows.layouts[bundle + 1 + slot] for slot in range(3)] == [
        Layout.contiguous((5, 3)), Layout.contiguous((5,), 4), Layout.contiguous((5,), 5),
    ]  # fmt: skip


def test_a_reader_of_any_slot_keeps_the_bundle_and_a_copy_lets_it_go() -> None:
    """a chain of temporaries takes the bundle's bytes once nobody reads them"""

    def arena_nbytes(late: Callable[[Bundle], fa.Tensor]) -> int:
        g = fa.Graph()
        made = extremes(g.input("x", (1_000, 30)))
        kept, chain = late(made), made.slot(2)
        for _ in range(3):
            chain = chain.exp() + chain
        return make_plan(frozen(chain.sum(), kept.astype(fa.f64).sum()), with_extremes()).arena_nbytes

    assert arena_nbytes(lambda made: made.owned(1)) < arena_nbytes(lambda made: made.slot(1))


def test_no_op_writes_over_part_of_a_bundle() -> None:
    g = fa.Graph()
    y, last = scanned(g).slots()
    graph = frozen(y.exp_inplace() * 1.0, last.sum())
    plan = make_plan(graph, HOST)
    (region,) = plan.regions
    slots = region.program.slots
    scan, exp = (
        region.program.rows[0],
        next(
            row
            for row, call in zip(region.program.rows, region.program.calls, strict=True)
            if call.kind.value == "exp_inplace"
        ),
    )
    start = slots.places[scan[5]]
    taken = range(start, start + Y_NBYTES + STATE_NBYTES)
    assert slots.classes[exp[-1]] == SlotClass.TEMPORARY
    assert slots.places[exp[-1]] not in taken


# --- what crosses -----------------------------------------------------------------------------------------------


def test_only_the_outputs_that_are_read_elsewhere_cross() -> None:
    g = fa.Graph()
    last = scanned(g).slot(1)
    plan = make_plan(frozen(last.exp() + last[:, 1:2].sin(), last.cos()), APART)
    crossing = [value for value in plan.values if value.kind is SlotClass.TEMPORARY and value.producer == 0]
    assert [value.nbytes for value in crossing] == [STATE_NBYTES]
    slots = plan.regions[0].program.slots
    place = crossing[0].place
    assert (slots.types[place], slots.layouts[place]) == (last.type, Layout.contiguous((2, 4, 5), Y_NBYTES // 4))


def test_several_views_and_copies_of_an_output_are_one_value() -> None:
    g = fa.Graph()
    made = scanned(g)
    plan = make_plan(frozen(made.slot(1).exp(), made.slot(1).sin(), made.owned(1).cos(), made.slot(0).exp()), APART)
    crossing = [value.nbytes for value in plan.values if value.kind is SlotClass.TEMPORARY and value.producer == 0]
    assert sorted(crossing) == [Y_NBYTES, STATE_NBYTES]


def test_a_bundle_that_nobody_reads_elsewhere_does_not_cross() -> None:
    g = fa.Graph()
    plan = make_plan(frozen(scanned(g).slot(0).exp()), target(spread=True))
    assert [value.kind for value in plan.values] == [SlotClass.FEED] * 5 + [SlotClass.OUTPUT]
