"""The registry of fused kernels: what is found, in which order, and that it can be frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.dispatch import (
    BackendImpl,
    FusedKernelRegistry,
    FusedOpId,
    FusedOpParams,
    KernelCaps,
    KernelRevisionHash,
    OpParams,
    fused_call,
    register_fused,
    unknown_cost,
)
from fuel_async.errors import DuplicateKernel, RegistryMisuse
from fuel_async.ir import BackendId, CostEstimate, DType, Layout, PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import BackendCapabilities, KernelDTypes

CPU, NPU = BackendId.CPU, BackendId("npu")
F32, F64 = (DType.F32, DType.F32), (DType.F64, DType.F64)
SOFTMAX, ROPE = FusedOpId.SOFTMAX_LAST_DIM, FusedOpId.ROPE


def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("the registry never calls a kernel")


def other(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("the registry never calls a kernel")


def price(
    shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    return CostEstimate(1, 2, 3)


def test_the_first_kernel_that_fits_is_found() -> None:
    registry = FusedKernelRegistry()
    assert registry.is_empty
    for dtypes, made in ((F32, kernel), (F64, kernel), (F64, other)):
        register_fused(registry, SOFTMAX, CPU, dtypes, made)
    register_fused(registry, SOFTMAX, NPU, F64, other)
    register_fused(registry, ROPE, NPU, F32, other)
    first, exact, elsewhere = (
        registry.lookup(SOFTMAX, CPU),
        registry.lookup_by_dtypes(SOFTMAX, CPU, F64),
        registry.lookup(SOFTMAX, NPU),
    )
    assert first is not None
    assert (first.dtypes, first.kernel) == (F32, kernel)
    assert exact is not None
    assert (exact.dtypes, exact.kernel) == (F64, kernel)
    assert elsewhere is not None
    assert (elsewhere.dtypes, elsewhere.kernel) == (F64, other)
    found = [(backend, impl.dtypes, impl.kernel) for backend, impl in registry.impls_for(SOFTMAX)]
    assert found == [(CPU, F32, kernel), (CPU, F64, kernel), (CPU, F64, other), (NPU, F64, other)]
    assert (len(registry), registry.ids(), registry.is_empty) == (2, (SOFTMAX, ROPE), False)


def test_what_is_not_there_is_to_be_decomposed() -> None:
    registry = FusedKernelRegistry()
    register_fused(registry, SOFTMAX, CPU, F32, kernel)
    assert registry.lookup_by_dtypes(SOFTMAX, CPU, F64) is None
    assert registry.lookup_by_dtypes(SOFTMAX, NPU, F32) is None
    assert registry.lookup(SOFTMAX, NPU) is registry.lookup(ROPE, CPU) is None
    assert registry.impls_for(ROPE) == ()


def test_a_kernel_is_registered_with_all_that_is_known_of_it() -> None:
    registry, revision = FusedKernelRegistry(), KernelRevisionHash.of_source(b"code")
    caps = KernelCaps(strided_input=True)
    register_fused(
        registry,
        SOFTMAX,
        CPU,
        F32,
        kernel,
        cost=price,
        precision=PrecisionGuarantee.REFERENCE,
        caps=caps,
        revision=revision,
    )
    assert registry.lookup(SOFTMAX, CPU) == BackendImpl(
        kernel, F32, price, PrecisionGuarantee.REFERENCE, caps, revision, None
    )
    register_fused(registry, ROPE, CPU, F32, kernel)
    unsaid = registry.lookup(ROPE, CPU)
    assert unsaid == BackendImpl(kernel, F32)
    assert unsaid is not None
    assert unsaid.cost is unknown_cost
    assert unsaid.precision is PrecisionGuarantee.UNAUDITED
    assert unsaid.revision is KernelRevisionHash.UNTRACKED
    assert unsaid.caps == KernelCaps()
    assert unsaid.cost_expr is None


def test_a_frozen_registry_never_changes() -> None:
    registry = FusedKernelRegistry()
    register_fused(registry, SOFTMAX, CPU, F32, kernel)
    assert registry.freeze() is registry
    assert registry.is_frozen
    assert not FusedKernelRegistry().is_frozen
    with pytest.raises(RegistryMisuse, match="frozen"):
        register_fused(registry, SOFTMAX, CPU, F64, kernel)
    assert len(registry.impls_for(SOFTMAX)) == 1


@pytest.mark.parametrize(
    ("fused", "dtypes", "reason"), [(FusedOpId.UNASSIGNED, F32, "UNASSIGNED"), (SOFTMAX, (), "no dtypes")]
)
def test_what_cannot_be_found_again_is_refused(fused: FusedOpId, dtypes: KernelDTypes, reason: str) -> None:
    registry = FusedKernelRegistry()
    with pytest.raises(RegistryMisuse, match=reason):
        register_fused(registry, fused, CPU, dtypes, kernel)
    assert registry.is_empty


def test_a_kernel_that_is_registered_twice_is_found_by_freezing() -> None:
    registry = FusedKernelRegistry()
    for fused, backend, dtypes in ((SOFTMAX, CPU, F32), (SOFTMAX, CPU, F64), (SOFTMAX, NPU, F32), (ROPE, CPU, F32)):
        register_fused(registry, fused, backend, dtypes, kernel)
    registry.freeze()
    doubled = FusedKernelRegistry()
    for made in (kernel, other, kernel):
        register_fused(doubled, SOFTMAX, CPU, F32, made)
    with pytest.raises(DuplicateKernel, match="SOFTMAX_LAST_DIM"):
        doubled.freeze()
    assert not doubled.is_frozen


def test_a_call_has_the_output_and_the_parameters_of_its_kernel() -> None:
    call = fused_call(FusedOpId.RMS_NORM_LAST_DIM, [(2, 3)], [DType.F64], FusedOpParams.RmsNormLastDim(0.5))
    assert call is not None
    assert (call.shapes, call.dtypes) == (((2, 3), (2, 3)), F64)
    assert call.params == OpParams.NormLastDim(2, 3, 0.5)
    linear = fused_call(
        FusedOpId.FUSED_LINEAR, [(2, 4, 8), (2, 8, 16), (16,)], [DType.F32] * 3, FusedOpParams.FusedLinear()
    )
    assert linear is not None
    assert linear.shapes[-1] == (2, 4, 16)
    assert linear.params == OpParams.Matmul((2,), (2,), 4, 16, 8)
    loss = fused_call(
        FusedOpId.FUSED_SOFTMAX_CROSS_ENTROPY,
        [(2, 5), (2,)],
        [DType.F64, DType.I64],
        FusedOpParams.FusedSoftmaxCrossEntropy("none"),
    )
    assert loss is not None
    assert (loss.shapes[-1], loss.dtypes[-1]) == ((2,), DType.F32)


@pytest.mark.parametrize(
    ("fused", "shapes", "dtypes", "params"),
    [
        (SOFTMAX, [(2, 3)], [DType.F32], FusedOpParams.Rope()),
        (SOFTMAX, [()], [DType.F32], FusedOpParams.SoftmaxLastDim()),
        (SOFTMAX, [(2,), (2,)], [DType.F32] * 2, FusedOpParams.SoftmaxLastDim()),
        (SOFTMAX, [], [], FusedOpParams.SoftmaxLastDim()),
        (SOFTMAX, [(2,)], [], FusedOpParams.SoftmaxLastDim()),
        (SOFTMAX, [(2,)], [DType.I32], FusedOpParams.SoftmaxLastDim()),
        (FusedOpId.REDUCE_MAX_TO_BACKWARD, [(2, 3), (2,)], [DType.F32] * 2, FusedOpParams.ReduceMaxToBackward()),
        (FusedOpId.CONV2D, [(2,)], [DType.F32], FusedOpParams.SoftmaxLastDim()),
        (FusedOpId(40_000), [(2,)], [DType.F32], FusedOpParams.SoftmaxLastDim()),
    ],
)
def test_what_the_op_refuses_is_no_call(
    fused: FusedOpId, shapes: list[tuple[int, ...]], dtypes: list[DType], params: FusedOpParams
) -> None:
    assert fused_call(fused, shapes, dtypes, params) is None


# --- several outputs ----------------------------------------------------------------------------------------------

SCAN, F32_6, F64_6 = FusedOpId.SELECTIVE_SCAN, (DType.F32,) * 6, (DType.F64,) * 6


def test_slots_are_numbered_until_they_are_named() -> None:
    registry = FusedKernelRegistry()
    register_fused(registry, SCAN, CPU, F32_6, kernel)
    assert registry.bundle_slot_names(SCAN, CPU, F32_6) == ("slot0", "slot1")
    assert registry.bundle_slot_names(SOFTMAX, CPU, F32) == ()
    assert registry.bundle_slot_names(FusedOpId.CONV2D, CPU, F32) == ()


def test_names_of_slots_belong_to_one_key() -> None:
    registry = FusedKernelRegistry()
    register_fused(registry, SCAN, CPU, F32_6, kernel, slot_names=("y", "last_state"))
    registry.record_bundle_slot_names(SCAN, NPU, F64_6, ["out", "state"])
    registry.freeze()
    assert registry.bundle_slot_names(SCAN, CPU, F32_6) == ("y", "last_state")
    assert registry.bundle_slot_names(SCAN, NPU, F64_6) == ("out", "state")
    assert registry.bundle_slot_names(SCAN, NPU, F32_6) == ("slot0", "slot1")
    with pytest.raises(RegistryMisuse, match="frozen"):
        registry.record_bundle_slot_names(SCAN, CPU, F32_6, ["a", "b"])


@pytest.mark.parametrize("names", [("y",), ("y", "y"), ("y", ""), ("a", "b", "c"), ()])
def test_names_are_as_many_as_slots_and_tell_them_apart(names: tuple[str, ...]) -> None:
    registry = FusedKernelRegistry()
    with pytest.raises(RegistryMisuse, match="SELECTIVE_SCAN has 2 slots"):
        registry.record_bundle_slot_names(SCAN, CPU, F32_6, names)
    assert registry.bundle_slot_names(SCAN, CPU, F32_6) == ("slot0", "slot1")


def test_an_op_of_one_output_has_no_slots_to_name() -> None:
    registry = FusedKernelRegistry()
    with pytest.raises(RegistryMisuse, match="SOFTMAX_LAST_DIM has 0 slots"):
        register_fused(registry, SOFTMAX, CPU, F32, kernel, slot_names=("y",))
    assert registry.is_empty


def test_a_call_with_several_outputs_is_priced_as_the_first() -> None:
    shapes = [(2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4)]
    call = fused_call(SCAN, shapes, [DType.F32] * 5, FusedOpParams.SelectiveScan(True))
    assert call is not None
    assert (call.shapes[-1], call.dtypes) == ((2, 5, 3), F32_6)
    assert call.params == OpParams.SelectiveScan(2, 5, 3, 4, True)
    assert fused_call(SCAN, shapes[::-1], [DType.F32] * 5, FusedOpParams.SelectiveScan(True)) is None
