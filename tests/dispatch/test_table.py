"""The binding table: exact lookups, siblings, fills, and immutability after finalize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.dispatch import (
    RUNTIME_FUSED_BASE,
    BackendCapabilities,
    BindingEntry,
    KernelBindingTable,
    KernelCaps,
    KernelDTypes,
    KernelRef,
    OpParams,
    RuntimeFused,
    unknown_cost,
)
from fuel_async.errors import DuplicateKernel, NoBackendForOp, RegistryMisuse, UserError
from fuel_async.ir import BackendId, CostEstimate, DType, Layout, OpKind, PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

CPU, CUDA = BackendId.CPU, BackendId.CUDA
ADD, MUL = OpKind.AddElementwise, OpKind.MulElementwise
F32 = (DType.F32, DType.F32, DType.F32)
FUSED = RuntimeFused(RUNTIME_FUSED_BASE)
BAKED = KernelCaps(requires_broadcast=True)
REFERENCE = PrecisionGuarantee.REFERENCE
FILLED = PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU


def make_kernel() -> KernelRef:
    """A kernel that does nothing and is like no other."""

    def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
        raise AssertionError("a table never calls a kernel")

    return kernel


A, B, C = make_kernel(), make_kernel(), make_kernel()


def flat_cost(
    shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    return CostEstimate(1, 1, 1)


@pytest.fixture
def table() -> KernelBindingTable:
    return KernelBindingTable()


def test_a_registered_kernel_is_found_by_exactly_its_key(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A, caps=KernelCaps(strided_input=True))
    assert table.lookup(ADD, F32, CPU) is A
    assert table.lookup_with_caps(ADD, F32, CPU) == (A, KernelCaps(strided_input=True))
    assert table.backend_supports(ADD, F32, CPU)


def test_defaults_are_dense_unaudited_unpriced_and_without_source(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A)
    assert table.lookup_entry(ADD, F32, CPU) == BindingEntry(
        A, KernelCaps(False, False, False), PrecisionGuarantee.UNAUDITED, unknown_cost, "", False, 0, None
    )


def test_a_lookup_promotes_no_dtype_and_tries_no_other_backend(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CUDA, A)
    with pytest.raises(NoBackendForOp):
        table.lookup(ADD, F32, CPU)
    with pytest.raises(NoBackendForOp):
        table.lookup(ADD, (DType.I64, DType.I64, DType.I64), CUDA)
    assert not table.backend_supports(ADD, F32, CPU)


def test_a_failed_lookup_names_the_op_the_dtypes_and_what_there_is(table: KernelBindingTable) -> None:
    table.register(OpKind.MatMul, F32, CPU, A)
    with pytest.raises(NoBackendForOp, match=r"matmul.*BF16.*Cpu") as caught:
        table.lookup(OpKind.MatMul, (DType.BF16, DType.BF16, DType.BF16), CPU)
    error = caught.value
    assert error.op == "matmul"
    assert error.dtypes == ("BF16", "BF16", "BF16")
    assert error.available_backends == ("Cpu",)
    assert error.supported_combinations == (("Cpu", "matmul", ("F32", "F32", "F32")),)


def test_two_siblings_are_two_entries_under_one_key_and_the_first_wins(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A, kernel_source="portable")
    table.register(ADD, F32, CPU, B, kernel_source="library")
    assert (len(table), table.key_count(), table.is_empty()) == (2, 1, False)
    assert table.lookup(ADD, F32, CPU) is A
    assert [entry.kernel for entry in table.lookup_alternatives(ADD, F32, CPU)] == [A, B]
    assert table.lookup_alternatives(MUL, F32, CPU) == ()


def test_a_duplicate_passes_register_and_fails_finalize(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A)
    table.register(ADD, F32, CPU, B)
    table.register(ADD, F32, CPU, A)
    with pytest.raises(DuplicateKernel, match="duplicate KernelRef for add"):
        table.finalize()
    assert not table.is_final


def test_one_kernel_may_serve_several_keys(table: KernelBindingTable) -> None:
    table.register(OpKind.Copy, (DType.F32, DType.F32), CPU, A)
    table.register(OpKind.Copy, (DType.I32, DType.I32), CPU, A)
    assert len(table.finalize()) == 2


def test_a_broadcast_baked_sibling_is_listed_and_passed_over_by_the_dense_pick(
    table: KernelBindingTable,
) -> None:
    table.register(ADD, F32, CPU, A, caps=BAKED)
    table.register(ADD, F32, CPU, B)
    assert table.lookup(ADD, F32, CPU) is B
    assert [entry.kernel for entry in table.lookup_alternatives(ADD, F32, CPU)] == [A, B]


def test_only_broadcast_baked_siblings_are_no_kernel_for_a_dense_call(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A, caps=BAKED)
    assert not table.backend_supports(ADD, F32, CPU)
    with pytest.raises(NoBackendForOp):
        table.lookup(ADD, F32, CPU)


def test_precision_and_cost_are_those_of_the_row_the_pick_takes(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A, caps=BAKED)
    table.register(ADD, F32, CPU, B, precision=REFERENCE, cost=flat_cost)
    assert table.lookup_precision(ADD, F32, CPU) == REFERENCE
    assert table.lookup_cost(ADD, F32, CPU) is flat_cost
    assert table.lookup_precision(MUL, F32, CPU) == PrecisionGuarantee.UNAUDITED
    assert table.lookup_cost(MUL, F32, CPU) is unknown_cost
    assert unknown_cost((), F32, OpParams.NONE, None) == CostEstimate()  # type: ignore[arg-type]


def test_walking_the_table_passes_run_time_fused_keys_over(table: KernelBindingTable) -> None:
    table.register(FUSED, F32, CPU, A)
    table.register(ADD, F32, CPU, B, precision=REFERENCE, cost=flat_cost)
    entry = table.lookup_entry(ADD, F32, CPU)
    assert list(table.iter_keys()) == [(ADD, F32, CPU)]
    assert list(table.iter_entries()) == [(ADD, F32, CPU, entry)]
    assert list(table.iter_precision()) == [(ADD, F32, CPU, REFERENCE)]
    assert list(table.iter_cost()) == [(ADD, F32, CPU, flat_cost)]
    assert table.coverage_diagnostic() == ((CPU,), ((CPU, ADD, F32),))
    assert (len(table), table.key_count()) == (2, 2)


def test_run_time_fused_kernels_are_found_by_id_and_backend(table: KernelBindingTable) -> None:
    table.register(FUSED, F32, CPU, A)
    assert table.lookup(FUSED, F32, CPU) is A
    assert table.has_runtime_fused(FUSED.fused_id, CPU)
    assert not table.has_runtime_fused(FUSED.fused_id, CUDA)
    found = table.first_runtime_fused(FUSED.fused_id, CPU)
    assert found is not None
    assert found.kernel is A
    with pytest.raises(NoBackendForOp, match="runtime_fused"):
        table.lookup(FUSED, F32, CUDA)


def test_an_id_below_the_run_time_range_is_refused() -> None:
    with pytest.raises(UserError, match="run-time ids"):
        RuntimeFused(RUNTIME_FUSED_BASE - 1)


def test_a_key_without_dtypes_is_refused(table: KernelBindingTable) -> None:
    with pytest.raises(RegistryMisuse, match="names no dtypes"):
        table.register(ADD, (), CPU, A)


def test_the_precision_fill_touches_every_sibling_that_nobody_examined(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A)
    table.register(ADD, F32, CPU, B)
    table.fill_unset_cpu_precision(FILLED)
    assert [entry.precision for entry in table.lookup_alternatives(ADD, F32, CPU)] == [FILLED, FILLED]


def test_an_audited_absence_of_bounds_survives_the_fill_and_its_sibling_is_upgraded(
    table: KernelBindingTable,
) -> None:
    examined = PrecisionGuarantee.none("uses atomics")
    table.register(ADD, F32, CPU, A, precision=examined)
    table.register(ADD, F32, CPU, B)
    table.register(ADD, F32, CPU, C, precision=REFERENCE)
    table.fill_unset_cpu_precision(FILLED)
    found = [entry.precision for entry in table.lookup_alternatives(ADD, F32, CPU)]
    assert found == [examined, FILLED, REFERENCE]


def test_the_precision_fill_leaves_other_backends_alone(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CUDA, A)
    table.fill_unset_cpu_precision(FILLED)
    assert table.lookup_precision(ADD, F32, CUDA) == PrecisionGuarantee.UNAUDITED


def test_the_cost_fill_prices_every_unpriced_sibling_and_no_fused_key(table: KernelBindingTable) -> None:
    def own_cost(
        shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate:
        return CostEstimate(2)

    table.register(ADD, F32, CPU, A)
    table.register(ADD, F32, CPU, B)
    table.register(ADD, F32, CPU, C, cost=own_cost)
    table.register(FUSED, F32, CPU, A)
    asked: list[OpKind] = []
    table.fill_unset_cpu_cost(lambda op: asked.append(op) or flat_cost)  # type: ignore[func-returns-value]
    found = [entry.cost for entry in table.lookup_alternatives(ADD, F32, CPU)]
    assert found == [flat_cost, flat_cost, own_cost]
    assert asked == [ADD, ADD]
    assert table.lookup_cost(FUSED, F32, CPU) is unknown_cost


def test_the_cost_fill_of_one_backend_leaves_the_others_unpriced(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A)
    table.register(ADD, F32, CUDA, B)
    table.fill_unset_cost_for_backend(CUDA, lambda op: flat_cost)
    assert table.lookup_cost(ADD, F32, CPU) is unknown_cost
    assert table.lookup_cost(ADD, F32, CUDA) is flat_cost


def test_a_final_table_never_changes(table: KernelBindingTable) -> None:
    assert table.finalize() is table
    assert table.is_final
    with pytest.raises(RegistryMisuse, match="copy"):
        table.register(ADD, F32, CPU, A)
    with pytest.raises(RegistryMisuse):
        table.fill_unset_cpu_precision(FILLED)
    with pytest.raises(RegistryMisuse):
        table.fill_unset_cpu_cost(lambda op: flat_cost)
    assert table.is_empty()


def test_a_copy_is_open_and_leaves_its_original_alone(table: KernelBindingTable) -> None:
    table.register(ADD, F32, CPU, A)
    table.finalize()
    other = table.copy()
    other.register(ADD, F32, CPU, B)
    other.register(MUL, F32, CPU, A)
    assert (len(table), len(other)) == (1, 3)
    assert not other.is_final
