"""Gradients of the ops that normalise rows, of (result or operand, upstream).

The formulas stand at the ops in `ir.ops.normalise`. Each is some passes over a block and two or three dot products
of its rows; no output of a forward op is asked for but what the op's operands say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, T4
from fuel_async.backends.cpu.kernels.blocks import constants
from fuel_async.backends.cpu.kernels.rows import row_kernel
from fuel_async.dispatch import LogSoftmaxLastDimParams, NormLastDimParams, SoftmaxLastDimParams
from fuel_async.ir import OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.backends.cpu.kernels.base import HostKernel
    from fuel_async.backends.cpu.kernels.blocks import Array, Shape
    from fuel_async.backends.cpu.kernels.rows import BlockCall, Maker, Planes
    from fuel_async.dispatch import OpParams


def _softmax(part: Shape, params: SoftmaxLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (along, _), (work,) = rows, wholes
    column = along[..., None]

    def softmax_backward(y: Array, g: Array, out: Array) -> None:
        np.vecdot(y, g, along)
        np.subtract(g, column, work)
        np.multiply(work, y, out)

    return softmax_backward


def _log_softmax(part: Shape, params: LogSoftmaxLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (total, _), (work,) = rows, wholes
    column = total[..., None]
    ones = np.ones(part[-1], total.dtype)

    def log_softmax_backward(y: Array, g: Array, out: Array) -> None:
        np.vecdot(g, ones, total)
        np.exp(y, work)
        np.multiply(work, column, work)
        np.subtract(g, work, out)

    return log_softmax_backward


def _rms_norm(part: Shape, params: NormLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (square, along), (work,) = rows, wholes
    count, eps = constants(square.dtype, part[-1], params.eps)

    def rms_norm_backward(x: Array, g: Array, out: Array) -> None:
        np.vecdot(x, x, square)
        np.divide(square, count, square)
        np.add(square, eps, square)
        np.vecdot(x, g, along)
        np.divide(along, count, along)
        np.divide(along, square, along)
        np.multiply(x, along[..., None], work)
        np.subtract(g, work, work)
        np.sqrt(square, square)
        np.divide(work, square[..., None], out)

    return rms_norm_backward


def _layer_norm(part: Shape, params: NormLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (square, along), (work,) = rows, wholes
    ones = np.ones(part[-1], square.dtype)
    count, eps = constants(square.dtype, part[-1], params.eps)

    def layer_norm_backward(x: Array, g: Array, out: Array) -> None:
        np.vecdot(x, ones, along)
        np.divide(along, count, along)
        np.subtract(x, along[..., None], work)
        np.vecdot(work, work, square)
        np.divide(square, count, square)
        np.add(square, eps, square)
        np.vecdot(work, g, along)
        np.divide(along, count, along)
        np.divide(along, square, along)
        np.multiply(work, along[..., None], work)
        np.vecdot(g, ones, along)
        np.divide(along, count, along)
        np.add(work, along[..., None], work)
        np.subtract(g, work, work)
        np.sqrt(square, square)
        np.divide(work, square[..., None], out)

    return layer_norm_backward


_MAKERS: Mapping[OpKind, tuple[type[OpParams], Maker]] = {
    OpKind.SoftmaxLastDimBackward: (SoftmaxLastDimParams, _softmax),
    OpKind.LogSoftmaxLastDimBackward: (LogSoftmaxLastDimParams, _log_softmax),
    OpKind.LayerNormLastDimBackward: (NormLastDimParams, _layer_norm),
    OpKind.RmsNormLastDimBackward: (NormLastDimParams, _rms_norm),
}


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return tuple(
        row_kernel(op, dtype, takes, make, (F32, F32), arity=2, whole_planes=1)
        for op, (takes, make) in _MAKERS.items()
        for dtype in T4
    )
