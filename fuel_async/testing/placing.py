"""Recipes of ops that place elements anew: at edges, in triangles, under masks, and by index operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from fuel_async.ir import (
    DType,
    Symbolic,
    gather,
    index_add,
    masked_fill,
    pad,
    pad_backward,
    roll,
    scatter_add,
    take_along_axis,
    tril,
    triu,
)
from fuel_async.testing.builder import ARITHMETIC, MOVABLE, broadcasts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.ir import Dim, Shape, Tensor
    from fuel_async.testing.builder import Builder

#: Dtypes with kernels that pad, roll, mask and cut triangles.
PLACEABLE = (*ARITHMETIC, DType.U32, DType.U8)

_MODES: tuple[Literal["constant", "reflect", "replicate"], ...] = ("constant", "reflect", "replicate")


def _roll(b: Builder) -> Tensor:
    source = b.any(PLACEABLE)
    shift = b.choices.integer(-4, 4)
    if not source.ndim or (b.choices.chance(20) and not any(isinstance(dim, Symbolic) for dim in source.shape)):
        return roll(source, shift)
    return roll(source, shift, axis=b.choices.integer(-source.ndim, source.ndim - 1))


def _triangle(cut: Callable[..., Tensor]) -> Callable[[Builder], Tensor]:
    return lambda b: cut(b.any(PLACEABLE, rank=2), k=b.choices.integer(-3, 3))


def _most(b: Builder, dim: Dim, mode: str) -> int:
    """How many elements may be added at one side."""
    size = b.size(dim)
    if mode == "constant":
        return 2
    return min(2, size - 1 if mode == "reflect" else 2 * size) if size else 0


def _pad(b: Builder) -> Tensor:
    source = b.any(PLACEABLE)
    mode = b.choices.pick(_MODES)
    most = [_most(b, dim, mode) for dim in source.shape]
    widths = [[b.choices.integer(0, width), b.choices.integer(0, width)] for width in most]
    if mode != "constant":
        return pad(source, widths, mode)
    number = b.choices.pick((0, 1, 3)) if source.dtype.is_int else b.number()
    return pad(source, widths, mode, number)


def _pad_backward(b: Builder) -> Tensor:
    source = b.floating()
    mode = b.choices.pick(_MODES)
    widths: list[list[int]] = []
    for dim in source.shape:
        room = b.size(dim)
        before = b.choices.integer(0, min(2, room))
        after = b.choices.integer(0, min(2, room - before))
        rest = room - before - after
        fits = mode == "constant" or not max(before, after) or rest > (max(before, after) if mode == "reflect" else 0)
        widths.append([before, after] if fits else [0, 0])
    return pad_backward(source, widths, mode)


def _masked_fill(b: Builder) -> Tensor:
    source = b.any(PLACEABLE)
    mask = b.find(lambda t: t.dtype is DType.U8 and broadcasts(t.shape, source.shape))
    if mask is None:
        mask = b.fresh(DType.U8, source.shape)
    if not broadcasts(mask.shape, source.shape):
        mask = b.fresh(DType.U8, (1,))
    return masked_fill(source, mask, b.choices.pick((0, 1, 5)) if source.dtype.is_int else b.number())


def _indices(b: Builder, shape: Shape, size: int) -> Tensor:
    """Indices below `size`; there is room for some or none are wanted."""
    random = np.random.default_rng(b.choices.integer(0, 2**32 - 1))
    values = random.integers(0, max(size, 1), tuple(map(b.size, shape))).astype(np.uint32)
    return b.leaf(values, DType.U32, shape)


def _picking(b: Builder, source: Tensor) -> tuple[int, Shape] | None:
    """An axis, and the shape of an index that picks from `source` along it; None where nothing can be picked."""
    axis = b.choices.integer(0, source.ndim - 1)
    wanted = [
        b.choices.integer(1, dim) if isinstance(dim, int) and dim and b.choices.chance(30) else dim
        for dim in source.shape
    ]
    wanted[axis] = b.choices.integer(0, 5)
    if not b.size(source.shape[axis]) and all(map(b.size, wanted)):
        return None
    return axis, tuple(wanted)


def _gather(b: Builder) -> Tensor | None:
    source = b.any(MOVABLE, rank=1)
    found = _picking(b, source)
    if found is None:
        return None
    axis, shape = found
    if b.choices.chance(20):
        ones = tuple([dim if at == axis else 1 for at, dim in enumerate(shape)])
        index = _indices(b, ones, b.size(source.shape[axis]))
        return take_along_axis(source, index, axis=axis) if b.size(source.shape[axis]) else None
    return gather(source, _indices(b, shape, b.size(source.shape[axis])), axis=axis)


def _scatter_add(b: Builder) -> Tensor | None:
    base = b.floating(rank=1)
    found = _picking(b, base)
    if found is None:
        return None
    axis, shape = found
    index = _indices(b, shape, b.size(base.shape[axis]))
    return scatter_add(base, index, b.fresh(base.dtype, shape), axis=axis)


def _index_add(b: Builder) -> Tensor | None:
    base = b.floating(rank=1)
    axis = b.choices.integer(0, base.ndim - 1)
    size = b.size(base.shape[axis])
    count = b.choices.integer(0, 5) if size else 0
    index = _indices(b, (count,), size)
    source = b.fresh(base.dtype, (*base.shape[:axis], count, *base.shape[axis + 1 :]))
    return index_add(base, index, source, axis=axis - base.ndim if b.choices.chance(30) else axis)


PLACING: Mapping[str, Callable[[Builder], Tensor | None]] = {
    "roll": _roll,
    "pad": _pad,
    "pad_backward": _pad_backward,
    "masked_fill": _masked_fill,
    "triu": _triangle(triu),
    "tril": _triangle(tril),
    "gather": _gather,
    "index_add": _index_add,
    "scatter_add": _scatter_add,
}
