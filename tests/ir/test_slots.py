"""Ops with several outputs in graphs: how they are built, frozen, bound, written as text, ordered, and misused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings

import fuel_async as fa
from fuel_async.errors import BundleMisuse, DTypeMismatch, GraphError, GraphIllegal, GraphTextError, ShapeMismatch
from fuel_async.ir import (
    BY_NAME,
    Bundle,
    BundleType,
    DType,
    Form,
    Graph,
    OutputView,
    SelectiveScan,
    Tensor,
    bundle_type,
    derive_ordering,
    from_text,
    promote_views_for_liveness,
    selective_scan,
    to_text,
    verify,
)
from fuel_async.ir.ops.bundle import Slot
from fuel_async.ir.ordering import roots_of
from fuel_async.testing import Case, graphs
from fuel_async.testing.scanning import SCANNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import FrozenGraph

F32, F64 = DType.F32, DType.F64
SCAN, VIEW_SLOT, VIEW_OWNED = (BY_NAME[name] for name in ("selective_scan", "view_slot", "view_owned"))


def operands(g: Graph, batch: Any = 2, length: Any = 3, dtype: DType = F32) -> tuple[Tensor, ...]:
    """u, delta, a, b, c with 4 channels of 5 states"""
    shapes = {"u": (batch, length, 4), "delta": (batch, length, 4), "a": (4, 5)}
    shapes |= {"b": (batch, length, 5), "c": (batch, length, 5)}
    return tuple([g.input(f"{name}{len(g)}", shape, dtype) for name, shape in shapes.items()])


def scanned(g: Graph, batch: Any = 2) -> Bundle:
    return g.bundle(SCAN, operands(g, batch), SelectiveScan(False))


def small(batch: Any = "n") -> FrozenGraph:
    """%0-%4 operands  %5 scan  %6 y  %7 last state  %8 copy of the state"""
    g = Graph()
    made = scanned(g, batch)
    y, last = made.slots()
    g.output("y", y)
    g.output("last", last)
    g.output("copy", made.owned(1))
    return g.freeze()


# --- building and freezing ------------------------------------------------------------------------------------


def test_the_outputs_are_tensors_of_their_own_types() -> None:
    g = Graph()
    y, last_state = result = selective_scan(*operands(g))
    assert result.y is y
    assert [str(t.type) for t in (y, last_state)] == ["f32[2, 3, 4]", "f32[2, 4, 5]"]
    assert [op.name for op in g.snapshot().ops[5:]] == ["selective_scan", "view_slot", "view_slot"]


def test_a_bundle_says_what_it_is() -> None:
    g = Graph()
    made = scanned(g)
    assert (len(made), repr(made)) == (2, "<Bundle %5 selective_scan (f32[2, 3, 4], f32[2, 4, 5])>")
    assert [t.type for t in made.slots()] == [made.slot(0).type, made.slot(1).type]
    assert made.owned(1).type is made.slot(1).type


def test_mixed_dtypes_are_cast() -> None:
    g = Graph()
    u, delta, a, b, c = operands(g)
    assert selective_scan(u, delta.astype(F64), a, b, c).last_state.dtype is F64


def test_a_frozen_graph_keeps_where_the_outputs_lie() -> None:
    frozen = small(2)
    assert frozen.bundles == {5: (OutputView(F32, (2, 3, 4), 0), OutputView(F32, (2, 4, 5), 96))}
    kind = frozen.types[5]
    assert isinstance(kind, BundleType)
    assert kind.views is frozen.bundles[5]
    assert (kind.shape, kind.dtype) == (frozen.bundles[5][0].shape, frozen.bundles[5][0].dtype)
    verify(frozen)


def test_dropped_nodes_shift_bundles_and_drop_their_own() -> None:
    g = Graph()
    scanned(g)  # nobody asks for it
    made = scanned(g)
    g.output("last", made.slot(1))
    frozen = g.freeze()
    assert [frozen.ops[node] for node in frozen.bundles] == [SCAN]
    assert frozen.ops.count(SCAN) == 1
    verify(frozen)


def test_binding_places_the_outputs() -> None:
    symbolic = small()
    assert [view.offset for view in symbolic.bundles[5]] == [-1, -1]
    verify(symbolic)
    bound = symbolic.bind({"n": 3})
    verify(bound)
    assert [view.offset for view in bound.bundles[5]] == [0, 144]
    assert bound.types[7] is bound.types[8]
    assert bound.digest not in (symbolic.digest, symbolic.bind({"n": 2}).digest)


def test_which_output_is_taken_is_a_part_of_the_structure() -> None:
    digests = set()
    for take in (Bundle.slot, Bundle.owned):
        for slot in (0, 1):
            g = Graph()
            g.output("y", take(scanned(g), slot))
            digests.add(g.freeze().digest)
    assert len(digests) == 4


def test_what_a_kernel_reads_of_a_bundle_is_the_slot() -> None:
    frozen = small(2)
    assert frozen.operand_types(8) == [frozen.types[8]]
    assert frozen.operand_types(5) == frozen.types[:5]


# --- text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [2, "n"])
def test_text_states_all_types_and_reads_back(batch: Any) -> None:
    text = to_text(small(batch))
    types = f"(f32[{batch}, 3, 4], f32[{batch}, 4, 5])"
    assert f"%5 = selective_scan %0 %1 %2 %3 %4 delta_softplus=false : {types}\n" in text
    assert f"%8 = view_owned %5 slot=1 : f32[{batch}, 4, 5]\n" in text
    back = from_text(text)
    assert to_text(back) == text
    assert back.freeze().digest == small(batch).digest
    assert back.freeze().bundles == small(batch).bundles


def test_text_of_a_pinned_scan_reads_back() -> None:
    g = Graph()
    with g.on("cpu:0"):
        made = scanned(g)
        g.output("copy", made.owned(0))
        g.output("view", made.slot(0))
    text = to_text(g)
    assert "delta_softplus=false @cpu:0 : (f32" in text
    assert to_text(from_text(text)) == text
    assert set(g.freeze().pins) == {5, 6}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (": (f32[2, 3, 4], f32[2, 4, 5])", ": (f32[2, 3, 4], f32[2, 4, 6])", "the type is (f32[2, 3, 4], f32[2, 4, 5]"),
        (": (f32[2, 3, 4], f32[2, 4, 5])", ": (f32[2, 3, 4])", "the type is (f32[2, 3, 4], f32[2, 4, 5])"),
        (": (f32[2, 3, 4], f32[2, 4, 5])", ": f32[2, 3, 4]", "gives several outputs"),
        ("view_slot %5 slot=0", "view_slot %5 slot=2", "slot 2 is out of range"),
        ("view_slot %5 slot=0", "view_slot %0 slot=0", "wanted a bundle"),
        ("view_slot %5 slot=0 : f32[2, 3, 4]", "neg %5 : f32[2, 3, 4]", "a bundle is no tensor"),
        ("view_slot %5 slot=0 : f32[2, 3, 4]", "neg %0 : (f32[2, 3, 4], f32[1])", "gives one output"),
        ('output "y" = %6', 'output "y" = %5', "a bundle is no tensor"),
    ],
)
def test_text_that_misuses_a_bundle_is_refused(old: str, new: str, found: str) -> None:
    text = to_text(small(2))
    assert old in text
    with pytest.raises(GraphTextError) as refused:
        from_text(text.replace(old, new))
    assert found in str(refused.value)


@settings(max_examples=30)
@given(graphs(ops=tuple(SCANNING), max_steps=5))
def test_random_graphs_are_legal_and_read_back(case: Case) -> None:
    frozen = case.graph.freeze()
    verify(frozen)
    verify(frozen.bind(case.sizes))
    text = to_text(case.graph)
    assert to_text(from_text(text)) == text
    assert from_text(text).freeze().digest == frozen.digest


# --- misuse ---------------------------------------------------------------------------------------------------

#: Each with what the error says.
MISUSES: list[tuple[Callable[[Graph, Bundle, Any], object], str]] = [
    (lambda g, b, x: g.output("y", cast("Any", b)), "output of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no tensor"),
    (lambda g, b, x: x + b, "add"),
    (lambda g, b, x: x @ b, "matmul of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no tensor"),
    (lambda g, b, x: fa.concat([x, cast("Any", b)]), "concat"),
    (lambda g, b, x: g.node(BY_NAME["neg"], (b,)), "neg of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no tensor"),
    (lambda g, b, x: g.node(BY_NAME["copy"], (b,)), "copy of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no tensor"),
    (lambda g, b, x: g.node(BY_NAME["move"], (b,)), "move of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no tensor"),
    (lambda g, b, x: g.node(BY_NAME["release"], (b,)), "release of (f32[2, 3, 4], f32[2, 4, 5]): a bundle is no"),
    (lambda g, b, x: g.bundle(SCAN, (x, x, x, x, cast("Any", b)), SelectiveScan(False)), "selective_scan of (f32[2, "),
    (lambda g, b, x: g.node(VIEW_OWNED, (x,), Slot(0)), "view_owned of f32[2, 3, 4]: wanted a bundle"),
    (lambda g, b, x: g.node(VIEW_SLOT, (x,), Slot(0)), "view_slot of f32[2, 3, 4]: wanted a bundle"),
    (lambda g, b, x: b.slot(2), "view_slot of (f32[2, 3, 4], f32[2, 4, 5]): slot 2 is out of range"),
    (lambda g, b, x: b.slot(-1), "view_slot of (f32[2, 3, 4], f32[2, 4, 5]): slot -1 is out of range"),
    (lambda g, b, x: b.owned(2), "view_owned of (f32[2, 3, 4], f32[2, 4, 5]): slot 2 is out of range"),
    (lambda g, b, x: g.node(SCAN, (x,) * 5, SelectiveScan(False)), "selective_scan of f32[2, 3, 4]"),
    (lambda g, b, x: g.bundle(BY_NAME["neg"], (x,)), "neg of f32[2, 3, 4]: gives one output"),
]  # fmt: skip


@pytest.mark.parametrize(("misuse", "text"), MISUSES, ids=range(len(MISUSES)))
def test_a_bundle_is_nothing_but_its_slots(misuse: Callable[[Graph, Bundle, Any], object], text: str) -> None:
    g = Graph()
    made = scanned(g)
    x: Any = g.input("x", (2, 3, 4))
    before = len(g)
    with pytest.raises(GraphError) as refused:
        misuse(g, made, x)
    assert str(refused.value).startswith(text)
    assert isinstance(refused.value, BundleMisuse) or text in ("add", "concat")
    assert len(g) == before


def test_a_bundle_has_no_methods_of_a_tensor() -> None:
    made: Any = scanned(Graph())
    for name in ("to", "astype", "reshape", "__add__", "__getitem__", "shape", "dtype"):
        assert not hasattr(made, name)


def test_a_bundle_of_another_graph_is_refused() -> None:
    g, other = Graph(), Graph()
    with pytest.raises(BundleMisuse):
        g.node(VIEW_SLOT, (scanned(other),), Slot(0))


def test_a_bundle_is_no_constant() -> None:
    g = Graph()
    with pytest.raises(GraphError, match="has no value yet"):
        g.constant(scanned(g))


WRONG: list[tuple[dict[str, tuple[int, ...]], type[GraphError], str]] = [
    ({"u": (2, 3)}, ShapeMismatch, "wanted u of [batch, length, channels] and a of [channels, states]"),
    ({"a": (4,)}, ShapeMismatch, "wanted u of [batch, length, channels] and a of [channels, states]"),
    ({"delta": (2, 3, 5)}, ShapeMismatch, "wanted delta of shape (2, 3, 4)"),
    ({"a": (3, 5)}, ShapeMismatch, "wanted a of shape (4, 5)"),
    ({"b": (2, 3, 4)}, ShapeMismatch, "wanted b of shape (2, 3, 5)"),
    ({"c": (1, 3, 5)}, ShapeMismatch, "wanted c of shape (2, 3, 5)"),
]


@pytest.mark.parametrize(("changed", "error", "text"), WRONG)
def test_operands_that_do_not_belong_together(
    changed: dict[str, tuple[int, ...]], error: type[GraphError], text: str
) -> None:
    shapes: dict[str, tuple[int, ...]] = {"u": (2, 3, 4), "delta": (2, 3, 4), "a": (4, 5), "b": (2, 3, 5)}
    shapes = {**shapes, "c": (2, 3, 5), **changed}
    g = Graph()
    with pytest.raises(error) as refused:
        selective_scan(*[g.input(name, shape) for name, shape in shapes.items()])
    assert refused.value.op == "selective_scan"
    assert text in str(refused.value)


def test_dtypes_that_a_scan_refuses() -> None:
    g = Graph()
    u, delta, a, b, c = operands(g)
    with pytest.raises(DTypeMismatch, match="operands differ in dtype"):
        g.bundle(SCAN, (u, delta, a, b, c.astype(F64)), SelectiveScan(False))
    with pytest.raises(DTypeMismatch, match="wanted a floating dtype"):
        selective_scan(*operands(g, dtype=DType.I32))
    with pytest.raises(GraphError, match="delta_softplus as a bool, got 1"):
        selective_scan(u, delta, a, b, c, delta_softplus=1)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="takes 5 operands, got 2"):
        g.bundle(SCAN, (u, delta), SelectiveScan(False))
    with pytest.raises(GraphError, match="wanted hashable parameters"):
        g.bundle(SCAN, (u, delta, a, b, c), SelectiveScan(cast("Any", [])))
    with pytest.raises(GraphError, match="takes other parameters than None"):
        g.bundle(SCAN, (u, delta, a, b, c))


# --- the verifier ---------------------------------------------------------------------------------------------

LAW = "bundles are listed, and read by the ops that take a slot alone"
RESULTS, OUTPUTS = "result types follow from operands and parameters", "outputs exist and truth values are uint8"


def put(values: Any, place: int, value: object) -> list[Any]:
    return [value if index == place else old for index, old in enumerate(values)]


def retyped(g: FrozenGraph, kind: BundleType) -> FrozenGraph:
    return replace(g, types=put(g.types, 5, kind), bundles={5: kind.views})


def moved(g: FrozenGraph) -> FrozenGraph:
    kind = g.types[5]
    assert isinstance(kind, BundleType)
    return retyped(g, replace(kind, views=(kind.views[0], replace(kind.views[1], offset=100))))


BROKEN: list[tuple[str, int, Callable[[FrozenGraph], FrozenGraph]]] = [
    (LAW, 5, lambda g: replace(g, bundles={})),
    (LAW, 6, lambda g: replace(g, bundles={**g.bundles, 6: g.bundles[5]})),
    (LAW, 5, lambda g: replace(g, types=put(g.types, 5, g.types[6]))),
    (LAW, 5, lambda g: replace(g, bundles={5: g.bundles[5][:1]})),
    (LAW, 6, lambda g: replace(g, ops=put(g.ops, 6, BY_NAME["neg"]), attrs=put(g.attrs, 6, None))),
    (LAW, 6, lambda g: replace(g, args=put(g.args, 6, (0,)))),
    (RESULTS, 5, lambda g: retyped(g, bundle_type([g.types[6], g.types[6]]))),
    (RESULTS, 5, lambda g: retyped(g, bundle_type([g.types[6]]))),
    (RESULTS, 5, moved),
    (RESULTS, 7, lambda g: replace(g, attrs=put(g.attrs, 7, Slot(0)))),
    (OUTPUTS, 5, lambda g: replace(g, outputs={"y": 5})),
]


@pytest.mark.parametrize(("rule", "node", "breaks"), BROKEN, ids=range(len(BROKEN)))
def test_broken_bundles_name_node_and_rule(rule: str, node: int, breaks: Callable[[FrozenGraph], FrozenGraph]) -> None:
    for legal in (small(2), small()) if breaks is not moved else (small(2),):
        with pytest.raises(GraphIllegal) as caught:
            verify(breaks(legal))
        assert (caught.value.rule, caught.value.node) == (rule, node)


# --- order ----------------------------------------------------------------------------------------------------


def test_a_view_shows_the_bundle_and_a_copy_does_not() -> None:
    frozen = small(2)
    roots = roots_of(frozen)
    assert list(roots[5:]) == [5, 5, 5, 8]


def test_who_writes_over_a_slot_waits_for_readers_of_all_slots() -> None:
    """destroyed first, read later through the other slot: the bundle's bytes are one value"""
    g = Graph()
    y, last = scanned(g).slots()
    destroyed, read = y.exp_inplace(), last.sin()
    g.output("a", destroyed * 2.0)
    g.output("b", read * 2.0)
    frozen = g.freeze()
    (node,) = [node for node, op in enumerate(frozen.ops) if op.destroys is not None]
    (reader,) = [node for node, op in enumerate(frozen.ops) if op.name == "sin"]
    ordering = derive_ordering(frozen)
    assert ordering.before == {node: (reader,)}
    assert list(ordering.order).index(reader) < list(ordering.order).index(node)


