"""Who can do what: the registry of capabilities, their derivation from kernels, and whether memory fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.dispatch import (
    BackendCapabilities,
    CapabilityRegistry,
    FitStatus,
    KernelBindingTable,
    KernelCaps,
    OpParams,
    TransferPath,
    derive_backend_caps,
    would_fit,
)
from fuel_async.errors import NoBackendForOp, RegistryMisuse
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, Layout, OpKind, SubstrateClass

if TYPE_CHECKING:
    from collections.abc import Sequence

CPU, CUDA, VULKAN = BackendId.CPU, BackendId.CUDA, BackendId.VULKAN
CUDA0, CUDA1 = DeviceLocation(CUDA), DeviceLocation(CUDA, 1)
ADD, MUL, MATMUL = OpKind.AddElementwise, OpKind.MulElementwise, OpKind.MatMul
F16, F32, F64, BF16 = DType.F16, DType.F32, DType.F64, DType.BF16


def caps_of(
    location: DeviceLocation,
    *support: tuple[OpKind, DType],
    paths: Sequence[tuple[DeviceLocation, TransferPath]] = (),
) -> BackendCapabilities:
    return BackendCapabilities(
        backend_id=location.backend,
        device_location=location,
        op_dtype_support=frozenset(support),
        required_alignment=64,
        access_granularity_bits=8,
        transfer_paths=tuple(paths),
        storage_substrate=SubstrateClass.HostBytes,
        compute_throughput_flops_per_ns=1.0,
        mem_bandwidth_bytes_per_ns=4.0,
    )


GPU = caps_of(CUDA0, (MATMUL, F32), (MATMUL, F16), (ADD, F32), paths=[(CPU_DEVICE, TransferPath.DeviceCopy)])
HOST = caps_of(CPU_DEVICE, (MATMUL, F32), (MATMUL, F64), (ADD, F32), (ADD, F64))


def test_an_empty_registry_finds_nothing() -> None:
    assert CapabilityRegistry().find_backends(MATMUL, F32) == ()
    with pytest.raises(NoBackendForOp, match="none"):
        CapabilityRegistry().find_backend_for(MATMUL, F32)


def test_candidates_come_in_the_order_of_registration() -> None:
    registry = CapabilityRegistry([GPU])
    registry.register(HOST)
    assert registry.backends() == (GPU, HOST)
    assert len(registry) == 2
    assert [caps.backend_id for caps in registry.find_backends(MATMUL, F32)] == [CUDA, CPU]
    assert registry.find_backend_for(MATMUL, F32) is GPU
    assert registry.find_backend_for(MATMUL, F64) is HOST


def test_a_miss_names_the_op_the_dtype_and_the_backends_asked() -> None:
    registry = CapabilityRegistry([HOST, HOST])
    with pytest.raises(NoBackendForOp, match=r"matmul.*BF16.*Cpu") as caught:
        registry.find_backend_for(MATMUL, BF16)
    error = caught.value
    assert error.dtypes == ("BF16",)
    assert error.available_backends == ("Cpu", "Cpu")
    assert ("Cpu", "matmul", ("F64",)) in error.supported_combinations


def test_capabilities_are_kept_per_device_not_per_backend() -> None:
    second = caps_of(CUDA1, (MATMUL, F16))
    registry = CapabilityRegistry([GPU, second])
    assert registry.for_device(CUDA0) is GPU
    assert registry.for_device(CUDA1) is second
    assert registry.for_device(CPU_DEVICE) is None


def test_of_two_entries_for_one_device_the_first_wins() -> None:
    registry = CapabilityRegistry([HOST, caps_of(CPU_DEVICE, (MUL, F32))])
    assert registry.for_device(CPU_DEVICE) is HOST


def test_a_frozen_registry_never_changes() -> None:
    registry = CapabilityRegistry([GPU])
    assert registry.freeze() is registry
    with pytest.raises(RegistryMisuse, match="published"):
        registry.register(HOST)
    assert registry.is_frozen
    assert registry.backends() == (GPU,)


def test_the_transfer_matrix_holds_every_advertised_path() -> None:
    matrix = CapabilityRegistry([GPU, HOST]).build_transfer_matrix()
    assert matrix.path(CUDA0, CPU_DEVICE) is TransferPath.DeviceCopy
    assert matrix.path(CPU_DEVICE, CUDA0) is None


def test_of_several_paths_for_one_pair_the_matrix_keeps_the_cheapest_whatever_their_order() -> None:
    slow = caps_of(CUDA0, paths=[(CUDA1, TransferPath.HostStaging)])
    fast = caps_of(CUDA0, paths=[(CUDA1, TransferPath.Peer)])
    for entries in ([slow, fast], [fast, slow]):
        matrix = CapabilityRegistry(entries).build_transfer_matrix()
        assert matrix.path(CUDA0, CUDA1) is TransferPath.Peer


def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("deriving capabilities never calls a kernel")


@pytest.fixture
def table() -> KernelBindingTable:
    table = KernelBindingTable()
    table.register(MUL, (F32, F32, F32), VULKAN, kernel)
    table.register(MATMUL, (F16, F16, F32), VULKAN, kernel)
    table.register(ADD, (F32, F32, F32), CPU, kernel)
    return table.finalize()


def test_derived_support_is_the_output_dtype_of_the_backends_own_keys(table: KernelBindingTable) -> None:
    derived = derive_backend_caps(VULKAN, DeviceLocation(VULKAN), table)
    assert derived.op_dtype_support == {(MUL, F32), (MATMUL, F32)}
    assert not derived.supports(MATMUL, F16)
    assert not derived.supports(ADD, F32)
    assert derived.transfer_paths == ((CPU_DEVICE, TransferPath.HostStaging),)
    assert (derived.required_alignment, derived.access_granularity_bits) == (256, 8)
    assert derived.storage_substrate == SubstrateClass.VulkanBuffer
    rates = (derived.compute_throughput_flops_per_ns, derived.mem_bandwidth_bytes_per_ns)
    assert rates == (30.0, 40.0)
    assert [derived.dense_throughput_flops_per_ns, derived.launch_overhead_ns] == [None, None]


def test_the_hosts_capabilities_are_derived_like_any_others(table: KernelBindingTable) -> None:
    derived = derive_backend_caps(CPU, CPU_DEVICE, table)
    assert derived.op_dtype_support == {(ADD, F32)}
    assert derived.transfer_paths == ((CPU_DEVICE, TransferPath.SameDevice),)
    assert (derived.required_alignment, derived.access_granularity_bits) == (64, 8)
    assert derived.storage_substrate == SubstrateClass.HostBytes
    rates = (derived.compute_throughput_flops_per_ns, derived.mem_bandwidth_bytes_per_ns)
    assert rates == (1.0, 4.0)


def test_measured_rates_and_another_substrate_replace_the_defaults(table: KernelBindingTable) -> None:
    sim = BackendId("sim")
    derived = derive_backend_caps(
        sim,
        DeviceLocation(sim, 2),
        table,
        substrate=SubstrateClass.HostBytes,
        rates=(7.0, 9.0),
        launch_overhead_ns=400,
        dense_flops_per_ns=70.0,
    )
    assert derived.device_location == DeviceLocation(sim, 2)
    assert derived.storage_substrate == SubstrateClass.HostBytes
    assert derived.compute_throughput_flops_per_ns == 7.0
    assert derived.mem_bandwidth_bytes_per_ns == 9.0
    assert (derived.launch_overhead_ns, derived.dense_throughput_flops_per_ns) == (400, 70.0)


def test_a_key_that_no_dense_call_can_take_is_not_advertised() -> None:
    table = KernelBindingTable()
    table.register(ADD, (F32, F32, F32), CPU, kernel, caps=KernelCaps(requires_broadcast=True))
    assert derive_backend_caps(CPU, CPU_DEVICE, table).op_dtype_support == frozenset()


@pytest.mark.parametrize(
    ("nbytes", "available", "total", "status"),
    [
        (10, 80, 100, FitStatus.Comfortable),
        (70, 80, 100, FitStatus.Tight),
        (65, 80, 100, FitStatus.Comfortable),
        (80, 80, 100, FitStatus.Tight),
        (81, 80, 100, FitStatus.WontFit),
        (1, None, 100, FitStatus.Unknown),
        (1, 80, None, FitStatus.Unknown),
    ],
)
def test_an_allocation_fits_by_how_full_it_leaves_the_device(
    nbytes: int, available: int | None, total: int | None, status: FitStatus
) -> None:
    assert would_fit(nbytes, available, total) is status
