"""Foldings of rows of any strides: how an operand is cut into rows, and rows into chunks, by shapes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import float_name
from fuel_async.backends.grids.grids import Axes, dispatch, folded, grid, lanes_for, row_major
from fuel_async.backends.grids.kernel import Operand
from fuel_async.backends.grids.widths import Width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, Shape
    from fuel_async.ir import DType, OpKind

SUM, MAXIMUM, MINIMUM = range(3)

_AXES = 5
#: Elements of a row from which it is cut while there are few rows, and the most rows and chunks that are few.
CHUNK, FEW = 16_384, 256


@dataclass(frozen=True, slots=True)
class Rows:
    """An operand as rows: the axes that are kept, and those along which is folded."""

    kept: Axes
    along: Axes

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.kept.count

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.along.count

    @property
    def across(self) -> bool:
        """Whether neighbours in memory belong to different rows."""
        return _least(self.kept) < _least(self.along)


def _least(axes: Axes) -> int:
    return min((abs(step) for step in axes.strides[0] if step), default=2**31)


def rows_of(operand: Operand, dims: Sequence[int]) -> Rows:
    """Cut an operand along `dims`."""
    axes = range(len(operand.shape))
    kept, along = [axis for axis in axes if axis not in dims], [axis for axis in axes if axis in dims]
    return Rows(*[
        folded([operand.shape[axis] for axis in part], [operand.strides[axis] for axis in part])
        for part in (kept, along)
    ])  # fmt: skip


def chunks_of(rows: int, length: int) -> int:
    """Return into how many chunks each row is cut: more than one where rows are few and long, or very long."""
    if rows >= FEW and length < 64 * CHUNK:
        return 1
    return max(1, min(length // CHUNK, max(FEW // max(rows, 1), length // (64 * CHUNK))))


def partial_nbytes(inputs: Shape, output: Shape, width: Width) -> tuple[int, ...]:
    """Return the bytes of the results of chunks, for a fold of `inputs` to `output`; () where rows are whole."""
    rows = math.prod(output)
    chunks = chunks_of(rows, math.prod(inputs) // max(rows, 1))
    return (rows * chunks * width.wide_bits // 8,) if chunks > 1 else ()


@dataclass(frozen=True, slots=True)
class Fold:
    """One fold: its kind, what the result is divided by, and among the kernel's operands which are what."""

    kind: int
    #: The operand that is folded.
    source: int
    #: The result, row-major: its place and what it is.
    target: int
    #: Working memory for the results of chunks; only read where rows are cut.
    partial: int = -1
    divisor: int | None = None
    #: A row-major operand of values that elements are compared with: what is folded is how many are equal.
    equal: int = -1


def fold(op: OpKind, operands: Sequence[Operand], how: Fold, dims: Sequence[int], limits: Limits) -> list[Dispatch]:
    """Return the dispatches of a fold along `dims`; none where there is no result."""
    source, target = operands[how.source], operands[how.target]
    rows = rows_of(source, dims)
    if not rows.count:
        return []
    chunks = chunks_of(rows.count, rows.length)
    wide, out = Width.of(source.dtype).wide, target.dtype
    if chunks == 1:
        return [_pass(op, operands, how, rows, (1, how.target, out), limits)]
    first = _pass(op, operands, how, rows, (chunks, how.partial, wide), limits)
    between = _scratch(operands[how.partial], wide, (chunks, rows.count))
    joined = rows_of(between, (0,))
    again = Fold(how.kind, how.partial, how.target, divisor=how.divisor)
    viewed = [*operands]
    viewed[how.partial] = between
    return [first, _pass(op, viewed, again, joined, (1, how.target, out), limits)]


def _scratch(memory: Operand, dtype: DType, shape: Shape) -> Operand:
    """Return working memory as a row-major operand."""
    return Operand(dtype, shape, row_major(shape), memory.offset // dtype.nbytes)


def _pass(
    op: OpKind, operands: Sequence[Operand], how: Fold, rows: Rows, into: tuple[int, int, DType], limits: Limits
) -> Dispatch:
    chunks, place, out = into
    source, counts = operands[how.source], how.equal >= 0
    size = -(-rows.length // chunks)
    lanes = lanes_for(rows.count * chunks, size, limits, across=rows.across)
    width = Width.of(source.dtype if source.dtype.bits == 16 else out)
    whole = chunks == 1 and how.divisor is not None
    target_at = operands[place].offset
    if operands[place].dtype is not out:
        target_at = target_at * operands[place].dtype.nbytes // out.nbytes
    words = [
        rows.count, chunks, rows.length, size, len(rows.kept.sizes), len(rows.along.sizes), source.offset,
        operands[how.equal].offset if counts else 0, target_at,
        (how.divisor or 0) if whole else 0, int(whole),
        *rows.kept.words(_AXES, op.value), *rows.along.words(_AXES, op.value),
    ]  # fmt: skip
    name = float_name("reduce", (source.dtype.bits, out.bits), "COUNT" if counts else "")
    seen = (how.source, how.equal, place) if counts else (how.source, place)
    groups = grid(-(-rows.count * chunks // lanes.rows), limits)
    return dispatch(name, seen, words, groups, spec=width.spec(*lanes.spec(how.kind)))


def converted(op: OpKind, source: Operand, target: Operand, places: tuple[int, int], limits: Limits) -> list[Dispatch]:
    """Return the dispatch that widens or narrows a half type; `places` are those of the two among the operands."""
    rows = rows_of(source, ())
    if not rows.count:
        return []
    views = {places[0]: source, places[1]: target}
    operands = [views.get(place, source) for place in range(max(places) + 1)]
    how = Fold(SUM, places[0], places[1])
    return [_pass(op, operands, how, rows, (1, places[1], target.dtype), limits)]
