"""Ops that normalise along the last axis, their gradients, and the loss that is taken of scores.

A gradient op takes what its forward op gave or took, and the gradient with respect to the result (upstream),
both of one shape and dtype, and gives the gradient with respect to the operand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import Attrs, OpSpec, TensorType, require_alike, require_float
from fuel_async.ir.opkind import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class LayerNorm(NamedTuple):
    """`eps` is added to the biased variance."""

    eps: float


class RmsNorm(NamedTuple):
    """`eps` is added to the mean of the squares."""

    eps: float


#: How the losses of all rows become one: `CrossEntropy.reduction` is a place in here.
REDUCTION_NAMES = ("mean", "sum", "none")


class CrossEntropy(NamedTuple):
    """What becomes of the rows' losses, and the target whose rows have none."""

    reduction: int
    ignore_index: int


def _last_axis(name: str, kind: OpKind, arity: int, attrs_class: type[tuple[object, ...]] | None = None) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        if not operands[0].shape:
            raise ShapeMismatch(name, "wanted at least one dimension", operands)
        require_alike(name, operands)
        require_float(name, operands)
        if attrs is not None and not 0 <= attrs[0] < math.inf:
            raise GraphError(name, f"eps is {attrs[0]}, wanted a finite number, at least 0", operands)
        return operands[0].shape, operands[0].dtype

    return OpSpec(name=name, arity=arity, infer=infer, kind=kind, attrs=attrs_class)


def _cross_entropy(operands: Sequence[TensorType], attrs: CrossEntropy) -> tuple[Shape, DType]:
    name = "fused_softmax_cross_entropy"
    scores, targets = operands
    require_float(name, operands)
    if targets.dtype is not DType.I64:
        raise DTypeMismatch(name, "wanted targets of dtype i64", operands)
    if not scores.shape or scores.shape[:-1] != targets.shape:
        raise ShapeMismatch(name, "wanted one target for each row of scores", operands)
    if attrs.reduction not in range(len(REDUCTION_NAMES)):
        raise GraphError(name, f"reduction is {attrs.reduction}, wanted a place in {REDUCTION_NAMES}", operands)
    if not -(2**63) <= attrs.ignore_index < 2**63:
        raise GraphError(name, f"ignore_index {attrs.ignore_index} is no signed integer of 64 bits", operands)
    return targets.shape if REDUCTION_NAMES[attrs.reduction] == "none" else (), DType.F32


# exp(x - max) / sum(exp(x - max)) along the last axis; of (result, upstream) the gradient
# y · (g - sum(g · y)).
SOFTMAX = _last_axis("softmax", OpKind.SoftmaxLastDim, 1)
SOFTMAX_BACKWARD = _last_axis("softmax_backward", OpKind.SoftmaxLastDimBackward, 2)

# x - max - log(sum(exp(x - max))) along the last axis; of (result, upstream) the gradient
# g - exp(y) · sum(g).
LOG_SOFTMAX = _last_axis("log_softmax", OpKind.LogSoftmaxLastDim, 1)
LOG_SOFTMAX_BACKWARD = _last_axis("log_softmax_backward", OpKind.LogSoftmaxLastDimBackward, 2)

# (x - mean) / sqrt(variance + eps) along the last axis, biased variance; scale and shift are mul and add. Of
# (operand, upstream) the gradient (g - mean(g) - n · mean(g · n)) / deviation, with n the normalised operand.
LAYER_NORM = _last_axis("layer_norm", OpKind.LayerNormLastDim, 1, LayerNorm)
LAYER_NORM_BACKWARD = _last_axis("layer_norm_backward", OpKind.LayerNormLastDimBackward, 2, LayerNorm)

# x / sqrt(mean(x²) + eps) along the last axis; of (operand, upstream) the gradient
# (g - n · mean(g · n)) / sqrt(mean(x²) + eps), with n the normalised operand.
RMS_NORM = _last_axis("rms_norm", OpKind.RmsNormLastDim, 1, RmsNorm)
RMS_NORM_BACKWARD = _last_axis("rms_norm_backward", OpKind.RmsNormLastDimBackward, 2, RmsNorm)

# Of scores [.., vocab] and targets [..] in i64: -log_softmax(scores)[target] of each row, always f32. Rows whose
# target is `ignore_index` have loss 0 and do not count in the mean, which of no rows is NaN. Any other target
# outside the row fails the run.
CROSS_ENTROPY = OpSpec(
    name="fused_softmax_cross_entropy",
    arity=2,
    infer=_cross_entropy,
    kind=OpKind.FusedSoftmaxCrossEntropy,
    attrs=CrossEntropy,
)

NORMALISE = (
    SOFTMAX,
    LAYER_NORM,
    LOG_SOFTMAX,
    RMS_NORM,
    SOFTMAX_BACKWARD,
    LOG_SOFTMAX_BACKWARD,
    LAYER_NORM_BACKWARD,
    RMS_NORM_BACKWARD,
    CROSS_ENTROPY,
)
