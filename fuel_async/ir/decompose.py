"""What composite ops are made of: for each op that does in one kernel what would take several, those others.

A decomposition means what the op means: half types are widened to float32 first and narrowed once, so that it
overflows nowhere that the op does not. Rounding may differ in the last places. It is for devices that have no kernel
of the op, and for prices. `dispatch.fused_ops` gives these ops their numbers; which ops are composite is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fuel_async.ir.creation import full_like, zeros_like
from fuel_async.ir.dtype import DType
from fuel_async.ir.functions import concat, maximum, minimum, where
from fuel_async.ir.indexed import gather
from fuel_async.ir.ops.elementwise import AFFINE, POWI_BACKWARD, PowI
from fuel_async.ir.ops.inplace import IN_PLACE
from fuel_async.ir.ops.matmul import FUSED_LINEAR, MATMUL
from fuel_async.ir.ops.normalise import (
    CROSS_ENTROPY,
    LAYER_NORM,
    LAYER_NORM_BACKWARD,
    REDUCTION_NAMES,
    RMS_NORM,
    RMS_NORM_BACKWARD,
    SOFTMAX,
    SOFTMAX_BACKWARD,
    CrossEntropy,
    LayerNorm,
    RmsNorm,
)
from fuel_async.ir.ops.reduce import REDUCE_MAX_TO_BACKWARD
from fuel_async.ir.ops.rope import ROPE
from fuel_async.ir.ops.scan import SELECTIVE_SCAN, SelectiveScan
from fuel_async.ir.symbol import divide

if TYPE_CHECKING:
    from fuel_async.ir.op import Attrs, OpSpec
    from fuel_async.ir.tensor import Tensor

#: (operands, half types widened; attrs) -> the result, of any float dtype; None where there is no decomposition.
_Rule: TypeAlias = Callable[[Sequence["Tensor"], Any], "Tensor | None"]
#: The same of an op with several outputs: all of them.
_SlotsRule: TypeAlias = Callable[[Sequence["Tensor"], Any], "tuple[Tensor, ...] | None"]

#: A place that no axis has, since u32 counts places.
_NOWHERE = float(2**32 - 1)
_LEAST_INT32 = -(2**31)
#: Below it float64 holds each integer, and no other integer is rounded to it.
_EXACT = 2**53
#: A longer recurrence is not taken apart, since it takes some nodes for each step.
_MOST_STEPS = 1_024


def decompose(op: OpSpec, operands: Sequence[Tensor], attrs: Attrs = None) -> Tensor:
    """Append what `op` is made of to the graph of `operands`; the result has the shape and dtype of the op's node.

    The op's own node is returned where there is nothing to take apart: ops that are not in `COMPOSITES`, operands known
    to have no elements, heads of a rotary embedding whose symbolic size has no half, and losses that ignore a target
    from 2**53 on. `GraphError` for what the op
    itself refuses, and nothing else is refused; a symbol that turns out to be 0 may be, as a maximum of nothing.
    """
    own = operands[0].graph.node(op, operands, attrs)  # dropped by freezing, where it is not returned
    rule = COMPOSITES.get(op)
    if rule is None or any(0 in operand.shape for operand in operands):
        return own
    result = rule([_wide(operand) for operand in operands], attrs)
    return own if result is None else result.astype(own.dtype)


def decompose_slots(op: OpSpec, operands: Sequence[Tensor], attrs: Attrs = None) -> tuple[Tensor, ...]:
    """Append what `op` is made of, and return all of its outputs in order; shapes and dtypes are those of the op's own.

    As `decompose`, which is for ops of one output, otherwise. Recurrences over a symbolic length, or over more than
    1,024 steps, are not taken apart either: the outputs are then slots of the op's own bundle.
    """
    if not op.slots:
        return (decompose(op, operands, attrs),)
    own = operands[0].graph.bundle(op, operands, attrs)  # dropped by freezing, where its slots are not returned
    rule = COMPOSITES_OF_SEVERAL.get(op)
    if rule is None or any(0 in operand.shape for operand in operands):
        return own.slots()
    results = rule([_wide(operand) for operand in operands], attrs)
    if results is None:
        return own.slots()
    return tuple([result.astype(view.dtype) for result, view in zip(results, own.type.views, strict=True)])


def _wide(operand: Tensor) -> Tensor:
    dtype = operand.dtype
    return operand.astype(DType.F32) if dtype.is_float and dtype.bits < DType.F32.bits else operand


def _plus(value: Tensor, number: float) -> Tensor:
    """The sum with a number, which is infinite where it is beyond the dtype's range."""
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(number).astype(value.dtype.require_np()))
    return value + rounded


def _mean(value: Tensor) -> Tensor:
    return value.mean(-1, keepdims=True)


# --- softmax, and the loss ----------------------------------------------------------------------------------


def _softmax(operands: Sequence[Tensor], attrs: Attrs) -> Tensor:
    (x,) = operands
    powers = (x - x.max(-1, keepdims=True)).exp()
    return powers / powers.sum(-1, keepdims=True)


def _softmax_backward(operands: Sequence[Tensor], attrs: Attrs) -> Tensor:
    y, g = operands
    return y * (g - (g * y).sum(-1, keepdims=True))


