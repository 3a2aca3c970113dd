"""Ops that may write over their operand, as the second executor computes them: it never does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir.ops.inplace import IN_PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Kernel = Callable[..., Array]


def in_place(kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """What is computed without an op's suffix."""
    return {op.name: kernels[name] for name, op in IN_PLACE.items()}


def _write(dest: Array, source: Array, shape: Any, starts: Sequence[int]) -> Array:
    found = dest.copy()
    for place, value in np.ndenumerate(source):
        found[tuple([at + start for at, start in zip(place, starts, strict=True)])] = value
    return found


def _write_at(dest: Array, source: Array, offset: Array, shape: Any, axis: int, starts: Sequence[int]) -> Array:
    return _write(dest, source, shape, [*starts[:axis], int(offset), *starts[axis + 1 :]])


def _rotate(
    dest: Array, source: Array, position: Array, shape: Any, axis: int, modulus: int, starts: Sequence[int]
) -> Array:
    """Entry by entry: one write for each."""
    for entry in range(source.shape[axis]):
        place = (int(position) + entry) % modulus
        dest = _write(dest, source.take([entry], axis), shape, [*starts[:axis], place, *starts[axis + 1 :]])
    return dest


RAW: dict[str, Kernel] = {
    "write_slice": _write,
    "write_slice_doff": _write_at,
    "write_slice_rotating": _rotate,
    "move": lambda x, shape: x.copy(),
    "release": lambda x, shape: x.reshape(-1)[:0],
}
