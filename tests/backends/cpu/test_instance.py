"""Program instances of the host: what they bind, what a run gives them, and what is left of it afterwards."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cpu.instance import CHUNK_NS, HOLDS_NS, HostInstance, stand_in
from fuel_async.dispatch import KernelCall, LaneProgram, OpParams, SlotClass, SlotTable
from fuel_async.errors import FuelError, InternalError, KernelFailed, Stopped
from fuel_async.ir import CostEstimate, DType, FrozenGraph, Layout, OpKind, TensorType, no_breath
from fuel_async.plan import make_plan
from fuel_async.storage import HostArena, Storage, as_array
from fuel_async.streams import History, StopFlag, without_frames
from tests.plan.support import target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Array = Any

HOST = target()


def planned(build: Callable[[fa.Graph], object], **rates: Any) -> LaneProgram:
    """The one program of a graph."""
    graph = fa.Graph("g")
    build(graph)
    (region,) = make_plan(graph.freeze(), target(**rates) if rates else HOST).regions
    return region.program


def bound(program: LaneProgram, arena: HostArena | None = None) -> HostInstance:
    constants = list(program.graph.constants.values())
    return HostInstance(program, constants, arena or HostArena(program.arena_nbytes), History(1), no_breath)


def run(instance: HostInstance, feeds: Sequence[Array] = (), outputs: Sequence[Array] = (), **given: Any) -> None:
    with np.errstate(all="ignore"):
        instance.execute(
            feeds,
            outputs,
            given.get("sessions", ()),
            given.get("scalars", ()),
            given.get("stop"),
            given.get("pace"),
        )


def floats(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


class Kernel:
    """A kernel with the members that a test gives it; as a plain callable it adds up its inputs."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __call__(
        self, inputs: Sequence[Storage], outputs: Sequence[Storage], layouts: Sequence[Layout], params: OpParams
    ) -> None:
        *arrays, out = [as_array(s, at) for s, at in zip((*inputs, *outputs), layouts, strict=True)]
        np.copyto(out, sum(arrays[1:], start=arrays[0]))


def with_kernel(program: LaneProgram, kernel: Callable[..., None], **changes: Any) -> LaneProgram:
    """The same program with another kernel behind every call."""
    calls: dict[int, KernelCall] = {}
    for call in program.calls:
        calls.setdefault(id(call), replace(call, kernel=kernel, **changes))
    return replace(program, calls=[calls[id(call)] for call in program.calls])


# --- what a run gives ---


def test_a_run_reads_its_feeds_and_writes_its_outputs() -> None:
    instance = bound(planned(lambda g: g.output("y", (g.input("x", (3, 4)) + 1.0) * g.input("z", (4,)))))
    for seed in range(3):
        x, z, y = floats(3, 4) + seed, floats(4), np.empty((3, 4), np.float32)
        run(instance, [x, z], [y])
        assert y.tobytes() == ((x + np.float32(1)) * z).tobytes()


@pytest.mark.parametrize("outcome", ["done", "failed", "stopped"])
def test_an_idle_instance_keeps_nothing_of_a_run(outcome: str) -> None:
    """neither the feeds nor views of them nor the outputs, whatever became of the run"""

    def build(g: fa.Graph) -> None:
        x, index = g.input("x", (4, 3)), g.input("index", (2,), fa.u32)
        g.output("y", x.mT.tanh() @ x)
        g.output("z", x.take(index))

    class Own(np.ndarray[Any, Any]):
        """An array that can be referred to weakly."""

    instance = bound(planned(build))
    stop = StopFlag()
    stop.stopped = outcome == "stopped"
    given = [floats(4, 3).view(Own), np.array([0, 9 if outcome == "failed" else 1], np.uint32).view(Own)]
    results = [np.empty((3, 3), np.float32).view(Own), np.empty((2, 3), np.float32).view(Own)]
    gone = [weakref.ref(array) for array in (*given, *results)]
    ended: type[BaseException] | None = None
    try:
        run(instance, given, results, stop=stop)
    except FuelError as error:
        ended = type(without_frames(error))
    assert ended is {"done": None, "failed": KernelFailed, "stopped": Stopped}[outcome]
    del given, results
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