def _cross_entropy(operands: Sequence[Tensor], attrs: CrossEntropy) -> Tensor | None:
    scores, targets = operands
    # There is no arithmetic of integers: it is done in float64, in which only numbers below this are told apart.
    if abs(attrs.ignore_index) >= _EXACT:
        return None
    wanted = targets.astype(DType.F64)
    ignored = wanted == float(attrs.ignore_index)
    places = where(wanted < 0.0, _NOWHERE, minimum(wanted, _NOWHERE))
    places = where(ignored, 0.0, places).astype(DType.U32)
    picked = gather(scores.log_softmax(), places.expand_dims(-1), axis=-1).squeeze(-1)
    losses = where(ignored, 0.0, -picked)
    reduction = REDUCTION_NAMES[attrs.reduction]
    if reduction == "none":
        return losses
    total = losses.astype(DType.F64).sum()
    return total if reduction == "sum" else total / where(ignored, 0.0, full_like(wanted, 1.0)).sum()


# --- normalisation ------------------------------------------------------------------------------------------


def _layer_norm(operands: Sequence[Tensor], attrs: LayerNorm) -> Tensor:
    (x,) = operands
    centred = x - _mean(x)
    return centred / _plus(_mean(centred.square()), attrs.eps).sqrt()


def _rms_norm(operands: Sequence[Tensor], attrs: RmsNorm) -> Tensor:
    (x,) = operands
    return x / _plus(_mean(x.square()), attrs.eps).sqrt()


def _layer_norm_backward(operands: Sequence[Tensor], attrs: LayerNorm) -> Tensor:
    x, g = operands
    centred = x - _mean(x)
    deviation = _plus(_mean(centred.square()), attrs.eps).sqrt()
    normal = centred / deviation
    return (g - _mean(g) - normal * _mean(g * normal)) / deviation


def _rms_norm_backward(operands: Sequence[Tensor], attrs: RmsNorm) -> Tensor:
    x, g = operands
    size = _plus(_mean(x.square()), attrs.eps).sqrt()
    normal = x / size
    return (g - normal * _mean(g * normal)) / size


# --- the others ---------------------------------------------------------------------------------------------


def _linear(operands: Sequence[Tensor], attrs: Attrs) -> Tensor:
    left, right, bias = operands
    return left.graph.node(MATMUL, (left, right)) + bias


def _rope(operands: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    x, cos, sin = operands
    half = divide(x.shape[-1], 2)
    if half is None:
        return None
    turned = concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + turned * sin


def _reduce_max_to_backward(operands: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, upstream = operands
    is_maximum = (x == x.max_to(upstream.shape)).astype(x.dtype)
    return is_maximum * (upstream / is_maximum.sum_to(upstream.shape))


def _powi_backward(operands: Sequence[Tensor], attrs: PowI) -> Tensor:
    x, g = operands
    if attrs.exp == 0:
        return zeros_like(g)
    # One below the least exponent there is no exponent.
    power = x.powi(attrs.exp) / x if attrs.exp == _LEAST_INT32 else x.powi(attrs.exp - 1)
    return power * float(attrs.exp) * g


def _affine(operands: Sequence[Tensor], attrs: Attrs) -> Tensor:
    return operands[0].graph.node(AFFINE, operands, attrs)


# --- recurrences --------------------------------------------------------------------------------------------


def _selective_scan(operands: Sequence[Tensor], attrs: SelectiveScan) -> tuple[Tensor, ...] | None:
    u, delta, a, b, c = operands
    length = u.shape[1]
    if not isinstance(length, int) or length > _MOST_STEPS:
        return None
    steps = maximum(delta, 0.0) + ((-abs(delta)).exp() + 1.0).log() if attrs.delta_softplus else delta
    driven = steps * u
    rows: list[Tensor] = []
    state: Tensor | None = None
    for step in range(length):
        added = driven[:, step, :, None] * b[:, step, None, :]
        state = added if state is None else (steps[:, step, :, None] * a).exp() * state + added
        rows.append((state * c[:, step, None, :]).sum(-1).expand_dims(1))
    assert state is not None  # the length is not 0
    return concat(rows, axis=1), state


#: The composite ops, with what they are made of.
COMPOSITES: Mapping[OpSpec, _Rule] = MappingProxyType(
    {
        SOFTMAX: _softmax,
        SOFTMAX_BACKWARD: _softmax_backward,
        CROSS_ENTROPY: _cross_entropy,
        LAYER_NORM: _layer_norm,
        LAYER_NORM_BACKWARD: _layer_norm_backward,
        RMS_NORM: _rms_norm,
        RMS_NORM_BACKWARD: _rms_norm_backward,
        FUSED_LINEAR: _linear,
        ROPE: _rope,
        REDUCE_MAX_TO_BACKWARD: _reduce_max_to_backward,
        POWI_BACKWARD: _powi_backward,
        IN_PLACE["affine"]: _affine,
    }
)

#: The composite ops that have several outputs, likewise.
COMPOSITES_OF_SEVERAL: Mapping[OpSpec, _SlotsRule] = MappingProxyType({SELECTIVE_SCAN: _selective_scan})
