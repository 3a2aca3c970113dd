"""Reductions over any axes: sum, mean, maximum, minimum.

Sums are numpy's: pairwise along a contiguous axis, row by row along others. Half types are folded in float32 and
narrowed once, maxima and minima, too: exact there, and several times as fast as comparing halves. No axes means a
copy; the sum of nothing is 0, its mean NaN, its maximum refused when the call is bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape, constants
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import ReduceParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: `(source, axes, dtype, output, keepdims)`, all by position, which is what is cheapest to call.
_add_reduce: Callable[..., Any] = np.add.reduce


def check_folded(op: OpKind, source: Shape, output: Shape, params: ReduceParams) -> None:
    """`KernelArgumentError` unless folding the axes of `params` makes `output` of `source`."""
    dims = params.dims
    if any(not 0 <= dim < len(source) for dim in dims) or len(set(dims)) != len(dims):
        raise KernelArgumentError(op.value, "dims", dims, f"distinct axes of {source}")
    sizes = enumerate(source)
    if params.keepdim:
        wanted = tuple(1 if axis in dims else size for axis, size in sizes)
    else:
        wanted = tuple(size for axis, size in sizes if axis not in dims)
    if output != wanted:
        raise KernelArgumentError(op.value, "the output's shape", output, wanted)


def _total_nbytes(params: ReduceParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return (max(math.prod(output), 1) * F32.itemsize,)


def _extreme(op: OpKind, ufunc: np.ufunc, dtype: DType) -> HostKernel:
    half = dtype in HALVES
    fold: Callable[..., Any] = ufunc.reduce

    def rule(inputs: Sequence[Array], output: Array, params: ReduceParams, scratch: Sequence[Array]) -> Bound:
        shape = inputs[0].shape
        check_folded(op, shape, output.shape, params)
        if not output.size:
            return nothing, (inputs[0], output)
        if any(shape[dim] == 0 for dim in params.dims):
            raise KernelArgumentError(op.value, f"the size of the axes {params.dims} of {shape}", 0, "at least 1")
        dims, keepdim = params.dims, params.keepdim
        if not half:
            return fold, (inputs[0], dims, None, output, keepdim)
        wide = np.ndarray(output.shape, F32, scratch[0])

        def extreme(source: Array, output: Array) -> None:
            fold(source, dims, F32, wide, keepdim)
            output[...] = wide

        return extreme, (inputs[0], output)

    if half:
        return HostKernel(op, (dtype, dtype), rule, ReduceParams, scratch=_total_nbytes)
    return HostKernel(op, (dtype, dtype), rule, ReduceParams)


def _summing(op: OpKind, dtype: DType) -> HostKernel:
    half, mean = dtype in HALVES, op is OpKind.MeanReduce
    compute = F32 if half else dtype.require_np()

    def rule(inputs: Sequence[Array], output: Array, params: ReduceParams, scratch: Sequence[Array]) -> Bound:
        source, dims, keepdim = inputs[0], params.dims, params.keepdim
        check_folded(op, source.shape, output.shape, params)
        if not half and not mean:
            return _add_reduce, (source, dims, None, output, keepdim)
        wide = np.ndarray(output.shape, F32, scratch[0]) if half else None
        (count,) = constants(compute, math.prod(source.shape[dim] for dim in dims) if mean else 1)

        def reduce(source: Array, output: Array) -> None:
            total = output if wide is None else wide
            _add_reduce(source, dims, compute, total, keepdim)
            np.divide(total, count, total)
            if wide is not None:
                output[...] = wide

        return reduce, (source, output)

    if half:
        return HostKernel(op, (dtype, dtype), rule, ReduceParams, scratch=_total_nbytes)
    return HostKernel(op, (dtype, dtype), rule, ReduceParams)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_summing(op, dtype) for op in (OpKind.SumReduce, OpKind.MeanReduce) for dtype in T4),
        *(_extreme(OpKind.MaxReduce, np.maximum, dtype) for dtype in T4),
        *(_extreme(OpKind.MinReduce, np.minimum, dtype) for dtype in T4),
    )
