"""Reductions over any axes, to a shape, and the places of extremes.

Rows are folded by as many invocations as they are worth, in float32 or float64; the sum of nothing is 0, its mean NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.catalog import float_name
from fuel_async.backends.grids.folds import (
    MAXIMUM,
    MINIMUM,
    SUM,
    Fold,
    chunks_of,
    fold,
    partial_nbytes,
    rows_of,
)
from fuel_async.backends.grids.grids import (
    ITERATIONS,
    check,
    dispatch,
    each,
    folded,
    grid,
    lanes_for,
    row_major,
)
from fuel_async.backends.grids.kernel import GridKernel, Operand
from fuel_async.backends.grids.widths import T4, Width
from fuel_async.dispatch import ReduceMaxToBackwardParams, ReduceMaxToParams, ReduceParams, ReduceSumToParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, Shape

_FOLDS = {
    OpKind.SumReduce: SUM,
    OpKind.MeanReduce: SUM,
    OpKind.MaxReduce: MAXIMUM,
    OpKind.MinReduce: MINIMUM,
    OpKind.ReduceSumTo: SUM,
    OpKind.ReduceMaxTo: MAXIMUM,
}
_ARG_AXES, _SHARE_AXES = 8, 6


def dims_to(op: OpKind, source: Shape, result: Shape) -> tuple[int, ...]:
    """Return the axes of `source` that broadcasting from `result` repeats."""
    missing = len(source) - len(result)
    kept = (*(1,) * missing, *result)
    if missing < 0 or any(have not in (1, size) for have, size in zip(kept, source, strict=True)):
        raise KernelArgumentError(op.value, "the reduced shape", result, f"one that broadcasts to {source}")
    pairs = enumerate(zip(kept, source, strict=True))
    return tuple([axis for axis, (have, size) in pairs if axis < missing or have != size])


def _check_folded(op: OpKind, source: Shape, output: Shape, params: ReduceParams) -> None:
    sizes = enumerate(source)
    if params.keepdim:
        wanted = tuple([1 if axis in params.dims else size for axis, size in sizes])
    else:
        wanted = tuple([size for axis, size in sizes if axis not in params.dims])
    check(op.value, "the output's shape", output, wanted)


def _check_something(op: OpKind, source: Shape, dims: Sequence[int]) -> None:
    if 0 not in [size for axis, size in enumerate(source) if axis not in dims] and 0 in source:
        raise KernelArgumentError(op.value, f"the size of the axes {tuple(dims)} of {source}", 0, "at least 1")


def _reduction(op: OpKind, dtype: DType, takes: type[Any]) -> GridKernel:
    kind, width, mean = _FOLDS[op], Width.of(dtype), op is OpKind.MeanReduce

    def plan(operands: Sequence[Operand], params: Any, limits: Limits) -> Sequence[Dispatch]:
        source, target = operands[:2]
        if isinstance(params, ReduceParams):
            dims = params.dims
            _check_folded(op, source.shape, target.shape, params)
        else:
            dims = dims_to(op, source.shape, target.shape)
        if kind != SUM:
            _check_something(op, source.shape, dims)
        divisor = math.prod(source.shape[dim] for dim in dims) if mean else None
        return fold(op, operands, Fold(kind, 0, 1, 2, divisor), dims, limits)

    def scratch(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return partial_nbytes(inputs[0], output, width)

    return GridKernel(op, (dtype, dtype), plan, takes, needs=width.needs, scratch=scratch)


def _arg_extreme(op: OpKind, dtype: DType) -> GridKernel:
    width = Width.of(dtype)

    def plan(operands: Sequence[Operand], params: ReduceParams, limits: Limits) -> Sequence[Dispatch]:
        source, target = operands
        check(op.value, "the number of dims", len(params.dims), 1)
        _check_folded(op, source.shape, target.shape, params)
        _check_something(op, source.shape, params.dims)
        rows = rows_of(source, params.dims)
        if not rows.count:
            return []
        lanes = lanes_for(rows.count, rows.length, limits, across=rows.across)
        if rows.length > lanes.lanes * ITERATIONS:
            raise KernelArgumentError(op.value, "elements of a row", rows.length, f"to {lanes.lanes * ITERATIONS}")
        step = rows.along.strides[0][0] if rows.along.sizes else 0
        head = [rows.count, rows.length, len(rows.kept.sizes), source.offset, target.offset, step]
        words = [*head, *rows.kept.words(_ARG_AXES, op.value)]
        spec = width.spec(*lanes.spec(int(op is OpKind.ArgMaxDim)))
        groups = grid(-(-rows.count // lanes.rows), limits)
        return [dispatch(float_name("arg", (dtype.bits, dtype.bits)), (0, 1), words, groups, spec=spec)]

    return GridKernel(op, (dtype, DType.U32), plan, ReduceParams, needs=width.needs)


# --- the gradient of a maximum ------------------------------------------------------------------------------


def _max_to_backward(dtype: DType) -> GridKernel:
    op, width = OpKind.ReduceMaxToBackward, Width.of(dtype)

    def plan(operands: Sequence[Operand], params: Any, limits: Limits) -> Sequence[Dispatch]:
        source, upstream, target = operands[:3]
        shape = source.shape
        check(op.value, "the output's shape", target.shape, shape)
        dims = dims_to(op, shape, upstream.shape)
        _check_something(op, shape, dims)
        if 0 in shape:
            return []
        # The maxima and how many there are of each, row-major, with all axes kept.
        kept = tuple([1 if axis in dims else size for axis, size in enumerate(shape)])
        views = [*operands]
        for place in (3, 4):
            memory = operands[place]
            views[place] = Operand(width.wide, kept, row_major(kept), memory.offset // width.wide.nbytes)
        partial = 5 if len(operands) > 5 else -1
        return [
            *fold(op, views, Fold(MAXIMUM, 0, 3, partial), dims, limits),
            *fold(op, views, Fold(SUM, 0, 4, partial, equal=3), dims, limits),
            _shared(op, views, dims, width, limits),
        ]

    def scratch(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        rows = max(math.prod(inputs[1]), 1) * width.wide.nbytes
        return (rows, rows, *partial_nbytes(inputs[0], inputs[1], width))

    return GridKernel(op, (dtype,) * 3, plan, ReduceMaxToBackwardParams, needs=width.needs, scratch=scratch)


def _shared(op: OpKind, views: Sequence[Operand], dims: Sequence[int], width: Width, limits: Limits) -> Dispatch:
    source, upstream, target, maximum, number = views[:5]
    missing = len(source.shape) - len(upstream.shape)
    above = (*(0,) * missing, *upstream.strides)
    repeated = [
        tuple([0 if axis in dims else step for axis, step in enumerate(steps)]) for steps in (above, maximum.strides)
    ]
    axes = folded(source.shape, source.strides, *repeated)
    offsets = [view.offset for view in (source, upstream, maximum, number, target)]
    words = [axes.count, len(axes.sizes), *offsets, *axes.words(_SHARE_AXES, op.value)]
    name = float_name("share", (width.bits, width.bits))
    return dispatch(name, (0, 1, 3, 4, 2), words, each(axes.count, limits), spec=width.spec())


def whole_sum_nbytes(count: int, width: Width) -> tuple[int, ...]:
    """Return the bytes of working memory of the sum of `count` numbers, as wide as they are computed."""
    chunks = chunks_of(1, count)
    return (chunks * width.wide.nbytes,) if chunks > 1 else ()


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    plain = (OpKind.SumReduce, OpKind.MeanReduce, OpKind.MaxReduce, OpKind.MinReduce)
    return (
        *(_reduction(op, dtype, ReduceParams) for op in plain for dtype in T4),
        *(_reduction(OpKind.ReduceSumTo, dtype, ReduceSumToParams) for dtype in T4),
        *(_reduction(OpKind.ReduceMaxTo, dtype, ReduceMaxToParams) for dtype in T4),
        *(_max_to_backward(dtype) for dtype in T4),
        *(_arg_extreme(op, dtype) for op in (OpKind.ArgMaxDim, OpKind.ArgMinDim) for dtype in T4),
    )