def test_a_run_after_a_failed_one_is_whole() -> None:
    instance = bound(planned(lambda g: g.output("z", g.input("x", (4, 3)).take(g.input("index", (2,), fa.u32)) + 1.0)))
    x, z = floats(4, 3), np.empty((2, 3), np.float32)
    with pytest.raises(KernelFailed):
        run(instance, [x, np.array([0, 9], np.uint32)], [z])
    run(instance, [x, np.array([3, 1], np.uint32)], [z])
    assert z.tobytes() == (x[[3, 1]] + np.float32(1)).tobytes()


def test_feeds_are_read_through_the_views_that_the_graph_takes() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (4, 6))
        g.output("flipped", x[::-1, 1:6:2] * 2.0)
        g.output("spread", x[0].broadcast_to((3, 6)) + 0.5)
        g.output("product", x.mT @ x)

    x = floats(4, 6)
    results = [np.empty((4, 3), np.float32), np.empty((3, 6), np.float32), np.empty((6, 6), np.float32)]
    run(bound(planned(build)), [x], results)
    assert results[0].tobytes() == (x[::-1, 1:6:2] * np.float32(2)).tobytes()
    assert results[1].tobytes() == (np.broadcast_to(x[0], (3, 6)) + np.float32(0.5)).tobytes()
    assert np.allclose(results[2], x.T @ x)


def test_one_array_given_twice_is_two_operands() -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (5,))
        g.output("y", (x - x) + x * x)

    x, y = floats(5), np.empty(5, np.float32)
    run(bound(planned(build)), [x], [y])
    assert y.tobytes() == (x * x).tobytes()


def test_read_only_feeds_and_constants_are_read() -> None:
    x, y = floats(3), np.empty(3, np.float32)
    x.flags.writeable = False
    run(bound(planned(lambda g: g.output("y", g.input("x", (3,)) + g.constant(floats(3))[::-1]))), [x], [y])
    assert y.tobytes() == (x + floats(3)[::-1]).tobytes()


def test_values_without_elements() -> None:
    y, z = np.empty((0, 3), np.float32), np.empty((2, 4), np.float32)

    def build(g: fa.Graph) -> None:
        x = g.input("x", (3, 0))
        g.output("y", x.mT.exp() + 1.0)
        g.output("z", g.input("a", (2, 0)) @ g.input("b", (0, 4)))

    run(
        bound(planned(build)),
        [np.empty((3, 0), np.float32), np.empty((2, 0), np.float32), np.empty((0, 4), np.float32)],
        [y, z],
    )
    assert not z.any()


def test_truth_values_are_bytes() -> None:
    def build(g: fa.Graph) -> None:
        x, chosen = g.input("x", (3,)), g.input("chosen", (3,), fa.u8)
        g.output("positive", x > 0.0)
        g.output("y", fa.where(chosen, x, -x))

    x, chosen = np.array([1, -2, 3], np.float32), np.array([True, False, False])
    positive, y = np.empty(3, np.uint8), np.empty(3, np.float32)
    run(bound(planned(build)), [x, chosen.view(np.uint8)], [positive, y])
    assert positive.tolist() == [1, 0, 1]
    assert y.tolist() == [1, 2, -3]


def test_scalars_of_rank_zero() -> None:
    x, y = np.array(2.5, np.float32), np.empty((), np.float32)
    run(bound(planned(lambda g: g.output("y", g.input("x", ()).exp() + 1.0))), [x], [y])
    assert y == np.exp(np.float32(2.5)) + np.float32(1)


@pytest.mark.parametrize("dtype", [fa.bf16, fa.f16, fa.f64])
def test_other_float_types(dtype: DType) -> None:
    np_dtype = dtype.require_np()
    x, y = floats(3, 4).astype(np_dtype), np.empty((4, 2), np_dtype)
    run(bound(planned(lambda g: g.output("y", g.input("x", (3, 4), dtype).mT[:, ::2].tanh()))), [x], [y])
    assert np.allclose(y.astype(np.float64), np.tanh(x.astype(np.float64)).T[:, ::2], rtol=1e-2)


