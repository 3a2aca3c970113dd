"""The rows of Vulkan's kernels: those of grids, with modules compiled from GLSL and SPIR-V that is written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids import elementwise, formats
from fuel_async.backends.grids.catalog import MODULES
from fuel_async.backends.grids.table import Pack, register, source_of
from fuel_async.backends.vulkan import kernels, shaders, spirv
from fuel_async.ir import BackendId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import GridKernel
    from fuel_async.dispatch import KernelBindingTable, OpParams
    from fuel_async.ir import Layout

#: Tells these kernels apart from siblings that other packs register for Vulkan.
KERNEL_SOURCE = "vulkan-glsl"

#: Modules that turn a dispatch into SPIR-V.
CODE = (shaders.__name__, f"{kernels.__name__}.code")

#: Of float64 there is no sine: its range would take 1,200 binary digits of 2/π.
NEVER = frozenset({elementwise.CIRCULAR_DOUBLE})


def register_vulkan_kernels(table: KernelBindingTable) -> None:
    """Add every kernel of Vulkan devices to an open table: one row for each (op, dtypes)."""
    more = {elementwise: (formats.__name__, *spirv.WRITERS)}
    register(table, Pack(BackendId.VULKAN, KERNEL_SOURCE, _once, _fixed, more, NEVER))


def _fixed() -> bytes:
    return b"".join([*map(shaders.code, sorted(MODULES)), *map(source_of, CODE)])


def _once(
    kernel: GridKernel, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams
) -> None:
    from fuel_async.backends.vulkan.once import run_once

    run_once(kernel, inputs, outputs, layouts, params)
