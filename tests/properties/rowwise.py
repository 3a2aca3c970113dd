"""Ops along rows and ops that do in one kernel what others do in several: kernels of the second executor, by other
formulas where there are any, and of one that is wrong.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Kernel = Callable[..., Array]


def _number(value: float, like: Array) -> Array:
    return np.asarray(value, like.dtype)


def _sum(x: Array) -> Array:
    """The sum along the last axis from its end to its beginning."""
    return np.asarray(x[..., ::-1].sum(-1, keepdims=True, dtype=x.dtype))


def _mean(x: Array) -> Array:
    return np.asarray(_sum(x) / _number(x.shape[-1], x))


def _affine(x: Array, mul: float, add: float) -> Array:
    return np.asarray(_number(add, x) + _number(mul, x) * x)


def _powi(x: Array, exp: int) -> Array:
    return np.power(x, _number(exp, x))


def _powi_backward(x: Array, g: Array, exp: int) -> Array:
    return np.zeros_like(x) if exp == 0 else np.asarray(g * (_number(exp, x) * _powi(x, exp - 1)))


def _rem(a: Array, b: Array) -> Array:
    rest = np.fmod(a, b)
    return np.asarray(np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest))


def _log_softmax(x: Array) -> Array:
    return np.asarray(x - np.logaddexp.reduce(x, -1, keepdims=True))


def _rms_norm(x: Array, eps: float) -> Array:
    return np.asarray(x * (1 / np.sqrt(_mean(x * x) + _number(eps, x))))


def _softmax_backward(y: Array, g: Array) -> Array:
    return np.asarray(y * g - y * _sum(y * g))


def _log_softmax_backward(y: Array, g: Array) -> Array:
    return np.asarray(g - np.exp(y) * _sum(g))


def _rms_norm_backward(x: Array, g: Array, eps: float) -> Array:
    scale = 1 / np.sqrt(_mean(x * x) + _number(eps, x))
    normal = x * scale
    return np.asarray(scale * (g - normal * _mean(normal * g)))


def _layer_norm_backward(x: Array, g: Array, eps: float) -> Array:
    centred = x - _mean(x)
    return _rms_norm_backward(centred, np.asarray(g - _mean(g)), eps)


def _cross_entropy(scores: Array, targets: Array, reduction: int, ignore_index: int) -> Array:
    losses = np.zeros(targets.shape, scores.dtype)
    logarithms = _log_softmax(scores)
    for place in np.ndindex(*targets.shape):
        if targets[place] != ignore_index:
            losses[place] = -logarithms[(*place, targets[place])]
    if reduction == 2:
        return losses
    total = losses.sum(dtype=losses.dtype)
    count = np.count_nonzero(targets != ignore_index)
    return np.asarray(total / (count or math.nan) if reduction == 0 else total)


def _rope(x: Array, cos: Array, sin: Array) -> Array:
    y, half = np.empty_like(x), x.shape[-1] // 2
    for j in range(half):
        y[..., j] = x[..., j] * cos[:, j] - x[..., j + half] * sin[:, j]
        y[..., j + half] = x[..., j + half] * cos[:, j + half] + x[..., j] * sin[:, j + half]
    return y


def _linear(x: Array, weight: Array, bias: Array) -> Array:
    return np.asarray(np.einsum("...k,kn->...n", x, weight.reshape(weight.shape[-2:])) + bias)


def _axes_to(x: Array, shape: Sequence[int]) -> list[int]:
    missing = x.ndim - len(shape)
    return [i for i in range(x.ndim) if i < missing or shape[i - missing] != x.shape[i]]


def _sum_to(x: Array, shape: Sequence[int]) -> Array:
    for axis in _axes_to(x, shape):
        x = x.sum(axis, keepdims=True, dtype=x.dtype)
    return x.reshape(shape)


def _max_to(x: Array, shape: Sequence[int]) -> Array:
    for axis in _axes_to(x, shape):
        x = -(-x).min(axis, keepdims=True) if x.size else x.sum(axis, keepdims=True)
    return x.reshape(shape)


def _max_to_backward(x: Array, g: Array) -> Array:
    top = np.broadcast_to(_max_to(x, g.shape), x.shape)
    counts = np.broadcast_to(_sum_to((x == top).astype(x.dtype), g.shape), x.shape)
    return np.asarray(np.where(x == top, np.broadcast_to(g, x.shape) / counts, 0))


def _argmax(x: Array, axis: int, keepdims: bool) -> Array:
    places = np.moveaxis(np.zeros(x.shape, np.int64), axis, 0)
    ahead = np.moveaxis(x, axis, 0)
    best, found = ahead[0].copy(), places[0].copy()
    for place in range(1, len(ahead)):
        better = ahead[place] > best
        best, found = np.where(better, ahead[place], best), np.where(better, place, found)
    return np.expand_dims(found, axis) if keepdims else np.asarray(found)


def _cumsum(x: Array, axis: int) -> Array:
    y = x.copy()
    along = np.moveaxis(y, axis, 0)
    for place in range(1, len(along)):
        along[place] += along[place - 1]
    return y


#: Ops without parameters whose result's shape is given: it follows the operands.
SHAPED = ("reduce_sum_to", "reduce_max_to")

KERNELS: Mapping[str, Kernel] = {
    "affine": _affine,
    "powi": _powi,
    "powi_backward": _powi_backward,
    "rem": _rem,
    "log_softmax": _log_softmax,
    "rms_norm": _rms_norm,
    "softmax_backward": _softmax_backward,
    "log_softmax_backward": _log_softmax_backward,
    "rms_norm_backward": _rms_norm_backward,
    "layer_norm_backward": _layer_norm_backward,
    "fused_softmax_cross_entropy": _cross_entropy,
    "rope": _rope,
    "fused_linear": _linear,
    "reduce_sum_to": _sum_to,
    "reduce_max_to": _max_to,
    "reduce_max_to_backward": _max_to_backward,
    "argmax": _argmax,
    "argmin": lambda x, axis, keepdims: _argmax(-x, axis, keepdims),
    "cumsum": _cumsum,
}

MUTANTS: Mapping[str, Kernel] = {
    "affine": lambda x, mul, add: (x + _number(add, x)) * _number(mul, x),
    "powi": lambda x, exp: np.abs(_powi(x, exp)),
    "powi_backward": lambda x, g, exp: g * _powi(x, exp - 1),
    "rem": np.fmod,
    "log_softmax": lambda x: x - x.max(-1, keepdims=True, initial=-math.inf),
    "rms_norm": lambda x, eps: x / (np.sqrt(_mean(x * x)) + _number(eps, x)),
    "softmax_backward": lambda y, g: y * g - _sum(y * g),
    "log_softmax_backward": lambda y, g: g - np.exp(y) * _mean(g),
    "rms_norm_backward": lambda x, g, eps: g / np.sqrt(_mean(x * x) + _number(eps, x)),
    "layer_norm_backward": lambda x, g, eps: _rms_norm_backward(x - _mean(x), g, eps),
    "fused_softmax_cross_entropy": lambda x, *others: _cross_entropy(x[..., ::-1], *others),
    "rope": lambda x, cos, sin: _rope(x, cos, -sin),
    "fused_linear": lambda x, weight, bias: _linear(x, weight, bias[::-1]),
    "reduce_sum_to": lambda x, shape: _sum_to(x, shape) / 2,
    "reduce_max_to": lambda x, shape: _max_to(np.abs(x), shape),
    "reduce_max_to_backward": lambda x, g: (x == np.broadcast_to(_max_to(x, g.shape), x.shape)) * np.sign(g),
    "argmax": lambda x, axis, keepdims: _argmax(np.abs(x), axis, keepdims),
    "argmin": _argmax,
    "cumsum": lambda x, axis: np.flip(_cumsum(np.flip(x, axis), axis), axis),
}
