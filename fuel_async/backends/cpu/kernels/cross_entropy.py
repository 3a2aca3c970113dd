"""The loss of scores against targets: softmax, logarithm, choice and mean in one kernel.

Scores are walked once, in blocks of rows; losses are computed in float32, of float64 scores in float64, added up in
float64 and written as float32. Targets are checked before anything is written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, F64, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Blocks,
    Bound,
    Shape,
    block_limit,
    carve,
    constants,
    scratch_nbytes,
)
from fuel_async.backends.cpu.kernels.rows import POSITION, RowMaximum, dense
from fuel_async.dispatch import FusedSoftmaxCrossEntropyParams as Params
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cpu.kernels.blocks import NumpyDType

    #: (scores, targets that are places in their rows, losses of the rows)
    RowLosses = Callable[[Array, Array, Array], None]

_OP = OpKind.FusedSoftmaxCrossEntropy.value
BOOL = np.dtype(np.bool_)

#: `(source, axes, dtype)`, all by position, which is what is cheapest to call.
_add_reduce: Callable[..., Any] = np.add.reduce


def _check(scores: Shape, targets: Shape, output: Shape, params: Params) -> None:
    if not scores or targets != scores[:-1]:
        raise KernelArgumentError(_OP, "the targets' shape", targets, f"that of the rows of {scores}")
    if params.reduction not in ("mean", "sum", "none"):
        raise KernelArgumentError(_OP, "reduction", repr(params.reduction), "'mean', 'sum' or 'none'")
    if (params.n_rows, params.vocab) != (math.prod(targets), scores[-1]):
        raise KernelArgumentError(_OP, "(n_rows, vocab)", (params.n_rows, params.vocab), scores)
    wanted = targets if params.reduction == "none" else ()
    if output != wanted:
        raise KernelArgumentError(_OP, "the output's shape", output, wanted)


def _block(part: Shape, rows: tuple[Array, ...], wholes: tuple[Array, ...]) -> RowLosses:
    (extent, found), (copy, powers) = rows, wholes
    column, maximum = extent[..., None], RowMaximum(part, found)
    ones = np.ones(part[-1], extent.dtype)

    def losses(scores: Array, targets: Array, loss: Array) -> None:
        x = dense(scores, copy)
        maximum(x, extent)
        np.subtract(x, column, powers)
        found[...] = targets
        maximum.take(powers, found, loss)
        np.exp(powers, powers)
        np.vecdot(powers, ones, extent)
        np.log(extent, extent)
        np.subtract(extent, loss, loss)

    return losses


def _all_rows(shape: Shape, compute: NumpyDType, scratch: Sequence[Array]) -> RowLosses:
    """The losses of all rows of scores of `shape`, which has elements."""
    cut = Blocks(shape, block_limit((compute,), 1, shape), whole_axes=1)
    calls = {
        part: _block(part, carve((compute, POSITION), part[:-1], scratch[0]), carve((compute,) * 2, part, scratch[1]))
        for part in cut.part_shapes()
    }

    if shape in calls:
        return calls[shape]
    steps = [(index, calls[part]) for index, part in cut.pieces()]

    def run(scores: Array, targets: Array, losses: Array) -> None:
        for index, call in steps:
            call(scores[index], targets[index], losses[index])

    return run


def _kernel(dtype: DType) -> HostKernel:
    compute = F32 if dtype in HALVES else dtype.require_np()

    def rule(inputs: Sequence[Array], output: Array, params: Params, scratch: Sequence[Array]) -> Bound:
        shape, vocab = inputs[0].shape, params.vocab
        _check(shape, inputs[1].shape, output.shape, params)
        rows = shape[:-1] or (1,)
        places, losses, ignored = (
            carve((kind,), rows, scratch[2 + at])[0] for at, kind in enumerate((POSITION, compute, BOOL))
        )
        row_losses = _all_rows((*rows, vocab), compute, scratch) if inputs[0].size else None
        n_rows, reduction, (ignore,) = math.prod(rows), params.reduction, constants(np.int64, params.ignore_index)
        # As unsigned numbers places below 0 are beyond the vocabulary, too.
        unsigned = places.view(np.uintp)

        def cross_entropy(scores: Array, targets: Array, output: Array) -> None:
            given = targets.reshape(rows)
            places[...] = given
            np.equal(given, ignore, ignored)
            ignored_count = int(np.count_nonzero(ignored))
            count = n_rows - ignored_count
            if ignored_count:
                np.copyto(places, 0, where=ignored)
            if count and unsigned.item(worst := unsigned.argmax()) >= vocab:
                raise IndexOutOfRange(_OP, places.item(worst), vocab)
            if row_losses is not None:
                row_losses(scores.reshape((*rows, vocab)), places, losses)
            if ignored_count:
                np.copyto(losses, 0, where=ignored)
            if reduction == "none":
                output[...] = losses.reshape(output.shape)
                return
            total = float(_add_reduce(losses, None, F64))
            output[...] = total if reduction == "sum" else total / count if count else math.nan

        return cross_entropy, (*inputs, output)

    def working(params: Params, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        shape = inputs[0] if len(inputs[0]) > 1 else (1, *inputs[0])
        count = min(math.prod(shape), block_limit((compute,), 1, shape))
        return (
            *scratch_nbytes((compute, POSITION), (count // max(shape[-1], 1),)),
            *scratch_nbytes((compute,) * 2, (count,), 1),
            *(max(math.prod(shape[:-1]), 1) * kind.itemsize for kind in (POSITION, compute, BOOL)),
        )

    return HostKernel(OpKind.FusedSoftmaxCrossEntropy, (dtype, DType.I64, DType.F32), rule, Params, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype of scores."""
    return tuple(_kernel(dtype) for dtype in T4)