def test_a_wrong_number_of_arrays_is_refused() -> None:
    instance = bound(planned(lambda g: g.output("y", g.input("x", (3,)) + 1.0)))
    with pytest.raises(InternalError, match="2 arrays must be given"):
        run(instance, [floats(3)], [])


def test_a_join_of_very_many_operands() -> None:
    """more than a byte can count"""
    parts = [floats(2) + number for number in range(300)]
    y = np.empty(600, np.float32)
    run(bound(planned(lambda g: g.output("y", fa.concat([g.input(f"x{n}", (2,)) for n in range(300)])))), parts, [y])
    assert y.tobytes() == np.concatenate(parts).tobytes()


# --- arenas ---


def test_equal_calls_with_scratch_in_different_places_use_their_own() -> None:
    """silu needs working memory; the second one's lies elsewhere, since the first one's place is taken by then"""

    def build(g: fa.Graph) -> None:
        x = g.input("x", (64, 64))
        first = (x * 2.0).silu()
        kept = [first * float(n) for n in range(2, 6)]
        second = first.silu()
        for one in kept:
            second = second + one
        g.output("y", second)

    program = planned(build)
    scratch = {row[-1] for call, row in zip(program.calls, program.rows, strict=True) if call.scratch_nbytes}
    assert len({program.slots.places[slot] for slot in scratch}) == 2
    arena = HostArena(program.arena_nbytes)
    arena._buffer.fill(0xFF)
    x, y = floats(64, 64), np.empty((64, 64), np.float32)
    run(bound(program, arena), [x], [y])
    first = (wide := 2.0 * x.astype(np.float64)) / (1 + np.exp(-wide))
    assert np.allclose(y, first / (1 + np.exp(-first)) + 14 * first, rtol=1e-4, atol=1e-5)


def test_programs_of_one_plan_share_the_arrays_of_an_arena() -> None:
    program = planned(lambda g: g.output("y", (g.input("x", (8,)).exp() + g.constant(floats(8))).tanh()))
    arena = HostArena(program.arena_nbytes)
    bound(program, arena)
    known = dict(arena.arrays)
    bound(program, arena)
    assert known
    assert {slot: id(array) for slot, array in arena.arrays.items()} == {slot: id(a) for slot, a in known.items()}


def test_instances_over_different_arenas_do_not_meet() -> None:
    program = planned(lambda g: g.output("y", (g.input("x", (8,)).exp() + 1.0).tanh()))
    one, other = bound(program), bound(program)
    x, results = floats(8), [np.empty(8, np.float32) for _ in range(2)]
    run(one, [x], results[:1])
    run(other, [x + 1], results[1:])
    assert results[0].tobytes() != results[1].tobytes()


# --- kernels of others ---


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_a_plain_function_is_a_kernel(shape: tuple[int, ...]) -> None:
    """called with storages, layouts and parameters; temporaries, feeds, constants and outputs alike"""

    def build(g: fa.Graph) -> None:
        x = g.input("x", shape)
        g.output("y", (x + g.constant(np.full(shape, 2, np.float32))) + x)

    program = with_kernel(planned(build), Kernel().__call__)
    x, y = np.ones(shape, np.float32), np.empty(shape, np.float32)
    run(bound(program), [x], [y])
    assert np.array_equal(y, np.full(shape, 4, np.float32))


def test_a_plain_function_is_given_row_major_operands() -> None:
    """a strided view is copied for it, whatever it says of itself"""
    seen: list[tuple[Sequence[Layout], list[str]]] = []

    def kernel(
        inputs: Sequence[Storage], outputs: Sequence[Storage], layouts: Sequence[Layout], params: OpParams
    ) -> None:
        seen.append((layouts, [type(storage).__name__ for storage in (*inputs, *outputs)]))
        Kernel()(inputs, outputs, layouts, params)

    program = with_kernel(planned(lambda g: g.output("y", g.input("x", (2, 3)).mT + g.input("z", (3, 2)))), kernel)
    x, z, y = floats(2, 3), floats(3, 2), np.empty((3, 2), np.float32)
    run(bound(program), [x, z], [y])
    assert y.tobytes() == (x.T + z).tobytes()
    assert seen == [((Layout.contiguous((3, 2)),) * 3, ["Storage"] * 3)]


