"""Where the maximum or minimum along an axis is, in u32: the first of equal ones, the first NaN if there is one.

numpy looks along a dense last axis; other operands, and half types, are brought to that form block by block. What it
finds is of its own type of positions, and is narrowed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import BLOCK_NBYTES, Array, Blocks, Bound, NumpyDType, Shape
from fuel_async.backends.cpu.kernels.reduce import check_folded
from fuel_async.backends.cpu.kernels.rows import POSITION, dense, nothing
from fuel_async.dispatch import ReduceParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: (rows along the last axis, where the extreme of each is)
    RowsCall = Callable[[Array, Array], None]


def _of_dense_rows(shape: Shape, output: Shape, largest: bool, limit: int, memory: Array) -> RowsCall:
    """Rows as numpy likes them, of any length: all of those whose positions fit `limit` at once."""
    find = np.ndarray.argmax if largest else np.ndarray.argmin
    if math.prod(shape) <= limit:
        found = np.ndarray(shape, POSITION, memory)
        placed = found.reshape(output)

        def whole(rows: Array, output: Array) -> None:
            find(rows, -1, found)
            output[...] = placed

        return whole
    cut = Blocks(shape, limit)
    steps = [(index, np.ndarray(part, POSITION, memory)) for index, part in cut.pieces()]

    def dense(rows: Array, output: Array) -> None:
        output = output.reshape(shape)
        for index, found in steps:
            find(rows[index], -1, found)
            output[index] = found

    return dense


def _of_one_block(
    shape: Shape, output: Shape, order: Shape, compute: NumpyDType, largest: bool, scratch: Sequence[Array]
) -> RowsCall:
    """Operands of any strides and type that fit one block, with the axis in question behind the others by `order`."""
    copy, found = np.ndarray(shape, compute, scratch[0]), np.ndarray(shape[:-1], POSITION, scratch[1])
    find, placed = copy.argmax if largest else copy.argmin, found.reshape(output)
    moved = order != tuple(range(len(order)))

    def one(source: Array, output: Array) -> None:
        copy[...] = source.transpose(order) if moved else source
        find(-1, found)
        output[...] = placed

    return one


def _of_short_rows(shape: Shape, compute: NumpyDType, largest: bool, scratch: Sequence[Array]) -> RowsCall:
    """Rows of which some fit one block: numpy looks at all rows of a block."""
    cut = Blocks(shape, BLOCK_NBYTES // compute.itemsize, whole_axes=1)
    planes = {
        part: (np.ndarray(part, compute, scratch[0]), np.ndarray(part[:-1], POSITION, scratch[1]))
        for part in cut.part_shapes()
    }

    def short(rows: Array, output: Array) -> None:
        for index, part in cut.pieces():
            copy, found = planes[part]
            block = dense(rows[index], copy)
            if largest:
                block.argmax(-1, found)
            else:
                block.argmin(-1, found)
            output[index] = found

    return short


def _of_long_rows(compute: NumpyDType, largest: bool, scratch: Sequence[Array]) -> RowsCall:
    """Rows longer than a block: one after the other, in pieces where they are not dense."""
    limit = BLOCK_NBYTES // compute.itemsize
    piece = np.ndarray((limit,), compute, scratch[0])

    def place(row: Array) -> int:
        if row.flags.c_contiguous and row.dtype == compute:
            return int(row.argmax() if largest else row.argmin())
        best: Any = None
        found = 0
        for start in range(0, row.size, limit):
            part = row[start : start + limit]
            wide = piece[: part.size]
            wide[...] = part
            at = int(wide.argmax() if largest else wide.argmin())
            value = wide[at]
            if best is None or value != value or (value > best if largest else value < best):
                best, found = value, start + at
            if value != value:
                break
        return found

    def long(rows: Array, output: Array) -> None:
        for index in np.ndindex(output.shape):
            output[index] = place(rows[index])

    return long


def _kernel(op: OpKind, dtype: DType) -> HostKernel:
    compute = F32 if dtype in HALVES else dtype.require_np()
    largest = op is OpKind.ArgMaxDim
    limit = BLOCK_NBYTES // compute.itemsize

    def rule(inputs: Sequence[Array], output: Array, params: ReduceParams, scratch: Sequence[Array]) -> Bound:
        shape = inputs[0].shape
        check_folded(op, shape, output.shape, params)
        if len(params.dims) != 1:
            raise KernelArgumentError(op.value, "dims", params.dims, "one axis")
        (axis,) = params.dims
        size = shape[axis]
        if output.size == 0:
            return nothing, (inputs[0], output)
        if not 0 < size <= 2**32:
            raise KernelArgumentError(op.value, f"the size of axis {axis} of {shape}", size, "from 1 to 2^32")
        lead = (*shape[:axis], *shape[axis + 1 :])
        order = (*range(axis), *range(axis + 1, len(shape)), axis)
        if axis == len(shape) - 1 and compute == inputs[0].dtype and inputs[0].flags.c_contiguous:
            return _of_dense_rows(lead, output.shape, largest, limit, scratch[1]), (inputs[0], output)
        if math.prod(shape) <= limit:
            call = _of_one_block((*lead, size), output.shape, order, compute, largest, scratch)
            return call, (inputs[0], output)
        lead = lead or (1,)
        if size <= limit:
            call = _of_short_rows((*lead, size), compute, largest, scratch)
        else:
            call = _of_long_rows(compute, largest, scratch)

        def arg_extreme(source: Array, output: Array) -> None:
            rows = source.transpose(order)
            call(rows if rows.ndim > 1 else rows[None], output.reshape(lead))

        return arg_extreme, (inputs[0], output)

    def working(params: ReduceParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        count = min(math.prod(inputs[0]), limit)
        return (max(count, 1) * compute.itemsize, max(min(math.prod(output), count), 1) * POSITION.itemsize)

    return HostKernel(op, (dtype, DType.U32), rule, ReduceParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return tuple(_kernel(op, dtype) for op in (OpKind.ArgMaxDim, OpKind.ArgMinDim) for dtype in T4)
