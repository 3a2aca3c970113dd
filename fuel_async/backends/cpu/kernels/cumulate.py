"""Running sums along an axis: each element is added to the sum of those before it, one after the other.

The order of the additions is the same whatever the layout. Half types accumulate in float32 and are narrowed once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import CumSumParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape

#: Elements across the axis from which it is faster to add them at once, step by step along the axis, than to let
#: numpy walk along it (measured: by the factor 3 to 40, less where those elements are scattered).
ACROSS = 256
#: Neighbours in memory that an addition of scattered elements must find, unless the steps are few.
NEIGHBOURS, FEW_STEPS = 16, 32

#: `(source, axis, dtype, output)`, all by position.
_add_accumulate: Callable[..., Any] = np.add.accumulate


def _check(source: Shape, output: Shape, params: CumSumParams) -> None:
    op, axis = OpKind.CumSum.value, params.axis
    if source != output:
        raise KernelArgumentError(op, "the output's shape", output, source)
    if not 0 <= axis < len(source):
        raise KernelArgumentError(op, "axis", axis, f"an axis of {source}")
    if params.dim_size != source[axis]:
        raise KernelArgumentError(op, "dim_size", params.dim_size, source[axis])


def _is_stepped(params: CumSumParams) -> bool:
    across = params.outer_count * params.inner_count
    return across >= ACROSS and (params.inner_count >= NEIGHBOURS or params.dim_size <= FEW_STEPS)


def _step(source: Array, axis: int, output: Array) -> None:
    """Add up along `axis`, all elements across it at once; the two may be one array."""
    ahead, sums = source.swapaxes(0, axis), output.swapaxes(0, axis)
    sums[0] = ahead[0]
    for place in range(1, len(sums)):
        np.add(sums[place - 1], ahead[place], sums[place])


def _cumsum(inputs: Sequence[Array], output: Array, params: CumSumParams, scratch: Sequence[Array]) -> Bound:
    (source,), axis = inputs, params.axis
    _check(source.shape, output.shape, params)
    if not source.size:
        return nothing, (source, output)
    if _is_stepped(params):
        return _step, (source, axis, output)
    return _add_accumulate, (source, axis, None, output)


def _wide_cumsum(inputs: Sequence[Array], output: Array, params: CumSumParams, scratch: Sequence[Array]) -> Bound:
    (source,), axis = inputs, params.axis
    _check(source.shape, output.shape, params)
    if not source.size:
        return nothing, (source, output)
    wide, stepped = np.ndarray(source.shape, F32, scratch[0]), _is_stepped(params)

    def wide_cumsum(source: Array, output: Array) -> None:
        if stepped:
            wide[...] = source
            _step(wide, axis, wide)
        else:
            _add_accumulate(source, axis, F32, wide)
        output[...] = wide

    return wide_cumsum, (source, output)


def _wide_nbytes(params: CumSumParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return (max(math.prod(output), 1) * F32.itemsize,)


def _kernel(dtype: DType) -> HostKernel:
    if dtype in HALVES:
        return HostKernel(OpKind.CumSum, (dtype, dtype), _wide_cumsum, CumSumParams, scratch=_wide_nbytes)
    return HostKernel(OpKind.CumSum, (dtype, dtype), _cumsum, CumSumParams)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