def test_who_writes_over_a_copy_waits_for_nobody() -> None:
    g = Graph()
    made = scanned(g)
    g.output("a", made.owned(0).exp_inplace() * 2.0)
    g.output("b", made.slot(0).sin() * 2.0)
    ordering = derive_ordering(g.freeze())
    assert list(ordering.order) == list(range(len(g.freeze())))
    assert not any(ordering.before.values())


def test_a_slot_that_is_an_output_is_never_written_over() -> None:
    g = Graph()
    y, last = scanned(g).slots()
    g.output("last", last)
    g.output("a", y.exp_inplace())
    assert derive_ordering(g.freeze()).before == {}


# --- liveness -------------------------------------------------------------------------------------------------


def slots_taken(graph: FrozenGraph) -> list[tuple[str, int]]:
    return [
        (op.name, attrs[0])
        for op, attrs in zip(graph.ops, graph.attrs, strict=True)
        if op.takes_bundle and attrs is not None
    ]


def test_slots_that_outlive_the_first_to_die_are_copied() -> None:
    """y is done with after one kernel, the state after three"""
    g = Graph()
    y, last = scanned(g).slots()
    g.output("a", y.sum() + last.exp().sin().sum())
    g.output("late", (last.exp().sin().cos() * last) * 2.0)
    promoted = promote_views_for_liveness(g.freeze())
    verify(promoted)
    assert slots_taken(promoted) == [("view_slot", 0), ("view_owned", 1)]
    assert promoted.digest != g.freeze().digest
    assert promoted.digest == promote_views_for_liveness(g.freeze()).digest
    assert slots_taken(g.freeze()) == [("view_slot", 0), ("view_slot", 1)]
    assert promote_views_for_liveness(promoted) is promoted


