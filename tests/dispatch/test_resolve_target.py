"""Which backend serves an op, from capabilities and from where the inputs are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.dispatch import (
    BackendCapabilities,
    CapabilityRegistry,
    KernelBindingTable,
    Resident,
    derive_backend_caps,
    resolve_target_backend,
    resolve_target_backend_residency_aware,
)
from fuel_async.errors import NoBackendForOp
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, OpKind

MATMUL, F32, F64, BF16 = OpKind.MatMul, DType.F32, DType.F64, DType.BF16
CPU, NPU = BackendId.CPU, BackendId("npu")
NPU0, NPU1, ELSEWHERE = DeviceLocation(NPU), DeviceLocation(NPU, 1), DeviceLocation(BackendId("tpu"))


def caps_of(location: DeviceLocation, *dtypes: DType) -> BackendCapabilities:
    table = KernelBindingTable()
    for dtype in dtypes:
        table.register(MATMUL, (dtype,) * 3, location.backend, lambda inputs, outputs, layouts, params: None)
    return derive_backend_caps(location.backend, location, table.finalize())


REGISTRY = CapabilityRegistry([caps_of(NPU0, F32), caps_of(CPU_DEVICE, F32, F64)]).freeze()


def test_the_first_registered_backend_that_can_is_taken() -> None:
    assert resolve_target_backend(REGISTRY, MATMUL, F32) == NPU
    assert resolve_target_backend(REGISTRY, MATMUL, F64) == CPU


@pytest.mark.parametrize("inputs", [(), (CPU_DEVICE,), ((NPU0, 5),)])
def test_nobody_that_can_is_the_same_error_either_way(inputs: tuple[Resident, ...]) -> None:
    with pytest.raises(NoBackendForOp) as plain:
        resolve_target_backend(REGISTRY, MATMUL, BF16)
    with pytest.raises(NoBackendForOp) as aware:
        resolve_target_backend_residency_aware(REGISTRY, MATMUL, BF16, inputs)
    assert str(plain.value) == str(aware.value)
    assert aware.value.available_backends == ("Npu", "Cpu")
    assert aware.value.supported_combinations == plain.value.supported_combinations


@pytest.mark.parametrize(
    ("inputs", "backend"),
    [
        ([], NPU),
        ([ELSEWHERE], NPU),
        ([CPU_DEVICE], CPU),
        ([NPU0, CPU_DEVICE], NPU),
        ([NPU0, CPU_DEVICE, CPU_DEVICE], CPU),
        # 13.17: one small input in place does not outweigh a large one elsewhere, nor do many
        ([(NPU0, 4), (CPU_DEVICE, 4_096)], CPU),
        ([(NPU0, 4), (NPU0, 4), (NPU0, 4), (CPU_DEVICE, 4_096)], CPU),
        ([(NPU0, 4_096), (CPU_DEVICE, 4)], NPU),
        ([(NPU0, 2_048), (NPU0, 2_049), (CPU_DEVICE, 4_096)], NPU),
        # of equal bytes the first registered; what has no size weighs less than what has
        ([(CPU_DEVICE, 64), (NPU0, 64)], NPU),
        ([NPU0, NPU0, (CPU_DEVICE, 1)], CPU),
        ([(ELSEWHERE, 1 << 40), (CPU_DEVICE, 1)], CPU),
    ],
)
def test_the_backend_that_holds_most_bytes_is_taken(inputs: list[Resident], backend: BackendId) -> None:
    assert resolve_target_backend_residency_aware(REGISTRY, MATMUL, F32, inputs) == backend


def test_inputs_on_a_device_that_cannot_do_not_count() -> None:
    assert resolve_target_backend_residency_aware(REGISTRY, MATMUL, F64, [(NPU0, 1 << 30)]) == CPU


def test_devices_of_one_backend_are_weighed_apart() -> None:
    """Neither card holds as much as the host, so going to one of them moves more."""
    registry = CapabilityRegistry([caps_of(NPU0, F32), caps_of(NPU1, F32), caps_of(CPU_DEVICE, F32)])
    inputs: list[Resident] = [(NPU0, 40), (NPU1, 40), (CPU_DEVICE, 50)]
    assert resolve_target_backend_residency_aware(registry, MATMUL, F32, inputs) == CPU


@given(st.lists(st.tuples(st.sampled_from([NPU0, CPU_DEVICE, ELSEWHERE]), st.integers(1, 1 << 40)), max_size=8))
def test_no_other_backend_would_move_fewer_bytes(inputs: list[tuple[DeviceLocation, int]]) -> None:
    def moved_to(backend: BackendId) -> int:
        return sum(nbytes for location, nbytes in inputs if location.backend != backend)

    chosen = resolve_target_backend_residency_aware(REGISTRY, MATMUL, F32, inputs)
    assert moved_to(chosen) == min(moved_to(NPU), moved_to(CPU))
