"""Estimates of ops along rows and of what makes one kernel of several: normalisations, gradients, losses, running
sums, places of extremes, reductions to a shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.ir import REDUCTION_NAMES
from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, Rule, rounded
from fuel_async.testing.estimates.folds import FOLDS
from fuel_async.testing.estimates.tracked import Tracked, tracked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# --- elementwise --------------------------------------------------------------------------------------------


def _affine(node: Node, args: Sequence[Operand]) -> Result:
    mul, add = float(node.attrs.mul), float(node.attrs.add)
    return (tracked(node, args[0]) * mul + add).result(node)


def _power(x: Array, e: Array, exp: int) -> Result:
    """The value, and how far it moves while x moves by `e`: exp times the steepest slope."""
    y = np.power(x, float(exp))
    if exp >= 0:
        return y, exp * np.power(np.abs(x) + e, max(exp - 1.0, 0.0)) * e
    least = np.abs(x) - e
    steepest = np.where(least > 0, np.power(np.where(least > 0, least, 1.0), exp - 1.0), math.inf)
    return y, np.where(e == 0, 0.0, -exp * steepest * e)


def _powi(node: Node, args: Sequence[Operand]) -> Result:
    exp = node.attrs.exp
    return rounded(node, 2 * abs(exp) + 2, *_power(*args[0], exp))


def _powi_backward(node: Node, args: Sequence[Operand]) -> Result:
    exp, (x, g) = int(node.attrs.exp), args
    if exp == 0:
        return np.zeros(node.shape), np.zeros(node.shape)
    y, e = _power(*x, exp - 1)
    unit = node.long.unit
    e = e + 2 * abs(exp) * unit * (np.abs(y) + e)
    return (Tracked(y, e, unit) * exp * tracked(node, g)).result(node)


def _rem(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    least = np.abs(b) - eb
    corners = [np.floor((a + i * ea) / (b + j * eb)) for i in (-1, 1) for j in (-1, 1)]
    jumps = np.maximum.reduce(corners) != np.minimum.reduce(corners)
    moved = ea + np.abs(corners[0]) * eb + np.where(jumps, np.abs(b) + eb, 0.0)
    undetermined = ((ea > 0) | (eb > 0)) & ((least <= 0) | ~np.isfinite(moved))
    return rounded(
        node, 2, np.remainder(a, b), np.where(undetermined, math.inf, np.where((ea == 0) & (eb == 0), 0, moved))
    )


# --- normalisation and its gradients ------------------------------------------------------------------------


def _log_softmax(node: Node, args: Sequence[Operand]) -> Result:
    x = tracked(node, args[0])
    shifted = x - x.max()
    return (shifted - shifted.exp().sum().log()).result(node)


def _rms_norm(node: Node, args: Sequence[Operand]) -> Result:
    x, eps = tracked(node, args[0]), node.attrs.eps
    return x.over(((x * x).mean() + eps).sqrt(), math.sqrt(eps)).result(node)


def _softmax_backward(node: Node, args: Sequence[Operand]) -> Result:
    y, g = (tracked(node, arg) for arg in args)
    return ((g - (g * y).sum()) * y).result(node)


def _log_softmax_backward(node: Node, args: Sequence[Operand]) -> Result:
    y, g = (tracked(node, arg) for arg in args)
    return (g - y.exp() * g.sum()).result(node)


def _rms_norm_backward(node: Node, args: Sequence[Operand]) -> Result:
    (x, g), eps = (tracked(node, arg) for arg in args), node.attrs.eps
    square = (x * x).mean() + eps
    return (g - x * (x * g).mean().over(square, eps)).over(square.sqrt(), math.sqrt(eps)).result(node)


def _layer_norm_backward(node: Node, args: Sequence[Operand]) -> Result:
    (x, g), eps = (tracked(node, arg) for arg in args), node.attrs.eps
    centred = x - x.mean()
    variance = (centred * centred).mean() + eps
    along = centred * (centred * g).mean().over(variance, eps)
    return (g - g.mean() - along).over(variance.sqrt(), math.sqrt(eps)).result(node)


def _cross_entropy(node: Node, args: Sequence[Operand]) -> Result:
    scores, targets = args
    x = tracked(node, scores)
    shifted = x - x.max()
    counted = targets.x != node.attrs.ignore_index
    places = np.where(counted, targets.x, 0)[..., None]
    if scores.x.shape[-1]:
        y, e = (np.take_along_axis(part, places, -1) for part in (shifted.x, shifted.e))
        chosen = Tracked(y, e, x.unit)
        loss = shifted.exp().sum().log() - chosen
        y, e = (np.where(counted, part[..., 0], 0.0) for part in (loss.x, loss.e))
    else:
        y = e = np.zeros(targets.x.shape)
    if REDUCTION_NAMES[node.attrs.reduction] == "none":
        return rounded(node, 2, y, e)
    total = Tracked(y.reshape(1, -1), e.reshape(1, -1), x.unit).sum()
    if REDUCTION_NAMES[node.attrs.reduction] == "mean":
        total = total.over(int(np.count_nonzero(counted)) or math.nan)
    return rounded(node, 2, total.x.reshape(()), total.e.reshape(()))


# --- products -----------------------------------------------------------------------------------------------


def _rope(node: Node, args: Sequence[Operand]) -> Result:
    x, cos, sin = (tracked(node, arg) for arg in args)
    half = node.shape[-1] // 2
    turned = np.concatenate([-x.x[..., half:], x.x[..., :half]], -1)
    moved = np.concatenate([x.e[..., half:], x.e[..., :half]], -1)
    return (x * cos + Tracked(turned, moved, x.unit) * sin).result(node)


def _fused_linear(node: Node, args: Sequence[Operand]) -> Result:
    product = Tracked(*FOLDS["matmul"](node, args[:2]), node.long.unit)
    return (product + tracked(node, args[2])).result(node)


# --- folds --------------------------------------------------------------------------------------------------


class _Axes(NamedTuple):
    """What folds read of their node's parameters."""

    axes: tuple[int, ...]
    keepdims: bool


