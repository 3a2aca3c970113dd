"""Estimates of ops that place elements anew: at edges, in triangles, under masks, and by index operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.testing.estimates.bounds import Array, Node, Operand, Result, Rule, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: numpy's names of the modes of pad, in the order of their numbers.
_MODES: tuple[Any, ...] = ("constant", "reflect", "edge")


def _both(f: Callable[[Node, Array], Array]) -> Rule:
    """Values and errors move alike."""
    return lambda node, args: (f(node, args[0].x), f(node, args[0].e))


def _padded(attrs: Any, x: Array, fill: float) -> Array:
    widths = list(zip(attrs.befores, attrs.afters, strict=True))
    if not widths:
        return x
    extra = {"constant_values": fill} if attrs.mode == 0 else {}
    return np.asarray(np.pad(x, widths, _MODES[attrs.mode], **extra))


def _pad(node: Node, args: Sequence[Operand]) -> Result:
    x, e = args[0]
    return _padded(node.attrs, x, node.attrs.value), _padded(node.attrs, e, 0.0)


def _pad_backward(node: Node, args: Sequence[Operand]) -> Result:
    """Each place of the padded array names the element that it shows; elements add up what comes back to them."""
    x, e = args[0]
    count = int(np.prod(node.shape))
    numbered = _padded(node.attrs, np.arange(count).reshape(node.shape), -1)
    return _added(node, (np.zeros(count + 1), np.zeros(count + 1)), (numbered.reshape(-1),), (x, e))


def _added(node: Node, base: Result, places: tuple[Array, ...], source: Result) -> Result:
    """`base` with `source` added at `places`; a last element beyond the result's shape is dropped."""
    (y, error), (x, e) = base, source
    y, size, error = y.copy(), np.abs(y) + error, error.copy()
    times: Array = np.zeros(y.shape)
    for total, part in ((y, x), (size, np.abs(x) + e), (error, e), (times, np.ones(x.shape))):
        np.add.at(total, places, part.reshape(places[0].shape) if len(places) == 1 else part)
    if y.shape != node.shape:
        y, size, error, times = (part[:-1].reshape(node.shape) for part in (y, size, error, times))
    return rounded(node, 1, y, error + times * node.long.unit * size)


def _along(axis: int, index: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """The places of a value that an index of `shape` addresses along one axis."""
    places: list[Array] = list(np.indices(shape, sparse=True))
    places[axis] = index
    return tuple(np.broadcast_arrays(*places))


def _gather(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), (index, _) = args
    places = _along(node.attrs.axis, index, index.shape)
    return x[places], e[places]


def _scatter_add(node: Node, args: Sequence[Operand]) -> Result:
    base, (index, _), source = args
    return _added(node, base, _along(node.attrs.axis, index, index.shape), source)


def _index_add(node: Node, args: Sequence[Operand]) -> Result:
    base, (index, _), source = args
    axis = node.attrs.axis
    wide = index.reshape((-1, *(1,) * (source.x.ndim - 1 - axis)))
    return _added(node, base, _along(axis, wide, source.x.shape), source)


def _masked_fill(node: Node, args: Sequence[Operand]) -> Result:
    (x, e), (mask, doubt) = args
    fill = np.asarray(node.attrs.value).astype(x.dtype)
    chosen = np.where(mask != 0, 0.0, e)
    y = np.where(mask != 0, fill, x)
    return y, np.where(doubt > 0, np.abs(x.astype(np.float64) - node.attrs.value) + e, chosen)


PLACED: Mapping[str, Rule] = {
    "roll": _both(lambda node, x: np.roll(x, node.attrs.shift, node.attrs.axis)),
    "pad": _pad,
    "pad_backward": _pad_backward,
    "triu": _both(lambda node, x: np.triu(x, node.attrs.diagonal)),
    "tril": _both(lambda node, x: np.tril(x, node.attrs.diagonal)),
    "masked_fill": _masked_fill,
    "gather": _gather,
    "index_add": _index_add,
    "scatter_add": _scatter_add,
}
