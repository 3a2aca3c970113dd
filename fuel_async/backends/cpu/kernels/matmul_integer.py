"""Matrix products of 8-bit integers: summed exactly, then limited to the range of the type.

The products are BLAS's, in float32 over so few terms at a time that every partial sum is an integer below 2^24 and
thus exact in any order; longer sums are completed in float64, which is exact up to 2^53.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, F64, HostKernel
from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape, clip, constants
from fuel_async.backends.cpu.kernels.matmul import check_shapes, product
from fuel_async.dispatch import MatmulParams
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Terms of which a float32 holds any sum: 2^24 over the largest product of two elements.
TERMS = {DType.I8: 2**24 // 128**2, DType.U8: 2**24 // 255**2}


def _sizes(dtype: DType, params: MatmulParams) -> tuple[Shape, Shape, Shape]:
    """The shapes of the widened pieces of both operands, and of the product."""
    terms = min(params.k, TERMS[dtype])
    left, right = params.lhs_batch_dims, params.rhs_batch_dims
    return (*left, params.m, terms), (*right, terms, params.n), (*left, params.m, params.n)


def _piece(
    params: MatmulParams, start: int, terms: int, scratch: Sequence[Array]
) -> Callable[[Array, Array, Array], None]:
    """The product of `terms` columns of the left and rows of the right from `start`, into a float32 array."""
    call = product(replace(params, k=terms))
    wide_left = np.ndarray((*params.lhs_batch_dims, params.m, terms), F32, scratch[0])
    wide_right = np.ndarray((*params.rhs_batch_dims, terms, params.n), F32, scratch[1])
    stop = start + terms

    def piece(left: Array, right: Array, sums: Array) -> None:
        wide_left[...] = left[..., start:stop]
        wide_right[...] = right[..., start:stop, :]
        call(wide_left, wide_right, sums)

    return piece


def _kernel(dtype: DType) -> HostKernel:
    limits = np.iinfo(dtype.require_np())
    op = OpKind.MatMul

    def rule(inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]) -> Bound:
        left, right = inputs
        check_shapes(left.shape, right.shape, output.shape, params, op.value)
        most = TERMS[dtype]
        starts = range(0, max(params.k, 1), most)
        first, *others = [_piece(params, start, min(most, params.k - start), scratch) for start in starts]
        sums = np.ndarray(output.shape, F32, scratch[2])
        total = np.ndarray(output.shape, F64, scratch[3]) if others else sums
        low, high = constants(total.dtype, limits.min, limits.max)

        def integer_matmul(left: Array, right: Array, output: Array) -> None:
            first(left, right, sums)
            if others:
                total[...] = sums
            for piece in others:
                piece(left, right, sums)
                np.add(total, sums, total)
            clip(total, low, high, total)
            output[...] = total

        return integer_matmul, (left, right, output)

    def working(params: MatmulParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        sizes = [max(math.prod(shape), 1) for shape in _sizes(dtype, params)]
        long = params.k > TERMS[dtype]
        return (*(size * F32.itemsize for size in sizes), *([sizes[-1] * F64.itemsize] if long else []))

    return HostKernel(op, (dtype, dtype, dtype), rule, MatmulParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in TERMS)
