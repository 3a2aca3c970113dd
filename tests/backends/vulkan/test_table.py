"""The rows of Vulkan's kernels, and the code of their shaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.grids import elementwise
from fuel_async.backends.grids.catalog import MODULES
from fuel_async.backends.grids.form import ModuleForm
from fuel_async.backends.grids.grids import row_major
from fuel_async.backends.grids.kernel import Limits, Operand
from fuel_async.backends.grids.table import FAMILIES, kernels_of
from fuel_async.backends.vulkan.kernels.code import code_of
from fuel_async.backends.vulkan.kernels.table import KERNEL_SOURCE, register_vulkan_kernels
from fuel_async.backends.vulkan.shaders import code
from fuel_async.dispatch import KernelBindingTable, NoParams
from fuel_async.ir import BackendId, DType, OpKind

if TYPE_CHECKING:
    from fuel_async.backends.grids.kernel import Shader

LIMITS = Limits(128, (65535, 65535, 65535), 16384, 4, frozenset(), 2**31)


@pytest.fixture(scope="module")
def table() -> KernelBindingTable:
    made = KernelBindingTable()
    register_vulkan_kernels(made)
    return made.finalize()


def test_all_kernels_of_grids_have_a_row_but_circular_functions_of_float64(table: KernelBindingTable) -> None:
    for family in FAMILIES:
        for kernel in kernels_of(family):
            is_there = table.backend_supports(kernel.op, kernel.dtypes, BackendId.VULKAN)
            assert is_there is (elementwise.CIRCULAR_DOUBLE not in kernel.needs)
            if is_there:
                entry = table.lookup_entry(kernel.op, kernel.dtypes, BackendId.VULKAN)
                assert (entry.kernel_source, entry.caps) == (KERNEL_SOURCE, kernel.caps)
                assert entry.kernel_revision_hash


def _shader(table: KernelBindingTable, op: OpKind, arity: int) -> Shader:
    kernel: Any = table.lookup(op, (DType.F32,) * (arity + 1), BackendId.VULKAN)
    operand = Operand(DType.F32, (6,), row_major((6,)), 0)
    (dispatch,) = kernel.dispatches([operand] * (arity + 1), NoParams(), LIMITS)
    shader: Shader = dispatch.shader
    return shader


def test_a_form_is_written_once_for_devices_that_keep_alike(table: KernelBindingTable) -> None:
    shader = _shader(table, OpKind.AddElementwise, 2)
    assert isinstance(shader.code, ModuleForm)
    plain, kept = code_of(shader, frozenset()), code_of(shader, frozenset({"nan_preserve_f32", "float64"}))
    assert plain is code_of(shader, frozenset({"int64"}))
    assert len(kept) > len(plain)


def test_a_module_of_the_catalog_is_told_what_the_device_can_keep(table: KernelBindingTable) -> None:
    shader = _shader(table, OpKind.Copy, 1)
    assert shader.code is MODULES["move_4"]
    assert code_of(shader, frozenset({"nan_preserve_f32"})) == code("move_4")