def test_a_kernel_that_can_be_called_with_arrays_is() -> None:
    program = with_kernel(planned(lambda g: g.output("y", (g.input("x", (3,)) + 1.0) + 2.0)), Kernel(direct=np.add))
    x, y = floats(3), np.empty(3, np.float32)
    instance = bound(program)
    run(instance, [x], [y])
    assert y.tobytes() == ((x + np.float32(1)) + np.float32(2)).tobytes()
    assert all(kernel is np.add for chunk in instance._chunks for kernel in chunk.kernels)


def test_a_binding_serves_all_equal_calls() -> None:
    binds: list[tuple[int, ...]] = []

    def bind(inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]) -> Any:
        binds.append(outputs[0].shape)
        return np.add, (*inputs, *outputs)

    def build(g: fa.Graph) -> None:
        y, z = g.input("x", (3,)), g.input("z", (4,))
        for _ in range(20):
            y, z = y + 1.0, z + 1.0
        g.output("y", y)
        g.output("z", z)

    program = with_kernel(planned(build), Kernel(bind=bind))
    x, z, results = floats(3), floats(4), [np.empty(3, np.float32), np.empty(4, np.float32)]
    run(bound(program), [x, z], results)
    assert sorted(binds) == [(3,), (4,)]
    assert np.allclose(results[0], x + 20)
    assert np.allclose(results[1], z + 20)


def test_a_kernel_may_order_its_arguments_as_it_likes_and_add_its_own() -> None:
    def bind(inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]) -> Any:
        left, right = inputs
        return (lambda out, factor, b, a: np.multiply(a + b, factor, out)), (outputs[0], np.float32(10), right, left)

    program = with_kernel(planned(lambda g: g.output("y", g.input("x", (3,)) + g.input("z", (3,)))), Kernel(bind=bind))
    x, z, y = floats(3), floats(3) + 1, np.empty(3, np.float32)
    run(bound(program), [x, z], [y])
    assert y.tobytes() == ((x + z) * np.float32(10)).tobytes()


def test_a_kernel_whose_arguments_are_derived_from_its_operands_is_bound_for_each_call() -> None:
    """it breaks the contract of `bind`; it costs time, not the result"""
    binds: list[None] = []

    def bind(inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]) -> Any:
        binds.append(None)
        left, right = inputs
        return np.add, (left.T, right.T, outputs[0].T)

    def build(g: fa.Graph) -> None:
        x = g.input("x", (2, 3))
        g.output("y", (x + g.constant(floats(2, 3))) + x)

    instance = bound(with_kernel(planned(build), Kernel(bind=bind)))
    for seed in range(2):
        x, y = floats(2, 3) + seed, np.empty((2, 3), np.float32)
        run(instance, [x], [y])
        assert y.tobytes() == ((x + floats(2, 3)) + x).tobytes()
    assert len(binds) >= 4


def test_a_kernel_is_given_its_scratch() -> None:
    sizes: list[list[int]] = []

    def bind(inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]) -> Any:
        sizes.append([array.nbytes for array in scratch])
        twice = scratch[0].view(np.float32)[:3]

        def call(left: Array, right: Array, out: Array) -> None:
            np.add(left, left, twice)
            np.add(twice, right, out)

        return call, (*inputs, *outputs)

    add = Kernel(bind=bind)
    graph = fa.Graph("g")
    graph.output("y", graph.input("x", (3,)) + graph.input("z", (3,)))
    program, slots = _program(graph.freeze(), add, arity=2, extra=[(SlotClass.TEMPORARY, 0, _kind((40,), DType.U8))])
    x, z, y = floats(3), floats(3) + 1, np.empty(3, np.float32)
    run(bound(replace(program, slots=slots, arena_nbytes=256)), [x, z], [y])
    assert sizes == [[40]]
    assert y.tobytes() == ((x + x) + z).tobytes()


