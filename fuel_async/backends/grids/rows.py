"""Kernels along the last axis: normalisations, their gradients, losses, running sums, and rotary embedding.

Each row is shared by lanes of a workgroup. exp and log are the shaders' own, to a unit in the last place or so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.catalog import float_name
from fuel_async.backends.grids.folds import SUM, Fold, Rows, converted, fold, rows_of
from fuel_async.backends.grids.grids import (
    ITERATIONS,
    Lanes,
    check,
    dispatch,
    double_words,
    each,
    float_word,
    folded,
    grid,
    lanes_for,
)
from fuel_async.backends.grids.kernel import IN_PLACE, GridKernel, Operand
from fuel_async.backends.grids.reduce import whole_sum_nbytes
from fuel_async.backends.grids.widths import T4, Width
from fuel_async.dispatch import (
    CumSumParams,
    FusedSoftmaxCrossEntropyParams,
    LogSoftmaxLastDimParams,
    NormLastDimParams,
    OpParams,
    RopeParams,
    SoftmaxLastDimParams,
)
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, Shape

#: Modules whose code these kernels run besides.
TAKES_FROM = (whole_sum_nbytes.__module__,)

_ROW_AXES, _ROPE_AXES, _SUM_AXES = 6, 8, 8

_softmax, _logarithm, _norm = SoftmaxLastDimParams, LogSoftmaxLastDimParams, NormLastDimParams
#: Parameters, and how often a row is walked.
_NORMALISING: Mapping[OpKind, tuple[type[OpParams], int]] = {
    OpKind.SoftmaxLastDim: (_softmax, 3),
    OpKind.LogSoftmaxLastDim: (_logarithm, 3),
    OpKind.LayerNormLastDim: (_norm, 3),
    OpKind.RmsNormLastDim: (_norm, 2),
    OpKind.SoftmaxLastDimBackward: (_softmax, 2),
    OpKind.LogSoftmaxLastDimBackward: (_logarithm, 2),
    OpKind.LayerNormLastDimBackward: (_norm, 3),
    OpKind.RmsNormLastDimBackward: (_norm, 2),
}


def _macro(op: OpKind) -> str:
    return op.value.replace("_last_dim", "").upper()


def _last(operand: Operand) -> int:
    return operand.strides[-1] if operand.shape[-1] > 1 else 0


def _cut(op: OpKind, rows: Rows, walks: int, limits: Limits) -> Lanes:
    """Cut a workgroup for whole rows; `KernelArgumentError` for rows that its invocations cannot get through."""
    lanes = lanes_for(rows.count, rows.length, limits, across=rows.across, walks=walks)
    most = lanes.lanes * ITERATIONS // walks
    if rows.length > most:
        raise KernelArgumentError(op.value, "elements of a row", rows.length, f"to {most}")
    return lanes


def _normalising(op: OpKind, dtype: DType) -> GridKernel:
    takes, walks = _NORMALISING[op]
    width, macro = Width.of(dtype), _macro(op)
    arity = 2 if macro.endswith("BACKWARD") else 1
    name = float_name("rows", (width.bits, width.bits), macro)

    def plan(operands: Sequence[Operand], params: Any, limits: Limits) -> Sequence[Dispatch]:
        source, upstream, target = operands[0], operands[arity - 1], operands[arity]
        for operand in (upstream, target):
            check(op.value, "the shape of an operand", operand.shape, source.shape)
        if not source.shape or source.shape[-1] != params.last_dim:
            raise KernelArgumentError(op.value, "last_dim", params.last_dim, f"the last of {source.shape}")
        if 0 in source.shape:
            return []
        lead = source.shape[:-1]
        rows, axes = rows_of(source, (len(lead),)), folded(lead, source.strides[:-1], upstream.strides[:-1])
        lanes = _cut(op, rows, walks, limits)
        eps = getattr(params, "eps", 0.0)
        words = [
            *(double_words(eps) if dtype is DType.F64 else (float_word(eps), 0)),
            rows.count, len(axes.sizes), source.shape[-1], source.offset, upstream.offset, target.offset,
            _last(source), _last(upstream), *axes.words(_ROW_AXES, op.value),
        ]  # fmt: skip
        groups = grid(-(-rows.count // lanes.rows), limits)
        return [dispatch(name, tuple(range(arity + 1)), words, groups, spec=width.spec(*lanes.spec()))]

    return GridKernel(op, (dtype,) * (arity + 1), plan, takes, IN_PLACE, width.needs)


def _cumsum(dtype: DType) -> GridKernel:
    op, width = OpKind.CumSum, Width.of(dtype)

    def plan(operands: Sequence[Operand], params: CumSumParams, limits: Limits) -> Sequence[Dispatch]:
        (source, target), axis = operands, params.axis
        check(op.value, "the output's shape", target.shape, source.shape)
        if 0 in source.shape:
            return []
        others = [at for at in range(len(source.shape)) if at != axis]
        axes = folded(*[[row[at] for at in others] for row in (source.shape, source.strides, target.strides)])
        rows = rows_of(source, (axis,))
        lanes = _cut(op, rows, 2, limits)
        words = [
            rows.count, len(axes.sizes), rows.length, source.offset, target.offset,
            source.strides[axis], target.strides[axis], *axes.words(_SUM_AXES, op.value),
        ]  # fmt: skip
        name, groups = float_name("cumulate", (width.bits, width.bits)), grid(-(-rows.count // lanes.rows), limits)
        return [dispatch(name, (0, 1), words, groups, spec=width.spec(*lanes.spec()))]

    return GridKernel(op, (dtype, dtype), plan, CumSumParams, needs=width.needs)


def _rope(dtype: DType) -> GridKernel:
    op, width = OpKind.Rope, Width.of(dtype)

    def plan(operands: Sequence[Operand], params: RopeParams, limits: Limits) -> Sequence[Dispatch]:
        source, cos, sin, target = operands
        check(op.value, "the output's shape", target.shape, source.shape)
        for angles in (cos, sin):
            check(op.value, "the shape of the angles", angles.shape, source.shape[-2:])
        check(op.value, "(seq, head_dim)", (params.seq, params.head_dim), source.shape[-2:])
        check(op.value, "the head's size modulo 2", params.head_dim % 2, 0)
        count = math.prod(source.shape)
        if not count:
            return []
        axes = folded(source.shape[:-2], source.strides[:-2])
        steps = [operand.strides[at] for operand in (source, cos, sin) for at in (-1, -2)]
        offsets = [operand.offset for operand in operands]
        head = [count, len(axes.sizes), params.head_dim, params.seq, *offsets, *steps]
        name, words = float_name("rope", (width.bits, width.bits)), [*head, *axes.words(_ROPE_AXES, op.value)]
        return [dispatch(name, (0, 1, 2, 3), words, each(count, limits), spec=width.spec())]

    return GridKernel(op, (dtype,) * 4, plan, RopeParams, needs=width.needs)


# --- losses -------------------------------------------------------------------------------------------------


def _cross_entropy(dtype: DType) -> GridKernel:
    op, width = OpKind.FusedSoftmaxCrossEntropy, Width.of(dtype)

    def plan(operands: Sequence[Operand], params: FusedSoftmaxCrossEntropyParams, limits: Limits) -> Sequence[Dispatch]:
        scores, targets, output = operands[:3]
        lead = scores.shape[:-1]
        check(op.value, "the targets' shape", targets.shape, lead)
        check(op.value, "(n_rows, vocab)", (params.n_rows, params.vocab), (math.prod(lead), scores.shape[-1]))
        check(op.value, "the output's shape", output.shape, lead if params.reduction == "none" else ())
        # Losses and whether they count, one number a row, and their sums.
        views = [*operands]
        for place, shape in ((3, (params.n_rows,)), (4, (params.n_rows,)), (5, ()), (6, ())):
            views[place] = Operand(width.wide, shape, (1,) * len(shape), operands[place].offset // width.wide.nbytes)
        found = _losses(op, views, params, width, limits)
        if params.reduction == "none":
            flat = Operand(DType.F32, (params.n_rows,), (1,), output.offset)
            return [*found, *converted(op, views[3], flat, (3, 2), limits)]
        if params.reduction == "sum":
            return [*found, *fold(op, views, Fold(SUM, 3, 2, 7), (0,), limits)]
        for place, total in ((3, 5), (4, 6)):
            found += fold(op, views, Fold(SUM, place, total, 7), (0,), limits)
        offsets = [views[5].offset, views[6].offset, output.offset]
        name = float_name("ratio", (width.wide_bits, 32))
        return [*found, dispatch(name, (5, 6, 2), offsets, (1, 1, 1))]

    def scratch(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        one = width.wide.nbytes
        rows = max(params.n_rows, 1) * one
        return (rows, rows, one, one, *whole_sum_nbytes(params.n_rows, width))

    needs = width.needs
    return GridKernel(
        op, (dtype, DType.I64, DType.F32), plan, FusedSoftmaxCrossEntropyParams, needs=needs, scratch=scratch
    )


def _losses(
    op: OpKind, views: Sequence[Operand], params: FusedSoftmaxCrossEntropyParams, width: Width, limits: Limits
) -> list[Dispatch]:
    scores, targets = views[:2]
    if not params.n_rows:
        return []
    lead = len(scores.shape) - 1
    rows = rows_of(scores, (lead,))
    axes = folded(scores.shape[:-1], scores.strides[:-1], targets.strides)
    lanes = _cut(op, rows, 2, limits)
    ignored = params.ignore_index % 2**64
    words = [
        ignored % 2**32, ignored >> 32, params.n_rows, len(axes.sizes), params.vocab, scores.offset, targets.offset,
        views[3].offset, views[4].offset, _last(scores), *axes.words(_ROW_AXES, op.value),
    ]  # fmt: skip
    groups = grid(-(-params.n_rows // lanes.rows), limits)
    name, spec = float_name("losses", (width.bits, width.wide_bits)), width.spec(*lanes.spec())
    return [dispatch(name, (0, 1, 3, 4), words, groups, spec=spec, outputs=2)]


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_normalising(op, dtype) for op in _NORMALISING for dtype in T4),
        *(_cumsum(dtype) for dtype in T4),
        *(_rope(dtype) for dtype in T4),
        *(_cross_entropy(dtype) for dtype in T4),
    )
