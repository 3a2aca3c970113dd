"""The rows of Vulkan's kernels: every family, priced by Layer 1, with one identity a family.

The families say what there is; nothing is computed here. A kernel is registered whatever a device can do: what it needs
is in `VulkanKernel.needs`, and a device without that advertises it not.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from fuel_async.backends.vulkan.kernels import (
    base,
    borders,
    elementwise,
    folds,
    grids,
    matmul,
    movement,
    picking,
    reduce,
    rows,
    widths,
)
from fuel_async.backends.vulkan.shaders import MODULES, catalog, code
from fuel_async.cost import default_cost_for_op_kind
from fuel_async.dispatch import KernelRevisionHash
from fuel_async.ir import BackendId, PrecisionGuarantee

if TYPE_CHECKING:
    from types import ModuleType

    from fuel_async.dispatch import KernelBindingTable

#: Tells these kernels apart from siblings that other packs register for Vulkan.
KERNEL_SOURCE = "vulkan-glsl"

FAMILIES = (movement, picking, borders, reduce, rows, matmul, elementwise)
#: Modules whose code is part of every kernel.
SHARED = (base, grids, widths, folds, catalog)

#: Every sum has one order on one device; other devices have others.
PRECISION = PrecisionGuarantee(True, notes="the order of sums is fixed for a device")


def register_vulkan_kernels(table: KernelBindingTable) -> None:
    """Add every kernel of Vulkan devices to an open table: one row for each (op, dtypes)."""
    every = b"".join([*map(_source, SHARED), *map(code, sorted(MODULES))])
    shared = KernelRevisionHash.of_source(every).value.to_bytes(8, "little")
    for family in FAMILIES:
        more: tuple[ModuleType, ...] = getattr(family, "TAKES_FROM", ())
        own = b"".join(map(_source, (family, *more)))
        revision = KernelRevisionHash.of_source(shared + own).value
        for kernel in family.kernels():
            table.register(
                kernel.op,
                kernel.dtypes,
                BackendId.VULKAN,
                kernel,
                caps=kernel.caps,
                precision=PRECISION,
                cost=default_cost_for_op_kind(kernel.op),
                kernel_source=KERNEL_SOURCE,
                kernel_revision_hash=revision,
            )


def _source(module: ModuleType) -> bytes:
    """The text of a module; its name alone where no source is installed."""
    try:
        return inspect.getsource(module).encode()
    except OSError:
        return module.__name__.encode()
