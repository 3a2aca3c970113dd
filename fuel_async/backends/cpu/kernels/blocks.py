"""Evaluating a chain of numpy passes block by block, so that the intermediates stay in the cache.

A *body* is a function `body(*inputs, output, *planes)` that fills `output` from `inputs` with ufuncs that
write where they are told; `planes` are working arrays of the output's shape. It may write `output` only once
it is through with the inputs, element by element, so that the output may be one of the inputs. `bind_body`
turns a body and whole operands into a call: the body itself when everything fits one block, else a loop over
blocks. Blocks are slices of the leading axes; no operand needs to be contiguous, and no array is allocated by
the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy._core import umath

Array: TypeAlias = npt.NDArray[Any]
NumpyDType: TypeAlias = np.dtype[Any]
Body: TypeAlias = Callable[..., object]
Bound: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
Shape: TypeAlias = tuple[int, ...]
#: Ends in an ellipsis, so that indexing always gives an array, never a numpy scalar.
Index: TypeAlias = tuple[Any, ...]

#: `clip(x, low, high, out)`: limits each element, NaN stays, -0.0 counts as equal to 0.0. The one ufunc of
#: its kind that takes `out` by position (numpy deprecates that for `maximum` and `minimum`), which halves the
#: price of a small call.
clip: Callable[..., Any] = umath.clip  # type: ignore[attr-defined]

#: Bytes of one plane of one block. A pass reads and writes two planes, which stay in a second-level cache of
#: 1 MiB, and takes some twenty times as long as its start (measured: 192 KiB cost a tenth more, 64 KiB half as
#: much again).
BLOCK_NBYTES = 384 * 1024

#: Planes begin at multiples of this within the scratch memory.
PLANE_ALIGN = 64


def block_limit(planes: Sequence[NumpyDType], whole_axes: int = 0, shape: Shape = ()) -> int:
    """Return how many elements a block may have: `BLOCK_NBYTES` of the widest plane, or one row if longer.

    A row is the last `whole_axes` axes of `shape`, which are never cut.
    """
    widest = max((plane.itemsize for plane in planes), default=8)
    row = math.prod(shape[len(shape) - whole_axes :]) if whole_axes else 1
    return max(BLOCK_NBYTES // widest, row)


def scratch_nbytes(planes: Sequence[NumpyDType], shape: Shape, whole_axes: int = 0) -> tuple[int, ...]:
    """Return the bytes of working memory that planes over an output of `shape` take; () when there are none."""
    if not planes:
        return ()
    count = min(math.prod(shape), block_limit(planes, whole_axes, shape))
    return (sum(_padded(count * plane.itemsize) for plane in planes),)


def carve(planes: Sequence[NumpyDType], shape: Shape, scratch: Array) -> tuple[Array, ...]:
    """Return an array of `shape` for each dtype in `planes`, one after the other in `scratch`'s bytes."""
    views, offset, count = [], 0, math.prod(shape)
    for plane in planes:
        views.append(np.ndarray(shape, plane, scratch, offset))
        offset += _padded(count * plane.itemsize)
    return tuple(views)


def bind_body(
    body: Body,
    inputs: Sequence[Array],
    output: Array,
    planes: Sequence[NumpyDType] = (),
    scratch: Sequence[Array] = (),
) -> Bound:
    """Return a call that fills `output`. Inputs broadcast to it, as numpy does that.

    `scratch` holds one byte array of the size that `scratch_nbytes` gave, or nothing when that was ().
    """
    shape = output.shape
    limit = block_limit(planes)
    if output.size <= limit:
        return body, (*inputs, output, *(carve(planes, shape, scratch[0]) if planes else ()))
    cut = Blocks(shape, limit)
    views = {part: carve(planes, part, scratch[0]) if planes else () for part in cut.part_shapes()}
    if all(operand.shape == shape for operand in inputs):
        steps = [(index, views[part]) for index, part in cut.pieces()]

        def run(*operands: Array) -> None:
            for index, work in steps:
                body(*[operand[index] for operand in operands], *work)

    else:
        shapes = [operand.shape for operand in (*inputs, output)]

        def run(*operands: Array) -> None:
            for index, part in cut.pieces():
                indices = [broadcast_index(index, shape, of) for of in shapes]
                body(*[operand[at] for operand, at in zip(operands, indices, strict=True)], *views[part])

    return run, (*inputs, output)


class Blocks:
    """A shape cut into blocks of at most `limit` elements: runs of one axis with all that is behind it.

    The last `whole_axes` axes are never cut, however long they are. The shape has at least one element.
    """

    __slots__ = ("_axis", "_runs", "shape")

    def __init__(self, shape: Shape, limit: int, whole_axes: int = 0) -> None:
        self.shape = shape
        inner, axis = 1, len(shape) - 1
        while axis > 0 and (axis >= len(shape) - whole_axes or inner * shape[axis] <= limit):
            inner *= shape[axis]
            axis -= 1
        self._axis = axis
        length = shape[axis]
        whole = axis >= len(shape) - whole_axes
        parts = 1 if whole else -(-length // max(limit // inner, 1))
        step = -(-length // parts)
        self._runs = tuple(slice(start, min(start + step, length)) for start in range(0, length, step))

    def pieces(self) -> Iterator[tuple[Index, Shape]]:
        """Iterate over the blocks in memory order: an index into arrays of the shape, the shape of the block."""
        tail = self.shape[self._axis + 1 :]
        runs = [(run, (run.stop - run.start, *tail)) for run in self._runs]
        for lead in product(*map(range, self.shape[: self._axis])):
            for run, part in runs:
                yield (*lead, run, ...), part

    def part_shapes(self) -> set[Shape]:
        """Return the shapes that occur: one or two."""
        tail = self.shape[self._axis + 1 :]
        return {(run.stop - run.start, *tail) for run in self._runs}


def broadcast_index(index: Index, shape: Shape, of: Shape) -> Index:
    """Return the index of the same block in an operand of shape `of`, which broadcasts to `shape`."""
    missing = len(shape) - len(of)
    picked: list[Any] = []
    for at, dim in zip(index[missing:-1], of, strict=False):
        if dim != 1:
            picked.append(at)
        else:
            picked.append(0 if isinstance(at, int) else slice(None))
    return (*picked, ...)


def constants(dtype: npt.DTypeLike, *values: float) -> tuple[Array, ...]:
    """Return read-only 0-d arrays, as operands: a Python number would cost more than a small ufunc call."""
    with np.errstate(over="ignore"):  # a number beyond the dtype is infinite in it
        made = [np.array(value, dtype) for value in values]
    for array in made:
        array.flags.writeable = False
    return tuple(made)


def _padded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // PLANE_ALIGN) * PLANE_ALIGN
