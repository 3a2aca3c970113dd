"""Kernels that lay elements out anew along axes: flip, roll, pad, and the gradient of pad.

All are assignments between slices. A pad is cut into regions, at most three an axis that is padded, each of which
comes from one slice of the operand; its gradient adds the same regions back, half types in float32.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, T6, HostKernel
from fuel_async.dispatch import FlipParams, PadBackwardParams, PadParams, RollParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Index, NumpyDType, Shape

CONSTANT, REFLECT, REPLICATE = range(3)

#: `(source, axes, dtype, output, keepdims)`, all by position.
_add_reduce: Callable[..., Any] = np.add.reduce


class _Region(NamedTuple):
    """A part of the padded array, and the slice of the other one that it shows."""

    padded: Index
    unpadded: Index
    #: Axes along which one entry is repeated.
    repeated: tuple[int, ...]


class _Side(NamedTuple):
    """What a region is along one axis."""

    padded: slice
    unpadded: slice
    repeated: bool = False


# --- flip and roll ----------------------------------------------------------------------------------------


def _check_axis(op: OpKind, source: Shape, output: Shape, params: FlipParams | RollParams) -> None:
    axis = params.axis
    if source != output:
        raise KernelArgumentError(op.value, "the output's shape", output, source)
    if not 0 <= axis < len(source):
        raise KernelArgumentError(op.value, "axis", axis, f"an axis of {source}")
    if source[axis] != params.dim_size:
        raise KernelArgumentError(op.value, "dim_size", params.dim_size, source[axis])


def _flip(inputs: Sequence[Array], output: Array, params: FlipParams, scratch: Sequence[Array]) -> Bound:
    _check_axis(OpKind.Flip, inputs[0].shape, output.shape, params)
    index: Index = (*(slice(None),) * params.axis, slice(None, None, -1), ...)

    def flip(source: Array, output: Array) -> None:
        output[...] = source[index]

    return flip, (inputs[0], output)


def _roll(inputs: Sequence[Array], output: Array, params: RollParams, scratch: Sequence[Array]) -> Bound:
    _check_axis(OpKind.Roll, inputs[0].shape, output.shape, params)
    size = params.dim_size
    before: Index = (slice(None),) * params.axis
    by = params.shift % size if size else 0
    head, tail = (*before, slice(None, by), ...), (*before, slice(by, None), ...)
    last, first = (*before, slice(size - by, None), ...), (*before, slice(None, size - by), ...)

    def roll(source: Array, output: Array) -> None:
        output[head] = source[last]
        output[tail] = source[first]

    return roll, (inputs[0], output)


# --- pad --------------------------------------------------------------------------------------------------


def _check_pad(op: OpKind, unpadded: Shape, padded: Shape, params: PadParams | PadBackwardParams) -> None:
    padding, mode = params.padding, params.mode_tag
    if len(padding) != len(unpadded) or any(width < 0 for pair in padding for width in pair):
        raise KernelArgumentError(op.value, "padding", padding, f"two numbers from 0 for each axis of {unpadded}")
    if mode not in (CONSTANT, REFLECT, REPLICATE):
        raise KernelArgumentError(op.value, "mode_tag", mode, "0, 1 or 2")
    wanted = tuple(before + size + after for size, (before, after) in zip(unpadded, padding, strict=True))
    if padded != wanted:
        raise KernelArgumentError(op.value, "the padded shape", padded, wanted)
    for axis, (size, pair) in enumerate(zip(unpadded, padding, strict=True)):
        least = 0 if mode == CONSTANT or not max(pair) else 1 if mode == REPLICATE else max(pair) + 1
        if size < least:
            raise KernelArgumentError(op.value, f"the size of axis {axis} of {unpadded}", size, f"at least {least}")


def _sides(size: int, before: int, after: int, mode: int) -> list[_Side]:
    """The parts of one axis: the operand's own first, then those that are added."""
    sides = [_Side(slice(before, before + size), slice(None))]
    if mode == CONSTANT:
        return sides
    head, tail = slice(before), slice(before + size, before + size + after)
    if mode == REPLICATE:
        added = (_Side(head, slice(1), True), _Side(tail, slice(size - 1, size), True))
    else:
        end = size - 2 - after
        added = (_Side(head, slice(before, 0, -1)), _Side(tail, slice(size - 2, None if end < 0 else end, -1)))
    return [*sides, *[side for side, width in zip(added, (before, after), strict=True) if width]]


