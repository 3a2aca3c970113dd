"""The offset allocator behind the arena plan: pure arithmetic over free byte ranges.

Every free range remembers which regions touched it last, as a bit mask: a region may take it only if all of them are
finished before that region starts, or if it is one of them itself. What was given back is first kept by exact size: a
small value takes what another of its size has left, which is fast. Where nothing of the size will do, and for large
values, all ranges are put in address order and merged, and the smallest one that is large enough is cut: best fit.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Values from this size on are worth the search for the best fit.
LARGE_NBYTES = 65_536

#: How many free ranges of one size are looked at for one that the region may take.
_LOOKED_AT = 4


class FreeList:
    """Free byte ranges of an arena that grows at its end. Sizes are multiples of the alignment."""

    __slots__ = ("_before", "_given", "_masks", "_sizes", "_starts", "top")

    def __init__(self, before: Sequence[int]) -> None:
        """`before[r]` is the bit mask of the regions that precede region r, and of r itself."""
        self.top = 0
        self._before = before
        #: Ranges by size as they were given back, each with its mask.
        self._given: dict[int, list[tuple[int, int]]] = {}
        # The other ranges, in address order; neighbours have different masks.
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._masks: list[int] = []

    def take(self, nbytes: int, before: int) -> int:
        """Return the offset of `nbytes` free bytes. `before` masks the taker and all that precede it."""
        ranges = self._given.get(nbytes)
        if ranges and nbytes < LARGE_NBYTES:
            if not ranges[-1][1] & ~before:
                return ranges.pop()[0]
            for index in range(len(ranges) - 2, max(len(ranges) - 1 - _LOOKED_AT, -1), -1):
                if not ranges[index][1] & ~before:
                    return ranges.pop(index)[0]
        return self._fit(nbytes, ~before) if nbytes else 0

    def give(self, offset: int, nbytes: int, mask: int) -> None:
        """Return bytes last touched by the regions in `mask`."""
        ranges = self._given.get(nbytes)
        if ranges is None:
            ranges = self._given[nbytes] = []
        ranges.append((offset, mask))

    def _fit(self, nbytes: int, blocked: int) -> int:
        """Take the smallest range that is large enough, else neighbours, else grow the last ones, else the top."""
        self._settle()
        best, best_nbytes = -1, self.top + 1
        for index, (size, mask) in enumerate(zip(self._sizes, self._masks, strict=True)):
            if nbytes <= size < best_nbytes and not mask & blocked:
                best, best_nbytes = index, size
        if best >= 0:
            return self._cut(best, nbytes)
        for first, start, size in self._runs(blocked):
            if size >= nbytes:
                return self._cut(first, nbytes)
            if start + size == self.top:
                self.top = start + nbytes
                return self._cut(first, nbytes)
        self.top += nbytes
        return self.top - nbytes

    def _runs(self, blocked: int) -> Iterator[tuple[int, int, int]]:
        """The index of the first range, start and size of each stretch of neighbours that may be taken."""
        first, begin, end = 0, -1, -1
        for index, (start, size, mask) in enumerate(zip(self._starts, self._sizes, self._masks, strict=True)):
            if mask & blocked:
                continue
            if start != end:
                if end >= 0:
                    yield first, begin, end - begin
                first, begin = index, start
            end = start + size
        if end >= 0:
            yield first, begin, end - begin

    def _settle(self) -> None:
        """Put what was given back among the other ranges."""
        before = self._before
        for nbytes, ranges in self._given.items():
            for offset, mask in ranges if nbytes else ():
                # A shorter mask that excludes the same takers: who comes after a region comes after all before it.
                last = mask.bit_length() - 1
                self._insert(offset, nbytes, mask if mask & ~before[last] else 1 << last)
        self._given.clear()

    def _insert(self, offset: int, nbytes: int, mask: int) -> None:
        starts, sizes, masks = self._starts, self._sizes, self._masks
        at = bisect_left(starts, offset)
        if at and masks[at - 1] == mask and starts[at - 1] + sizes[at - 1] == offset:
            at -= 1
            sizes[at] += nbytes
        else:
            starts.insert(at, offset)
            sizes.insert(at, nbytes)
            masks.insert(at, mask)
        after = at + 1
        if after < len(starts) and masks[after] == mask and starts[at] + sizes[at] == starts[after]:
            sizes[at] += sizes[after]
            del starts[after], sizes[after], masks[after]

    def _cut(self, at: int, nbytes: int) -> int:
        """Take `nbytes` from range `at` on, as far as there are ranges; the rest is new bytes at the top."""
        starts, sizes = self._starts, self._sizes
        offset, end = starts[at], at
        while end < len(sizes) and sizes[end] <= nbytes:
            nbytes -= sizes[end]
            end += 1
        if nbytes and end < len(sizes):
            starts[end] += nbytes
            sizes[end] -= nbytes
        del starts[at:end], sizes[at:end], self._masks[at:end]
        return offset
