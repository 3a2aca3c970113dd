"""Kernels that normalise the rows along the last axis: softmax, layer normalisation without scale and shift.

Rows are processed in blocks that stay in the cache. Two primitives replace numpy's own row reductions, whose
price is a call a row: the row maximum is found by `argmax` and `take`, sums by `vecdot` with ones (BLAS dot
products: several float32 accumulators a row, no slower at adding the squares of layer_norm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, IN_PLACE, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Blocks,
    Bound,
    NumpyDType,
    Shape,
    block_limit,
    carve,
    constants,
    scratch_nbytes,
)
from fuel_async.dispatch import NormLastDimParams, OpParams, SoftmaxLastDimParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

POSITION = np.dtype(np.intp)

#: A block's function of (input block, output block), made once for each shape of a block.
BlockCall = Callable[[Array, Array], None]
#: (shape of a block, params, row planes) -> its function. Row planes have one element for each row.
Maker = Callable[[Shape, Any, tuple[Array, ...]], BlockCall]


def _softmax(part: Shape, params: SoftmaxLastDimParams, planes: tuple[Array, ...]) -> BlockCall:
    extent, found = planes
    column = extent[..., None]
    length = part[-1]
    starts = np.arange(0, math.prod(part), length, dtype=POSITION).reshape(part[:-1])
    ones = np.ones(length, extent.dtype)

    def softmax(x: Array, out: Array) -> None:
        if not x.flags.c_contiguous:
            out[...] = x
            x = out
        x.argmax(-1, found)  # of a NaN, if there is one: the whole row becomes NaN, as by numpy's max
        np.add(found, starts, found)
        x.reshape(-1).take(found, None, extent, "clip")
        np.subtract(x, column, out)
        np.exp(out, out)
        np.vecdot(out, ones, extent)
        np.divide(out, column, out)

    return softmax


def _layer_norm(part: Shape, params: NormLastDimParams, planes: tuple[Array, ...]) -> BlockCall:
    (extent,) = planes
    column = extent[..., None]
    ones = np.ones(part[-1], extent.dtype)
    count, eps = constants(extent.dtype, part[-1], params.eps)

    def layer_norm(x: Array, out: Array) -> None:
        if not x.flags.c_contiguous:
            out[...] = x
            x = out
        np.vecdot(x, ones, extent)
        np.divide(extent, count, extent)
        np.subtract(x, column, out)
        np.vecdot(out, out, extent)
        np.divide(extent, count, extent)
        np.add(extent, eps, extent)
        np.sqrt(extent, extent)
        np.divide(out, column, out)

    return layer_norm


def _nothing(x: Array, out: Array) -> None:
    """The call for operands without elements."""


def _rows_kernel(
    op: OpKind, dtype: DType, takes: type[OpParams], make: Maker, row_planes: Sequence[NumpyDType]
) -> HostKernel:
    half = dtype in HALVES
    compute = F32 if half else dtype.require_np()
    rows = tuple(compute if plane is F32 else plane for plane in row_planes)

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        source, shape = inputs[0], output.shape
        _check(op, source.shape, shape, params)
        if output.size == 0:
            return _nothing, (source, output)
        cut = Blocks(shape, block_limit((compute,), 1, shape), whole_axes=1)
        calls = {}
        for part in cut.part_shapes():
            call = make(part, params, carve(rows, part[:-1], scratch[0]))
            calls[part] = _lifted(call, carve((F32,), part, scratch[1])[0]) if half else call
        if len(calls) == 1 and part == shape:
            return calls[part], (source, output)

        def run(x: Array, out: Array) -> None:
            for index, part in cut.pieces():
                calls[part](x[index], out[index])

        return run, (source, output)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        limit = block_limit((compute,), 1, output) if output else 1
        count = min(math.prod(output), limit)
        length = output[-1] if output else 1
        per_row = scratch_nbytes(rows, (count // max(length, 1),))
        return (*per_row, *scratch_nbytes((F32,), (count,), 1)) if half else per_row

    return HostKernel(op, (dtype, dtype), rule, takes, IN_PLACE, working)


def _lifted(call: BlockCall, wide: Array) -> BlockCall:
    def lifted(x: Array, out: Array) -> None:
        wide[...] = x
        call(wide, wide)
        out[...] = wide

    return lifted


def _check(op: OpKind, source: Shape, output: Shape, params: SoftmaxLastDimParams | NormLastDimParams) -> None:
    if not source or source != output:
        raise KernelArgumentError(op.value, "the output's shape", output, f"{source}, of rank 1 or more")
    if source[-1] != params.last_dim:
        raise KernelArgumentError(op.value, "last_dim", params.last_dim, source[-1])


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    softmax, norm = OpKind.SoftmaxLastDim, OpKind.LayerNormLastDim
    return (
        *(_rows_kernel(softmax, dtype, SoftmaxLastDimParams, _softmax, (F32, POSITION)) for dtype in T4),
        *(_rows_kernel(norm, dtype, NormLastDimParams, _layer_norm, (F32,)) for dtype in T4),
    )
