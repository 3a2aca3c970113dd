"""Kernels that normalise the rows along the last axis: softmax and its logarithm, layer and root-mean-square
normalisation without scale and shift. Their gradients are in `normalise_backward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, T4
from fuel_async.backends.cpu.kernels.blocks import constants
from fuel_async.backends.cpu.kernels.rows import POSITION, RowMaximum, row_kernel
from fuel_async.dispatch import LogSoftmaxLastDimParams, NormLastDimParams, SoftmaxLastDimParams
from fuel_async.ir import OpKind

if TYPE_CHECKING:
    from fuel_async.backends.cpu.kernels.base import HostKernel
    from fuel_async.backends.cpu.kernels.blocks import Array, Shape
    from fuel_async.backends.cpu.kernels.rows import BlockCall, Planes


def _softmax(part: Shape, params: SoftmaxLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    extent, found = rows
    column, maximum = extent[..., None], RowMaximum(part, found)
    ones = np.ones(part[-1], extent.dtype)

    def softmax(x: Array, out: Array) -> None:
        maximum(x, extent)
        np.subtract(x, column, out)
        np.exp(out, out)
        np.vecdot(out, ones, extent)
        np.divide(out, column, out)

    return softmax


def _log_softmax(part: Shape, params: LogSoftmaxLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    extent, found = rows
    (powers,) = wholes
    column, maximum = extent[..., None], RowMaximum(part, found)
    ones = np.ones(part[-1], extent.dtype)

    def log_softmax(x: Array, out: Array) -> None:
        maximum(x, extent)
        np.subtract(x, column, out)
        np.exp(out, powers)
        np.vecdot(powers, ones, extent)
        np.log(extent, extent)
        np.subtract(out, column, out)

    return log_softmax


def _layer_norm(part: Shape, params: NormLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (extent,) = rows
    column = extent[..., None]
    ones = np.ones(part[-1], extent.dtype)
    count, eps = constants(extent.dtype, part[-1], params.eps)

    def layer_norm(x: Array, out: Array) -> None:
        np.vecdot(x, ones, extent)
        np.divide(extent, count, extent)
        np.subtract(x, column, out)
        np.vecdot(out, out, extent)
        np.divide(extent, count, extent)
        np.add(extent, eps, extent)
        np.sqrt(extent, extent)
        np.divide(out, column, out)

    return layer_norm


def _rms_norm(part: Shape, params: NormLastDimParams, rows: Planes, wholes: Planes) -> BlockCall:
    (extent,) = rows
    column = extent[..., None]
    count, eps = constants(extent.dtype, part[-1], params.eps)

    def rms_norm(x: Array, out: Array) -> None:
        np.vecdot(x, x, extent)
        np.divide(extent, count, extent)
        np.add(extent, eps, extent)
        np.sqrt(extent, extent)
        np.divide(x, column, out)

    return rms_norm


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    softmax, log_softmax = OpKind.SoftmaxLastDim, OpKind.LogSoftmaxLastDim
    layer, rms = OpKind.LayerNormLastDim, OpKind.RmsNormLastDim
    plain, logarithm, found = SoftmaxLastDimParams, LogSoftmaxLastDimParams, (F32, POSITION)
    return (
        *(row_kernel(softmax, dtype, plain, _softmax, found) for dtype in T4),
        *(row_kernel(log_softmax, dtype, logarithm, _log_softmax, found, whole_planes=1) for dtype in T4),
        *(row_kernel(layer, dtype, NormLastDimParams, _layer_norm, (F32,)) for dtype in T4),
        *(row_kernel(rms, dtype, NormLastDimParams, _rms_norm, (F32,)) for dtype in T4),
    )
