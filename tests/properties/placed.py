"""Ops that place elements anew, element by element: kernels of the second executor, and of one that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Kernel = Callable[..., Array]


def _each(shape: Sequence[int], dtype: Any, element: Callable[[tuple[int, ...]], Any]) -> Array:
    """The array whose elements are `element(place)`."""
    y = np.zeros(shape, dtype)
    for place in np.ndindex(*shape):
        y[place] = element(place)
    return y


def _at(place: tuple[int, ...], axis: int, index: Any) -> tuple[int, ...]:
    return (*place[:axis], int(index), *place[axis + 1 :])


def _roll(x: Array, shape: Sequence[int], axis: int, shift: int) -> Array:
    return _each(shape, x.dtype, lambda at: x[_at(at, axis, (at[axis] - shift) % shape[axis])])


def _shown(at: int, size: int, mode: int) -> int | None:
    """Which of `size` elements a pad shows at place `at`, counted from the first of them; None for the fill."""
    if 0 <= at < size:
        return at
    if mode == 0:
        return None
    if mode == 1:
        return -at if at < 0 else 2 * (size - 1) - at
    return 0 if at < 0 else size - 1


def _source(place: tuple[int, ...], befores: Sequence[int], sizes: Sequence[int], mode: int) -> tuple[int, ...] | None:
    shown = [_shown(at - before, size, mode) for at, before, size in zip(place, befores, sizes, strict=True)]
    return None if None in shown else tuple([at for at in shown if at is not None])


def _pad(
    x: Array, shape: Sequence[int], befores: Sequence[int], afters: Sequence[int], mode: int, value: float
) -> Array:
    def element(place: tuple[int, ...]) -> Any:
        source = _source(place, befores, x.shape, mode)
        return np.asarray(value).astype(x.dtype) if source is None else x[source]

    return _each(shape, x.dtype, element)


def _pad_backward(x: Array, befores: Sequence[int], afters: Sequence[int], mode: int) -> Array:
    y = np.zeros([n - a - b for n, b, a in zip(x.shape, befores, afters, strict=True)], x.dtype)
    for place in np.ndindex(*x.shape):
        source = _source(place, befores, y.shape, mode)
        if source is not None:
            y[source] += x[place]
    return y


def _masked_fill(x: Array, mask: Array, shape: Sequence[int], value: float) -> Array:
    wide, chosen = np.broadcast_to(x, shape), np.broadcast_to(mask, shape)
    return _each(shape, x.dtype, lambda at: np.asarray(value).astype(x.dtype) if chosen[at] else wide[at])


def _triangle(keeps: Callable[[int, int], bool]) -> Kernel:
    def kernel(x: Array, shape: Sequence[int], diagonal: int) -> Array:
        return _each(shape, x.dtype, lambda at: x[at] if keeps(at[-1] - at[-2], diagonal) else 0)

    return kernel


def _gather(x: Array, index: Array, shape: Sequence[int], axis: int) -> Array:
    return _each(shape, x.dtype, lambda at: x[_at(at, axis, index[at])])


def _scatter_add(base: Array, index: Array, source: Array, axis: int) -> Array:
    y = base.copy()
    for place in reversed(list(np.ndindex(*source.shape))):
        y[_at(place, axis, index[place])] += source[place]
    return y


def _index_add(base: Array, index: Array, source: Array, axis: int) -> Array:
    y = base.copy()
    for at in reversed(range(len(index))):
        y[(slice(None),) * axis + (index[at],)] += source.take(at, axis)
    return y


#: Ops that compute.
KERNELS: Mapping[str, Kernel] = {
    "pad_backward": _pad_backward,
    "index_add": _index_add,
    "scatter_add": _scatter_add,
}

MUTANTS: Mapping[str, Kernel] = {
    "pad_backward": lambda x, befores, afters, mode: _pad_backward(x, befores, afters, 0),
    "index_add": lambda base, index, source, axis: _index_add(base, np.unique(index), source, axis),
    "scatter_add": lambda base, index, source, axis: _scatter_add(base, index, np.flip(source, axis), axis),
}

#: Ops that move elements as they are.
RAW: Mapping[str, Kernel] = {
    "roll": _roll,
    "pad": _pad,
    "masked_fill": _masked_fill,
    "triu": _triangle(lambda above, diagonal: above >= diagonal),
    "tril": _triangle(lambda above, diagonal: above <= diagonal),
    "gather": _gather,
}
