"""Matrix product plus bias: the product of `matmul`, and the bias added where it was written.

In half types the sum is taken in float32 and narrowed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.matmul import bind_matmul, check_shapes, packed_nbytes, product, wide_nbytes
from fuel_async.dispatch import MatmulParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape

_OP = OpKind.FusedLinear.value


def _check_bias(bias: Array, params: MatmulParams) -> None:
    if bias.shape != (params.n,):
        raise KernelArgumentError(_OP, "the bias's shape", bias.shape, (params.n,))


def _linear(inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]) -> Bound:
    *factors, bias = inputs
    multiply, _ = bind_matmul(factors, output, params, scratch, _OP)
    _check_bias(bias, params)

    def linear(left: Array, right: Array, bias: Array, output: Array) -> None:
        multiply(left, right, output)
        np.add(output, bias, output)

    return linear, (*inputs, output)


def _wide_linear(inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]) -> Bound:
    left, right, bias = inputs
    check_shapes(left.shape, right.shape, output.shape, params, _OP)
    _check_bias(bias, params)
    call = product(params)
    wides = [np.ndarray(each.shape, F32, memory) for each, memory in zip((*inputs, output), scratch, strict=True)]
    wide_left, wide_right, wide_bias, wide = wides

    def wide_linear(left: Array, right: Array, bias: Array, output: Array) -> None:
        wide_left[...] = left
        wide_right[...] = right
        wide_bias[...] = bias
        call(wide_left, wide_right, wide)
        np.add(wide, wide_bias, wide)
        output[...] = wide

    return wide_linear, (*inputs, output)


def _kernel(dtype: DType) -> HostKernel:
    dtypes = (dtype,) * 4
    if dtype in HALVES:
        return HostKernel(OpKind.FusedLinear, dtypes, _wide_linear, MatmulParams, scratch=wide_nbytes)

    def working(params: MatmulParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return packed_nbytes(params, dtype.require_np())

    return HostKernel(OpKind.FusedLinear, dtypes, _linear, MatmulParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
