"""Kernels at edges and under masks: pad and its gradient, triu, tril, and masked_fill.

The gradient of a pad is taken axis by axis, the sums in between in float32 or float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import MOVED_NEEDS, float_name
from fuel_async.backends.grids.grids import ITERATIONS, check, dispatch, each, folded, row_major
from fuel_async.backends.grids.kernel import IN_PLACE, GridKernel, Operand
from fuel_async.backends.grids.movement import T6, moved, part
from fuel_async.backends.grids.widths import T4, Width
from fuel_async.dispatch import MaskedFillParams, PadBackwardParams, PadParams, TriangularParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, Shape

#: Modules whose code these kernels run besides.
TAKES_FROM = (moved.__module__,)

CONSTANT, REFLECT, REPLICATE = range(3)

_PAD_AXES, _UNPAD_AXES, _TRIANGLE_AXES, _FILL_AXES = 6, 7, 8, 8


def _fill_words(op: OpKind, fill: bytes, dtype: DType) -> tuple[int, int]:
    check(op.value, "the bytes of the number", len(fill), dtype.nbytes)
    number = int.from_bytes(fill, "little")
    return number % 2**32, number >> 32


def _check_pad(op: OpKind, unpadded: Shape, padded: Shape, params: PadParams | PadBackwardParams) -> None:
    wanted = tuple([before + size + after for size, (before, after) in zip(unpadded, params.padding, strict=True)])
    check(op.value, "the padded shape", padded, wanted)
    for size, pair in zip(unpadded, params.padding, strict=True):
        least = {CONSTANT: 0, REFLECT: max(pair) + 1, REPLICATE: 1}[params.mode_tag] if max(pair) else 0
        if size < least:
            raise KernelArgumentError(op.value, f"the size of an axis of {unpadded}", size, f"at least {least}")


def _pad(operands: Sequence[Operand], params: PadParams, limits: Limits) -> Sequence[Dispatch]:
    (source, target), op = operands, OpKind.Pad
    _check_pad(op, source.shape, target.shape, params)
    fill, count = _fill_words(op, params.fill_bytes, target.dtype), math.prod(target.shape)
    if not count:
        return []
    # (padded size, added before, own size, step), innermost first; an axis without edges joins the next one.
    axes: list[tuple[int, int, int, int]] = []
    rows = zip(target.shape, params.padding, source.shape, source.strides, strict=True)
    for wide, (before, _), size, step in reversed(list(rows)):
        inner = axes[-1] if axes else None
        joins = inner is not None and inner[0] == inner[2] and step == inner[3] * inner[2]
        if inner and joins and (params.mode_tag == CONSTANT or wide == size):
            axes[-1] = (wide * inner[0], before * inner[0], size * inner[0], inner[3])
        elif wide != 1 or size != 1:
            axes.append((wide, before, size, step))
    check(op.value, f"axes beyond {_PAD_AXES}", max(len(axes) - _PAD_AXES, 0), 0)
    filled = [*axes, *[(1, 0, 1, 0)] * (_PAD_AXES - len(axes))]
    words = [*fill, count, len(axes), source.offset, target.offset, params.mode_tag]
    columns = [number for column in zip(*filled, strict=True) for number in column]
    return [dispatch(f"pad_{target.dtype.nbytes}", (0, 1), [*words, *columns], each(count, limits))]


def _unpadded(
    op: OpKind, views: Sequence[Operand], places: tuple[int, int], axis: int, params: PadBackwardParams, limits: Limits
) -> Dispatch:
    source, target = views[places[0]], views[places[1]]
    others = [at for at in range(len(target.shape)) if at != axis]
    axes = folded(*[[row[at] for at in others] for row in (target.shape, source.strides, target.strides)])
    width = Width.of(source.dtype if source.dtype.bits == 16 else target.dtype)
    count = math.prod(target.shape)
    words = [
        count, len(axes.sizes), source.offset, target.offset, source.strides[axis], target.strides[axis],
        target.shape[axis], *params.padding[axis], params.mode_tag, *axes.words(_UNPAD_AXES, op.value),
    ]  # fmt: skip
    name = float_name("unpad", (source.dtype.bits, target.dtype.bits))
    return dispatch(name, places, words, each(count, limits), spec=width.spec())


def _turns(shape: Shape, padding: Sequence[tuple[int, int]]) -> list[tuple[int, Shape]]:
    """The axes that are taken back, one after the other, and the shape that is left each time."""
    left = [before + size + after for size, (before, after) in zip(shape, padding, strict=True)]
    turns = []
    for axis, pair in enumerate(padding):
        if any(pair):
            left[axis] = shape[axis]
            turns.append((axis, tuple(left)))
    return turns


def _pad_backward(dtype: DType) -> GridKernel:
    op, width = OpKind.PadBackward, Width.of(dtype)

    def plan(operands: Sequence[Operand], params: PadBackwardParams, limits: Limits) -> Sequence[Dispatch]:
        upstream, target = operands[:2]
        _check_pad(op, target.shape, upstream.shape, params)
        if 0 in target.shape:
            return []
        turns = _turns(target.shape, params.padding)
        widest = max((width for pair in params.padding for width in pair), default=0)
        if params.mode_tag == REPLICATE and 2 * widest > ITERATIONS:
            raise KernelArgumentError(op.value, "elements added to an axis", widest, f"to {ITERATIONS // 2}")
        if params.mode_tag == CONSTANT or not turns:
            middle = upstream
            for axis, (before, _) in enumerate(params.padding):
                middle = part(middle, axis, before, target.shape[axis])
            return moved(op, middle, target, (0, 1), limits)
        views, place = [*operands], 0
        found: list[Dispatch] = []
        for number, (axis, shape) in enumerate(turns):
            into = 1 if number == len(turns) - 1 else 2 + number % 2
            if into > 1:
                offset = operands[into].offset // width.wide.nbytes
                views[into] = Operand(width.wide, shape, row_major(shape), offset)
            found.append(_unpadded(op, views, (place, into), axis, params, limits))
            place = into
        return found

    def scratch(params: PadBackwardParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        turns = _turns(output, params.padding)[:-1] if params.mode_tag != CONSTANT else []
        return tuple([max(math.prod(shape), 1) * width.wide.nbytes for _, shape in turns[:2]])

    return GridKernel(op, (dtype, dtype), plan, PadBackwardParams, needs=width.needs, scratch=scratch)


# --- masks --------------------------------------------------------------------------------------------------


def _triangle(op: OpKind, dtype: DType) -> GridKernel:
    def plan(operands: Sequence[Operand], params: TriangularParams, limits: Limits) -> Sequence[Dispatch]:
        source, target = operands
        check(op.value, "the output's shape", target.shape, source.shape)
        given = (params.batch_count, params.rows, params.cols)
        check(op.value, "batch_count, rows and cols", given, (math.prod(source.shape[:-2]), *source.shape[-2:]))
        count = math.prod(source.shape)
        if not count:
            return []
        lead = folded(source.shape[:-2], source.strides[:-2])
        # Beyond the matrix all diagonals are alike, so the numbers stay small.
        diagonal = min(max(params.diagonal, -params.rows), params.cols)
        head = [count, len(lead.sizes) + 2, source.offset, target.offset, int(op is OpKind.Triu), diagonal]
        sizes, steps = lead.words(_TRIANGLE_AXES - 2, op.value)[: _TRIANGLE_AXES - 2], lead.strides[0]
        steps = (*steps, *(0,) * (_TRIANGLE_AXES - 2 - len(steps)))
        words = [*head, params.cols, params.rows, *sizes, source.strides[-1], source.strides[-2], *steps]
        return [dispatch(f"triangle_{dtype.nbytes}", (0, 1), words, each(count, limits))]

    return GridKernel(op, (dtype, dtype), plan, TriangularParams, IN_PLACE, MOVED_NEEDS[dtype.nbytes])


def broadcast(operand: Operand, shape: Shape) -> tuple[int, ...]:
    """Return the strides with which an operand is read as one of `shape`."""
    missing = len(shape) - len(operand.shape)
    rows = zip(operand.shape, operand.strides, strict=True)
    return (*(0,) * missing, *[0 if size == 1 else step for size, step in rows])


def _masked_fill(dtype: DType) -> GridKernel:
    op = OpKind.MaskedFill
    needs = MOVED_NEEDS[dtype.nbytes] | MOVED_NEEDS[1]

    def plan(operands: Sequence[Operand], params: MaskedFillParams, limits: Limits) -> Sequence[Dispatch]:
        source, mask, target = operands
        axes = folded(target.shape, *[broadcast(operand, target.shape) for operand in (source, mask)])
        if not axes.count:
            return []
        fill = _fill_words(op, params.fill_bytes, dtype)
        head = [*fill, axes.count, len(axes.sizes), source.offset, mask.offset, target.offset]
        words = [*head, *axes.words(_FILL_AXES, op.value)]
        return [dispatch(f"fill_{dtype.nbytes}", (0, 1, 2), words, each(axes.count, limits))]

    return GridKernel(op, (dtype, DType.U8, dtype), plan, MaskedFillParams, IN_PLACE, needs)


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(GridKernel(OpKind.Pad, (each_, each_), _pad, PadParams, needs=MOVED_NEEDS[each_.nbytes]) for each_ in T6),
        *(_pad_backward(dtype) for dtype in T4),
        *(_triangle(op, dtype) for op in (OpKind.Triu, OpKind.Tril) for dtype in T6),
        *(_masked_fill(dtype) for dtype in T6),
    )