def _regions(unpadded: Shape, params: PadParams | PadBackwardParams) -> list[_Region]:
    """All parts of the padded array that come from the other one, the middle first."""
    axes = [_sides(size, *pair, params.mode_tag) for size, pair in zip(unpadded, params.padding, strict=True)]
    return [
        _Region(
            (*[side.padded for side in sides], ...),
            (*[side.unpadded for side in sides], ...),
            tuple([axis for axis, side in enumerate(sides) if side.repeated]),
        )
        for sides in product(*axes)
    ]


def _frame(unpadded: Shape, params: PadParams) -> list[Index]:
    """The parts of the padded array around the middle, none of them twice."""
    parts: list[Index] = []
    middle: tuple[slice, ...] = ()
    for size, (before, after) in zip(unpadded, params.padding, strict=True):
        parts += [(*middle, slice(before), ...)] if before else []
        parts += [(*middle, slice(before + size, None), ...)] if after else []
        middle = (*middle, slice(before, before + size))
    return parts


def _pad(inputs: Sequence[Array], output: Array, params: PadParams, scratch: Sequence[Array]) -> Bound:
    source = inputs[0]
    _check_pad(OpKind.Pad, source.shape, output.shape, params)
    if len(params.fill_bytes) != output.itemsize:
        wanted = f"{output.itemsize} bytes, one element"
        raise KernelArgumentError(OpKind.Pad.value, "fill_bytes", params.fill_bytes, wanted)
    fill = np.frombuffer(params.fill_bytes, output.dtype).reshape(())
    frame = _frame(source.shape, params) if params.mode_tag == CONSTANT else []
    regions = _regions(source.shape, params)

    def pad(source: Array, output: Array) -> None:
        for part in frame:
            output[part] = fill
        for region in regions:
            output[region.padded] = source[region.unpadded]

    return pad, (source, output)


# --- its gradient -----------------------------------------------------------------------------------------


def _pad_backward(dtype: DType) -> HostKernel:
    half = dtype in HALVES
    compute: NumpyDType = F32 if half else dtype.require_np()

    def rule(inputs: Sequence[Array], output: Array, params: PadBackwardParams, scratch: Sequence[Array]) -> Bound:
        upstream, shape = inputs[0], output.shape
        _check_pad(OpKind.PadBackward, shape, upstream.shape, params)
        middle, *added = _regions(shape, params)
        wide = np.ndarray(shape, F32, scratch[1]) if half and added else None
        # An edge that was repeated gets the sum of its copies, taken here first.
        steps = [(region, _edge(shape, region, compute, scratch[0])) for region in added]

        def pad_backward(upstream: Array, output: Array) -> None:
            total = output if wide is None else wide
            total[...] = upstream[middle.padded]
            for region, edge in steps:
                place, given = total[region.unpadded], upstream[region.padded]
                if edge is not None:
                    _add_reduce(given, region.repeated, compute, edge, True)
                    given = edge
                np.add(place, given, place)
            if wide is not None:
                output[...] = wide

        return pad_backward, (upstream, output)

    def working(params: PadBackwardParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        count = max(math.prod(output), 1)
        return (count * compute.itemsize, *((count * F32.itemsize,) if half else ()))

    return HostKernel(OpKind.PadBackward, (dtype, dtype), rule, PadBackwardParams, scratch=working)


def _edge(shape: Shape, region: _Region, dtype: NumpyDType, memory: Array) -> Array | None:
    """The sums of one region, in `memory`; None where nothing is repeated."""
    if not region.repeated:
        return None
    sizes = [len(range(*side.indices(size))) for size, side in zip(shape, region.unpadded, strict=False)]
    return np.ndarray(tuple(sizes), dtype, memory)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(HostKernel(OpKind.Flip, (dtype, dtype), _flip, FlipParams) for dtype in T6),
        *(HostKernel(OpKind.Roll, (dtype, dtype), _roll, RollParams) for dtype in T6),
        *(HostKernel(OpKind.Pad, (dtype, dtype), _pad, PadParams) for dtype in T6),
        *(_pad_backward(dtype) for dtype in T4),
    )
