"""Matrix products of CUDA devices: floats by cuBLAS where it takes the operands as they lie, else by grids.

Which that is, is seen when a call is planned: rows or columns of either operand in one piece are enough, batches of any
strides and grouped heads included. A bias is first copied over the output, and the product is added to it in the type
in which is summed, so that it is rounded once. Products of integers, and all where there is no cuBLAS, are the grids'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.kernels.gemm import CUBLAS, TYPES, Gemm, Side, gemms
from fuel_async.backends.grids import matmul as grids
from fuel_async.backends.grids.matmul import batches_of, check_shapes
from fuel_async.backends.grids.movement import moved
from fuel_async.backends.grids.table import kernels_of
from fuel_async.ir import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, GridKernel, Limits, Operand
    from fuel_async.dispatch import MatmulParams


def _calls(operands: Sequence[Operand], params: MatmulParams, *, biased: bool) -> list[Gemm] | None:
    """The calls of cuBLAS for a product whose output is not empty; None where there is no way."""
    left, right, output = operands[0], operands[1], operands[3 if biased else 2]
    if left.dtype not in TYPES or not params.k:
        return None
    first, second = (Side(place, one.offset, *one.strides[-2:]) for place, one in enumerate((left, right)))
    target = Side(3 if biased else 2, output.offset, params.n, 1)
    sizes = params.m, params.n, params.k
    return gemms((first, second, target), sizes, batches_of(left, right, params), left.dtype, adds=biased)


def _spread(operands: Sequence[Operand], limits: Limits) -> list[Dispatch]:
    """Copy the bias to each row of the output."""
    bias, output = operands[2:4]
    repeated = replace(bias, shape=output.shape, strides=(0,) * (len(output.shape) - 1) + bias.strides)
    return moved(OpKind.FusedLinear, repeated, output, (2, 3), limits)


def _by_library(kernel: GridKernel) -> GridKernel:
    biased = kernel.op is OpKind.FusedLinear

    def plan(operands: Sequence[Operand], params: MatmulParams, limits: Limits) -> Sequence[Any]:
        check_shapes(kernel.op, operands[: 4 if biased else 3], params)
        if 0 in operands[3 if biased else 2].shape:
            return []
        calls = _calls(operands, params, biased=biased) if CUBLAS in limits.features else None
        if calls is None:
            return kernel.plan(operands, params, limits)
        return [*(_spread(operands, limits) if biased else []), *calls]

    return replace(kernel, plan=plan)


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype. Plans have `Gemm`s among their dispatches."""
    return tuple([_by_library(kernel) for kernel in kernels_of(grids)])