def _folded(shape: Sequence[int], result: Sequence[int]) -> tuple[int, ...]:
    """The axes of `shape` that broadcasting from `result` repeats."""
    missing = len(shape) - len(result)
    return tuple(i for i, size in enumerate(shape) if i < missing or result[i - missing] != size)


def _to(name: str) -> Rule:
    def rule(node: Node, args: Sequence[Operand]) -> Result:
        fold = _Axes(_folded(args[0].x.shape, node.shape), True)
        y, e = FOLDS[name](node._replace(attrs=fold), args)
        return np.asarray(y).reshape(node.shape), np.asarray(e).reshape(node.shape)

    return rule


def _max_to_backward(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), upstream = args
    shape = upstream.x.shape
    axes = _folded(x.shape, shape)
    g, eg = (part.reshape((*(1,) * (x.ndim - len(shape)), *shape)) for part in upstream)
    top = np.maximum.reduce(x, axis=axes, keepdims=True, initial=-math.inf)
    reach = e + np.maximum.reduce(e, axis=axes, keepdims=True, initial=0.0)
    near = np.abs(top - x) <= reach
    blurred = np.logical_or.reduce(near & (reach > 0), axis=axes, keepdims=True)
    first = x == top
    count = np.add.reduce(first, axis=axes, keepdims=True)
    y = first * (g / count)
    return rounded(node, 2, y, np.where(blurred, near * (np.abs(g) + eg), first * eg / np.maximum(count, 1)))


def _arg_extreme(sign: int) -> Rule:
    def rule(node: Node, args: Sequence[Operand]) -> Result:
        axis, keep = node.attrs.axis, node.attrs.keepdims
        x, e = (np.moveaxis(part, axis, -1) for part in (sign * args[0].x, args[0].e))
        if not x.size:
            return np.zeros(node.shape, np.int64), np.zeros(node.shape)
        place = np.argmax(x, axis=-1, keepdims=True)
        top, slack = (np.take_along_axis(part, place, -1) for part in (x, e))
        rivals = (x + e >= top - slack) & (e + slack > 0)
        np.put_along_axis(rivals, place, False, -1)
        moved = np.where(rivals.any(-1, keepdims=True), math.inf, 0.0)
        found: list[Any] = [np.moveaxis(part, -1, axis) for part in (place, moved)]
        y, error = (part if keep else np.squeeze(part, axis) for part in found)
        return y, error

    return rule


def _cumsum(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), axis = args[0], node.attrs.axis
    drift = x.shape[axis] * node.long.unit * np.add.accumulate(np.abs(x) + e, axis)
    return rounded(node, 1, np.add.accumulate(x, axis), np.add.accumulate(e, axis) + drift)


ROWS: Mapping[str, Rule] = {
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
    "fused_linear": _fused_linear,
    "reduce_sum_to": _to("sum"),
    "reduce_max_to": _to("max"),
    "reduce_max_to_backward": _max_to_backward,
    "argmax": _arg_extreme(1),
    "argmin": _arg_extreme(-1),
    "cumsum": _cumsum,
}
