"""Estimates of reductions, normalisations, matrix products and of ops that move elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, Rule, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _sum(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    axes, keep = node.attrs.axes, node.attrs.keepdims
    y = np.add.reduce(x, axis=axes, keepdims=keep, dtype=x.dtype)
    count = math.prod(x.shape[axis] for axis in axes)
    drift = count * node.long.unit * np.add.reduce(np.abs(x) + e, axis=axes, keepdims=keep, dtype=np.float64)
    return rounded(node, 1, y, np.add.reduce(e, axis=axes, keepdims=keep) + drift)


def _mean(node: Node, args: Sequence[Operand]) -> Result:
    count = math.prod(args[0].x.shape[axis] for axis in node.attrs.axes)
    y, e = _sum(node, args)
    return rounded(node, 1, np.divide(y, count), np.divide(e, count))


def _extreme(fold: np.ufunc) -> Rule:
    def rule(node: Node, args: Sequence[Operand]) -> Result:
        x, e = args[0]
        axes, keep = node.attrs.axes, node.attrs.keepdims
        if not math.prod(node.shape):  # of no elements numpy asks what the extreme of nothing is, all the same
            return np.zeros(node.shape), np.zeros(node.shape)
        return fold.reduce(x, axis=axes, keepdims=keep), np.maximum.reduce(e, axis=axes, keepdims=keep, initial=0.0)

    return rule


def _softmax(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    shifted = x - np.maximum.reduce(x, axis=-1, keepdims=True, initial=-math.inf)
    grown = np.exp(shifted)
    y = grown / np.add.reduce(grown, axis=-1, keepdims=True)
    # Rounding of x - max shifts every exponent by a unit of its size, and the operand's error shifts it
    # twice.
    sizes = np.where(np.isfinite(shifted), np.abs(shifted), 0.0)  # what is infinitely low does not round
    widest = np.maximum.reduce(sizes, axis=-1, keepdims=True, initial=0.0)
    shift = 2 * np.maximum.reduce(e, axis=-1, keepdims=True, initial=0.0) + 2 * node.long.unit * widest
    drift = (16 + x.shape[-1]) * node.long.unit
    return rounded(node, 16, y, np.minimum(y * (np.expm1(shift) + drift), 1.0))


def _mean_of(x: Array) -> Array:
    return np.asarray(np.divide(np.add.reduce(x, axis=-1, keepdims=True), x.shape[-1]))


def _layer_norm(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    centred = x - _mean_of(x)
    deviation = np.sqrt(_mean_of(centred * centred) + node.attrs.eps)
    y = centred / deviation
    # Both the centred value and the deviation are 1-Lipschitz in the largest shift of an element; rounding
    # while the mean is taken shifts like an error of the operand.
    largest = np.maximum.reduce(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    shift = np.maximum.reduce(e, axis=-1, keepdims=True, initial=0.0)
    shift = shift + (4 + x.shape[-1]) * node.long.unit * largest
    least = np.maximum(deviation - shift, math.sqrt(node.attrs.eps))
    return rounded(node, 16, y, (2 + np.abs(y)) * shift / least)


def _matmul(node: Node, args: Sequence[Operand]) -> Result:
    (a, ea), (b, eb) = args
    if node.dtype.is_int:
        a, b = a.astype(np.int64), b.astype(np.int64)
    b, eb = _served(b, a.shape[:-2]), _served(eb, a.shape[:-2])
    size, inner = np.abs(a) @ np.abs(b), a.shape[-1]
    moved = np.abs(a) @ eb + ea @ np.abs(b) + ea @ eb
    if node.dtype.is_int:
        limits = np.iinfo(node.dtype.require_np())
        return np.clip(a @ b, limits.min, limits.max), moved
    return rounded(node, 1, a @ b, moved + (inner + 1) * node.long.unit * size)


def _served(right: Array, batch: Sequence[int]) -> Array:
    """The right operand with each batch entry repeated for the consecutive left entries that it serves."""
    for axis, size in enumerate(batch):
        if right.shape[axis] not in (1, size):
            right = np.repeat(right, size // right.shape[axis], axis=axis)
    return right


def _move(f: Callable[[Node, Array], Array]) -> Rule:
    return lambda node, args: (f(node, args[0].x), f(node, args[0].e))


def _slice(node: Node, x: Array) -> Array:
    for axis, (start, step, length) in enumerate(zip(node.attrs.starts, node.attrs.steps, node.shape, strict=True)):
        x = np.take(x, start + step * np.arange(length), axis=axis)
    return x


def _concat(node: Node, args: Sequence[Operand]) -> Result:
    axis = node.attrs.axis
    return np.concatenate([arg.x for arg in args], axis), np.concatenate([arg.e for arg in args], axis)


def _index_select(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), (index, _) = args
    return np.take(x, index, axis=node.attrs.axis), np.take(e, index, axis=node.attrs.axis)


FOLDS: Mapping[str, Rule] = {
    "sum": _sum,
    "mean": _mean,
    "max": _extreme(np.maximum),
    "min": _extreme(np.minimum),
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
}

# Values and errors move alike.
MOVES: Mapping[str, Rule] = {
    "permute": _move(lambda node, x: x.transpose(node.attrs.axes)),
    "slice": _move(_slice),
    "broadcast": _move(lambda node, x: np.broadcast_to(x, node.shape)),
    "expand_dims": _move(lambda node, x: np.expand_dims(x, node.attrs.axes)),
    "squeeze": _move(lambda node, x: np.squeeze(x, node.attrs.axes)),
    "flip": _move(lambda node, x: np.flip(x, node.attrs.axes)),
    "reshape": _move(lambda node, x: x.reshape(node.shape)),
    "contiguize": _move(lambda node, x: x),
    "copy": _move(lambda node, x: x),
    "concat": _concat,
    "index_select": _index_select,
}
