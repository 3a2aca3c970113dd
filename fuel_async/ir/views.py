"""How views are built: argument checks and result shapes of reshape, slices, permutations and broadcasts.

`Tensor`'s methods call these; each gives the tensor itself back where there is nothing to do. All of them
accept symbolic dimensions where the result can be named without knowing them. A slice along a symbolic
dimension has step 1, and its bounds, numbers or symbols, must lie inside the dimension once that is bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.ops.movement import (
    BROADCAST,
    CONTIGUIZE,
    EXPAND_DIMS,
    FLIP,
    PERMUTE,
    RESHAPE,
    SLICE,
    SQUEEZE,
    Axes,
    Permute,
    Slice,
)
from fuel_async.ir.shape import as_integer, integer, normal_axes, normal_axis, normal_dims, show
from fuel_async.ir.symbol import Dim, Symbolic, count, divide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.tensor import Axis, Index, Tensor


def permute_dims(value: Tensor, axes: Sequence[int]) -> Tensor:
    """Reorder axes."""
    if not isinstance(axes, Iterable):
        raise GraphError("permute", f"wanted an axis for each dimension, got {axes!r}", [value.type])
    normal = tuple([normal_axis("permute", axis, value.ndim, [value.type]) for axis in axes])
    if sorted(normal) != list(range(value.ndim)):
        raise ShapeMismatch("permute", f"axes {tuple(axes)} are no permutation", [value.type])
    return value.graph.node(PERMUTE, (value,), Permute(normal))


def transpose(value: Tensor, *, batched: bool = False) -> Tensor:
    """Swap the last two axes; without `batched` the tensor must be a matrix."""
    if value.ndim < 2 or (value.ndim > 2 and not batched):
        raise ShapeMismatch("transpose", "wanted a matrix; use mT or permute_dims", [value.type])
    rank = value.ndim
    return permute_dims(value, (*range(rank - 2), rank - 1, rank - 2))


def reshape(value: Tensor, shape: Sequence[int | str | Symbolic]) -> Tensor:
    """Give the elements another shape, one dimension of which may be -1."""
    target = normal_dims("reshape", shape, [value.type])
    if target.count(-1) == 1:
        place = target.index(-1)
        missing = divide(count(value.shape), count((*target[:place], *target[place + 1 :])))
        if missing is None:
            raise ShapeMismatch("reshape", f"{show(target)} leaves no whole dimension for -1", [value.type])
        target = (*target[:place], missing, *target[place + 1 :])
    return value if target == value.shape else value.graph.node(RESHAPE, (value,), shape=target)


def broadcast_to(value: Tensor, shape: Sequence[int | str | Symbolic]) -> Tensor:
    """Repeat dimensions without copying."""
    target = normal_dims("broadcast", shape, [value.type])
    return value if target == value.shape else value.graph.node(BROADCAST, (value,), shape=target)


def expand_dims(value: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Insert dimensions of size 1."""
    added = len(axis) if hasattr(axis, "__len__") else 1
    axes = normal_axes("expand_dims", axis, value.ndim + added, [value.type])
    return value.graph.node(EXPAND_DIMS, (value,), Axes(axes)) if axes else value


def squeeze(value: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Drop dimensions of size 1."""
    axes = normal_axes("squeeze", axis, value.ndim, [value.type])
    return value.graph.node(SQUEEZE, (value,), Axes(axes)) if axes else value


def flip(value: Tensor, axis: Axis) -> Tensor:
    """Reverse axes."""
    axes = normal_axes("flip", axis, value.ndim, [value.type])
    return value.graph.node(FLIP, (value,), Axes(axes)) if axes else value


def contiguous(value: Tensor) -> Tensor:
    """Row-major bytes."""
    return value.graph.node(CONTIGUIZE, (value,))


class _Cut(NamedTuple):
    """What an index takes of one axis."""

    start: Dim
    length: Dim
    step: int = 1


def getitem(value: Tensor, index: tuple[Index, ...]) -> Tensor:
    """Basic indexing: integers, slices, `...` and `None`, as numpy reads them."""
    cuts: list[_Cut] = []
    dropped: list[int] = []
    added: list[int] = []
    for item in _without_ellipsis(value, index):
        axis = len(cuts)
        if item is None:
            added.append(axis - len(dropped) + len(added))
        elif isinstance(item, slice):
            cuts.append(_slice(value, axis, item))
        else:
            cuts.append(_Cut(_position(value, axis, item), 1))
            dropped.append(axis)
    result = value
    if any(cut != (0, dim, 1) for cut, dim in zip(cuts, value.shape, strict=True)):
        attrs = Slice(tuple([cut.start for cut in cuts]), tuple([cut.step for cut in cuts]))
        result = value.graph.node(SLICE, (value,), attrs, shape=tuple([cut.length for cut in cuts]))
    return expand_dims(squeeze(result, dropped), added)


def _without_ellipsis(value: Tensor, index: tuple[Index, ...]) -> list[int | Symbolic | slice | None]:
    """The index with one item for each axis, besides its Nones."""
    used = sum(item is not None and item is not Ellipsis for item in index)
    if used > value.ndim or sum(item is Ellipsis for item in index) > 1:
        raise ShapeMismatch("index", f"{len(index)} indices do not fit {value.ndim} dimensions", [value.type])
    fill = [slice(None)] * (value.ndim - used)
    full: list[int | Symbolic | slice | None] = []
    for item in index:
        if isinstance(item, EllipsisType):
            full.extend(fill)
            fill = []
        else:
            full.append(item)
    return [*full, *fill]


def _position(value: Tensor, axis: int, item: int | Symbolic) -> Dim:
    """The entry of an axis that an integer, or a symbol counted from the front, names."""
    if isinstance(item, Symbolic):
        return item
    dim, place = value.shape[axis], None if isinstance(item, bool) else as_integer(item)
    if place is None:
        wanted = f"wanted integers, slices, ... or None, got {type(item).__name__}; pick with take()"
        raise GraphError("index", wanted, [value.type])
    if isinstance(dim, Symbolic):
        return _from_front(dim, place)
    if not -dim <= place < dim:
        raise ShapeMismatch("index", f"{place} is out of range for axis {axis} of size {dim}", [value.type])
    return place % dim


def _slice(value: Tensor, axis: int, item: slice) -> _Cut:
    dim = value.shape[axis]
    step = 1 if item.step is None else integer("slice", "step", item.step)
    start, stop = (
        bound if bound is None or isinstance(bound, Symbolic) else integer("slice", "bound", bound)
        for bound in (item.start, item.stop)
    )
    if step == 0:
        raise ShapeMismatch("slice", "the step is 0", [value.type])
    if not any(isinstance(number, Symbolic) for number in (dim, start, stop)):
        taken = range(*slice(start, stop, step).indices(dim))  # type: ignore[arg-type]
        return _Cut(taken.start if taken else 0, len(taken), step if len(taken) > 1 else 1)
    if step != 1:
        raise ShapeMismatch("slice", f"a step along the symbolic axis {axis} is not supported", [value.type])
    first = _from_front(dim, 0 if start is None else start)
    last = _from_front(dim, dim if stop is None else stop)
    length = last - first
    return _Cut(0, 0) if isinstance(length, int) and length <= 0 else _Cut(first, length)


def _from_front(dim: Dim, bound: Dim) -> Dim:
    return dim + bound if isinstance(bound, int) and bound < 0 else bound
