"""Candidates as the binding table has them."""

from __future__ import annotations

from fuel_async.dispatch import KernelBindingTable, KernelCaps, OpParams
from fuel_async.ir import DType, OpKind, PrecisionGuarantee
from fuel_async.plan import enumerate_candidates
from tests.plan.rank.support import AT_HOME, CPU, CUDA, CUDA0, CUDA1, HOST, VK0, VULKAN, Kernel, caps_of

NEG, F32 = OpKind.NegElementwise, (DType.F32, DType.F32)
PARAMS = OpParams.Affine(2.0, 1.0)


def test_no_placement_and_no_kernel_make_an_empty_set() -> None:
    table = KernelBindingTable()
    assert enumerate_candidates(NEG, F32, AT_HOME, PARAMS, table).is_empty()
    table.register(NEG, F32, CPU, Kernel())
    assert enumerate_candidates(NEG, F32, [], PARAMS, table).is_empty()
    assert enumerate_candidates(NEG, (DType.F64,) * 2, AT_HOME, PARAMS, table).is_empty()


def test_candidates_come_by_placement_then_by_registration() -> None:
    table, kernels = KernelBindingTable(), [Kernel(name) for name in "abcd"]
    for kernel, backend in zip(kernels, (CPU, VULKAN, CPU, CUDA), strict=True):
        table.register(NEG, F32, backend, kernel, kernel_source=f"from {kernel}")
    placements = [(VULKAN, HOST), (CPU, HOST), (CUDA, CUDA1)]
    found = enumerate_candidates(NEG, F32, placements, PARAMS, table)
    assert [(one.kernel, one.backend, one.device) for one in found] == [
        (kernels[1], VULKAN, HOST),
        (kernels[0], CPU, HOST),
        (kernels[2], CPU, HOST),
        (kernels[3], CUDA, CUDA1),
    ]
    assert [one.kernel_source for one in found] == ["from b", "from a", "from c", "from d"]
    assert all(one.op_params == PARAMS and one.effective_ns() is None and not one.coupling for one in found)


def test_a_backend_without_a_kernel_adds_nothing() -> None:
    table = KernelBindingTable()
    table.register(NEG, F32, CPU, Kernel(), precision=PrecisionGuarantee.REFERENCE)
    found = enumerate_candidates(NEG, F32, [(CUDA, CUDA0), *AT_HOME, (VULKAN, VK0)], PARAMS, table)
    assert [one.device for one in found] == [HOST]
    assert found.alternatives()[0].precision is PrecisionGuarantee.REFERENCE


def test_limitation_9_kernels_with_a_broadcast_operand_baked_in_are_no_candidates() -> None:
    """The original enumerates them, though a dense call must never get one."""
    table, dense = KernelBindingTable(), Kernel()
    table.register(NEG, F32, CPU, Kernel(), caps=KernelCaps(requires_broadcast=True))
    table.register(NEG, F32, CPU, dense)
    assert [one.kernel for one in enumerate_candidates(NEG, F32, AT_HOME, PARAMS, table)] == [dense]


def test_kernels_that_need_a_feature_are_for_devices_that_have_it() -> None:
    table, needy = KernelBindingTable(), Kernel(needs=frozenset({"f16"}))
    table.register(NEG, F32, CUDA, needy)
    has = {CUDA0: frozenset({"f16", "f64"}), CUDA1: frozenset[str]()}
    found = enumerate_candidates(
        NEG,
        F32,
        [(CUDA, CUDA0), (CUDA, CUDA1)],
        PARAMS,
        table,
        lambda backend, device: caps_of(device, features=has[device]),
    )
    assert [one.device for one in found] == [CUDA0]
