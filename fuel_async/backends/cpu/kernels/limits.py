"""Kernels that keep each element within limits: relu and clamp. One ufunc, with the limits between the operands.

NaN stays, relu(-0.0) is -0.0. Half types are widened to float32 block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, IN_PLACE, T4, HostKernel, check_broadcast, compute_type
from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape, bind_body, clip, constants, scratch_nbytes
from fuel_async.dispatch import ClampParams, NoParams, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The arrays between which a call of the kernel keeps its results.
Limits = Callable[[Any], tuple[Array, ...]]


def _clamped(op: OpKind, dtype: DType, takes: type[OpParams], limits: Limits) -> HostKernel:
    """Return the kernel that keeps each element within `limits(params)`; NaN stays."""
    half = dtype in HALVES
    planes = (F32,) if half else ()

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        low, high = limits(params)
        if not half:
            return clip, (inputs[0], low, high, output)

        def body(x: Array, out: Array, wide: Array) -> None:
            wide[...] = x
            clip(wide, low, high, wide)
            out[...] = wide

        return bind_body(body, inputs, output, planes, scratch)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (dtype, dtype), rule, takes, IN_PLACE, working)


def _relu(dtype: DType) -> HostKernel:
    limits = constants(compute_type(dtype), 0.0, np.inf)
    return _clamped(OpKind.ReluElementwise, dtype, NoParams, lambda _: limits)


def _clamp(dtype: DType) -> HostKernel:
    compute = compute_type(dtype)

    def limits(params: ClampParams) -> tuple[Array, ...]:
        if params.min > params.max:
            raise KernelArgumentError(OpKind.ClampElementwise.value, "min", params.min, f"at most {params.max}")
        with np.errstate(all="ignore"):  # a limit beyond the type's range is its infinity
            return constants(compute, params.min, params.max)

    return _clamped(OpKind.ClampElementwise, dtype, ClampParams, limits)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (*(_relu(dtype) for dtype in T4), *(_clamp(dtype) for dtype in T4))
