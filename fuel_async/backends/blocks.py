"""A device's memory in large blocks: stretches of them given and taken back, within a budget that is enforced here.

Drivers enforce none, and their allocations are slow. No driver is known here: a backend says how a block is made. Bytes
are free again when the array over them is collected; that is told by the collector, in any thread, and noted at the
next allocation.
"""

from __future__ import annotations

import threading
import weakref
from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from fuel_async.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable

#: What is asked of a driver at a time; larger requests have a block of their own.
BLOCK_NBYTES = 32 << 20

#: The share of a device's memory that may be in use unless an executor says otherwise.
DEFAULT_BUDGET_SHARE = 0.8


class Block:
    """One allocation of a driver's, and which of its bytes are free. One thread at a time."""

    __slots__ = ("__weakref__", "free", "nbytes", "number", "used_nbytes")

    def __init__(self, number: int, nbytes: int) -> None:
        """`number` is never given again: together with an offset it names bytes for good."""
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


class Stretch(NamedTuple, Generic[B]):
    """Bytes of a block that are in use."""

    block: B
    offset: int
    nbytes: int


class Blocks(Generic[B]):
    """The blocks of one device. Any thread."""

    def __init__(
        self,
        device: str,
        budget_nbytes: int,
        alignment: int,
        make: Callable[[int, int], B],
        freed: Callable[[Stretch[B]], None] | None = None,
    ) -> None:
        """`make(nbytes, number)` asks the driver for a block; `OutOfMemory` when it refuses.

        `freed` is called for each stretch before it can be given again.
        """
        self.budget_nbytes, self.alignment = budget_nbytes, alignment
        self._device, self._make, self._told = device, make, freed
        self._lock = threading.RLock()
        self._blocks: list[B] = []
        self._numbers = 0
        self._used_nbytes = 0
        #: Stretches whose arrays are gone.
        self._freed: deque[Stretch[B]] = deque()

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

    def take(self, nbytes: int) -> Stretch[B]:
        """Give out `nbytes`, aligned. `OutOfMemory` when the budget has no room or the driver refuses."""
        size = max(-(-nbytes // self.alignment), 1) * self.alignment  # nothing has a place, too
        with self._lock:
            self._settle()
            if self._used_nbytes + size > self.budget_nbytes:
                raise OutOfMemory(self._device, size, self.budget_nbytes, self._detail())
            taken = self._place(size)
            self._used_nbytes += size
        return taken

    def free_with(self, owner: Any, taken: Stretch[B]) -> None:
        """Have bytes come back when `owner` is collected."""
        weakref.finalize(owner, self._freed.append, taken).atexit = False

    def _place(self, size: int) -> Stretch[B]:
        found = self._found(size)
        if found is not None:
            return found
        block = self._more(size)
        offset = block.take(size)
        assert offset is not None  # it was made for this
        return Stretch(block, offset, size)

    def _found(self, size: int) -> Stretch[B] | None:
        """A free stretch. Its loop keeps no block alive that is given back next."""
        for block in self._blocks:
            offset = block.take(size)
            if offset is not None:
                return Stretch(block, offset, size)
        return None

    def _more(self, size: int) -> B:
        """One more block; the driver's memory is asked for in few pieces."""
        if self._room() < size:
            self._drop_empty()
        wanted = min(max(size, min(BLOCK_NBYTES, self.budget_nbytes)), max(size, self._room()))
        try:
            block = self._make(wanted, self._numbers)
        except OutOfMemory as error:
            self._drop_empty()
            block = self._again(size, error)
        self._numbers += 1
        self._blocks.append(block)
        return block

    def _again(self, size: int, error: OutOfMemory) -> B:
        """Ask once more, for no more than is needed, now that what idled was given back."""
        try:
            return self._make(size, self._numbers)
        except OutOfMemory:
            error.add_note(f"{self._device}{self._detail()}")
            raise error from None

    def _detail(self) -> str:
        reserved, largest = self.reserved_nbytes, self._largest_free()
        free = f"; {reserved - self._used_nbytes:,} of {reserved:,} bytes reserved are free, {largest:,} in one piece"
        return f", of which {self._used_nbytes:,} are in use{free if reserved else ''}"

    def _largest_free(self) -> int:
        return max([size for block in self._blocks for _, size in block.free], default=0)

    def _room(self) -> int:
        return self.budget_nbytes - sum(block.nbytes for block in self._blocks)

    def _drop_empty(self) -> None:
        """Give blocks back that nobody uses."""
        self._blocks[:] = [block for block in self._blocks if block.used_nbytes]

    def _settle(self) -> None:
        while self._freed:
            taken = self._freed.popleft()
            if self._told is not None:
                self._told(taken)
            taken.block.give(taken.offset, taken.nbytes)
            self._used_nbytes -= taken.nbytes
