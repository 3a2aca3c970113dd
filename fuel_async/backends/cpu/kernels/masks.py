"""Kernels that choose: where, and triu, tril and masked_fill, which put one number in place of some elements.

The choice is made on the bits: values that are kept come through unchanged, NaN included, and no branch depends on the
data (a masked copy takes seven times as long on random masks). Small calls of where and masked_fill are the exception.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fuel_async.backends.cpu.kernels.base import IN_PLACE, T4, T6, HostKernel, check_broadcast
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Body,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    carve,
    constants,
    scratch_nbytes,
)
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import MaskedFillParams, TriangularParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOOL, I8, U8 = np.dtype(np.bool_), np.dtype(np.int8), np.dtype(np.uint8)
_BITS: Mapping[int, NumpyDType] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
(_ZERO_U8,) = constants(U8, 0)

#: Up to this many elements are copied by a mask, as `np.where` does: three calls instead of nine, which cost more than
#: what they do.
FEW = 1_024


def _are_few(operands: Sequence[Array], output: Array) -> bool:
    """Whether a copy by a mask is cheaper. `putmask` repeats and copies operands that are not like its output."""
    return output.size <= FEW and all(o.shape == output.shape and o.flags.c_contiguous for o in operands)


def _widened(true: Array, mask: Array) -> None:
    """Put all bits of an element of `mask` where `true` is, none where it is not; `true` is overwritten."""
    signs = true.getfield(I8)
    np.negative(signs, signs)
    mask[...] = signs


# --- where ------------------------------------------------------------------------------------------------


def _chosen(bits: NumpyDType) -> Body:
    # b ^ (condition & (a ^ b)): the output may be either value operand.
    def body(condition: Array, a: Array, b: Array, out: Array, true: Array, mask: Array, differ: Array) -> None:
        right = b.getfield(bits)
        np.not_equal(condition, _ZERO_U8, true)
        _widened(true, mask)
        np.bitwise_xor(a.getfield(bits), right, differ)
        np.bitwise_and(mask, differ, differ)
        np.bitwise_xor(differ, right, out.getfield(bits))

    return body


def _where(dtype: DType) -> HostKernel:
    op, kind, bits = OpKind.Where, dtype.require_np(), _BITS[dtype.nbytes]
    body, planes = _chosen(bits), (BOOL, bits, bits)

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        if not _are_few(inputs, output):
            return bind_body(body, inputs, output, planes, scratch)
        (work,) = carve((kind,), output.shape, scratch[0])

        def choose(condition: Array, a: Array, b: Array, out: Array) -> None:
            # Any byte but 0 is true to `putmask`.
            work[...] = b
            np.putmask(work, condition.getfield(BOOL), a)
            out[...] = work

        return choose, (*inputs, output)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (DType.U8, dtype, dtype, dtype), rule, caps=IN_PLACE, scratch=working)


# --- triangles and fills ----------------------------------------------------------------------------------


def _triangle(op: OpKind, keep: np.ufunc, dtype: DType) -> HostKernel:
    """Return the kernel that keeps what `keep(column - row, diagonal)` says, and makes the rest 0."""
    bits = _BITS[dtype.nbytes]

    def body(x: Array, mask: Array, out: Array) -> None:
        np.bitwise_and(x.getfield(bits), mask, out.getfield(bits))

    def rule(inputs: Sequence[Array], output: Array, params: TriangularParams, scratch: Sequence[Array]) -> Bound:
        source, shape = inputs[0], output.shape
        if source.shape != shape or len(shape) < 2:
            raise KernelArgumentError(op.value, "the output's shape", shape, f"{source.shape}, of rank 2 or more")
        given = (params.batch_count, params.rows, params.cols)
        if given != (wanted := (math.prod(shape[:-2]), *shape[-2:])):
            raise KernelArgumentError(op.value, "batch_count, rows and cols", given, wanted)
        if not output.size:
            return nothing, (source, output)
        # Beyond the matrix all diagonals are alike; so the numbers stay small.
        diagonal = min(max(params.diagonal, -params.rows), params.cols)
        # All bits or none by column - row. Each row of the mask is a part of this, one further left than the last.
        band = -keep(np.arange(1 - params.rows, params.cols), diagonal).astype(bits)
        mask = sliding_window_view(band, params.cols)[::-1]
        return body, (source, mask, output)

    return HostKernel(op, (dtype, dtype), rule, TriangularParams, IN_PLACE)


def _filled(fill: Array, bits: NumpyDType) -> Body:
    # x ^ (condition & (x ^ fill)); the output, which may be either operand, is written last.
    def body(x: Array, condition: Array, out: Array, true: Array, mask: Array, differ: Array) -> None:
        kept = x.getfield(bits)
        np.not_equal(condition, _ZERO_U8, true)
        _widened(true, mask)
        np.bitwise_xor(kept, fill, differ)
        np.bitwise_and(mask, differ, differ)
        np.bitwise_xor(differ, kept, out.getfield(bits))

    return body


def _masked_fill(dtype: DType) -> HostKernel:
    op, kind, bits = OpKind.MaskedFill, dtype.require_np(), _BITS[dtype.nbytes]
    planes = (BOOL, bits, bits)

    def rule(inputs: Sequence[Array], output: Array, params: MaskedFillParams, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        if len(params.fill_bytes) != dtype.nbytes:
            raise KernelArgumentError(op.value, "fill_bytes", params.fill_bytes, f"{dtype.nbytes} bytes, one element")
        fill = np.frombuffer(params.fill_bytes, bits).reshape(())
        if not _are_few(inputs, output):
            return bind_body(_filled(fill, bits), inputs, output, planes, scratch)
        (work,) = carve((bits,), output.shape, scratch[0])
        result = work.view(kind)

        def put(x: Array, mask: Array, out: Array) -> None:
            result[...] = x
            np.putmask(work, mask.getfield(BOOL), fill)
            out[...] = result

        return put, (*inputs, output)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (dtype, DType.U8, dtype), rule, MaskedFillParams, IN_PLACE, working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_where(dtype) for dtype in T4),
        *(_triangle(OpKind.Triu, np.greater_equal, dtype) for dtype in T6),
        *(_triangle(OpKind.Tril, np.less_equal, dtype) for dtype in T6),
        *(_masked_fill(dtype) for dtype in T6),
    )
