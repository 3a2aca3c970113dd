"""Frozen graphs: what stays and what goes, structural digests, snapshots, binding."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.errors import ShapeMismatch
from fuel_async.ir import DType, Graph, UnboundSymbol, freeze, symbol, verify
from fuel_async.ir.frozen import SLICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import FrozenGraph, Tensor


def names(frozen: FrozenGraph) -> list[str]:
    return [op.name for op in frozen.ops]


def built(change: Callable[[Graph, Tensor, Tensor], Tensor]) -> FrozenGraph:
    """A small graph of which one part is given."""
    graph = Graph()
    x, y = graph.input("x", ("n", 4)), graph.input("y", (4,))
    graph.output("z", change(graph, x, y).sum(0))
    return graph.freeze()


# --- what stays ---------------------------------------------------------------------------------------------


def test_dead_nodes_go_and_all_inputs_stay() -> None:
    graph = Graph()
    dead = graph.constant([1.0, 2.0]) * graph.input("unused", (2,))
    x = graph.input("x", (2,))
    dead.exp()
    kept = graph.constant([3.0, 4.0])
    graph.output("y", x - kept)
    frozen = graph.freeze()
    assert names(frozen) == ["input", "input", "constant", "sub"]
    assert frozen.inputs == {"unused": 0, "x": 1}
    assert [array.tolist() for array in frozen.constants.values()] == [[3.0, 4.0]]
    assert list(frozen.constants) == [2]
    assert frozen.args[3] == (1, 2)
    assert frozen.outputs == {"y": 3}
    assert frozen.line(3).startswith(__file__)
    verify(frozen)


def test_outputs_may_be_any_node_and_share_one() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    graph.output("input", x)
    graph.output("constant", graph.constant([1.0]))
    graph.output("view", x[::-1])
    graph.output("again", x)
    frozen = graph.freeze()
    assert frozen.outputs == {"input": 0, "constant": 1, "view": 2, "again": 0}


def test_truth_values_are_told_through_views() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    truth = x > 0
    outputs = {
        "truth": truth,
        "view": truth[0, ::-1].expand_dims(0),
        "copied": truth.reshape((3, 2)).contiguous(),
        "bytes": graph.input("u", (2,), DType.U8),
        "sum": truth + truth,
        "cast": truth.astype(DType.F32),
    }
    for name, tensor in outputs.items():
        graph.output(name, tensor)
    assert graph.freeze().boolean == {"truth", "view", "copied"}


def test_an_empty_graph_freezes() -> None:
    frozen = Graph("nothing").freeze()
    assert (len(frozen), frozen.symbols) == (0, ())
    verify(frozen)


def test_a_graph_is_frozen_once_for_each_state() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    graph.output("y", x)
    first = graph.freeze()
    assert graph.freeze() is first
    states = [graph.frozen]
    x.exp()
    states.append(graph.frozen)
    assert states == [first, None]
    second = graph.freeze()
    assert second is not first
    assert second.digest == first.digest
    graph.output("z", x)
    assert graph.freeze().digest != first.digest


# --- digests ------------------------------------------------------------------------------------------------


def test_equal_structure_gives_an_equal_digest() -> None:
    one = built(lambda graph, x, y: (x + y) * 2)
    other = built(lambda graph, x, y: (x + y) * 2)
    assert one.digest == other.digest
    assert len(one.digest) == 16


def test_the_values_of_constants_and_the_graphs_name_do_not_count() -> None:
    one, other = Graph("one"), Graph("other")
    for graph, value in ((one, 1.0), (other, 2.0)):
        graph.output("y", graph.input("x", (2,)) * graph.constant([value, value]))
    assert one.freeze().digest == other.freeze().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda graph, x, y: (y + x) * 2,
        lambda graph, x, y: (x - y) * 2,
        lambda graph, x, y: (x + y) * (x + y),
        lambda graph, x, y: (x + y) * 2 * 2,
        lambda graph, x, y: (x + y) * graph.constant([2.0] * 4),
        lambda graph, x, y: (x + x) * 2,
        lambda graph, x, y: (x + graph.input("more", (4,))) * 2,
    ],
)
def test_any_change_of_structure_gives_another_digest(change: Callable[[Graph, Tensor, Tensor], Tensor]) -> None:
    assert built(change).digest != built(lambda graph, x, y: (x + y) * 2).digest


def test_ports_types_and_parameters_count() -> None:
    def make(
        name: str = "x",
        shape: tuple[int | str, ...] = (2, 3),
        dtype: DType = DType.F32,
        axis: int = 0,
        eps: float = 1e-5,
        output: str = "y",
        twice: bool = False,
    ) -> bytes:
        graph = Graph()
        x = graph.input(name, shape, dtype)
        made = x.layer_norm(eps=eps).sum(axis, keepdims=True)
        graph.output(output, made)
        if twice:
            graph.output("more", x)
        return graph.freeze().digest

    digests = [
        make(),
        make(name="z"),
        make(shape=(3, 3)),
        make(shape=("n", 3)),
        make(shape=("m", 3)),
        make(dtype=DType.F64),
        make(axis=1),
        make(eps=1e-6),
        make(output="z"),
        make(twice=True),
    ]
    assert len(set(digests)) == len(digests)
    assert make() == digests[0]


def test_parameters_of_equal_numbers_but_another_class_count() -> None:
    assert built(lambda graph, x, y: x.flip(0)).digest != built(lambda graph, x, y: x.flip(1)).digest
    permuted = built(lambda graph, x, y: x.permute_dims((0, 1)))
    flipped = built(lambda graph, x, y: x.flip((0, 1)))
    assert permuted.attrs[2] == flipped.attrs[2]  # named tuples of equal numbers are equal
    assert permuted.digest != flipped.digest


def test_dead_nodes_do_not_count_even_across_slices() -> None:
    def chain(*, dead: bool) -> bytes:
        graph = Graph()
        x = graph.input("x", (2,))
        for step in range(SLICE + 100):
            x = x.exp() if step % 3 else x[::-1]
            if dead and step < 300:
                x.sin()
        graph.output("y", x)
        return graph.freeze().digest

    assert chain(dead=False) == chain(dead=True)


# --- snapshots ----------------------------------------------------------------------------------------------


def test_a_snapshot_freezes_what_was_there() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    graph.output("y", x + 1)
    snapshot = graph.snapshot()
    graph.output("z", graph.input("more", (2,)) * 3)
    before, after = freeze(snapshot), graph.freeze()
    assert (list(before.outputs), list(before.inputs), len(before.constants)) == (["y"], ["x"], 1)
    assert list(after.outputs) == ["y", "z"]
    graph.adopt_frozen(before, snapshot)
    assert graph.freeze() is after


def test_what_another_thread_froze_is_adopted_if_nothing_changed() -> None:
    graph = Graph()
    graph.output("y", graph.input("x", (2,)).exp())
    snapshot = graph.snapshot()
    frozen = freeze(snapshot)
    graph.adopt_frozen(frozen, snapshot)
    assert graph.frozen is frozen


def test_building_goes_on_while_another_thread_freezes() -> None:
    graph = Graph()
    x = graph.input("x", (2,))
    for _ in range(3 * SLICE):
        x = x + 1.5
    graph.output("y", x)
    snapshot = graph.snapshot()
    frozen: list[FrozenGraph] = []
    expected = freeze(snapshot).digest
    started = threading.Event()

    def work() -> None:
        frozen.append(freeze(snapshot, started.set))

    worker = threading.Thread(target=work)
    worker.start()
    started.wait(5)
    for _ in range(SLICE):
        x = x.exp()
    worker.join()
    assert frozen[0].digest == expected
    assert len(frozen[0]) == snapshot.count


def test_long_work_breathes() -> None:
    graph = Graph()
    x = graph.input("x", ("n",))
    for _ in range(4 * SLICE):
        x = x.exp()
    graph.output("y", x)
    breaths: list[None] = []

    def breathe() -> None:
        breaths.append(None)

    frozen = graph.freeze(breathe)
    assert len(breaths) >= 2 * 4
    breaths.clear()
    frozen.bind({"n": 2}, breathe)
    assert len(breaths) >= 2 * 4


# --- binding ------------------------------------------------------------------------------------------------


def test_binding_gives_concrete_types() -> None:
    graph = Graph()
    x = graph.input("x", ("n", 3))
    graph.output("y", x[1:].reshape((-1,)) * 2)
    frozen = graph.freeze()
    assert frozen.symbols == ("n",)
    bound = frozen.bind({"n": 4})
    assert bound.symbols == ()
    assert [str(kind) for kind in bound.types] == ["f32[4, 3]", "f32[3, 3]", "f32[9]", "f32[]", "f32[9]"]
    assert [kind.nbytes for kind in bound.types] == [48, 36, 36, 4, 36]
    assert bound.types[2] is bound.types[4]
    assert bound.bind({"n": 5}) is bound
    assert frozen.types[0].nbytes == -1
    verify(bound)


def test_the_digest_follows_the_sizes_that_matter() -> None:
    frozen = built(lambda graph, x, y: x)
    four = frozen.bind({"n": 4})
    assert four.digest == frozen.bind({"n": 4, "other": 1}).digest
    assert len({frozen.digest, four.digest, frozen.bind({"n": 5}).digest}) == 3


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(UnboundSymbol, match="'n' has no value"):
        built(lambda graph, x, y: x).bind({"m": 1})


def test_symbols_of_dead_nodes_are_not_asked_for() -> None:
    graph = Graph()
    x = graph.input("x", (4,))
    x[: symbol("k")].exp()
    graph.output("y", x)
    assert graph.freeze().symbols == ()


def test_sizes_that_make_a_node_illegal_are_refused_there() -> None:
    graph = Graph()
    x = graph.input("x", ("n", 3))
    graph.output("y", x[2:].max(0))
    frozen = graph.freeze()
    assert frozen.bind({"n": 3}).types[-1].shape == (3,)
    with pytest.raises(ShapeMismatch, match=r"node %2 max\(.*test_frozen\.py:\d+: there is no max of nothing"):
        frozen.bind({"n": 2})
    with pytest.raises(ShapeMismatch, match=r"node %1 slice\(.*: has a negative dimension in \(-1, 3\)"):
        frozen.bind({"n": 1})


def test_a_graph_of_fixed_shapes_is_its_own_binding() -> None:
    graph = Graph()
    graph.output("y", graph.constant(np.ones(3)) * 2)
    frozen = graph.freeze()
    assert frozen.bind({"n": 3}) is frozen
