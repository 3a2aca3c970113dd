"""Lowering: which kernel calls a graph becomes, and over which slots.

Slots in the listings: f0 is the first feed, c0 the first constant, o0 the first output, t0 the first temporary; a
prime marks a view of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

import fuel_async as fa
from fuel_async.dispatch import BindingEntry, KernelCaps, OpParams, SlotClass
from fuel_async.errors import GraphError, NoBackendForOp, ShapeMismatch
from fuel_async.ir import CPU_DEVICE, DType, FrozenGraph, Layout, OpKind, PrecisionGuarantee
from fuel_async.plan.lower import _SLICE, COPIED_FEED_NBYTES, COPIED_FEED_READERS, COPIED_OUTPUT_READERS, lower
from fuel_async.plan.overwrites import overwritten
from fuel_async.testing import Case, graphs
from tests.plan.support import listing, table, target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.plan import Target

HOST = target()


def lowered(build: Callable[[fa.Graph], object], to: Target = HOST) -> list[str]:
    graph = fa.Graph("g")
    build(graph)
    return listing(lower(graph.freeze(), to))


def frozen(build: Callable[[fa.Graph], object]) -> FrozenGraph:
    graph = fa.Graph("g")
    build(graph)
    return graph.freeze()


# --- views ---


def test_views_vanish_into_layouts() -> None:
    def build(g: fa.Graph) -> None:
        x, y = g.input("x", (4, 6)), g.input("y", (3, 4))
        g.output("z", x.mT[::-2] + y)

    assert lowered(build) == ["add(f0', f1) -> o0"]
    rows = lower(frozen(build), HOST)
    (view, _, _) = rows.slots[0]
    assert rows.layouts[view] == Layout((3, 4), (-2, 6), 5)
    assert rows.bases[view] == next(i for i, cls in enumerate(rows.classes) if cls == SlotClass.FEED)


def test_a_view_of_a_view_shows_the_bytes_at_the_bottom() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (2, 3)).exp()
        g.output("y", x.reshape((3, 2)).mT.expand_dims(0)[:, 1:] * 2.0)

    assert lowered(build) == ["exp(f0) -> t0", "mul(t0', c0) -> o0"]


def test_a_reshape_that_no_view_can_show_is_a_copy() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (4, 6))
        g.output("y", x.mT.reshape((-1,)).exp())

    assert lowered(build) == ["copy(f0') -> t0", "exp(t0') -> o0"]


def test_a_reshape_of_row_major_values_is_no_copy() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (4, 6))
        g.output("y", x.reshape((2, 2, 6)).exp().reshape((-1,)) * 2.0)

    assert lowered(build) == ["exp(f0') -> t0", "mul(t0', c0) -> o0"]


def test_contiguize_copies_what_is_strided_and_nothing_else() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (4, 6))
        g.output("y", x.contiguous().exp())
        g.output("z", x.mT.contiguous().exp())

    assert lowered(build) == ["exp(f0') -> o0", "copy(f0') -> t0", "exp(t0') -> o1"]


def test_an_error_of_a_view_names_the_users_line() -> None:
    def fail(*_: object) -> Layout:
        raise ShapeMismatch("expand_dims", "as told")

    graph = frozen(lambda g: g.output("y", g.input("x", (3,)).expand_dims(0) + 1.0))
    ops = [replace(op, view=fail) if op.name == "expand_dims" else op for op in graph.ops]
    with pytest.raises(ShapeMismatch) as caught:
        lower(replace(graph, ops=ops), HOST)
    (note,) = caught.value.__notes__
    assert "expand_dims" in note
    assert "test_lower.py" in note


# --- what a caller receives ---


def test_a_kernel_writes_straight_into_the_output_it_computes() -> None:
    def build(g: fa.Graph) -> None:
        y = g.input("x", (3,)) + 1.0
        g.output("y", y)
        g.output("z", y * y)

    assert lowered(build) == ["add(f0, c0) -> o0", "mul(o0, o0) -> o1"]


def test_outputs_that_no_kernel_computes_are_copies() -> None:
    """an input, a constant, a view of each, a view of a value"""

    def build(g: fa.Graph) -> None:
        x, c = g.input("x", (2, 3)), g.constant(np.ones((2, 3), np.float32))
        y = x.exp()
        for name, value in {"x": x, "c": c, "xt": x.mT, "ct": c.mT, "yt": y.mT}.items():
            g.output(name, value)

    assert lowered(build) == [
        "exp(f0) -> t0",
        "copy(f0) -> o0",
        "copy(c0) -> o1",
        "copy(f0') -> o2",
        "copy(c0') -> o3",
        "copy(t0') -> o4",
    ]


def test_one_value_under_two_names_is_two_arrays() -> None:
    def build(g: fa.Graph) -> None:
        y = g.input("x", (3,)).exp()
        g.output("a", y)
        g.output("b", y)

    assert lowered(build) == ["exp(f0) -> t0", "copy(t0) -> o0", "copy(t0) -> o1"]


def test_an_output_and_a_view_of_it_are_two_arrays() -> None:
    def build(g: fa.Graph) -> None:
        y = g.input("x", (3,)).exp()
        g.output("a", y)
        g.output("b", y[1:])

    assert lowered(build) == ["exp(f0) -> o0", "copy(o0') -> o1"]


@given(graphs())
@settings(max_examples=30)
def test_every_output_has_bytes_of_its_own_which_one_row_writes(case: Case) -> None:
    graph = case.graph.freeze().bind(case.sizes)
    rows = lower(graph, HOST)
    written = Counter(slots[-1] for slots in rows.slots)
    assert set(written.values()) <= {1}
    owned = [slot for slot, cls in enumerate(rows.classes) if cls == SlotClass.OUTPUT and rows.bases[slot] == slot]
    assert sorted(rows.places[slot] for slot in owned) == list(range(len(graph.outputs)))
    for slot, node in zip(sorted(owned, key=rows.places.__getitem__), graph.outputs.values(), strict=True):
        assert written[slot] == 1
        assert rows.types[slot] is graph.types[node]
        assert rows.layouts[slot] is None


@given(graphs())
@settings(max_examples=30)
def test_rows_read_what_was_written_before_and_say_so(case: Case) -> None:
    rows = lower(case.graph.freeze().bind(case.sizes), HOST)
    written: dict[int, int] = {}
    for row, (*inputs, output) in enumerate(rows.slots):
        bases = {rows.bases[slot] for slot in inputs}
        given = {b for b in bases if rows.classes[b] in (SlotClass.FEED, SlotClass.CONSTANT)}
        producers = {written[base] for base in bases - given}
        assert len(set(rows.preds[row])) == len(rows.preds[row])
        waits = set(rows.preds[row]) - producers  # for readers of what it writes over
        assert producers | waits == set(rows.preds[row])
        assert not waits or overwritten(rows, row) in bases
        written[output] = row
        assert rows.calls[row].arity == len(inputs)
        for slot in inputs:
            assert rows.classes[slot] == rows.classes[rows.bases[slot]]


# --- kernels that take less ---


def dense_only(op: OpKind, dtypes: object, entry: BindingEntry) -> BindingEntry:
    return entry if op is OpKind.Copy else replace(entry, caps=KernelCaps())


def test_a_kernel_that_reads_no_strides_is_given_copies() -> None:
    """of a transposed view; not of a row-major one"""

    def build(g: fa.Graph) -> None:
        x, y = g.input("x", (4, 6)), g.input("y", (3, 8))
        g.output("z", x.mT + y.reshape((6, 4)))

    assert lowered(build, target(table(dense_only))) == ["copy(f0') -> t0", "add(t0, f1') -> o0"]


def test_a_row_major_view_that_starts_further_on_is_copied_for_such_a_kernel() -> None:
    """it expects its first element at the first byte"""

    def build(g: fa.Graph) -> None:
        g.output("y", g.input("x", (4, 6))[2:].exp())

    assert lowered(build, target(table(dense_only))) == ["copy(f0') -> t0", "exp(t0) -> o0"]


def test_a_view_that_such_kernels_read_again_and_again_is_copied_once() -> None:
    def build(g: fa.Graph) -> None:
        t = g.input("x", (4, 6)).mT
        g.output("y", t.exp() + t)

    assert lowered(build, target(table(dense_only))) == ["copy(f0') -> t0", "exp(t0) -> t1", "add(t1, t0) -> o0"]


# --- choosing kernels ---


def test_a_node_without_a_kernel_names_the_line_that_built_it() -> None:
    def build(g: fa.Graph) -> None:
        g.output("y", g.input("x", (3,)).exp())

    without = table(lambda op, dtypes, entry: None if op is OpKind.ExpElementwise else entry)
    with pytest.raises(NoBackendForOp) as caught:
        lowered(build, target(without))
    (note,) = caught.value.__notes__
    assert "exp" in note
    assert f"test_lower.py:{build.__code__.co_firstlineno + 1}" in note
    assert caught.value.dtypes == ("F32", "F32")


def test_the_first_kernel_that_meets_the_precision_floor_is_taken() -> None:
    rough, fine, finer = (PrecisionGuarantee(max_ulp=ulp, notes=f"{ulp}") for ulp in (9, 3, 1))
    both = _siblings(rough, fine, finer)
    floor = PrecisionGuarantee(max_ulp=4, notes="as told")
    assert _exp_kernel(target(both)) == "9"
    assert _exp_kernel(target(both, precision=floor)) == "3"
    with pytest.raises(GraphError, match="precision floor") as caught:
        _exp_kernel(target(_siblings(rough), precision=floor))
    assert any("exp" in note for note in caught.value.__notes__)


def test_a_kernel_with_a_baked_broadcast_is_passed_over_whatever_its_precision() -> None:
    rough, fine = (PrecisionGuarantee(max_ulp=ulp, notes=f"{ulp}") for ulp in (9, 1))
    floor = PrecisionGuarantee(max_ulp=4, notes="as told")
    with pytest.raises(GraphError, match="precision floor"):
        _exp_kernel(target(_siblings(rough, fine, broadcast=1), precision=floor))


def _siblings(*guarantees: PrecisionGuarantee, broadcast: int = -1) -> fa.dispatch.KernelBindingTable:
    """A table with one exp kernel for each guarantee, in order; the copies are exact."""
    made = table(lambda op, dtypes, entry: None if op is OpKind.ExpElementwise else entry).copy()
    for number, precision in enumerate(guarantees):

        def kernel(*_: object, precision: PrecisionGuarantee = precision) -> None:
            raise AssertionError(precision)

        caps = KernelCaps(strided_input=True, requires_broadcast=number == broadcast)
        made.register(
            OpKind.ExpElementwise, (DType.F32, DType.F32), CPU_DEVICE.backend, kernel, caps=caps, precision=precision
        )
    return made.finalize()


def _exp_kernel(to: Target) -> str:
    graph = fa.Graph("g")
    graph.output("y", graph.input("x", (3,)).exp())
    (call,) = lower(graph.freeze(), to).calls
    with pytest.raises(AssertionError) as caught:
        call.kernel((), (), (), OpParams.NONE)
    return str(caught.value.args[0].notes)


def test_equal_calls_are_resolved_once() -> None:
    """same op, parameters and operand types: one object; another type or parameter: another"""
    priced: list[tuple[object, ...]] = []

    def counted(op: OpKind, dtypes: object, entry: BindingEntry) -> BindingEntry:
        def cost(shapes: Sequence[tuple[int, ...]], *rest: object) -> fa.ir.CostEstimate:
            priced.append((op, *shapes))
            return entry.cost(shapes, *rest)  # type: ignore[arg-type]

        return replace(entry, cost=cost)

    g = fa.Graph("g")
    x, z = g.input("x", (4,)), g.input("z", (5,))
    a, b = x.exp().exp(), z.exp()
    g.output("a", a.sum(axis=0) + b.sum(axis=0))
    g.output("b", a.sum(axis=0, keepdims=True) + x.sum(axis=0))
    rows = lower(g.freeze(), target(table(counted)))
    assert len(priced) == len({id(call) for call in rows.calls})
    assert Counter(kind for kind, *_ in priced) == {
        OpKind.ExpElementwise: 2, OpKind.SumReduce: 3, OpKind.AddElementwise: 2,
    }  # fmt: skip


def test_limits_that_differ_in_the_sign_of_zero_are_two_calls() -> None:
    """0.0 == -0.0, but clamp(-1) shows which of them it was given"""
    g = fa.Graph("g")
    x = g.input("x", (4,))
    g.output("a", x.clip(0.0, 1.0))
    g.output("b", x.clip(-0.0, 1.0))
    rows = lower(g.freeze(), HOST)
    assert [np.signbit(call.params.min) for call in rows.calls] == [False, True]  # type: ignore[attr-defined]


# --- feeds and outputs that many rows touch ---


@pytest.mark.parametrize(("readers", "copied"), [(COPIED_FEED_READERS, 0), (COPIED_FEED_READERS + 1, 1)])
@pytest.mark.parametrize("through_view", [False, True])
def test_a_small_feed_that_many_rows_read_is_copied_once(readers: int, copied: int, through_view: bool) -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (3, 3))
        read = x.mT if through_view else x
        y = g.input("y", (3, 3))
        for _ in range(readers):
            y = y + read
        g.output("z", y)

    found = lowered(build)
    assert sum(line.startswith("copy") for line in found) == copied
    assert sum("f0" in line for line in found) == (copied or readers)


def test_a_large_feed_is_read_where_it_is_by_any_number_of_rows() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (COPIED_FEED_NBYTES // 4 + 1,))
        y = x
        for _ in range(3 * COPIED_FEED_READERS):
            y = y + x
        g.output("z", y)

    assert not any(line.startswith("copy") for line in lowered(build))


@pytest.mark.parametrize(("readers", "copied"), [(COPIED_OUTPUT_READERS, 0), (COPIED_OUTPUT_READERS + 1, 1)])
@pytest.mark.parametrize("through_view", [False, True])
def test_an_output_that_many_rows_read_is_copied_at_the_end(readers: int, copied: int, through_view: bool) -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (3, 3)).exp()
        read = x.mT if through_view else x
        g.output("x", x)
        y = g.input("y", (3, 3))
        for _ in range(readers):
            y = y + read
        g.output("z", y)

    found = lowered(build)
    assert sum(line.startswith("copy") for line in found) == copied
    assert found[0].endswith("-> t0" if copied else "-> o0")


# --- size ---


def test_many_outputs_cost_no_more_each_than_few() -> None:
    """each is looked at once: 20,000 of them in the time of a few passes over the graph"""
    looked: list[object] = []

    class Counting(dict[str, int]):
        def values(self):  # type: ignore[no-untyped-def]
            looked.append(None)
            return super().values()

    g = fa.Graph("g")
    x = g.input("x", (1,))
    for number in range(2_000):
        g.output(f"y{number}", x + x)
    graph = g.freeze()
    lower(replace(graph, outputs=Counting(graph.outputs)), HOST)
    assert len(looked) <= 4


def test_it_breathes_at_least_every_64_nodes() -> None:
    g = fa.Graph("g")
    y = g.input("x", (1,))
    for _ in range(6_400):
        y = y + y
    g.output("y", y)
    breaths: list[None] = []
    lower(g.freeze(), HOST, lambda: breaths.append(None))
    assert len(breaths) >= 6_400 // 64 + 6_400 // _SLICE
