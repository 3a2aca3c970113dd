"""Program instances of the host and kernels of several outputs: what they bind, and what a run gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cpu.instance import HostInstance
from fuel_async.dispatch import KernelBindingTable
from fuel_async.ir import no_breath
from fuel_async.plan import make_plan
from fuel_async.storage import HostArena
from fuel_async.streams import History
from tests.extremes import FACES, compute, extremes, found, register
from tests.plan.support import table, target

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def bound(graph: fa.Graph, arena: HostArena | None = None) -> HostInstance:
    kernels = KernelBindingTable()
    for op, dtypes, backend, entry in table().iter_entries():
        kernels.register_entry(op, dtypes, backend, entry)
    register(kernels)
    (region,) = make_plan(graph.freeze(), target(kernels.finalize())).regions
    made = arena or HostArena(region.program.arena_nbytes)
    constants = list(region.program.graph.constants.values())
    return HostInstance(region.program, constants, made, History(1), no_breath)


def run(instance: HostInstance, *feeds: Array) -> list[Array]:
    slots = instance.program.slots
    kinds = {slots.places[slot]: slots.types[slot] for slot in range(len(slots)) if slots.classes[slot] == 3}
    outputs: list[Array] = [
        np.full(kinds[place].shape, 9, kinds[place].dtype.require_np())  # type: ignore[arg-type]  # concrete
        for place in sorted(kinds)
    ]
    instance.execute(feeds, outputs, (), (), None, None)
    return outputs


def rows(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("made", [False, True])
def test_each_run_writes_all_outputs(face: str, made: bool) -> None:
    """of what a run gives, and of what it makes itself"""
    g = fa.Graph()
    x = g.input("x", (5, 3))
    bundle = extremes(-x if made else x, face)
    for slot in range(3):
        g.output(f"y{slot}", bundle.owned(slot))
    instance = bound(g)
    for seed in range(3):
        value = rows(seed, 5, 3)
        for got, wanted in zip(run(instance, value), found(-value if made else value), strict=True):
            assert (got.dtype, got.tobytes()) == (wanted.dtype, wanted.tobytes())


def test_one_binding_serves_equal_rows() -> None:
    g = fa.Graph()
    x = g.input("x", (5, 3))
    first, second = extremes(-x), extremes(x.exp())
    g.output("first", first.owned(2))
    g.output("second", second.owned(2))
    instance = bound(g)
    calls = [
        (kernel, args) for chunk in instance._chunks for kernel, args in zip(chunk.kernels, chunk.args, strict=True)
    ]
    (one, one_args), (other, other_args) = [pair for pair in calls if pair[0] is compute]
    assert one is other
    outputs = [np.asarray(arg) for arg in (*one_args[1:], *other_args[1:])]
    assert [array.dtype for array in outputs[:3]] == [np.dtype("u1"), np.dtype("u4"), np.dtype("f8")]
    assert not any(np.shares_memory(a, b) for a in outputs[:3] for b in outputs[3:])
    value = rows(1, 5, 3)
    assert [got.tolist() for got in run(instance, value)] == [
        found(-value)[2].tolist(),
        found(np.exp(value))[2].tolist(),
    ]


def test_slots_lie_in_the_arena_one_after_the_other() -> None:
    g = fa.Graph()
    bundle = extremes(g.input("x", (5, 3)))
    g.output("y", bundle.slot(2) * 1.0)
    g.output("z", bundle.owned(1))
    instance = bound(g)
    (args,) = [
        args
        for chunk in instance._chunks
        for kernel, args in zip(chunk.kernels, chunk.args, strict=True)
        if kernel is compute
    ]
    starts = [np.asarray(arg).ctypes.data for arg in args[1:]]
    assert [start - starts[0] for start in starts] == [0, 16, 40]
    assert starts[0] % 256 == 0


def test_an_idle_instance_keeps_no_feed_of_a_bundle() -> None:
    g = fa.Graph()
    g.output("y", extremes(g.input("x", (5, 3))).owned(2))
    instance = bound(g)
    run(instance, rows(0, 5, 3))
    given = [arg is None for chunk in instance._chunks for args in chunk.args for arg in args]
    assert sum(given) == 2  # the feed and the output
