"""A device's memory as bytes: stretches of a few large blocks, within a budget that is enforced here.

Stretches are free again when the array over them is collected; that is told by the collector, in any thread, and noted
at the next request.
"""

from __future__ import annotations

import threading
import weakref
from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from fuel_async.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable

#: What is asked of the driver at a time; larger requests have a block of their own.
BLOCK_NBYTES = 32 << 20


class Block:
    """One allocation of the driver's, and which of its bytes are free."""

    __slots__ = ("__weakref__", "free", "nbytes", "number", "used_nbytes")

    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes
        #: Free stretches by offset: (offset, size).
        self.free: list[tuple[int, int]] = [(0, nbytes)]
        self.used_nbytes = 0

    def take(self, nbytes: int) -> int | None:
        """The offset of the first free stretch of so many bytes; None when there is none."""
        for place, (offset, size) in enumerate(self.free):
            if size >= nbytes:
                if size == nbytes:
                    del self.free[place]
                else:
                    self.free[place] = (offset + nbytes, size - nbytes)
                self.used_nbytes += nbytes
                return offset
        return None

    def give(self, offset: int, nbytes: int) -> None:
        """Take a stretch back, and join it with its free neighbours."""
        insort(self.free, (offset, nbytes))
        self.used_nbytes -= nbytes
        place = self.free.index((offset, nbytes))
        for left in (place, place - 1):
            if left >= 0 and left + 1 < len(self.free):
                (start, size), (after, more) = self.free[left], self.free[left + 1]
                if start + size == after:
                    self.free[left : left + 2] = [(start, size + more)]


B = TypeVar("B", bound=Block)


class Blocks(Generic[B]):
    """All blocks of one device. Any thread."""

    def __init__(self, device: str, budget_nbytes: int, alignment: int, make: Callable[[int, int], B]) -> None:
        """`make(nbytes, number)` allocates one more block; stretches start at multiples of `alignment`."""
        self.device, self.budget_nbytes, self.alignment = device, budget_nbytes, alignment
        self._make, self._lock = make, threading.RLock()
        self._blocks: list[B] = []
        self._numbers = 0
        self._used_nbytes = 0
        #: Stretches whose arrays are gone: (block, offset, size).
        self._freed: deque[tuple[B, int, int]] = deque()

    @property
    def used_nbytes(self) -> int:
        """Bytes in use, as they count against the budget."""
        with self._lock:
            self._settle()
            return self._used_nbytes

    @property
    def reserved_nbytes(self) -> int:
        """Bytes that the driver has given."""
        with self._lock:
            return sum(block.nbytes for block in self._blocks)

    def take(self, nbytes: int) -> tuple[B, int, int]:
        """Return the place of so many bytes and what they count: (block, offset, size).

        `OutOfMemory` when they do not fit beside what is in use, or the driver refuses.
        """
        size = _padded(nbytes, self.alignment)
        with self._lock:
            self._settle()
            block, offset = self._place(size)
            self._used_nbytes += size
        return block, offset, size

    def give_with(self, owner: object, place: tuple[B, int, int]) -> None:
        """Free a place when its owner is collected."""
        weakref.finalize(owner, self._freed.append, place).atexit = False

    def _place(self, size: int) -> tuple[B, int]:
        used = self._used_nbytes
        if used + size > self.budget_nbytes:
            raise OutOfMemory(self.device, size, self.budget_nbytes, f", of which {used:,} are in use")
        for block in self._blocks:
            offset = block.take(size)
            if offset is not None:
                return block, offset
        block = self._more(size)
        offset = block.take(size)
        assert offset is not None  # it was made for this
        return block, offset

    def _more(self, size: int) -> B:
        """One more block; the driver's memory is asked for in few pieces."""
        self._drop_empty(size)
        wanted = min(max(size, min(BLOCK_NBYTES, self.budget_nbytes)), max(size, self._room()))
        block = self._make(wanted, self._numbers)
        self._numbers += 1
        self._blocks.append(block)
        return block

    def _room(self) -> int:
        return self.budget_nbytes - sum(block.nbytes for block in self._blocks)

    def _drop_empty(self, size: int) -> None:
        """Give blocks back that nobody uses, where another one would pass the budget."""
        if self._room() >= size:
            return
        for block in [block for block in self._blocks if not block.used_nbytes]:
            self._blocks.remove(block)

    def _settle(self) -> None:
        while self._freed:
            block, offset, size = self._freed.popleft()
            block.give(offset, size)
            self._used_nbytes -= size


def _padded(nbytes: int, alignment: int) -> int:
    """A size that keeps what follows aligned; nothing has no size, since it is bound to shaders like anything else."""
    return max(-(-nbytes // alignment), 1) * alignment