# --- programs by hand: sessions and scalars ---


def _kind(shape: tuple[int, ...], dtype: DType = DType.F32) -> TensorType:
    return TensorType(shape, dtype, int(np.prod(shape, dtype=np.int64)) * dtype.nbytes)


def _program(
    graph: FrozenGraph,
    kernel: Callable[..., None],
    *,
    arity: int,
    classes: Sequence[SlotClass] = (SlotClass.FEED, SlotClass.FEED, SlotClass.OUTPUT),
    places: Sequence[int] = (0, 1, 0),
    kinds: Sequence[TensorType] | None = None,
    layouts: Sequence[Layout | None] | None = None,
    extra: Sequence[tuple[SlotClass, int, TensorType]] = (),
) -> tuple[LaneProgram, SlotTable]:
    """One call of `kernel`, over slots as they are listed: inputs, the output, scratch."""
    types = list(kinds or [_kind((3,))] * len(classes))
    slots = SlotTable(
        [*classes, *[cls for cls, _, _ in extra]],
        [*places, *[place for _, place, _ in extra]],
        [*types, *[kind for _, _, kind in extra]],
        [*(layouts or [None] * len(classes)), *[None] * len(extra)],
    )
    by_class = [
        tuple(sorted({place for c, place in zip(classes, places, strict=True) if c is cls}))
        for cls in (SlotClass.FEED, SlotClass.OUTPUT, SlotClass.SESSION, SlotClass.SCALAR)
    ]
    row = tuple(range(len(slots)))
    call = KernelCall(kernel, OpParams.NONE, arity, 1_000, OpKind.AddElementwise, CostEstimate())
    program = LaneProgram(graph, slots, [len(graph) - 1], [call], [row], tuple(by_class), 1_000, 0)  # type: ignore[arg-type]
    return program, slots


def test_sessions_and_scalars_are_given_by_each_run() -> None:
    """a session's value is read and written; a scalar is an array of rank 0; a view shows part of a session"""

    def call(state: Array, shown: Array, factor: Array, feed: Array, out: Array) -> None:
        np.add(shown, feed, out)
        np.multiply(state, factor, state)

    graph = fa.Graph("g")
    graph.output("y", graph.input("x", (2,)).exp())
    program, _ = _program(
        graph.freeze(),
        Kernel(direct=call),
        arity=4,
        classes=[SlotClass.SESSION, SlotClass.SESSION, SlotClass.SCALAR, SlotClass.FEED, SlotClass.OUTPUT],
        places=[1, 1, 0, 0, 0],
        kinds=[_kind((4,)), _kind((2,)), _kind(()), _kind((2,)), _kind((2,))],
        layouts=[None, Layout((2,), (-2,), 3), None, None, None],
    )
    instance = bound(program)
    for factor in (2.0, 3.0):
        state, x, y = np.arange(4, dtype=np.float32), np.full(2, 10, np.float32), np.empty(2, np.float32)
        run(instance, [x], [y], sessions=[state], scalars=[np.array(factor, np.float32)])
        assert y.tolist() == [13, 11]
        assert state.tolist() == [0, factor, 2 * factor, 3 * factor]


# --- failing, stopping, pacing ---


