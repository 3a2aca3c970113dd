"""Kernels that move elements without computing: copy (strided to row-major), cast, concat.

Casts convert as numpy's `astype` does: floats to integers towards zero, where a value that the integer type
cannot hold (NaN and infinities included) gives what the processor gives; integers wrap; to narrower floats
round half-to-even, and what is too large becomes infinity, in f8e4m3 NaN.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import T9, T11, HostKernel, Rule
from fuel_async.dispatch import CastParams, ConcatParams, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cpu.kernels.blocks import Array, Bound


def _assigned(op: OpKind) -> Rule:
    """Return the rule of `output[...] = input`: the cheapest call by which numpy copies or converts."""

    def rule(inputs: Sequence[Array], output: Array, params: OpParams, scratch: Sequence[Array]) -> Bound:
        if inputs[0].shape != output.shape:
            raise KernelArgumentError(op.value, "the output's shape", output.shape, inputs[0].shape)
        return operator.setitem, (output, ..., inputs[0])

    return rule


def _concat(inputs: Sequence[Array], output: Array, params: ConcatParams, scratch: Sequence[Array]) -> Bound:
    axis, op = params.axis, OpKind.Concat.value
    shape = output.shape
    if not 0 <= axis < len(shape):
        raise KernelArgumentError(op, "axis", axis, f"an axis of {shape}")
    for position, operand in enumerate(inputs):
        rest = (*operand.shape[:axis], shape[axis], *operand.shape[axis + 1 :])
        if operand.ndim != len(shape) or rest != shape:
            raise KernelArgumentError(
                op, f"the shape of input {position}", operand.shape, f"{shape} but for axis {axis}"
            )
    total = sum(operand.shape[axis] for operand in inputs)
    if total != shape[axis]:
        raise KernelArgumentError(op, f"the inputs' size along axis {axis}", total, shape[axis])

    def concat(*operands: Array) -> None:
        np.concatenate(operands[:-1], axis, operands[-1])

    return concat, (*inputs, output)


def _casts(source: DType) -> list[HostKernel]:
    rule = _assigned(OpKind.Cast)
    return [HostKernel(OpKind.Cast, (source, to), rule, CastParams) for to in T11 if to is not source]


#: Whatever can be fed can be handed on: every dtype that an array can hold.
HELD = tuple(dtype for dtype in DType.ALL if dtype.np is not None)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtypes."""
    return (
        *(
            HostKernel(OpKind.Copy, (dtype, dtype), _assigned(OpKind.Copy))
            for dtype in (*T9, DType.I8, DType.F8E4M3, DType.F8E8M0)
        ),
        *(HostKernel(OpKind.Concat, (dtype, dtype), _concat, ConcatParams, variadic=True) for dtype in T9),
        *(kernel for source in T11 for kernel in _casts(source)),
    )
