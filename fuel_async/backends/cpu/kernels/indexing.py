"""Kernels that pick elements by the values of an index operand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import T9, HostKernel
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import IndexSelectParams
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape

POSITION = np.dtype(np.intp)


def _index_select(inputs: Sequence[Array], output: Array, params: IndexSelectParams, scratch: Sequence[Array]) -> Bound:
    """Entries of inputs[0] along one axis in the order of the rank-1 index inputs[1].

    `IndexOutOfRange` when it runs, before anything is written. A source that is not row-major is picked from
    in place, by an indexing expression that makes the result once and copies it.
    """
    source, index = inputs
    axis, op = params.axis, OpKind.IndexSelect.value
    if index.ndim != 1:
        raise KernelArgumentError(op, "the index's rank", index.ndim, 1)
    if not 0 <= axis < source.ndim:
        raise KernelArgumentError(op, "axis", axis, f"an axis of {source.shape}")
    wanted = (*source.shape[:axis], index.shape[0], *source.shape[axis + 1 :])
    if output.shape != wanted:
        raise KernelArgumentError(op, "the output's shape", output.shape, wanted)
    limit = source.shape[axis]
    before: tuple[Any, ...] = (slice(None),) * axis
    positions = np.ndarray(index.shape, POSITION, scratch[0])
    if not positions.size:
        return nothing, (source, index, output)
    row_major = source.flags.c_contiguous

    def select(source: Array, index: Array, output: Array) -> None:
        positions[...] = index
        # The place of the highest is found in a fifth of the time of a call of `maximum.reduce`.
        highest = positions.item(positions.argmax())
        if highest >= limit:
            raise IndexOutOfRange(op, highest, limit)
        if row_major:
            # "clip" never clips here; it lets numpy write where it is told, while "raise" goes through a
            # copy.
            source.take(positions, axis, output, "clip")
        else:
            output[...] = source[(*before, positions)]

    return select, (source, index, output)


def _positions_nbytes(params: IndexSelectParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return (max(math.prod(inputs[1]), 1) * POSITION.itemsize,)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return tuple(
        HostKernel(
            OpKind.IndexSelect,
            (dtype, DType.U32, dtype),
            _index_select,
            IndexSelectParams,
            scratch=_positions_nbytes,
        )
        for dtype in T9
    )
