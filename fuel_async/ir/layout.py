"""How the elements of a value lie in its storage: shape, strides and offset, all counted in elements.

A view op is a function from layout to layout; nothing here touches bytes. Strides may be negative (flip) or
zero (broadcast). The rules are numpy's, so a layout and the strided numpy view over the same bytes always
agree; strides of a layout without elements carry no meaning.

    >>> Layout.contiguous((2, 3)).permute((1, 0))
    Layout(shape=(3, 2), strides=(1, 3), offset=0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from fuel_async.errors import ShapeMismatch

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape, signed strides and offset of a value within its storage, in elements. Immutable and hashable."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ShapeMismatch("layout", f"shape {self.shape} and strides {self.strides} differ in rank")
        if self.shape and min(self.shape) < 0:
            raise ShapeMismatch("layout", f"shape {self.shape} has a negative dimension")

    @classmethod
    def contiguous(cls, shape: Sequence[int], offset: int = 0) -> Layout:
        """Return the row-major layout of `shape` starting at element `offset`."""
        strides, step = [0] * len(shape), 1
        for axis in range(len(shape) - 1, -1, -1):
            strides[axis] = step
            step *= max(shape[axis], 1)
        return cls(tuple(shape), tuple(strides), offset)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def count(self) -> int:
        """The number of elements, those repeated by a zero stride included."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in row-major order. Says nothing about the offset.

        As in numpy, dimensions of size 1 do not matter and a layout without elements is contiguous.
        """
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size == 0:
                return True
            if size != 1 and stride != step:
                return 0 in self.shape
            step *= size
        return True

    def span(self) -> tuple[int, int] | None:
        """Return the lowest and the highest element that it touches, both inclusive; None if it has none."""
        if 0 in self.shape:
            return None
        low = high = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            reach = (size - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def narrow(self, dim: int, start: int, length: int, step: int = 1) -> Layout:
        """Keep `length` positions of axis `dim`: `start`, `start + step` and so on; `step` may be negative.

        `ShapeMismatch` when one of them lies outside the axis or `step` is 0.
        """
        axis, size = self._axis("narrow", dim), self.shape[dim]
        last = start + (length - 1) * step
        inside = 0 <= start < size and 0 <= last < size if length > 0 else length == 0 and 0 <= start <= size
        if not inside or step == 0:
            raise ShapeMismatch("narrow", f"{length} positions from {start} by {step} leave axis {dim} of size {size}")
        stride = self.strides[axis]
        offset = self.offset + start * stride if length else self.offset
        return Layout(_set(self.shape, axis, length), _set(self.strides, axis, stride * step), offset)

    def permute(self, axes: Sequence[int]) -> Layout:
        """Reorder the axes: axis `i` of the result is axis `axes[i]` of this layout."""
        order = [self._axis("permute", axis) for axis in axes]
        if sorted(order) != list(range(self.rank)):
            raise ShapeMismatch("permute", f"axes {tuple(axes)} are no permutation of {self.rank} dimensions")
        return Layout(tuple(self.shape[a] for a in order), tuple(self.strides[a] for a in order), self.offset)

    def expand_dims(self, axis: int) -> Layout:
        """Insert an axis of size 1 and stride 0 before position `axis` of the result."""
        if not -self.rank - 1 <= axis <= self.rank:
            raise ShapeMismatch("expand_dims", f"axis {axis} is out of range for {self.rank + 1} dimensions")
        at = axis % (self.rank + 1)
        return Layout((*self.shape[:at], 1, *self.shape[at:]), (*self.strides[:at], 0, *self.strides[at:]), self.offset)

    def squeeze(self, axes: int | Sequence[int]) -> Layout:
        """Drop the given axes, each of size 1; `ShapeMismatch` when one is larger."""
        dropped = self._axes("squeeze", axes)
        if any(self.shape[axis] != 1 for axis in dropped):
            raise ShapeMismatch("squeeze", f"an axis of {axes} is not of size 1 in shape {self.shape}")
        kept = [axis for axis in range(self.rank) if axis not in dropped]
        return Layout(tuple(self.shape[a] for a in kept), tuple(self.strides[a] for a in kept), self.offset)

    def flip(self, axes: int | Sequence[int]) -> Layout:
        """Walk the given axes backwards. Flipping twice gives the layout back."""
        strides, offset = list(self.strides), self.offset
        for axis in self._axes("flip", axes):
            offset += max(self.shape[axis] - 1, 0) * strides[axis]
            strides[axis] = -strides[axis]
        return Layout(self.shape, tuple(strides), offset)

    def broadcast_to(self, shape: Sequence[int]) -> Layout:
        """Repeat new leading axes and axes of size 1 with stride 0; `ShapeMismatch` if numpy would refuse."""
        extra = len(shape) - self.rank
        fits = extra >= 0 and all(size in (1, wanted) for size, wanted in zip(self.shape, shape[extra:], strict=True))
        if not fits:
            raise ShapeMismatch("broadcast_to", f"shape {self.shape} does not broadcast to {tuple(shape)}")
        kept = (0 if size == 1 else stride for size, stride in zip(self.shape, self.strides, strict=True))
        return Layout(tuple(shape), (*(0,) * extra, *kept), self.offset)

    def reshape(self, shape: Sequence[int]) -> Layout | None:
        """Return the layout of the same elements under `shape`, or None when they would have to be copied.

        The rule is numpy's: axes may be merged only where their strides already nest, so None is returned
        exactly when `numpy.reshape` copies. `ShapeMismatch` when the numbers of elements differ; -1 is not
        accepted.
        """
        wanted = tuple(shape)
        if math.prod(wanted) != self.count or min(wanted, default=0) < 0:
            raise ShapeMismatch("reshape", f"shape {wanted} does not hold the {self.count} elements of {self.shape}")
        if wanted == self.shape:
            return self
        if self.is_contiguous:
            return Layout.contiguous(wanted, self.offset)
        strides = _nested_strides(self.shape, self.strides, wanted)
        return None if strides is None else Layout(wanted, strides, self.offset)

    def at_offset(self, offset: int) -> Layout:
        """Return the same shape and strides starting at element `offset`."""
        return replace(self, offset=offset)

    def _axis(self, op: str, axis: int) -> int:
        if not -self.rank <= axis < self.rank:
            raise ShapeMismatch(op, f"axis {axis} is out of range for {self.rank} dimensions")
        return axis % self.rank

    def _axes(self, op: str, axes: int | Sequence[int]) -> list[int]:
        normal = [self._axis(op, axis) for axis in ([axes] if isinstance(axes, int) else axes)]
        if len(set(normal)) != len(normal):
            raise ShapeMismatch(op, f"axes {axes} name one axis twice")
        return normal


def _set(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _nested_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of `wanted` over a non-empty layout, or None: numpy's `attempt_nocopy_reshape`.

    Walks both shapes in step, in groups of axes with equal element counts. A group can be re-cut only if its
    old axes nest (each stride is the next one's times its size); within it the new strides count up from the
    innermost old one.
    """
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result: list[int] = []
    old_at = new_at = 0
    while old_at < len(old) and new_at < len(wanted):
        old_end, new_end = old_at + 1, new_at + 1
        old_count, new_count = old[old_at][0], wanted[new_at]
        while old_count != new_count:
            if new_count < old_count:
                new_count *= wanted[new_end]
                new_end += 1
            else:
                old_count *= old[old_end][0]
                old_end += 1
        group = old[old_at:old_end]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(group)):
            return None
        step, cut = group[-1][1], []
        for size in reversed(wanted[new_at:new_end]):
            cut.append(step)
            step *= size
        result += reversed(cut)
        old_at, new_at = old_end, new_end
    trailing = result[-1] if result else 1
    return (*result, *(trailing for _ in range(len(wanted) - len(result))))
