"""Ops with several outputs at run time: every way of running gives the same bits, and who shares bytes with whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import KernelCaps
from fuel_async.errors import BundleMisuse, KernelFailed
from fuel_async.ir import (
    BY_NAME,
    BackendId,
    Layout,
    OpKind,
    SelectiveScan,
    promote_views_for_liveness,
    selective_scan,
)
from fuel_async.registry import global_bindings
from fuel_async.runtime.compiled import dispatched_kernel_ident
from fuel_async.storage import as_array
from tests.extremes import FACES, OPS, extremes, found, register
from tests.runtime.support import TestKernel, published

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fuel_async.dispatch import KernelBindingTable
    from fuel_async.ir import Bundle

    Array = NDArray[Any]

SCAN = BY_NAME["selective_scan"]


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    with published(register):
        yield


def rows(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def scan_of_one_step(g: fa.Graph) -> tuple[Bundle, dict[str, Any]]:
    """u = 3, delta = 1, a = -1, b = 2, c = 0.5"""
    feeds: dict[str, Any] = {"u": [[[3]]], "delta": [[[1]]], "a": [[-1]], "b": [[[2]]], "c": [[[0.5]]]}
    operands = [g.input(name, np.shape(value)) for name, value in feeds.items()]
    return g.bundle(SCAN, operands, SelectiveScan(False)), feeds


async def walked(ex: fa.Executor, g: fa.Graph, **feeds: Any) -> dict[str, Array]:
    walk = ex.walk(g, **feeds)
    async for _ in walk:
        pass
    return walk.results


async def every_way(ex: fa.Executor, g: fa.Graph, **feeds: Any) -> dict[str, Array]:
    """The outputs, which are the same on lanes, in place, and kernel by kernel."""
    wanted = await walked(ex, g, **feeds)
    for _ in range(4):
        got = await ex.run(g, feeds)
        assert {name: array.tobytes() for name, array in got.items()} == {
            name: array.tobytes() for name, array in wanted.items()
        }
        assert {name: array.dtype for name, array in got.items()} == {n: array.dtype for n, array in wanted.items()}
    return wanted


# --- values ---


@pytest.mark.parametrize("face", FACES)
async def test_outputs_of_several_dtypes(ex: fa.Executor, face: str) -> None:
    g = fa.Graph()
    x = g.input("x", (5, 3))
    for number, (name, source) in enumerate({"fed": x, "made": x.exp(), "turned": x.T}.items()):
        made = extremes(source, face)
        for slot in range(3):
            g.output(f"{name} {slot}", made.slot(slot))
            g.output(f"{name} {slot} owned", made.owned(slot))
        g.output(f"{name} read", made.slot(2) * 2.0 if number else made.slot(2).exp())
        g.output(f"{name} view", made.slot(0)[..., 1:].flip(0))
    value = rows(5, 3)
    got = await every_way(ex, g, x=value)
    for name, given in {"fed": value, "turned": value.T}.items():
        for slot, wanted in enumerate(found(given)):
            assert got[f"{name} {slot}"].tolist() == got[f"{name} {slot} owned"].tolist() == wanted.tolist()
    assert got["turned view"].tolist() == np.flip(found(value.T)[0][..., 1:], 0).tolist()
    np.testing.assert_array_equal(got["turned read"], found(value.T)[2] * 2)


async def test_kernels_that_read_no_strides_are_given_slots_row_major(ex: fa.Executor) -> None:
    """the second op reads f32 that lies behind other dtypes in the bundle of the first"""
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    value = made.slot(2).astype(fa.f32).expand_dims(0)
    for face in ("plain", "anew"):
        g.output(face, extremes(value, face).slot(1))
    u, delta, a, b, c = (g.input(name, shape) for name, shape in SHAPES.items())
    state = selective_scan(u, delta, a, b, c).last_state
    for face in FACES:
        g.output(f"state {face}", extremes(state, face).slot(2))
    feeds = {name: rows(*shape) for name, shape in SHAPES.items()}
    got = await every_way(ex, g, x=rows(5, 3), **feeds)
    assert got["plain"].tolist() == [found(rows(5, 3))[2].argmax()]
    assert got["state bound"].tolist() == got["state plain"].tolist() == got["state anew"].tolist()


async def test_a_kernel_is_given_storages_of_the_dtype_it_reads(ex: fa.Executor) -> None:
    """one that reads strides, and knows nothing of bundles"""
    double = TestKernel(lambda x, out: np.add(x, x, out))

    def more(table: KernelBindingTable) -> None:
        caps = KernelCaps(strided_input=True)
        table.register(OpKind.SqrElementwise, (fa.u32, fa.u32), BackendId.CPU, double, caps=caps, cost=double.cost)

    with published(more):
        g = fa.Graph()
        made = extremes(g.input("x", (5, 3)))
        g.output("place", made.slot(1).square())
        g.output("turned", made.slot(1).flip().square())
        got = await every_way(ex, g, x=rows(5, 3))
    place = found(rows(5, 3))[1]
    assert got["place"].tolist() == (2 * place).tolist()
    assert got["turned"].tolist() == (2 * place[::-1]).tolist()


SHAPES = {"u": (2, 3, 4), "delta": (2, 3, 4), "a": (4, 5), "b": (2, 3, 5), "c": (2, 3, 5)}


async def test_sizes_may_come_with_the_feeds(ex: fa.Executor) -> None:
    g = fa.Graph()
    made = extremes(g.input("x", ("n", 3)))
    g.output("where", made.slot(0))
    g.output("value", made.owned(2))
    for count in (5, 1, 0, 2):
        got = await every_way(ex, g, x=rows(count, 3))
        assert got["where"].tolist() == found(rows(count, 3))[0].tolist()
        assert got["value"].tolist() == found(rows(count, 3))[2].tolist()


async def test_outputs_may_stay_on_the_device(ex: fa.Executor) -> None:
    g = fa.Graph()
    g.output("value", extremes(g.input("x", (5, 3))).slot(2))
    kept = await ex.run(g, {"x": rows(5, 3)}, on_device=True)
    assert kept["value"].numpy().tolist() == found(rows(5, 3))[2].tolist()


async def test_copies_for_liveness_change_no_value(ex: fa.Executor) -> None:
    g = fa.Graph()
    y, last = selective_scan(*[g.input(name, shape) for name, shape in SHAPES.items()])
    g.output("early", y.sum())
    g.output("late", last.exp().sin() * last)
    promoted = promote_views_for_liveness(g.freeze())
    assert promoted is not g.freeze()
    again = fa.ir.from_text(fa.ir.to_text(promoted))
    feeds = {name: rows(*shape) for name, shape in SHAPES.items()}
    first, second = await every_way(ex, g, **feeds), await every_way(ex, again, **feeds)
    assert {name: value.tobytes() for name, value in first.items()} == {
        name: value.tobytes() for name, value in second.items()
    }


# --- identity ---


async def test_selective_scan_gives_two_views_of_one_storage(ex: fa.Executor) -> None:
    """both views share one storage; that of slot 1 starts at element 1"""
    g = fa.Graph()
    made, feeds = scan_of_one_step(g)
    walker = fa.PipelinedExecutor(ex)
    (y, y_layout), (last, last_layout) = await walker.realize_many(g, made.slots(), feeds)
    assert (as_array(y, y_layout).item(), as_array(last, last_layout).item()) == (3, 6)
    assert y is last
    assert last_layout == Layout((1, 1, 1), (1, 1, 1), 1)
    assert [view.offset for view in y.bundle or ()] == [0, 4]


async def test_views_of_a_slot_share_its_storage_and_copies_do_not(ex: fa.Executor) -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    targets = [made.slot(1), made.slot(1), made.slot(0)[1:], made.slot(2).reshape((5, 1)), made.owned(1), made.owned(1)]
    targets.append(made.slot(1).to("cpu:0"))
    realized = await fa.PipelinedExecutor(ex).realize_many(g, targets, {"x": rows(5, 3)})
    storages = [storage for storage, _ in realized]
    assert all(storage is storages[0] for storage in storages[:4])
    assert len({id(storage) for storage in storages}) == 4
    where, place, value = found(rows(5, 3))
    dtypes = [fa.u32, fa.u32, fa.u8, fa.f64, fa.u32, fa.u32, fa.u32]
    arrays = [as_array(*one, dtype) for one, dtype in zip(realized, dtypes, strict=True)]
    wanted = [place, place, where[1:], value.reshape(5, 1), place, place, place]
    assert [array.tolist() for array in arrays] == [array.tolist() for array in wanted]
    assert [storage.bundle is None for storage in storages] == [False] * 4 + [True] * 3
    assert all(storage.dtype is fa.u32 for storage in storages[4:])


async def test_a_bundle_is_no_target(ex: fa.Executor) -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    walker = fa.PipelinedExecutor(ex)
    by_handle: Any = made
    with pytest.raises(BundleMisuse, match="a bundle is no tensor; take its outputs"):
        await walker.realize(g, by_handle, {"x": rows(5, 3)})
    with pytest.raises(BundleMisuse, match=rf"%{made.index} gives several outputs; ask for slots of it"):
        await walker.realize(g, made.index, {"x": rows(5, 3)})


# --- writing over ---


async def test_a_slot_is_not_written_over_while_the_bundle_is_read(ex: fa.Executor) -> None:
    """neither under a view of the same slot nor under another slot, before and after"""
    g = fa.Graph()
    y, last = selective_scan(*[g.input(name, shape) for name, shape in SHAPES.items()])
    before = y.sum() + last.sum()
    over = y.exp_inplace()
    state = last.neg_inplace()
    g.output("before", before)
    g.output("over", over * 1.0)
    g.output("state", state * 1.0)
    g.output("after", (y * 2.0) + 0.0)
    g.output("after state", (last * 2.0) + over.sum())
    feeds = {name: rows(*shape) * 0.5 for name, shape in SHAPES.items()}
    got = await every_way(ex, g, **feeds)
    np.testing.assert_array_equal(got["over"], np.exp(got["after"] / 2))
    np.testing.assert_allclose(got["after state"], -2 * got["state"] + got["over"].sum(), rtol=1e-5)


async def test_an_owned_slot_is_written_over_where_it_lies(ex: fa.Executor) -> None:
    g = fa.Graph()
    made, feeds = scan_of_one_step(g)
    owned = made.owned(0)
    walker = fa.PipelinedExecutor(ex)
    (over, layout), (y, y_layout) = await walker.realize_many(g, [owned.neg_inplace(), made.slot(0)], feeds)
    assert (as_array(over, layout).item(), as_array(y, y_layout).item()) == (-3, 3)
    assert over is not y


async def test_a_released_slot_leaves_the_others(ex: fa.Executor) -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    made.slot(0).release()
    g.output("value", made.slot(2))
    got = await every_way(ex, g, x=rows(5, 3))
    assert got["value"].tolist() == found(rows(5, 3))[2].tolist()


# --- the rest ---


async def test_a_failing_kernel_names_the_node_with_all_outputs(ex: fa.Executor) -> None:
    g = fa.Graph()
    g.output("place", extremes(g.input("x", (2, 0))).slot(1))  # the largest of nothing
    for run in (ex.run(g, {"x": rows(2, 0)}), walked(ex, g, x=rows(2, 0))):
        with pytest.raises(
            KernelFailed, match=r"extremes_bound\(%0 f32\[2, 0\]\) -> \(u8\[2, 0\], u32\[2\], f64\[2\]\)"
        ):
            await run


def test_the_kernel_of_a_copied_slot_is_that_of_its_dtype() -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    g.output("value", made.owned(2))
    frozen = g.freeze()
    ident = dispatched_kernel_ident(frozen, frozen.outputs["value"], global_bindings())
    entry = global_bindings().lookup_entry(OpKind.Copy, (fa.f64, fa.f64), BackendId.CPU)
    assert ident == (entry.kernel_source, entry.kernel_revision_hash)
    bundle = next(node for node, op in enumerate(frozen.ops) if op is OPS["bound"])
    assert dispatched_kernel_ident(frozen, bundle, global_bindings()) == ("test", 0)


async def test_a_run_is_explained(ex: fa.Executor) -> None:
    g = fa.Graph()
    made = extremes(g.input("x", (5, 3)))
    g.output("value", made.slot(2) + 1.0)
    assert "1 ssd_chunk_scan, 1 add" in str(ex.explain(g))