def test_use_through_views_counts_and_so_do_all_views_of_a_slot() -> None:
    g = Graph()
    made = scanned(g)
    early, late, last = made.slot(0), made.slot(0), made.slot(1)
    g.output("a", early.sum() + 1.0)
    g.output(
        "b",
        late.mT.exp() @ last.exp().exp().sum().reshape((1, 1, 1)).broadcast_to((2, 3, 1)),
    )
    g.output("c", (last.sum() * 2.0).exp())
    promoted = promote_views_for_liveness(g.freeze())
    # The state is last read by exp and sum, at depth 3; `late` by exp behind a view, at depth 4.
    assert slots_taken(promoted) == [("view_owned", 0), ("view_owned", 0), ("view_slot", 1)]


def test_an_output_lives_longest() -> None:
    g = Graph()
    y, last = scanned(g).slots()
    g.output("y", y)
    g.output("a", last.exp().exp())
    assert slots_taken(promote_views_for_liveness(g.freeze())) == [("view_owned", 0), ("view_slot", 1)]


def test_slots_that_die_together_or_alone_remain_views() -> None:
    g = Graph()
    y, last = scanned(g).slots()
    g.output("a", y.sum() + last.sum())
    frozen = g.freeze()
    assert promote_views_for_liveness(frozen) is frozen
    alone = Graph()
    alone.output("y", scanned(alone).slot(1).exp())
    assert promote_views_for_liveness(alone.freeze()) is alone.freeze()
    none = Graph()
    none.output("y", none.input("x", (2,)).exp())
    assert promote_views_for_liveness(none.freeze()) is none.freeze()


def test_forms() -> None:
    assert (VIEW_SLOT.form, VIEW_OWNED.form, SCAN.form) == (Form.VIEW, Form.KERNEL, Form.KERNEL)
    assert SCAN.slots == ("y", "last_state")
