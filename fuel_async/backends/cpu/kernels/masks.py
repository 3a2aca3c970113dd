"""Kernels that keep some elements and put one number in place of the others: triu, tril, masked_fill.

The choice is made on the bits, like that of `where`: values that are kept come through unchanged, NaN included, and no
branch depends on the data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import IN_PLACE, T6, HostKernel, check_broadcast
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Body,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    constants,
    scratch_nbytes,
)
from fuel_async.dispatch import MaskedFillParams, TriangularParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOOL, U8 = np.dtype(np.bool_), np.dtype(np.uint8)
_BITS: Mapping[int, NumpyDType] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
(_ZERO_U8,) = constants(U8, 0)


def _kept(keep: np.ufunc, bits: NumpyDType) -> Body:
    """The body that keeps what `keep(row number, column number)` says, and makes the rest 0."""

    def body(x: Array, rows: Array, columns: Array, out: Array, true: Array, factor: Array) -> None:
        keep(rows, columns, true)
        factor[...] = true
        np.multiply(x.view(bits), factor, out.view(bits))

    return body


def _triangle(op: OpKind, keep: np.ufunc, dtype: DType) -> HostKernel:
    bits = _BITS[dtype.nbytes]
    body, planes = _kept(keep, bits), (BOOL, bits)

    def rule(inputs: Sequence[Array], output: Array, params: TriangularParams, scratch: Sequence[Array]) -> Bound:
        source, shape = inputs[0], output.shape
        if source.shape != shape or len(shape) < 2:
            raise KernelArgumentError(op.value, "the output's shape", shape, f"{source.shape}, of rank 2 or more")
        given = (params.batch_count, params.rows, params.cols)
        if given != (wanted := (math.prod(shape[:-2]), *shape[-2:])):
            raise KernelArgumentError(op.value, "batch_count, rows and cols", given, wanted)
        # Beyond the matrix all diagonals are alike; so the numbers stay small.
        diagonal = min(max(params.diagonal, -params.rows), params.cols)
        numbers = np.int32 if params.rows + 2 * params.cols < 2**31 else np.int64
        rows = np.arange(diagonal, diagonal + params.rows, dtype=numbers)[:, None]
        columns = np.arange(params.cols, dtype=numbers)
        return bind_body(body, (source, rows, columns), output, planes, scratch)

    def working(params: TriangularParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (dtype, dtype), rule, TriangularParams, IN_PLACE, working)


def _filled(fill: Array, bits: NumpyDType) -> Body:
    # x ^ (condition · (x ^ fill)) on the bits; the output, which may be either operand, is written last.
    def body(x: Array, mask: Array, out: Array, true: Array, chosen: Array, differ: Array) -> None:
        kept = x.view(bits)
        np.not_equal(mask, _ZERO_U8, true)
        chosen[...] = true
        np.bitwise_xor(kept, fill, differ)
        np.multiply(chosen, differ, differ)
        np.bitwise_xor(differ, kept, out.view(bits))

    return body


def _masked_fill(dtype: DType) -> HostKernel:
    op, bits = OpKind.MaskedFill, _BITS[dtype.nbytes]
    planes = (BOOL, bits, bits)

    def rule(inputs: Sequence[Array], output: Array, params: MaskedFillParams, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        if len(params.fill_bytes) != dtype.nbytes:
            raise KernelArgumentError(op.value, "fill_bytes", params.fill_bytes, f"{dtype.nbytes} bytes, one element")
        fill = np.frombuffer(params.fill_bytes, bits).reshape(())
        return bind_body(_filled(fill, bits), inputs, output, planes, scratch)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (dtype, DType.U8, dtype), rule, MaskedFillParams, IN_PLACE, working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        # A row's number is shifted by the diagonal: [i, j] is on it where i + diagonal = j.
        *(_triangle(OpKind.Triu, np.less_equal, dtype) for dtype in T6),
        *(_triangle(OpKind.Tril, np.greater_equal, dtype) for dtype in T6),
        *(_masked_fill(dtype) for dtype in T6),
    )
