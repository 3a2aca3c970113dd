"""Gradients of single ops, each one kernel: from what the forward op took or gave, and the gradient with respect
to its result (`upstream`), to the gradient with respect to its operand.

Operands are of one dtype: nothing is cast. There is no differentiation of whole graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir.ops.elementwise import POWI_BACKWARD, PowI
from fuel_async.ir.ops.normalise import (
    LAYER_NORM_BACKWARD,
    LOG_SOFTMAX_BACKWARD,
    RMS_NORM_BACKWARD,
    SOFTMAX_BACKWARD,
    LayerNorm,
    RmsNorm,
)
from fuel_async.ir.ops.reduce import REDUCE_MAX_TO_BACKWARD
from fuel_async.ir.shape import integer, number
from fuel_async.ir.tensor import Tensor, owned

if TYPE_CHECKING:
    from fuel_async.ir.op import Attrs, OpSpec


def softmax_backward(result: Tensor, upstream: Tensor) -> Tensor:
    """Gradient of `softmax` along the last axis: y · (g - sum(g · y)), with y its result."""
    return _node(SOFTMAX_BACKWARD, result, upstream)


def log_softmax_backward(result: Tensor, upstream: Tensor) -> Tensor:
    """Gradient of `log_softmax` along the last axis: g - exp(y) · sum(g), with y its result."""
    return _node(LOG_SOFTMAX_BACKWARD, result, upstream)


def layer_norm_backward(value: Tensor, upstream: Tensor, *, eps: float = 1e-5) -> Tensor:
    """Gradient of `layer_norm` without weight and bias, by its operand."""
    return _node(LAYER_NORM_BACKWARD, value, upstream, LayerNorm(number("layer_norm_backward", eps)))


def rms_norm_backward(value: Tensor, upstream: Tensor, *, eps: float = 1e-5) -> Tensor:
    """Gradient of `rms_norm` without weight, by its operand."""
    return _node(RMS_NORM_BACKWARD, value, upstream, RmsNorm(number("rms_norm_backward", eps)))


def max_to_backward(value: Tensor, upstream: Tensor) -> Tensor:
    """Gradient of `max_to`, by its operand: upstream in equal parts to the elements that are the maximum."""
    return _node(REDUCE_MAX_TO_BACKWARD, value, upstream)


def powi_backward(value: Tensor, upstream: Tensor, exp: int) -> Tensor:
    """Gradient of `powi`, by its operand: g · exp · x^(exp - 1), 0 where `exp` is 0."""
    return _node(POWI_BACKWARD, value, upstream, PowI(integer("powi_backward", "exp", exp)))


def _node(op: OpSpec, first: Tensor, upstream: Tensor, attrs: Attrs = None) -> Tensor:
    operands = owned(op.name, first, upstream)
    return operands[0].graph.node(op, operands, attrs)
