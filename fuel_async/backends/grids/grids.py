"""How plans see shapes: axes folded into as few as there can be, blocks of words, and grids of groups."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import LOCAL, MODULES
from fuel_async.backends.grids.kernel import Dispatch, Shader
from fuel_async.errors import KernelArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Limits

#: Invocations of a workgroup that shares rows or tiles, where the device allows so many.
MOST_LOCAL = 256
#: Bytes of push constants that every device has room for.
PUSH_NBYTES = 128
#: Elements of a row for each lane, while there are rows enough to be busy with, and lanes that read neighbours.
EACH_LANE, FEW_ROWS, NEIGHBOURS = 8, 64, 8
#: Iterations that one invocation may be asked for, over all its loops: llvmpipe silently ends loops after 65,535.
ITERATIONS = 60_000

_MASK = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes from the innermost to the outermost, with the strides of each operand along them, in elements."""

    sizes: tuple[int, ...]
    #: One row an operand.
    strides: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """The number of places."""
        return math.prod(self.sizes)

    def words(self, most: int, op: str) -> list[int]:
        """Return sizes and strides, each filled up to `most` axes; `KernelArgumentError` for more than that."""
        if len(self.sizes) > most:
            wanted = f"at most {most} after axes that lie in one piece are joined"
            raise KernelArgumentError(op, "the number of axes", len(self.sizes), wanted)
        rows = [(self.sizes, 1), *((row, 0) for row in self.strides)]
        return [word for row, filler in rows for word in (*row, *[filler] * (most - len(row)))]


def folded(sizes: Sequence[int], *strides: Sequence[int]) -> Axes:
    """Return the axes, outermost first, as few as can be: those of size 1 are left out, neighbours joined.

    Two neighbours are one axis where every operand steps over the inner one in one step of the outer one.
    """
    kept_sizes: list[int] = []
    kept: list[list[int]] = []
    for at in range(len(sizes) - 1, -1, -1):
        size, steps = sizes[at], [row[at] for row in strides]
        if size == 1:
            continue
        if kept and all(step == inner * kept_sizes[-1] for step, inner in zip(steps, kept[-1], strict=True)):
            kept_sizes[-1] *= size
        else:
            kept_sizes.append(size)
            kept.append(steps)
    return Axes(tuple(kept_sizes), tuple([tuple([row[at] for row in kept]) for at in range(len(strides))]))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major array."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def grid(count: int, limits: Limits) -> tuple[int, int, int]:
    """Return a grid of at least `count` workgroups, through x, then y, then z, with few to spare."""
    most_x, most_y, _ = limits.max_groups
    lines = -(-count // most_x)
    x = -(-count // lines)
    if lines <= most_y:
        return x, lines, 1
    planes = -(-lines // most_y)
    return x, -(-lines // planes), planes


def push(*words: int) -> bytes:
    """Return a block of push constants, of whole numbers modulo 2^32."""
    return struct.pack(f"<{len(words)}I", *[word & _MASK for word in words])


def float_word(value: float) -> int:
    """Return the bits of a float."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def double_words(value: float) -> tuple[int, int]:
    """Return the bits of a double, low word first."""
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return int(low), int(high)


def dispatch(
    name: str,
    operands: tuple[int, ...],
    words: Sequence[int],
    groups: tuple[int, int, int],
    *,
    spec: tuple[int, ...] = (),
    adds: bool = False,
    outputs: int = 1,
) -> Dispatch:
    """Return a dispatch of a module of the catalog, which writes the last of its operands and reads the others.

    A shader may write more than one: `outputs`. One that `adds` reads what it writes.
    """
    reads = operands if adds else operands[:-outputs]
    block = push(*words)
    shader = _shader(name, len(block), spec)
    return Dispatch(shader, operands, block, groups, reads, operands[-outputs:])


@cache
def _shader(name: str, push_nbytes: int, spec: tuple[int, ...]) -> Shader:
    module = MODULES[name]
    return Shader(name, module, module.bindings, push_nbytes, spec, module.threads_of(spec), module.needs)


def each(count: int, limits: Limits) -> tuple[int, int, int]:
    """Return the grid of a shader with one element an invocation."""
    return grid(-(-count // LOCAL), limits)


@dataclass(frozen=True, slots=True)
class Lanes:
    """How a workgroup is cut: `threads` invocations, `lanes` of them to a row."""

    threads: int
    lanes: int
    #: Whether the lanes of a row are neighbours, else those of different rows are.
    lane_fast: bool

    @property
    def rows(self) -> int:
        """Rows of one workgroup."""
        return self.threads // self.lanes

    def spec(self, *more: int) -> tuple[int, ...]:
        """Return the specialization constants, from 0."""
        return (self.threads, self.lanes, int(self.lane_fast), *more)


def lanes_for(rows: int, length: int, limits: Limits, *, across: bool, walks: int = 1) -> Lanes:
    """Cut a workgroup for rows of `length` elements, which are walked `walks` times.

    `across` says that neighbours in memory belong to different rows; then there are as many rows to a workgroup as can
    be, and more lanes only where rows are few or long.
    """
    threads = _power_below(min(MOST_LOCAL, limits.max_invocations))
    if across and rows > 1:
        lanes = threads // min(_power_above(rows), threads)
        while lanes < threads and (lanes * ITERATIONS < walks * length or (lanes * 64 < length and rows < 4096)):
            lanes *= 2
        return Lanes(threads, max(lanes, 1), lane_fast=False)
    least = min(_power_above(max(length, 1)), threads)
    if rows < FEW_ROWS:
        return Lanes(threads, least, lane_fast=True)
    lanes = min(max(_power_above(-(-length // EACH_LANE)), NEIGHBOURS), least)
    return Lanes(threads, lanes, lane_fast=True)


def _power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _power_below(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def check(op: str, what: str, got: object, wanted: object) -> None:
    """`KernelArgumentError` unless what was given is what is wanted."""
    if got != wanted:
        raise KernelArgumentError(op, what, got, wanted)
