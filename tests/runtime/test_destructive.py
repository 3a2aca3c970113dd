"""Ops that may write over their operand: values, identity of storages in the walker, poison, and random graphs.

The cases of the conformance list (§14, "Destructive") carry its numbers. A destination there is a constant; here what
is fed or held is never written over, so it is a copy of one.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import fuel_async as fa
from fuel_async.dispatch import KernelCaps, OpParams
from fuel_async.errors import FeedError, KernelFailed, StorageBusy, StoragePoisoned
from fuel_async.ir import BackendId, Layout, OpKind
from fuel_async.plan import regions
from fuel_async.registry import bindings, bump_topology_generation, extend_global_bindings, global_bindings
from fuel_async.runtime import PipelinedExecutor
from fuel_async.runtime import engine as engine_module
from fuel_async.storage import Storage, as_array, from_array, write_storage
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.destroying import DESTROYING
from tests.conftest import loop_factories
from tests.runtime.test_oracle import Rigged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuel_async.dispatch import KernelBindingTable

one_loop = pytest.mark.asyncio(loop_factories=["default"])

#: Every second op may write over its operand.
OPS = (*DESTROYING, "add", "mul", "exp", "slice", "reshape", "permute", "contiguize", "concat", "matmul", "sum") * 2


@pytest.fixture
async def walker() -> Any:
    async with fa.Executor() as ex:
        yield PipelinedExecutor(ex)


async def walked(walker: PipelinedExecutor, g: fa.Graph, *targets: fa.Tensor, **feeds: Any) -> list[Any]:
    realized = await walker.realize_many(g, list(targets), feeds)
    return [np.array(as_array(*one)).tolist() for one in realized]


def own(g: fa.Graph, values: Any, dtype: Any = np.float32) -> fa.Tensor:
    """A value that the run makes: it may be written over."""
    return g.constant(np.array(values, dtype)) * 1


async def storages(walker: PipelinedExecutor, g: fa.Graph, *nodes: fa.Tensor) -> list[Storage]:
    """The storages of nodes, each looked at when it has just been placed, while the walk goes on."""
    targets = [node.index for node in nodes[-1:]]
    walk, lane = await walker.begin(g.snapshot(), targets, {})
    found: dict[int, Storage] = {}
    place = walk._place

    def watch(node: int, storage: Storage, layout: Layout) -> None:
        found[node] = storage
        place(node, storage, layout)

    walk._place = watch  # type: ignore[method-assign]
    async for _ in walk.handles(lane):
        pass
    assert len(walk.graph) == len(g), "numbers differ: something is not needed"
    return [found[node.index] for node in nodes]


# --- the conformance list ---


@one_loop
async def test_write_slice_into_zeros_at_row_2_gives_the_object_of_the_destination(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    dest = fa.zeros(g, (4, 3, 2)) + 0
    source = g.constant(np.arange(1, 7, dtype=np.float32).reshape(1, 3, 2))
    written = dest.write_slice(source, (2, 0, 0))
    expected = np.zeros((4, 3, 2))
    expected[2] = np.arange(1, 7).reshape(3, 2)
    assert await walked(walker, g, written) == [expected.tolist()]
    before, after = await storages(walker, g, dest, written)
    assert after is before


@one_loop
async def test_a_dynamic_offset_of_3_and_a_width_of_2_in_6(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    offset = g.input("offset", (), fa.i64)
    written = own(g, [0] * 6).write_slice_at(g.constant([7.0, 8.0]), offset)
    g.output("y", written)
    assert await walked(walker, g, written, offset=np.array(3)) == [[0, 0, 0, 7, 8, 0]]
    assert await walked(walker, g, written, offset=np.array(4)) == [[0, 0, 0, 0, 7, 8]]


@one_loop
@pytest.mark.parametrize("wrong", [5, -1, 2**40])
async def test_an_offset_outside_is_an_error_before_anything_is_written(walker: PipelinedExecutor, wrong: int) -> None:
    g = fa.Graph()
    offset = g.input("offset", (), fa.i64)
    g.output("y", own(g, [0] * 6).write_slice_at(g.constant([7.0, 8.0]), offset))
    with pytest.raises(KernelFailed, match=rf"write_slice_doff: .*offset along axis 0.* {wrong}.*from 0 to 4"):
        await walker.realize(g, "y", {"offset": np.array(wrong)})
    async with fa.Executor() as ex:
        with pytest.raises(KernelFailed, match="from 0 to 4"):
            await ex.run(g, offset=np.array(wrong))
        assert (await ex.run(g, offset=np.array(0)))["y"].tolist() == [7, 8, 0, 0, 0, 0]


@one_loop
async def test_an_offset_that_is_not_given_is_an_error() -> None:
    g = fa.Graph()
    g.output("y", own(g, [0] * 6).write_slice_at(g.constant([7.0]), g.input("offset", (), fa.i64)))
    async with fa.Executor() as ex:
        with pytest.raises(FeedError, match="offset"):
            await ex.run(g)


@one_loop
async def test_a_ring_is_written_round_its_end(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    position = g.input("position", (), fa.u32)
    ring = own(g, [0] * 6).write_slice_rotating(g.constant([1.0, 2.0, 3.0]), position, modulus=4)
    for place, expected in ((0, [1, 2, 3, 0, 0, 0]), (3, [2, 3, 0, 1, 0, 0]), (6, [3, 0, 1, 2, 0, 0])):
        assert await walked(walker, g, ring, position=np.array(place, np.uint32)) == [expected]


@one_loop
async def test_step_and_sigmoid_in_place(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    x = own(g, [1, -2, 3, -4])
    over = x.sigmoid_inplace()
    step = g.node(fa.ir.BY_NAME["step"], (x,))
    assert (await walked(walker, g, step, over))[0] == [1, 0, 1, 0]
    assert (await walked(walker, g, over, step))[1] == [1, 0, 1, 0]


@one_loop
async def test_a_residual_of_relu_in_place_reads_the_old_value(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    x = own(g, [1, -2, 3, -4])
    over = x.relu_inplace()
    both = over + x
    assert await walked(walker, g, both) == [[2, -2, 6, -4]]
    before, after, _ = await storages(walker, g, x, over, both)
    assert after is not before  # the safety copy


@one_loop
async def test_relu_and_move_of_one_value(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, 2, 3, 4])
    moved = a.move("cpu:0")
    assert await walked(walker, g, a.relu() + moved) == [[2, 4, 6, 8]]


@one_loop
async def test_a_move_on_one_device_is_a_new_object_and_its_source_is_let_go(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, 2, 3, 4])
    moved = a.move("cpu:0")
    end = moved + 1
    before, after, _ = await storages(walker, g, a, moved, end)
    assert after is not before
    gone = weakref.ref(before)
    del before
    gc.collect()
    assert gone() is None
    # What is asked for is kept.
    (kept, _), (other, _) = await walker.realize_many(g, [a, moved])
    assert kept is not other
    assert as_array(kept, Layout.contiguous((4,))).tolist() == [1, 2, 3, 4]


@one_loop
async def test_a_release_happens_though_nobody_asks_for_it(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, 2, 3, 4])
    a.release()
    b = a.sin()
    walk, lane = await walker.begin(g.snapshot(), [b.index], {})
    assert [op.name for op in walk.graph.ops].count("release") == 1
    async for _ in walk.handles(lane):
        pass
    held = {walk.graph.ops[node].name: storage.nbytes for node, storage in walk._storages.items()}
    assert held["release"] == 0
    assert "mul" not in held
    assert walk.realized()[0][0].nbytes == 16


@one_loop
async def test_readers_of_a_buffer_that_is_written_twice_see_the_first_round(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    buffer = own(g, [0, 0])
    first = buffer.write_slice(g.constant([1.0, 2.0]), (0,))
    second = first.write_slice(g.constant([-3.0, -4.0]), (0,))
    sliced, reshaped = first[0:2].relu(), first.reshape((1, 2)).relu()
    found = await walked(walker, g, second, sliced, reshaped)
    assert found == [[-3, -4], [1, 2], [[1, 2]]]
    g.output("second", second)
    g.output("sliced", sliced)
    async with fa.Executor() as ex:
        for _ in range(3):
            results = await ex.run(g)
            assert results["sliced"].tolist() == [1, 2]
            assert results["second"].tolist() == [-3, -4]


# --- identity ---


@one_loop
async def test_the_result_is_the_operands_storage_along_a_chain(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, 2, 3, 4])
    chain = [a, a.exp_inplace()]
    chain.append(chain[-1].reshape((2, 2)))
    chain.append(chain[-1].log_inplace())
    chain.append(chain[-1].affine_inplace(2, 0))
    found = await storages(walker, g, *chain)
    assert all(storage is found[0] for storage in found)
    assert as_array(found[0], Layout.contiguous((4,))) == pytest.approx([2, 4, 6, 8])


@one_loop
async def test_readers_that_were_built_later_run_first_so_that_nothing_is_copied(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, -2, 3, -4])
    over = a.relu_inplace()
    late, seen = a.exp(), a.reshape((2, 2)).sin()
    both = over + late + seen.reshape((4,))
    before, after, _ = await storages(walker, g, a, over, both)
    assert after is before


@one_loop
async def test_what_is_given_held_or_asked_for_is_never_written_over(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    x, held = g.input("x", (4,)), g.constant(np.arange(4, dtype=np.float32))
    made = x + 1
    given = from_array(np.arange(4, dtype=np.float32))
    targets = [x.neg_inplace(), held.neg_inplace(), made.neg_inplace(), made]
    realized = await walker.realize_many(g, targets, {"x": given})
    arrays = [as_array(*one).tolist() for one in realized]
    assert arrays == [[0, -1, -2, -3], [0, -1, -2, -3], [-1, -2, -3, -4], [1, 2, 3, 4]]
    assert as_array(given, Layout.contiguous((4,))).tolist() == [0, 1, 2, 3]
    assert len({id(storage) for storage, _ in realized} | {id(given)}) == 5


@one_loop
async def test_a_part_of_a_value_is_not_written_where_it_lies(walker: PipelinedExecutor) -> None:
    """Neither a strided part nor one that begins where the whole begins."""
    g = fa.Graph()
    a = own(g, [1, -2, 3, -4])
    front = a[:2].relu_inplace()
    b = own(g, [1, -2, 3, -4])
    back = b[::-1].relu_inplace()
    both = front + back[:2]
    found = await storages(walker, g, a, front, b, back, both)
    assert found[0] is not found[1]
    assert found[2] is not found[3]
    assert await walked(walker, g, both) == [[1, 3]]


@one_loop
async def test_a_source_that_is_a_part_of_the_destination(walker: PipelinedExecutor) -> None:
    g = fa.Graph()
    a = own(g, [1, 2, 3, 4])
    assert await walked(walker, g, a.write_slice(a[:3], (1,))) == [[1, 1, 2, 3]]
    assert await walked(walker, g, a.write_slice(a, (0,))) == [[1, 2, 3, 4]]
    position = g.constant(np.array(1, np.uint32))
    assert await walked(walker, g, a.write_slice_rotating(a, position)) == [[4, 1, 2, 3]]


# --- poison ---


@pytest.fixture
def half_way() -> Iterator[list[Storage]]:
    """A kernel of `exp_inplace` on u8 that writes half of its output and dies; the storages that it was given."""
    seen: list[Storage] = []

    def kernel(inputs: Sequence[Storage], outputs: Sequence[Storage], layouts: Any, params: OpParams) -> None:
        seen.append(outputs[0])
        with write_storage(outputs[0]):
            as_array(outputs[0], layouts[-1])[:2] = 9
            raise ArithmeticError("half-way")

    def register(table: KernelBindingTable) -> None:
        caps = KernelCaps(strided_input=True, in_place=True)
        table.register(OpKind.NegInplace, (fa.u8, fa.u8), BackendId.CPU, kernel, caps=caps, kernel_source="half-way")

    before = bindings._BINDINGS.snapshot()
    extend_global_bindings(register)
    yield seen
    bindings._BINDINGS._table = before
    bump_topology_generation()


@one_loop
async def test_a_kernel_that_dies_half_way_poisons_what_it_wrote_over(
    walker: PipelinedExecutor, half_way: list[Storage]
) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.u8)
    value = x.take(g.constant(np.arange(4, dtype=np.uint32)))
    over = value.neg_inplace()
    fed = np.arange(4, dtype=np.uint8)
    with pytest.raises(KernelFailed, match="ArithmeticError: half-way"):
        await walker.realize(g, over, {"x": fed})
    (storage,) = half_way
    assert storage.is_poisoned
    assert fed.tolist() == [0, 1, 2, 3]
    with pytest.raises(StoragePoisoned), write_storage(storage):
        pass
    half_way.clear()
    with pytest.raises(KernelFailed):  # of an operand that must not be written over only the copy is poisoned
        await walker.realize(g, x.neg_inplace(), {"x": from_array(fed)})
    assert fed.tolist() == [0, 1, 2, 3]


def test_a_refusal_poisons_nothing() -> None:
    """An offset outside is found before anything is written."""
    kernel = global_bindings().lookup(OpKind.WriteSliceDoff, (fa.f32, fa.f32), BackendId.CPU)
    dest = from_array(np.zeros(4, np.float32))
    source, offset = from_array(np.ones(2, np.float32)), from_array(np.array([3]))
    whole, part, one = Layout.contiguous((4,)), Layout.contiguous((2,)), Layout.contiguous(())
    params = OpParams.WriteSliceDoff((4,), 0, ((0, 2),))
    with pytest.raises(fa.FuelError, match="from 0 to 2"):
        kernel([dest, source, offset], [dest], [whole, part, one, whole], params)
    assert not dest.is_poisoned
    assert as_array(dest, whole).tolist() == [0, 0, 0, 0]
    as_array(offset, one)[...] = 2
    kernel([dest, source, offset], [dest], [whole, part, one, whole], params)
    assert as_array(dest, whole).tolist() == [0, 0, 1, 1]
    with pytest.raises(StorageBusy):  # the source is the destination, seen differently
        kernel([dest, dest, offset], [dest], [whole, part, one, whole], params)


# --- random graphs ---


@pytest.fixture(params=["in place", "two lanes"])
def rigged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rigged]:
    """One executor; with two lanes every region is a kernel or two, and none runs in place."""
    options: dict[str, Any] = {}
    if request.param == "two lanes":
        monkeypatch.setattr(regions, "HEAVY_NS", 400)
        monkeypatch.setattr(regions, "LONGEST_NS", 1_200)
        monkeypatch.setattr(engine_module, "INLINE_NS", -1)
        monkeypatch.setattr("fuel_async.schedule.shape.FINE_KERNEL_NS", 0)
        options["host_lanes"] = 2
    one = Rigged(loop_factories()["default"], **options)
    yield one
    one.close()


COMMON = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@COMMON
@given(case=graphs(ops=OPS, max_steps=20))
def test_all_ways_agree(rigged: Rigged, case: Case) -> None:
    rigged.check(case, times=3)


@pytest.mark.parametrize("seed", range(4))
def test_larger_graphs_of_one_shape_agree(rigged: Rigged, seed: int) -> None:
    """Where values have one shape, most of them can be written over."""
    rigged.check(random_graph(seed, 250, ops=OPS, shape=(3, 4), window=6 + 12 * seed), times=2)


@one_loop
async def test_walks_of_random_graphs_do_write_over_operands(walker: PipelinedExecutor) -> None:
    """The tests above are worth something: most ops that may write over an operand of the walk's own do."""
    over = apart = 0
    for seed in range(4):
        case = random_graph(seed, 120, ops=OPS, shape=(3, 4), window=24)
        walk, lane = await walker.begin(case.graph.snapshot(), list(case.graph.snapshot().outputs.values()), case.feeds)
        may: Callable[..., bool] = walk._may_destroy
        answers: list[bool] = []

        def asked(*args: Any, may: Any = may, answers: list[bool] = answers) -> bool:
            answers.append(may(*args))
            return answers[-1]

        walk._may_destroy = asked  # type: ignore[method-assign,assignment]
        async for _ in walk.handles(lane):
            pass
        over, apart = over + sum(answers), apart + answers.count(False)
    assert over >= 40
    assert apart >= 10
