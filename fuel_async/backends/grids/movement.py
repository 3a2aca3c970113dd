"""Kernels that move elements as bits: copy, concat, flip, roll, and writes into a slice.

All but writes at a place that an operand says are copies between two strided views. Elements of 8 bytes are pairs of
words, and small neighbours that move together go as one larger element.
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import MOVED_NEEDS
from fuel_async.backends.grids.grids import Axes, check, dispatch, each, folded, row_major
from fuel_async.backends.grids.kernel import IN_PLACE, GridKernel, Operand
from fuel_async.dispatch import (
    ConcatParams,
    FlipParams,
    NoParams,
    RollParams,
    WriteSliceDoffParams,
    WriteSliceParams,
    WriteSliceRotatingParams,
)
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, ScratchRule, Shape

#: Whatever can be fed can be handed on.
HELD = tuple(dtype for dtype in DType.ALL if dtype.np is not None)
T6 = (DType.F32, DType.F64, DType.BF16, DType.F16, DType.U32, DType.U8)
T9 = (*T6, DType.I16, DType.I32, DType.I64)

_MOVE_AXES, _PLACE_AXES = 8, 6
#: Bytes of a word: what lies at a multiple of it can be moved as one, whatever the device stores besides.
_WORD = 4


def moved(
    op: OpKind,
    source: Operand,
    target: Operand,
    places: tuple[int, int],
    limits: Limits,
) -> list[Dispatch]:
    """Return the dispatch that copies a view to another of its shape; none for a view without elements.

    `places` are the two among the kernel's operands; the views may lie anywhere inside of them.
    """
    check(op.value, "the shape of what is moved", source.shape, target.shape)
    axes = folded(source.shape, source.strides, target.strides)
    if not axes.count:
        return []
    size, axes, offsets = _widened(source.dtype.nbytes, axes, (source.offset, target.offset))
    inner = Axes(axes.sizes[:_MOVE_AXES], tuple([row[:_MOVE_AXES] for row in axes.strides]))
    # Axes beyond what one dispatch knows are gone through here.
    count, outer = inner.count, axes.sizes[_MOVE_AXES:]
    steps = [row[_MOVE_AXES:] for row in axes.strides]
    found = []
    for at in product(*map(range, outer)):
        starts = [offset + sum(map(operator.mul, at, row)) for offset, row in zip(offsets, steps, strict=True)]
        words = [count, len(inner.sizes), *starts, *inner.words(_MOVE_AXES, op.value)]
        found.append(dispatch(f"move_{size}", places, words, each(count, limits)))
    return found


def _widened(size: int, axes: Axes, offsets: tuple[int, int]) -> tuple[int, Axes, tuple[int, int]]:
    """Let small neighbours that move together go as one word, and count in those."""
    rows, ratio = axes.strides, _WORD // size
    if ratio < 2 or not axes.sizes or any(row[0] != 1 for row in rows):
        return size, axes, offsets
    numbers = (axes.sizes[0], *offsets, *[step for row in rows for step in row[1:]])
    if any(number % ratio for number in numbers):
        return size, axes, offsets
    words = tuple([(1, *[step // ratio for step in row[1:]]) for row in rows])
    return _WORD, Axes((axes.sizes[0] // ratio, *axes.sizes[1:]), words), (offsets[0] // ratio, offsets[1] // ratio)


def part(whole: Operand, axis: int, start: int, length: int) -> Operand:
    """Return the view of `length` entries along one axis."""
    shape = (*whole.shape[:axis], length, *whole.shape[axis + 1 :])
    return replace(whole, shape=shape, offset=whole.offset + start * whole.strides[axis])


def reversed_along(whole: Operand, axis: int) -> Operand:
    """Return the view that goes through one axis backwards."""
    steps = whole.strides
    turned = (*steps[:axis], -steps[axis], *steps[axis + 1 :])
    last = max(whole.shape[axis] - 1, 0)
    return replace(whole, strides=turned, offset=whole.offset + last * steps[axis])


def _copy(operands: Sequence[Operand], params: object, limits: Limits) -> Sequence[Dispatch]:
    source, target = operands
    return moved(OpKind.Copy, source, target, (0, 1), limits)


def _concat(operands: Sequence[Operand], params: ConcatParams, limits: Limits) -> Sequence[Dispatch]:
    *sources, target = operands
    start = 0
    found: list[Dispatch] = []
    sizes = tuple([source.shape[params.axis] for source in sources])
    check(OpKind.Concat.value, "the sizes of the inputs", sizes, params.input_dim_sizes)
    for place, (source, size) in enumerate(zip(sources, sizes, strict=True)):
        into = part(target, params.axis, start, size)
        found += moved(OpKind.Concat, source, into, (place, len(sources)), limits)
        start += size
    check(OpKind.Concat.value, "the output's size", target.shape[params.axis], start)
    return found


def _flip(operands: Sequence[Operand], params: FlipParams, limits: Limits) -> Sequence[Dispatch]:
    source, target = operands
    return moved(OpKind.Flip, reversed_along(source, params.axis), target, (0, 1), limits)


def _roll(operands: Sequence[Operand], params: RollParams, limits: Limits) -> Sequence[Dispatch]:
    source, target = operands
    axis, size = params.axis, params.dim_size
    by = params.shift % size if size else 0
    rest = size - by
    return [
        *moved(OpKind.Roll, part(source, axis, rest, by), part(target, axis, 0, by), (0, 1), limits),
        *moved(OpKind.Roll, part(source, axis, 0, rest), part(target, axis, by, rest), (0, 1), limits),
    ]


# --- writes into a slice ------------------------------------------------------------------------------------


def _kept(op: OpKind, operands: Sequence[Operand], target: int, limits: Limits) -> list[Dispatch]:
    """Bring what is kept into the output, unless it lies there or is written over."""
    if operands[1].shape == operands[target].shape:
        return []
    copies = moved(op, operands[0], operands[target], (0, target), limits)
    return [replace(copy, copies=(0, target)) for copy in copies]


def _within(target: Operand, ranges: Sequence[tuple[int, int]], skipped: int = -1) -> Operand:
    """Return the view of the ranges of an operand, one axis left whole."""
    view = target
    for axis, (start, end) in enumerate(ranges):
        if axis != skipped:
            view = part(view, axis, start, end - start)
    return view


def _write_slice(operands: Sequence[Operand], params: WriteSliceParams, limits: Limits) -> Sequence[Dispatch]:
    op, target = OpKind.WriteSlice, operands[2]
    check(op.value, "the output's shape", target.shape, params.dest_shape)
    into = _within(target, params.ranges)
    return [*_kept(op, operands, 2, limits), *moved(op, operands[1], into, (1, 2), limits)]


def _placed(
    op: OpKind, operands: Sequence[Operand], source: tuple[int, Operand], ring: tuple[int, int, int], view: Operand
) -> tuple[tuple[int, int, int], list[int]]:
    """The operands and the words of a write along the axis of `ring`, (axis, modulus, last first place)."""
    (position, value), (axis, modulus, most), place = source, ring, operands[2]
    rest = [at for at in range(len(value.shape)) if at != axis]
    sizes, steps, into = ([row[at] for at in rest] for row in (value.shape, value.strides, view.strides))
    axes = folded(sizes, steps, into)
    wide = place.dtype.nbytes // 4
    head = [
        axes.count * value.shape[axis], len(axes.sizes), value.offset, place.offset * wide, view.offset,
        value.strides[axis], view.strides[axis], modulus, most, wide,
    ]  # fmt: skip
    return (position, 2, 3), [*head, *axes.words(_PLACE_AXES, op.value)]


def _moving(
    op: OpKind, operands: Sequence[Operand], source: tuple[int, Operand], ring: tuple[int, int, int], view: Operand,
    limits: Limits,
) -> list[Dispatch]:  # fmt: skip
    places, words = _placed(op, operands, source, ring, view)
    if not words[0]:
        return []
    return [dispatch(f"place_{view.dtype.nbytes}", places, words, each(words[0], limits))]


def _write_slice_doff(operands: Sequence[Operand], params: WriteSliceDoffParams, limits: Limits) -> Sequence[Dispatch]:
    op, source, target = OpKind.WriteSliceDoff, operands[1], operands[3]
    check(op.value, "the output's shape", target.shape, params.dest_shape)
    axis = params.axis
    ring = (axis, 2**32 - 1, target.shape[axis] - source.shape[axis])
    view = _within(target, params.ranges, axis)
    return [*_kept(op, operands, 3, limits), *_moving(op, operands, (1, source), ring, view, limits)]


def _write_slice_rotating(
    operands: Sequence[Operand], params: WriteSliceRotatingParams, limits: Limits
) -> Sequence[Dispatch]:
    op, source, target = OpKind.WriteSliceRotating, operands[1], operands[3]
    check(op.value, "the output's shape", target.shape, params.dest_shape)
    view = _within(target, params.ranges, params.axis)
    ring = (params.axis, params.modulus, params.modulus - 1)
    if len(operands) == 4:
        return [*_kept(op, operands, 3, limits), *_moving(op, operands, (1, source), ring, view, limits)]
    # A source that covers the output may be the output, and would be read where it was already written: set aside.
    aside = Operand(source.dtype, source.shape, row_major(source.shape), operands[4].offset // source.dtype.nbytes)
    copied = moved(op, source, aside, (1, 4), limits)
    return [*copied, *_moving(op, operands, (4, aside), ring, view, limits)]


def _aside(nbytes: int) -> ScratchRule:
    """The working memory of a rotating write of elements of that size."""

    def rule(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return (max(math.prod(output) * nbytes, 1),) if inputs[1] == output else ()

    return rule


def _writes(dtype: DType) -> tuple[GridKernel, ...]:
    key, needs = (dtype, dtype), MOVED_NEEDS[dtype.nbytes]
    with_offset, with_position = (dtype, dtype, DType.I64, dtype), (dtype, dtype, DType.U32, dtype)
    slice_, doff, rotating = OpKind.WriteSlice, OpKind.WriteSliceDoff, OpKind.WriteSliceRotating
    aside = _aside(dtype.nbytes)
    return (
        GridKernel(slice_, key, _write_slice, WriteSliceParams, IN_PLACE, needs, operands=(dtype,) * 3),
        GridKernel(doff, key, _write_slice_doff, WriteSliceDoffParams, IN_PLACE, needs, operands=with_offset),
        GridKernel(
            rotating, key, _write_slice_rotating, WriteSliceRotatingParams, IN_PLACE, needs, aside,
            operands=with_position,
        ),
    )  # fmt: skip


def _movers(
    op: OpKind, plan: Callable[..., Sequence[Dispatch]], takes: type, dtypes: Sequence[DType], *, variadic: bool = False
) -> list[GridKernel]:
    return [
        GridKernel(op, (dtype, dtype), plan, takes, needs=MOVED_NEEDS[dtype.nbytes], variadic=variadic)
        for dtype in dtypes
    ]


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *_movers(OpKind.Copy, _copy, NoParams, (*T9, DType.I8, DType.F8E4M3, DType.F8E8M0)),
        *_movers(OpKind.Concat, _concat, ConcatParams, T9, variadic=True),
        *_movers(OpKind.Flip, _flip, FlipParams, T6),
        *_movers(OpKind.Roll, _roll, RollParams, T6),
        *(kernel for dtype in HELD for kernel in _writes(dtype)),
    )
