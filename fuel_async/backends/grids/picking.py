"""Kernels that address elements by an index operand: gather, index_select, and the two that add.

Indices are limited to the axis where they are read; the host refuses those beyond it. An element that is added to goes
through all of the index, so sums have one order, that of the host's kernels.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.catalog import MOVED_NEEDS, float_name
from fuel_async.backends.grids.folds import converted
from fuel_async.backends.grids.grids import ITERATIONS, check, dispatch, each, folded, row_major
from fuel_async.backends.grids.kernel import GridKernel, Operand
from fuel_async.backends.grids.movement import T9, moved
from fuel_async.backends.grids.widths import T4, Width
from fuel_async.dispatch import GatherParams, IndexAddParams, IndexSelectParams, OpParams, ScatterAddParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, ScratchRule, Shape

    #: params -> axis
    AxisOf = Callable[[Any], int]

#: Modules whose code these kernels run besides.
TAKES_FROM = (moved.__module__,)

_PICK_AXES, _ADD_AXES = 8, 5


def _along(index: Operand, axis: int, rank: int) -> Operand:
    """Return an index of rank 1 as one of `rank` axes, repeated along all but one of them."""
    strides = tuple([index.strides[0] if at == axis else 0 for at in range(rank)])
    return replace(index, strides=strides)


def _picked(op: OpKind, operands: Sequence[Operand], index: Operand, axis: int, limits: Limits) -> list[Dispatch]:
    source, _, target = operands
    # The step along the axis that is picked from is the index's to say.
    steps = tuple([0 if at == axis else step for at, step in enumerate(source.strides)])
    axes = folded(target.shape, steps, index.strides)
    if not axes.count:
        return []
    if not source.shape[axis]:
        raise KernelArgumentError(op.value, f"the size of axis {axis} of {source.shape}", 0, "at least 1")
    head = [axes.count, len(axes.sizes), source.offset, index.offset, target.offset, source.strides[axis]]
    words = [*head, source.shape[axis] - 1, *axes.words(_PICK_AXES, op.value)]
    return [dispatch(f"pick_{source.dtype.nbytes}", (0, 1, 2), words, each(axes.count, limits))]


def _index_select(operands: Sequence[Operand], params: IndexSelectParams, limits: Limits) -> Sequence[Dispatch]:
    (source, index, target), axis, op = operands, params.axis, OpKind.IndexSelect
    check(op.value, "the index's rank", len(index.shape), 1)
    wanted = (*source.shape[:axis], index.shape[0], *source.shape[axis + 1 :])
    check(op.value, "the output's shape", target.shape, wanted)
    return _picked(op, operands, _along(index, axis, len(source.shape)), axis, limits)


def _gather(operands: Sequence[Operand], params: GatherParams, limits: Limits) -> Sequence[Dispatch]:
    (source, index, target), op = operands, OpKind.Gather
    check(op.value, "the source's shape", source.shape, params.source_shape)
    check(op.value, "the output's shape", target.shape, index.shape)
    return _picked(op, operands, index, params.dim, limits)


# --- index_add and scatter_add ------------------------------------------------------------------------------


def _added(
    op: OpKind, operands: Sequence[Operand], index: Operand, axis: int, total: tuple[int, Operand], width: Width,
    limits: Limits,
) -> list[Dispatch]:  # fmt: skip
    """Add the source to `total`, operand and place, which holds the base."""
    source, (place, sums) = operands[2], total
    length = source.shape[axis]
    others = [at for at in range(len(source.shape)) if at != axis]
    rest = folded(*[[row[at] for at in others] for row in (source.shape, index.strides, source.strides, sums.strides)])
    # The axis goes first and is never joined with another: its place is what indices are compared with.
    size, step = sums.shape[axis], sums.strides[axis]
    axes = replace(
        rest,
        sizes=(size, *rest.sizes),
        strides=((0, *rest.strides[0]), (0, *rest.strides[1]), (step, *rest.strides[2])),
    )
    if not axes.count or not length:
        return []
    found = []
    for first in range(0, length, ITERATIONS):
        head = [axes.count, len(axes.sizes), index.offset, source.offset, sums.offset, first]
        more = [min(first + ITERATIONS, length), index.strides[axis], source.strides[axis], size - 1]
        words = [*head, *more, *axes.words(_ADD_AXES, op.value)]
        name, spec = float_name("scatter", (width.bits, width.wide_bits)), width.spec()
        groups = each(axes.count, limits)
        found.append(dispatch(name, (1, 2, place), words, groups, spec=spec, adds=True))
    return found


def _adding(op: OpKind, dtype: DType, takes: type[OpParams], axis_of: AxisOf) -> GridKernel:
    width = Width.of(dtype)

    def plan(operands: Sequence[Operand], params: Any, limits: Limits) -> Sequence[Dispatch]:
        base, index, source, target = operands[:4]
        axis = axis_of(params)
        check(op.value, "the output's shape", target.shape, base.shape)
        if op is OpKind.IndexAdd:
            index = _along(index, axis, len(base.shape))
        else:
            check(op.value, "the source's shape", source.shape, index.shape)
        if not width.is_half:
            copies = [replace(copy, copies=(0, 3)) for copy in moved(op, base, target, (0, 3), limits)]
            return [*copies, *_added(op, operands, index, axis, (3, target), width, limits)]
        sums = Operand(DType.F32, target.shape, row_major(target.shape), operands[4].offset // 4)
        return [
            *converted(op, base, sums, (0, 4), limits),
            *_added(op, operands, index, axis, (4, sums), width, limits),
            *converted(op, sums, target, (4, 3), limits),
        ]

    return GridKernel(op, (dtype, DType.U32, dtype, dtype), plan, takes, needs=width.needs, scratch=_sums(width))


def _sums(width: Width) -> ScratchRule:
    """Half types are added up in float32, on the side."""

    def rule(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return (max(math.prod(output), 1) * 4,) if width.is_half else ()

    return rule


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    picks = ((OpKind.IndexSelect, _index_select, IndexSelectParams), (OpKind.Gather, _gather, GatherParams))
    return (
        *(
            GridKernel(op, (dtype, DType.U32, dtype), plan, takes, needs=MOVED_NEEDS[dtype.nbytes])
            for op, plan, takes in picks
            for dtype in T9
        ),
        *(_adding(OpKind.IndexAdd, dtype, IndexAddParams, lambda params: params.axis) for dtype in T4),
        *(_adding(OpKind.ScatterAdd, dtype, ScatterAddParams, lambda params: params.dim) for dtype in T4),
    )
