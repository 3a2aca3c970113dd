"""The hazards of ops that write over their operand, each beside the algorithm that falls into it.

They are those of the original executor (§13.1 of the dispatch page). Its algorithms stand here in small: storages are
numpy arrays, and a destructive op always writes into the storage of its operand. Each test first shows that they give
wrong values, or none, and then that every way of running the graph here gives the right ones.

Hazard 2, an arm of a branch that is chosen without its exit being put in the place of arm 0's, cannot happen: graphs
have no alternative arms.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.ir import Form, FrozenGraph
from fuel_async.storage import as_array
from fuel_async.testing import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Values = Mapping[str, Array]

X = np.array([1, -2, 3, -4], np.float32)


# --- every way of running a graph ---


async def _run(g: fa.Graph, feeds: Values, **options: Any) -> list[Values]:
    async with fa.Executor(**options) as ex:
        return [await ex.run(g, feeds) for _ in range(4)]


async def _walk(g: fa.Graph, feeds: Values) -> list[Values]:
    async with fa.Executor() as ex:
        realized = await fa.PipelinedExecutor(ex).realize_many(g, list(g.outputs), feeds)
        return [{name: as_array(*one) for name, one in zip(g.outputs, realized, strict=True)}]


def _simulated(g: fa.Graph, feeds: Values) -> list[Values]:
    found: list[Values] = []

    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec(), SimDeviceSpec(lanes=2)], clock=clock)
        found.extend(await _run(g, feeds, devices=list(machine.devices)))

    run_virtual(main, clock=VirtualClock())
    return found


def check_everywhere(g: fa.Graph, feeds: Values, expected: Mapping[str, Any]) -> None:
    """On lanes and in place, over two lanes, over two simulated devices, and walked: these values, feeds untouched."""
    before = {name: value.copy() for name, value in feeds.items()}
    ways: list[list[Values]] = [
        asyncio.run(_run(g, feeds)),
        asyncio.run(_run(g, feeds, host_lanes=2)),
        asyncio.run(_walk(g, feeds)),
        _simulated(g, feeds),
    ]
    for found in (values for way in ways for values in way):
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], np.array(value, np.float32), err_msg=name)
    for name, value in before.items():
        assert feeds[name].tobytes() == value.tobytes()


@pytest.fixture(autouse=True)
def _many_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of one or two kernels, so that the order is one between lanes and devices."""
    monkeypatch.setattr("fuel_async.plan.regions.HEAVY_NS", 400)
    monkeypatch.setattr("fuel_async.plan.regions.LONGEST_NS", 1_200)
    monkeypatch.setattr("fuel_async.schedule.shape.FINE_KERNEL_NS", 0)


# --- the original's algorithms, in small ---


def topological(graph: FrozenGraph) -> list[int]:
    """§2.4: depth first from the roots, the last root and the last operand explored first; in post-order."""
    order: list[int] = []
    seen: set[int] = set()
    stack: list[tuple[int, bool]] = [(root, False) for root in graph.outputs.values()]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(arg, False) for arg in graph.args[node]]
    return order


def derived_edges(graph: FrozenGraph) -> set[tuple[int, int]]:
    """§2.5: from every reader of a member of the alias set of what is destroyed, to the op that destroys it."""
    edges: set[tuple[int, int]] = set()
    for node, op in enumerate(graph.ops):
        if op.destroys is None:
            continue
        aliases = {graph.args[node][0]}
        for other, view in enumerate(graph.ops):
            if view.form is Form.VIEW and graph.args[other][0] in aliases:
                aliases.add(other)
        edges |= {
            (reader, node)
            for reader, args in enumerate(graph.args)
            if reader != node and reader not in aliases and not aliases.isdisjoint(args)
        }
    return edges


def execution_plan(graph: FrozenGraph, edges: set[tuple[int, int]]) -> list[int]:
    """§2.6: Kahn over operands and edges, ties by place in the topological order; a cycle is a panic."""
    place = {node: at for at, node in enumerate(topological(graph))}
    needs = {node: {*graph.args[node], *[reader for reader, over in edges if over == node]} for node in place}
    order: list[int] = []
    while needs:
        ready = [node for node, missing in needs.items() if missing <= {*order}]
        if not ready:
            raise RuntimeError("panic: ordering cycle")
        order.append(min(ready, key=place.__getitem__))
        del needs[order[-1]]
    return order


#: What an op makes of its operands; a destructive one is told apart by its name.
COMPUTE: dict[str, Callable[..., Array]] = {
    "add": np.add, "mul": np.multiply, "step": lambda x: (x > 0).astype(x.dtype), "exp": np.exp,
    "relu": lambda x: np.maximum(x, 0), "neg": np.negative,
}  # fmt: skip


def original(graph: FrozenGraph, order: Sequence[int], feeds: Values) -> dict[str, Array]:
    """Run in that order; a destructive op writes into the storage of its operand, whoever else has it."""
    names = {node: name for name, node in graph.inputs.items()}
    storages: dict[int, Array] = {}
    for node in order:
        name, args = graph.ops[node].name, graph.args[node]
        kind: tuple[int, ...] = graph.types[node].shape  # type: ignore[assignment]  # concrete
        if node in names:
            storages[node] = feeds[names[node]].copy()
        elif node in graph.constants:
            storages[node] = graph.constants[node].copy()
        elif name == "slice":
            (start,), (step,) = graph.attrs[node]  # type: ignore[misc]
            storages[node] = storages[args[0]][start : start + step * kind[0] : step]
        elif graph.ops[node].form is Form.VIEW:
            storages[node] = storages[args[0]].reshape(kind)
        elif name.endswith("_inplace"):
            storages[node] = storages[args[0]]
            storages[node][...] = COMPUTE[name.removesuffix("_inplace")](storages[args[0]])
        else:
            storages[node] = COMPUTE[name](*[storages[arg] for arg in args])
    return {name: storages[node].copy() for name, node in graph.outputs.items()}


