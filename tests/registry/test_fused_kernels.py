"""The process's fused kernels: those of the binding table, complete for the ops that the graph has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.cpu import register_cpu_kernels
from fuel_async.cost import fused_layer1_cost
from fuel_async.dispatch import (
    FUSED_OPS,
    FusedKernelRegistry,
    FusedOpId,
    FusedOpParams,
    KernelBindingTable,
    KernelRevisionHash,
    OpParams,
)
from fuel_async.errors import RegistryMisuse
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DType, Layout, OpKind
from fuel_async.registry import (
    FusedKernelsStore,
    default_kernel_registry,
    global_bindings,
    global_registry,
    register_default_fused_kernels,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

CPU, NPU, ID = BackendId.CPU, BackendId("npu"), FusedOpId
F32, F64, I64 = DType.F32, DType.F64, DType.I64
FLOATS = (F32, F64, DType.BF16, DType.F16)

#: Kernels of the host, by fused op.
COUNTS = {
    ID.SOFTMAX_LAST_DIM: 4,
    ID.FUSED_LINEAR: 4,
    ID.RMS_NORM_LAST_DIM: 4,
    ID.LAYER_NORM_LAST_DIM: 4,
    ID.ROPE: 4,
    ID.SOFTMAX_LAST_DIM_BACKWARD: 4,
    ID.LAYER_NORM_LAST_DIM_BACKWARD: 4,
    ID.RMS_NORM_LAST_DIM_BACKWARD: 4,
    ID.REDUCE_MAX_TO_BACKWARD: 4,
    ID.POWI_BACKWARD: 4,
    ID.INPLACE_AFFINE: 4,
    ID.FUSED_SOFTMAX_CROSS_ENTROPY: 4,
    ID.SELECTIVE_SCAN: 4,
}

#: Numbers whose ops the graph does not have, and what brings them.
OWED = {
    **dict.fromkeys((ID.CONV2D, ID.CONV_TRANSPOSE2D, ID.CAUSAL_CONV1D), "convolutions"),
    **dict.fromkeys(
        (ID.FLASH_ATTN, ID.PAGED_ATTN, ID.FLASH_ATTN_BACKWARD_Q, ID.FLASH_ATTN_BACKWARD_K, ID.FLASH_ATTN_BACKWARD_V),
        "attention",
    ),
    **dict.fromkeys((ID.QMATMUL, ID.NF4_MATMUL), "quantised weights"),
    ID.SSD_CHUNK_SCAN: "scans by chunks",
}


def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
    raise AssertionError("the registry never calls a kernel")


@pytest.fixture
def bindings() -> KernelBindingTable:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    return table


@pytest.fixture
def registry(bindings: KernelBindingTable) -> FusedKernelRegistry:
    made = FusedKernelRegistry()
    register_default_fused_kernels(made, bindings)
    return made.freeze()


def test_the_host_has_all_kernels_of_every_fused_op_there_is(registry: FusedKernelRegistry) -> None:
    found = Counter({fused: len(registry.impls_for(fused)) for fused in registry.ids()})
    assert found == COUNTS
    assert COUNTS.keys() == FUSED_OPS.keys()
    assert {backend for fused in registry.ids() for backend, _ in registry.impls_for(fused)} == {CPU}


def test_every_number_has_kernels_or_is_owed() -> None:
    assert not COUNTS.keys() & OWED.keys()
    assert {*COUNTS, *OWED, ID.UNASSIGNED} == set(ID.FIXED.values())
    assert len(COUNTS) + len(OWED) == 24


def test_every_fused_op_has_a_kernel_of_the_host_that_gives_the_same_bits_each_time(
    registry: FusedKernelRegistry,
) -> None:
    for fused in COUNTS:
        for _, impl in registry.impls_for(fused):
            assert impl.precision.bit_stable_on_same_hardware
            assert impl.revision.is_tracked


def test_the_keys_are_those_of_the_binding_table(registry: FusedKernelRegistry) -> None:
    for fused in COUNTS:
        operands = FUSED_OPS[fused].op.arity
        for dtype in FLOATS:
            key = (dtype, I64, F32) if fused == ID.FUSED_SOFTMAX_CROSS_ENTROPY else (dtype,) * (operands + 1)
            impl = registry.lookup_by_dtypes(fused, CPU, key)
            assert impl is not None
            assert impl.dtypes == key
        assert registry.lookup_by_dtypes(fused, CPU, (DType.I32,) * (operands + 1)) is None


def test_a_fused_kernel_is_the_binding_tables_own(bindings: KernelBindingTable, registry: FusedKernelRegistry) -> None:
    for fused, entry in FUSED_OPS.items():
        for backend, impl in registry.impls_for(fused):
            bound = bindings.lookup_entry(entry.kind, impl.dtypes, backend)
            assert impl.kernel is bound.kernel
            assert impl.cost is bound.cost
            assert (impl.caps, impl.precision, impl.cost_expr) == (bound.caps, bound.precision, bound.cost_expr)
            assert impl.revision == KernelRevisionHash(bound.kernel_revision_hash)


def test_other_backends_and_siblings_come_in_the_order_of_the_table() -> None:
    table, made = KernelBindingTable(), FusedKernelRegistry()
    for backend, dtype in ((NPU, F32), (CPU, F32), (NPU, F64)):
        table.register(OpKind.SoftmaxLastDim, (dtype, dtype), backend, kernel)
    table.register(OpKind.AddElementwise, (F32, F32, F32), CPU, kernel)
    register_default_fused_kernels(made, table)
    assert made.ids() == (ID.SOFTMAX_LAST_DIM,)
    found = [(backend, impl.dtypes[0]) for backend, impl in made.impls_for(ID.SOFTMAX_LAST_DIM)]
    assert found == [(NPU, F32), (CPU, F32), (NPU, F64)]
    unpriced = made.lookup(ID.SOFTMAX_LAST_DIM, NPU)
    assert unpriced is not None
    caps = global_registry().for_device(CPU_DEVICE)
    assert caps is not None
    price = fused_layer1_cost(unpriced, ID.SOFTMAX_LAST_DIM, [(2, 5)], [F32], FusedOpParams.SoftmaxLastDim(), caps)
    assert price == CostEstimate(140, 80, 50)


def test_outputs_have_the_names_of_the_graph(registry: FusedKernelRegistry) -> None:
    for _, impl in registry.impls_for(ID.SELECTIVE_SCAN):
        assert registry.bundle_slot_names(ID.SELECTIVE_SCAN, CPU, impl.dtypes) == ("y", "last_state")
    assert registry.bundle_slot_names(ID.SELECTIVE_SCAN, NPU, (F32,) * 6) == ("slot0", "slot1")


def test_the_process_has_one_frozen_registry() -> None:
    found = default_kernel_registry()
    assert found is default_kernel_registry()
    assert len(found) == len(COUNTS)
    impl = found.lookup(ID.ROPE, CPU)
    assert impl is not None
    assert impl.kernel is global_bindings().lookup(OpKind.Rope, impl.dtypes, CPU)
    with pytest.raises(RegistryMisuse):
        register_default_fused_kernels(found)


def test_a_new_binding_table_makes_a_new_registry() -> None:
    tables = [KernelBindingTable() for _ in range(2)]
    tables[1].register(OpKind.Rope, (F32,) * 4, CPU, kernel)
    first, second = (table.finalize() for table in tables)
    current = first
    store = FusedKernelsStore(lambda: current)
    empty = store.snapshot()
    assert (empty.is_empty, empty.is_frozen, store.snapshot()) == (True, True, empty)
    current = second
    assert store.snapshot().ids() == (ID.ROPE,)
    assert store.snapshot() is store.snapshot()
    assert empty.is_empty
