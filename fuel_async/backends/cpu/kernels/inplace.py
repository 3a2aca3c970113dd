"""Kernels of ops that may write over their first operand: the unaries, and writes into a slice of it.

All of them are given the operand and an output. Where these are one array nothing is copied; where they are not, the
operand is left alone, and a write into a slice copies it first. What cannot be written is refused before that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels import elementwise, limits, powers
from fuel_async.backends.cpu.kernels.base import IN_PLACE, HostKernel
from fuel_async.backends.cpu.kernels.movement import HELD
from fuel_async.dispatch import OpParams, WriteSliceDoffParams, WriteSliceParams, WriteSliceRotatingParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends.cpu.kernels.base import ScratchRule
    from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Index, Shape

#: Modules whose code these kernels run, too.
TAKES_FROM = (elementwise, limits, powers)

_STEMS = """
Relu Silu Gelu Tanh Sigmoid Neg Abs Sqr Sqrt Rsqrt Recip Exp Log Sin Cos Sign Floor Ceil Round Erf GeluErf Clamp PowI
"""

#: The kind in place of each kind of unary that has one.
IN_PLACE_KINDS: Mapping[OpKind, OpKind] = {
    **{OpKind[f"{stem}Elementwise"]: OpKind[f"{stem}Inplace"] for stem in _STEMS.split()},
    OpKind.Affine: OpKind.InplaceAffine,
}


def _in_place(kernel: HostKernel, op: OpKind) -> HostKernel:
    """Return the kernel of a unary under the kind in place; the operand is not broadcast."""

    def rule(inputs: Sequence[Array], output: Array, params: OpParams, scratch: Sequence[Array]) -> Bound:
        _check_shape(op, "the output's shape", output.shape, inputs[0].shape)
        return kernel.rule(inputs, output, params, scratch)

    return replace(kernel, op=op, rule=rule)


# --- writes into a slice ------------------------------------------------------------------------------------


def _check_shape(op: OpKind, what: str, got: Shape, wanted: Shape) -> None:
    if got != wanted:
        raise KernelArgumentError(op.value, what, got, wanted)


def _check_ranges(op: OpKind, source: Array, output: Array, ranges: Sequence[tuple[int, int]]) -> None:
    """The ranges are inside the output and as long as the source."""
    inside = len(ranges) == output.ndim and all(
        0 <= start <= end <= size for (start, end), size in zip(ranges, output.shape, strict=True)
    )
    if not inside:
        raise KernelArgumentError(op.value, "ranges", ranges, f"a range inside of each axis of {output.shape}")
    _check_shape(op, "the source's shape", source.shape, tuple([end - start for start, end in ranges]))


# Where the output is the operand itself, `output[...] = dest` is nothing: numpy compares addresses and strides first.


def _write_slice(inputs: Sequence[Array], output: Array, params: WriteSliceParams, scratch: Sequence[Array]) -> Bound:
    """The output is inputs[0], with inputs[1] where the ranges say."""
    op, (dest, source) = OpKind.WriteSlice, inputs
    _check_shape(op, "the output's shape", output.shape, dest.shape)
    _check_ranges(op, source, output, params.ranges)
    index: Index = (*[slice(start, end) for start, end in params.ranges], ...)
    covers = source.shape == output.shape

    def write(dest: Array, source: Array, output: Array) -> None:
        if not covers:
            output[...] = dest
        output[index] = source

    return write, (dest, source, output)


def _write_slice_doff(
    inputs: Sequence[Array], output: Array, params: WriteSliceDoffParams, scratch: Sequence[Array]
) -> Bound:
    """The same with inputs[2] in place of the start along `axis`; `KernelArgumentError` when it leaves the output."""
    op, (dest, source, offset) = OpKind.WriteSliceDoff, inputs
    axis = _check_moving(op, inputs, output, params.axis, params.ranges)
    length, most = source.shape[axis], output.shape[axis] - source.shape[axis]
    before: Index = tuple([slice(start, end) for start, end in params.ranges[:axis]])
    after: Index = (*[slice(start, end) for start, end in params.ranges[axis + 1 :]], ...)
    covers = source.shape == output.shape

    def write(dest: Array, source: Array, offset: Array, output: Array) -> None:
        start = offset.item()
        if not 0 <= start <= most:
            raise KernelArgumentError(op.value, f"the offset along axis {axis}", start, f"from 0 to {most}")
        if not covers:
            output[...] = dest
        output[(*before, slice(start, start + length), *after)] = source

    return write, (dest, source, offset, output)


def _write_slice_rotating(
    inputs: Sequence[Array], output: Array, params: WriteSliceRotatingParams, scratch: Sequence[Array]
) -> Bound:
    """The same in a ring of the first `modulus` places along `axis`, from place inputs[2] on."""
    op, (dest, source, position) = OpKind.WriteSliceRotating, inputs
    axis, modulus = _check_moving(op, inputs, output, params.axis, params.ranges), params.modulus
    length = source.shape[axis]
    if not max(length, 1) <= modulus <= output.shape[axis]:
        wanted = f"from {max(length, 1)} to {output.shape[axis]}"
        raise KernelArgumentError(op.value, "modulus", modulus, wanted)
    before: Index = tuple([slice(start, end) for start, end in params.ranges[:axis]])
    after: Index = (*[slice(start, end) for start, end in params.ranges[axis + 1 :]], ...)
    all_before: Index = (slice(None),) * axis
    # A source that covers the output may be the output, and is then read where it was already written: it is set aside.
    aside = np.ndarray(source.shape, source.dtype, scratch[0]) if source.shape == output.shape else None

    def write(dest: Array, source: Array, position: Array, output: Array) -> None:
        start = int(position) % modulus
        first = min(length, modulus - start)
        if aside is not None:
            aside[...] = source
            source = aside
        else:
            output[...] = dest
        output[(*before, slice(start, start + first), *after)] = source[(*all_before, slice(0, first), ...)]
        output[(*before, slice(0, length - first), *after)] = source[(*all_before, slice(first, length), ...)]

    return write, (dest, source, position, output)


def _check_moving(
    op: OpKind, inputs: Sequence[Array], output: Array, axis: int, ranges: Sequence[tuple[int, int]]
) -> int:
    """Check a write whose place along `axis` is a number; return the axis."""
    dest, source, place = inputs
    _check_shape(op, "the output's shape", output.shape, dest.shape)
    _check_shape(op, "the shape of the place", place.shape, ())
    if not 0 <= axis < output.ndim:
        raise KernelArgumentError(op.value, "axis", axis, f"an axis of {output.shape}")
    _check_ranges(op, source, output, ranges)
    return axis


def _aside(itemsize: int) -> ScratchRule:
    """The working memory of a rotating write of elements of that size."""

    def nbytes(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return (max(math.prod(output) * itemsize, 1),) if inputs[1] == output else ()

    return nbytes


def _writes(dtype: DType) -> tuple[HostKernel, ...]:
    key = (dtype, dtype)
    slice_, doff, rotating = OpKind.WriteSlice, OpKind.WriteSliceDoff, OpKind.WriteSliceRotating
    with_offset, with_position = (dtype, dtype, DType.I64, dtype), (dtype, dtype, DType.U32, dtype)
    aside = _aside(dtype.nbytes)
    return (
        HostKernel(slice_, key, _write_slice, WriteSliceParams, IN_PLACE, operands=(dtype, dtype, dtype)),
        HostKernel(doff, key, _write_slice_doff, WriteSliceDoffParams, IN_PLACE, operands=with_offset),
        HostKernel(
            rotating, key, _write_slice_rotating, WriteSliceRotatingParams, IN_PLACE, aside, operands=with_position
        ),
    )


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(
            _in_place(kernel, IN_PLACE_KINDS[kernel.op])
            for family in TAKES_FROM
            for kernel in family.kernels()
            if kernel.op in IN_PLACE_KINDS
        ),
        *(kernel for dtype in HELD for kernel in _writes(dtype)),
    )
