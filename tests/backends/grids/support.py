"""What the tests of kernels of grids share: a modest device's limits, and kernels by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.backends.grids.kernel import GridKernel, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.ir import DType, OpKind

#: What plans are made for where no device is looked at.
LIMITS = Limits(
    max_invocations=256,
    max_groups=(65_535, 65_535, 65_535),
    shared_nbytes=32_768,
    subgroup=8,
    features=frozenset({"float64", "int8_storage", "int16_storage", "int64"}),
    max_range_nbytes=1 << 27,
)


def by_key(families: Iterable[Iterable[GridKernel]]) -> dict[tuple[OpKind, tuple[DType, ...]], GridKernel]:
    """Kernels by op and dtypes."""
    return {(kernel.op, kernel.dtypes): kernel for family in families for kernel in family}
