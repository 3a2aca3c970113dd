"""The offset allocator behind the arena plan: pure arithmetic over free byte ranges.

Every free range remembers which regions touched it last, as a bit mask: a region may take it only if all of them are
finished before that region starts, or if it is one of them itself. Ranges below `COALESCED_NBYTES` are kept by exact
size, which is fast and close to tight for the repeated shapes of a model; larger ones are kept in address order, split
on use and merged with their neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

#: Ranges from this size on are split and merged.
COALESCED_NBYTES = 65_536

#: How many free ranges of one size are looked at for one that the region may take.
_LOOKED_AT = 4


@dataclass(slots=True)
class FreeList:
    """Free byte ranges of an arena that grows at its end. Sizes are multiples of the alignment."""

    top: int = 0
    _small: defaultdict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    #: Large ranges in address order: starts, sizes, masks.
    _starts: list[int] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _masks: list[int] = field(default_factory=list)

    def take(self, nbytes: int, before: int) -> int:
        """Return the offset of `nbytes` free bytes. `before` is the mask of regions that precede the taker, and itself."""
        if nbytes < COALESCED_NBYTES:
            ranges = self._small[nbytes]
            for index in range(len(ranges) - 1, max(len(ranges) - 1 - _LOOKED_AT, -1), -1):
                if not ranges[index][1] & ~before:
                    return ranges.pop(index)[0]
        else:
            best = -1
            for index, size in enumerate(self._sizes):
                if size >= nbytes and (best < 0 or size < self._sizes[best]) and not self._masks[index] & ~before:
                    best = index
            if best >= 0:
                return self._cut(best, nbytes)
            if self._grows_last(before):
                return self._extend_last(nbytes)
        self.top += nbytes
        return self.top - nbytes

    def give(self, offset: int, nbytes: int, mask: int) -> None:
        """Return bytes last touched by the regions in `mask`."""
        if nbytes < COALESCED_NBYTES:
            self._small[nbytes].append((offset, mask))
            return
        at = bisect_left(self._starts, offset)
        self._starts.insert(at, offset)
        self._sizes.insert(at, nbytes)
        self._masks.insert(at, mask)
        if at + 1 < len(self._starts) and offset + nbytes == self._starts[at + 1]:
            self._merge(at)
        if at > 0 and self._starts[at - 1] + self._sizes[at - 1] == offset:
            self._merge(at - 1)

    def _merge(self, at: int) -> None:
        self._sizes[at] += self._sizes.pop(at + 1)
        self._masks[at] |= self._masks.pop(at + 1)
        self._starts.pop(at + 1)

    def _cut(self, at: int, nbytes: int) -> int:
        offset = self._starts[at]
        if self._sizes[at] == nbytes:
            del self._starts[at], self._sizes[at], self._masks[at]
        else:
            self._starts[at] += nbytes
            self._sizes[at] -= nbytes
        return offset

    def _grows_last(self, before: int) -> bool:
        """Whether the last large range ends at the top and may be taken: then only the missing bytes are added."""
        return (
            bool(self._starts)
            and self._starts[-1] + self._sizes[-1] == self.top
            and not self._masks[-1] & ~before
        )

    def _extend_last(self, nbytes: int) -> int:
        offset = self._starts.pop()
        self._sizes.pop()
        self._masks.pop()
        self.top = offset + nbytes
        return offset