@pytest.mark.parametrize("position", [0, 7, 49])
@pytest.mark.parametrize("call_ns", [300, CHUNK_NS // 2])
def test_a_failure_names_the_node_wherever_in_its_chunk_it_is(position: int, call_ns: int) -> None:
    def build(g: fa.Graph) -> None:
        y = g.input("x", (3,))
        for _ in range(50):
            y = y + 1.0
        g.output("y", y)

    program = planned(build, call_ns=call_ns)
    calls: list[None] = []

    def add(left: Array, right: Array, out: Array) -> None:
        calls.append(None)
        if len(calls) == position + 1:
            raise ArithmeticError("as told")
        np.add(left, right, out)

    instance = bound(with_kernel(program, Kernel(direct=add)))
    assert len(instance._chunks) == (1 if call_ns == 300 else 25)
    with pytest.raises(KernelFailed, match="ArithmeticError: as told") as caught:
        run(instance, [floats(3)], [np.empty(3, np.float32)])
    assert caught.value.node_id == program.nodes[position]
    assert f"%{program.nodes[position]} add(" in caught.value.node
    assert "test_instance.py" in caught.value.node
    assert caught.value.device == "cpu:0"
    assert isinstance(caught.value.__cause__, ArithmeticError)


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_whatever_a_kernel_raises_is_its_failure(error: type[BaseException]) -> None:
    def fail(*_: Array) -> None:
        raise error

    instance = bound(with_kernel(planned(lambda g: g.output("y", g.input("x", (3,)) + 1.0)), Kernel(direct=fail)))
    with pytest.raises(KernelFailed) as caught:
        run(instance, [floats(3)], [np.empty(3, np.float32)])
    assert isinstance(caught.value.__cause__, error)


def _chain(length: int, call_ns: int) -> HostInstance:
    def build(g: fa.Graph) -> None:
        y = g.input("x", (3,))
        for _ in range(length):
            y = y + 1.0
        g.output("y", y)

    return bound(planned(build, call_ns=call_ns))


def test_a_run_is_stopped_between_chunks() -> None:
    instance, stop, heard = _chain(100, CHUNK_NS // 10), StopFlag(), list[int]()

    def pace(holds: bool, cost_ns: int) -> None:
        heard.append(cost_ns)
        stop.stopped = len(heard) == 3

    with pytest.raises(Stopped):
        run(instance, [floats(3)], [np.empty(3, np.float32)], stop=stop, pace=pace)
    assert len(heard) == 3


def test_the_pace_is_set_before_every_chunk() -> None:
    """which says what it is predicted to take, and whether its kernels hold the interpreter"""
    heard: list[tuple[bool, int]] = []
    x, y = floats(3), np.empty(3, np.float32)
    run(_chain(100, HOLDS_NS - 1), [x], [y], pace=lambda *said: heard.append(said))
    assert [holds for holds, _ in heard] == [True] * len(heard)
    assert sum(ns for _, ns in heard) == 100 * (HOLDS_NS - 1)
    assert all(ns >= CHUNK_NS for _, ns in heard[:-1])
    heard.clear()
    run(_chain(100, HOLDS_NS), [x], [y], pace=lambda *said: heard.append(said))
    assert [holds for holds, _ in heard] == [False] * len(heard)
    assert np.allclose(y, x + 100)


def test_binding_breathes() -> None:
    program, breaths = planned(lambda g: _long(g, 1_000)), list[None]()
    HostInstance(
        program,
        list(program.graph.constants.values()),
        HostArena(program.arena_nbytes),
        History(1),
        lambda: breaths.append(None),
    )
    assert len(breaths) >= 1_000 // 64


def _long(g: fa.Graph, length: int) -> None:
    y = g.input("x", (3,))
    for _ in range(length):
        y = y + 1.0
    g.output("y", y)


def test_an_instance_predicts_by_its_history() -> None:
    program = planned(lambda g: g.output("y", g.input("x", (3,)) + 1.0))
    history = History(700)
    instance = HostInstance(program, list(program.graph.constants.values()), HostArena(0), history, no_breath)
    assert (instance.predicted_ns, instance.measures) == (700, True)
    history.record(1)
    history.record(300)
    assert instance.predicted_ns == 300


def test_stand_ins_lie_like_what_they_stand_for() -> None:
    kind = _kind((3, 2))
    assert stand_in(kind, None).shape == (3, 2)
    strided = stand_in(kind, Layout((3, 2), (-4, 2), 9))
    assert (strided.shape, strided.strides, strided.dtype.name) == ((3, 2), (-16, 8), "float32")
    assert stand_in(_kind((0, 2)), Layout((0, 2), (2, 1), 0)).shape == (0, 2)
