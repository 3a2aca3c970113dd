"""Functions that pick elements by an index for each element, and that add elements to the places of an index.

`take` (in `ir.tensor`) picks whole entries along an axis. Indices are u32; one out of range fails the run.
"""

from __future__ import annotations

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.ops.indexing import GATHER, INDEX_ADD, SCATTER_ADD, Along
from fuel_async.ir.shape import normal_axis
from fuel_async.ir.tensor import Tensor, promoted


def gather(value: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Pick, for each element of `indices`, the element of `value` at its own place but for `axis`.

    `indices` (u32) has the rank of `value` and at most its size along the other axes; the result has its shape.
    """
    place = _placed("gather", value, indices, axis=axis)
    return value.graph.node(GATHER, (value, indices), Along(place))


def take_along_axis(value: Tensor, indices: Tensor, *, axis: int = -1) -> Tensor:
    """Pick elements by u32 `indices` of the rank of `value`; their other dimensions broadcast."""
    place = _placed("take_along_axis", value, indices, axis=axis)
    if value.ndim != indices.ndim:
        reason = f"wanted indices of rank {value.ndim}, got {indices.ndim}"
        raise ShapeMismatch("take_along_axis", reason, [value.type, indices.type])
    ours, theirs = list(value.shape), list(indices.shape)
    for at, (dim, other) in enumerate(zip(value.shape, indices.shape, strict=True)):
        if at == place or dim == other:
            continue
        if 1 not in (dim, other):
            reason = f"dimensions {dim} and {other} of axis {at} do not broadcast"
            raise ShapeMismatch("take_along_axis", reason, [value.type, indices.type])
        ours[at] = theirs[at] = other if dim == 1 else dim
    return gather(value.broadcast_to(ours), indices.broadcast_to(theirs), axis=place)


def index_add(base: Tensor, indices: Tensor, source: Tensor, *, axis: int = 0) -> Tensor:
    """Return `base` with entry j of `source` along `axis` added to its entry `indices[j]`.

    `indices` (u32) has one dimension. Entries that meet in one place are all added, in the order of `source`.
    """
    place = _placed("index_add", base, indices, source, axis=axis)
    base, source = promoted("index_add", base, source)
    return base.graph.node(INDEX_ADD, (base, indices, source), Along(place))


def scatter_add(base: Tensor, indices: Tensor, source: Tensor, *, axis: int = 0) -> Tensor:
    """Return `base` with each element of `source` added at its own place but for `axis`, which `indices` say.

    `indices` (u32) has the shape of `source`, the rank of `base`, and at most its size along the other axes.
    Elements that meet in one place are all added, in row-major order of `source`.
    """
    place = _placed("scatter_add", base, indices, source, axis=axis)
    base, source = promoted("scatter_add", base, source)
    return base.graph.node(SCATTER_ADD, (base, indices, source), Along(place))


def _placed(op: str, value: Tensor, *others: Tensor, axis: int) -> int:
    """The axis counted from the front; refuses what is no tensor of one graph."""
    if not isinstance(value, Tensor):
        raise GraphError(op, f"wanted a Tensor, got {type(value).__name__}; wrap arrays with Graph.constant()")
    for other in others:
        value.graph.own(op, other)
    return normal_axis(op, axis, value.ndim, [value.type, *[other.type for other in others]])