# --- hazard 1 ---


def test_hazard_1_the_order_is_lost_where_only_operands_are_followed() -> None:
    """step(x) and neg_inplace(x): the order of operands alone puts the op that destroys x before the one that reads
    it.
    """
    g = fa.Graph()
    t = g.input("x", (4,)) * 1
    step = g.node(fa.ir.BY_NAME["step"], (t,))
    over = t.neg_inplace()
    g.output("step", step)
    g.output("over", over + 0)
    graph, feeds = g.freeze(), {"x": X}
    names = [graph.ops[node].name for node in topological(graph)]
    assert names.index("neg_inplace") < names.index("step")
    wrong = original(graph, topological(graph), feeds)
    assert wrong["step"].tolist() == [0, 1, 0, 1]
    right = original(graph, execution_plan(graph, derived_edges(graph)), feeds)
    assert right["step"].tolist() == [1, 0, 1, 0]
    check_everywhere(g, feeds, {"step": [1, 0, 1, 0], "over": -X})


def test_hazard_1_over_regions_that_could_run_beside_each_other() -> None:
    """Many readers, built before and after the op, through views and not."""
    g = fa.Graph()
    t = g.input("x", (4,)) * 1
    early = t.exp()
    over = t.relu_inplace()
    late, seen = t + over.sum() * 0, t.reshape((2, 2))[1] + 0
    g.output("early", early)
    g.output("late", late)
    g.output("seen", seen)
    g.output("over", over + 0)
    check_everywhere(g, {"x": X}, {"early": np.exp(X), "late": X, "seen": X[2:], "over": [1, 0, 3, 0]})


# --- hazard 4 ---


def test_hazard_4_the_other_operands_of_an_op_in_place_may_be_strided() -> None:
    """The original hands a write into a slice the storage of its source as it lies, whatever the layout says."""
    dest, source = np.zeros((4, 3), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    raw = dest.copy()
    raw[1:3] = source.reshape(-1).reshape(2, 3)  # the bytes of the storage, not of the transposed view
    right = dest.copy()
    right[1:3] = source.T
    assert raw.tolist() != right.tolist()
    g = fa.Graph()
    g.output("y", (g.input("dest", (4, 3)) + 0).write_slice((g.input("source", (3, 2)) + 0).T, (1, 0)) + 0)
    check_everywhere(g, {"dest": dest, "source": source}, {"y": right})


def test_hazard_4_a_contiguous_view_of_a_longer_storage_is_not_all_of_it() -> None:
    """`contiguize` of x[:2] is row-major from byte 0 and adopts the storage of x: in place would be all of x."""
    g = fa.Graph()
    t = g.input("x", (4,)) * 1
    g.output("front", t[:2].contiguous().relu_inplace() + 0)
    g.output("rest", t[2:].neg_inplace() + 0)
    storage = X.copy()  # what the original adopts, and writes over from one end to the other
    np.maximum(storage, 0, out=storage)
    assert storage[2:].tolist() != X[2:].tolist()
    check_everywhere(g, {"x": X}, {"front": [1, 0], "rest": -X[2:]})


def test_hazard_4_views_with_negative_strides_are_written_as_they_are_seen() -> None:
    g = fa.Graph()
    t = g.input("x", (4,)) * 1
    g.output("y", t.flip().relu_inplace() + 0)
    g.output("z", t[::2].write_slice(t[3:0:-2], (0,)) + 0)
    check_everywhere(g, {"x": X}, {"y": [0, 3, 0, 1], "z": [-4, -2]})


def test_hazard_4_a_conflict_through_a_view_ends_in_no_panic() -> None:
    """A reader of a view of x that depends on the op that destroys x: the original puts in copies for direct readers
    only, and then its order has a cycle.
    """
    g = fa.Graph()
    t = g.input("x", (4,)) * 1
    seen = t[2:4]
    over = t.relu_inplace()
    g.output("y", seen + over[0:2])
    graph = g.freeze()
    with pytest.raises(RuntimeError, match="panic: ordering cycle"):
        execution_plan(graph, derived_edges(graph))
    assert original(graph, topological(graph), {"x": X})["y"].tolist() != [4, -4]
    check_everywhere(g, {"x": X}, {"y": [4, -4]})


def test_hazard_4_two_ops_that_each_wait_for_the_other_end_in_no_panic() -> None:
    g = fa.Graph()
    x = g.input("x", (4,))
    a, b = x * 1, x * 2
    over_a, over_b = a.relu_inplace(), b.neg_inplace()
    g.output("p", a[0:4] + over_b)
    g.output("q", b[0:4] + over_a)
    graph = g.freeze()
    with pytest.raises(RuntimeError, match="panic: ordering cycle"):
        execution_plan(graph, derived_edges(graph))
    check_everywhere(g, {"x": X}, {"p": X - 2 * X, "q": 2 * X + np.maximum(X, 0)})
