"""The façade, used the way a reader of the seeds would."""

from __future__ import annotations

import numpy as np

import fuel_async as fa
from fuel_async import dispatch as own_dispatch
from fuel_async import fuel_dispatch
from fuel_async import registry as own_registry
from fuel_async import runtime as own_runtime
from fuel_async.backends import DeviceInfo, OpenOptions
from fuel_async.backends.cpu import BACKEND
from fuel_async.fuel_dispatch import compiled, dispatch, fused, kernel, pipelined, topology
from fuel_async.ir import CPU_DEVICE, BackendId, DType, Layout, OpKind
from fuel_async.storage import alloc_cpu, from_array

CPU, ADD = BackendId.CPU, OpKind.AddElementwise
F32: kernel.KernelDTypes = (DType.F32, DType.F32, DType.F32)


def test_the_hosts_kernels_make_its_capabilities() -> None:
    table = kernel.KernelBindingTable()
    dispatch.register_cpu_kernels(table)
    assert table.backend_supports(ADD, F32, CPU)
    # Whoever has used `synthetic_op` in this process has published its kernels; other backends have theirs.
    keys = dispatch.global_bindings().iter_keys()
    assert list(table.iter_keys()) == [key for key in keys if key[0] is not OpKind.RuntimeFused and key[2] == CPU]
    caps: dispatch.BackendCapabilities = dispatch.derive_backend_caps(CPU, CPU_DEVICE, table)
    assert isinstance(caps, dispatch.BackendCapabilities)
    assert caps.storage_substrate == dispatch.SubstrateClass.HostBytes
    matrix = dispatch.CapabilityRegistry([caps]).build_transfer_matrix()
    assert matrix.path(CPU_DEVICE, CPU_DEVICE) is dispatch.TransferPath.SameDevice


def test_a_kernel_is_compiled_and_executed() -> None:
    node = compiled.compile_node(ADD, F32, CPU, kernel.OpParams.NONE, dispatch.global_bindings())
    left, right = (from_array(np.array(row, np.float32)) for row in ([1, 2], [3, 4]))
    out, row = alloc_cpu(DType.F32, 2), Layout.contiguous((2,))
    handle: compiled.CompletionHandle = compiled.execute_compiled(node, [left, right], [out], [row] * 3)
    assert handle.done()
    with dispatch.read_storage(out):
        assert dispatch.cpu_input(out).tolist() == [4, 6]


async def test_a_graph_is_walked() -> None:
    g = fa.Graph()
    x = g.input("x", (2,))
    async with fa.Executor() as executor:
        walker = pipelined.PipelinedExecutor(executor)
        storage, _ = await walker.realize(g, x + x, {"x": [1, 2]})
    assert dispatch.cpu_input(storage).tolist() == [2, 4]


def test_the_system_is_looked_at_through_the_facade() -> None:
    system = topology.SystemTopology.current()
    caps = system.capabilities(CPU_DEVICE)
    assert caps is dispatch.global_registry().for_device(CPU_DEVICE)
    assert system.transfer_path(CPU_DEVICE, CPU_DEVICE) is dispatch.TransferPath.SameDevice
    assert dispatch.resolve_target_backend(dispatch.global_registry(), ADD, DType.F32) in system.backends


def test_fused_kernels_are_registered_through_the_facade() -> None:
    registry = fused.FusedKernelRegistry()
    dispatch.register_default_fused_kernels(registry)
    bound = dispatch.global_bindings().lookup_entry(OpKind.RmsNormLastDim, F32[:2], CPU)
    impl = registry.lookup_by_dtypes(own_dispatch.FusedOpId.RMS_NORM_LAST_DIM, CPU, F32[:2])
    assert isinstance(impl, fused.BackendImpl)
    assert impl.kernel is bound.kernel
    assert impl.precision is bound.precision
    assert isinstance(impl.precision, fused.PrecisionGuarantee)
    assert impl.revision == fused.KernelRevisionHash(bound.kernel_revision_hash)


def test_a_devices_queues_tell_what_is_pending() -> None:
    host = BACKEND.open(DeviceInfo(CPU_DEVICE, "host", None), OpenOptions())
    queues: dispatch.BackendStreams = host
    assert isinstance(host, dispatch.BackendStreams)
    before = dispatch.pending_work_count(queues)
    assert before == dispatch.inflight_count(CPU_DEVICE)
    dispatch.inflight_inc(CPU_DEVICE)
    assert queues.pending_work_count() == before + 1
    dispatch.inflight_dec(CPU_DEVICE)
    host.close()


def test_the_facade_gives_the_packages_own_objects() -> None:
    assert topology.SystemTopology is own_registry.SystemTopology
    assert dispatch.global_bindings is own_registry.global_bindings
    assert fused.register_fused is own_dispatch.register_fused
    assert compiled.compile_node is fuel_dispatch.compile_node is own_runtime.compile_node
    assert kernel.OpParams is fuel_dispatch.OpParams
    assert pipelined.PipelinedExecutor is fuel_dispatch.PipelinedExecutor is fa.PipelinedExecutor
