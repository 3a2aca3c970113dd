"""Looking at indices before a run whose kernels may not: see `plan.indices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.errors import IndexOutOfRange, KernelFailed
from fuel_async.ir import CPU_DEVICE, Breathe, no_breath
from fuel_async.storage import laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fuel_async.plan import IndexCheck, Plan


def check_indices(
    plan: Plan, looked_at: Sequence[tuple[IndexCheck, NDArray[Any]]], breathe: Breathe = no_breath
) -> None:
    """Raise what a kernel of the host would for the first index out of range: `KernelFailed`, by `IndexOutOfRange`."""
    for check, array in looked_at:
        index = laid_out(array, check.layout)
        highest = int(index.max()) if index.size else 0
        if highest >= check.entries and index.size:
            error = IndexOutOfRange(check.op.value, highest, check.entries)
            described = plan.graph.describe(check.node)
            cause = f"{type(error).__name__}: {error}"
            raise KernelFailed(described, str(CPU_DEVICE), cause, check.node) from error
        breathe()
