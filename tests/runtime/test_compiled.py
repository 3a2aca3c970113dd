"""One kernel compiled, and executed in place or on a lane."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import (
    BindingEntry,
    KernelBindingTable,
    KernelCaps,
    KernelDTypes,
    KernelRef,
    OpParams,
)
from fuel_async.errors import (
    ExecutorClosed,
    InternalError,
    KernelArgumentError,
    NoBackendForOp,
    Stopped,
    UserError,
)
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, Layout, OpKind
from fuel_async.registry import global_bindings, inflight_count
from fuel_async.runtime import CompiledNode, compile_node, dispatched_kernel_ident, execute_compiled
from fuel_async.storage import Storage, alloc_cpu, cpu_input, from_array
from fuel_async.streams import CompletionHandle, HostLane, StopFlag
from tests.runtime.support import PATIENCE_S, Gate, TestKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CPU, ADD, NEG = BackendId.CPU, OpKind.AddElementwise, OpKind.NegElementwise
F32: KernelDTypes = (DType.F32, DType.F32, DType.F32)


def f32(*values: float) -> Storage:
    return from_array(np.array(values, np.float32))


def rows(*storages: Storage) -> list[Layout]:
    return [Layout.contiguous((storage.elem_count,)) for storage in storages]


def add() -> CompiledNode:
    return compile_node(ADD, F32, CPU, OpParams.NONE, global_bindings())


def calling(call: Callable[..., object]) -> CompiledNode:
    """A compiled node whose kernel is `call(x, out)` over arrays."""
    return CompiledNode(NEG, (DType.F32, DType.F32), CPU, TestKernel(call), KernelCaps(), OpParams.NONE)


def execute(compiled: CompiledNode, **how: Any) -> CompletionHandle:
    operands = [f32(1, 2)] * (len(compiled.dtypes) - 1)
    out = alloc_cpu(DType.F32, 2)
    return execute_compiled(compiled, operands, [out], rows(*operands, out), **how)


def nothing(x: Any, out: Any) -> None:
    """A kernel that leaves its output as it is."""


def fails(x: Any, out: Any) -> None:
    raise ArithmeticError("as told")


@pytest.fixture
def lane() -> Iterator[HostLane]:
    one = HostLane("test lane", CPU_DEVICE)
    before = inflight_count(CPU_DEVICE)
    yield one
    one.close()
    one.join(PATIENCE_S)
    assert inflight_count(CPU_DEVICE) == before


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    one.open(1_000)


# --- compiling ---


def test_compiling_resolves_the_kernel_that_a_dense_call_takes() -> None:
    table = KernelBindingTable()
    baked, dense = TestKernel(nothing), TestKernel(nothing)
    table.register(ADD, F32, CPU, baked, caps=KernelCaps(requires_broadcast=True))
    table.register(ADD, F32, CPU, dense, caps=KernelCaps(strided_input=True))
    compiled = compile_node(ADD, F32, CPU, OpParams.NONE, table.finalize())
    assert compiled == CompiledNode(ADD, F32, CPU, dense, KernelCaps(strided_input=True), OpParams.NONE)
    assert compiled.output_dtype is DType.F32


def test_a_node_without_operand_dtypes_has_no_output_dtype() -> None:
    with pytest.raises(InternalError, match="add"):
        _ = CompiledNode(ADD, (), CPU, TestKernel(nothing), KernelCaps(), OpParams.NONE).output_dtype


def test_a_missing_binding_is_an_error_that_names_what_was_asked() -> None:
    with pytest.raises(NoBackendForOp, match=r"add on \[I64, I64, I64\]"):
        compile_node(ADD, (DType.I64,) * 3, CPU, OpParams.NONE, global_bindings())
    with pytest.raises(NoBackendForOp):
        compile_node(ADD, F32, BackendId("elsewhere"), OpParams.NONE, global_bindings())


def test_any_callable_of_the_four_arguments_is_a_kernel() -> None:
    seen: list[object] = []

    def record(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
        seen.extend((inputs, outputs, layouts, params))

    kernel: KernelRef = record
    table = KernelBindingTable()
    table.register(NEG, (DType.F32, DType.F32), CPU, kernel)
    compiled = compile_node(NEG, (DType.F32, DType.F32), CPU, OpParams.PowI(2), table.finalize())
    source, out = f32(1), alloc_cpu(DType.F32, 1)
    execute_compiled(compiled, [source], [out], rows(source, out))
    assert seen == [[source], [out], rows(source, out), OpParams.PowI(2)]
    assert get_type_hints(BindingEntry)["kernel"] == KernelRef


def test_operand_dtypes_are_one_tuple_inputs_first() -> None:
    mixed: KernelDTypes = (DType.F32, DType.F32, DType.U8)
    compiled = compile_node(OpKind.EqualElementwise, mixed, CPU, OpParams.NONE, global_bindings())
    assert (compiled.dtypes, compiled.output_dtype) == (mixed, DType.U8)
    assert get_type_hints(CompiledNode)["dtypes"] == KernelDTypes


def test_a_nodes_kernel_can_be_named_without_running_it() -> None:
    g = fa.Graph()
    x = g.input("x", (2, 3))
    g.output("y", x.T + 1.0)
    frozen = g.freeze()
    kinds = [op.name for op in frozen.ops]
    named = {name: dispatched_kernel_ident(frozen, node, global_bindings()) for node, name in enumerate(kinds)}
    entry = global_bindings().lookup_entry(ADD, F32, CPU)
    assert named == {
        "input": None,
        "constant": None,
        "permute": None,
        "add": ("portable-cpu", entry.kernel_revision_hash),
    }
    assert entry.kernel_revision_hash
    add_node = kinds.index("add")
    assert dispatched_kernel_ident(frozen, add_node, global_bindings(), BackendId("elsewhere")) is None
    assert dispatched_kernel_ident(frozen, add_node, KernelBindingTable()) is None


# --- in place ---


def test_without_a_lane_the_kernel_has_run_when_the_call_returns() -> None:
    left, right, out = f32(5, 6, 7), f32(1, 2, 3), alloc_cpu(DType.F32, 3)
    before = inflight_count(CPU_DEVICE)
    handle = execute_compiled(add(), [left, right], [out], rows(left, right, out), node=4)
    assert cpu_input(out).tolist() == [6, 8, 10]
    assert handle.done()
    assert (handle.node, handle.device) == (4, CPU_DEVICE)
    assert inflight_count(CPU_DEVICE) == before
    timing = handle.wait(0)
    assert timing.finished_ns >= timing.started_ns == timing.submitted_ns
    assert timing.work_ns == timing.elapsed_ns


def test_the_handle_is_of_the_device_that_holds_the_output() -> None:
    elsewhere = DeviceLocation(BackendId("elsewhere"), 3)
    source, out = f32(1), alloc_cpu(DType.F32, 1, device=elsewhere)
    assert execute_compiled(calling(nothing), [source], [out], rows(source, out)).device == elsewhere


def test_without_a_lane_the_kernels_own_error_comes_out() -> None:
    with pytest.raises(ArithmeticError, match="as told"):
        execute(calling(fails))


def test_a_kernel_without_an_output_is_refused() -> None:
    with pytest.raises(KernelArgumentError, match="number of outputs is 0"):
        execute_compiled(add(), [], [], [])


def test_in_place_nothing_runs_before_what_it_waits_for(lane: HostLane, gate: Gate) -> None:
    ran: list[object] = []
    pending = execute(calling(gate), lane=lane)
    with pytest.raises(UserError, match="has not completed"):
        execute(calling(lambda x, out: ran.append(x)), waits=[pending])
    gate.open()
    pending.wait(PATIENCE_S)
    failed = execute(calling(fails), lane=lane)
    with pytest.raises(ArithmeticError):
        failed.wait(PATIENCE_S)
    with pytest.raises(ArithmeticError):
        execute(calling(lambda x, out: ran.append(x)), waits=[failed])
    assert ran == []


# --- on a lane ---


async def test_a_pending_handle_is_in_flight_until_its_kernel_has_run(lane: HostLane, gate: Gate) -> None:
    before = inflight_count(CPU_DEVICE)
    handle = execute(calling(gate), lane=lane, node=7)
    thread = await gate.entered()
    assert thread != threading.get_ident()
    assert (handle.done(), handle.node, inflight_count(CPU_DEVICE)) == (False, 7, before + 1)
    second = execute(add(), lane=lane)
    assert inflight_count(CPU_DEVICE) == before + 2
    gate.open()
    timing = await handle
    await second
    assert (timing.device, timing.lane) == (CPU_DEVICE, "test lane")
    assert inflight_count(CPU_DEVICE) == before
    assert lane.pending_count == 0


async def test_dropping_a_handle_changes_nothing(lane: HostLane, gate: Gate) -> None:
    before = inflight_count(CPU_DEVICE)
    handle: CompletionHandle | None = execute(calling(gate), lane=lane)
    await gate.entered()
    del handle
    gc.collect()
    assert inflight_count(CPU_DEVICE) == before + 1
    gate.open()
    await execute(calling(nothing), lane=lane)
    assert (gate.passed, inflight_count(CPU_DEVICE)) == (1, before)


@pytest.mark.parametrize("same_lane", [True, False])
async def test_a_kernel_does_not_run_when_what_it_waits_for_failed(lane: HostLane, same_lane: bool) -> None:
    ran: list[object] = []
    other = HostLane("another lane", CPU_DEVICE)
    failed = execute(calling(fails), lane=lane)
    second = execute(calling(lambda x, out: ran.append(x)), lane=lane if same_lane else other, waits=[failed])
    third = execute(calling(lambda x, out: ran.append(x)), lane=lane, waits=[second])
    for handle in (failed, second, third):
        with pytest.raises(ArithmeticError, match="as told"):
            await handle
    assert ran == []
    other.close()


async def test_a_stopped_run_ends_before_its_next_kernel(lane: HostLane, gate: Gate) -> None:
    stop, ran = StopFlag(), list[object]()
    first = execute(calling(gate), lane=lane, stop=stop)
    second = execute(calling(lambda x, out: ran.append(x)), lane=lane, stop=stop)
    await gate.entered()
    stop.stopped = True
    gate.open()
    await first
    with pytest.raises(Stopped):
        await second
    assert ran == []


async def test_a_closed_lane_settles_what_it_is_given(lane: HostLane) -> None:
    lane.close()
    handle = execute(add(), lane=lane)
    assert handle.done()
    with pytest.raises(ExecutorClosed):
        await handle
