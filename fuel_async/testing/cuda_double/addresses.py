"""Which bytes belong to whom: device blocks and pinned host memory, with guards around them, and what was freed.

A block lies in host memory, so its address can be used by compiled kernels. It begins at a multiple of 512 and has a
guard at both ends. A freed block is filled with 0xDD and kept for a while, so that who still uses it is found.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

ALIGNMENT: Final = 512
GUARD: Final = 512
GUARD_BYTE: Final = 0xFD
FRESH_BYTE: Final = 0xCD
FREED_BYTE: Final = 0xDD
#: How much of a large block is filled: the pages of the rest stay untouched.
MOST_FILLED: Final = 16 << 20
#: How many freed bytes are kept, of all devices together.
MOST_KEPT: Final = 64 << 20


@dataclass(slots=True)
class Block:
    """Bytes from `start`. `device` is None for pinned host memory."""

    start: int
    nbytes: int
    device: int | None
    #: The bytes with their guards; None for memory of others that was registered.
    memory: npt.NDArray[np.uint8] | None
    is_live: bool = True

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.start + self.nbytes

    def content(self) -> npt.NDArray[np.uint8]:
        """Its bytes."""
        assert self.memory is not None
        offset = self.start - self.memory.ctypes.data
        return self.memory[offset : offset + self.nbytes]

    def fill(self, byte: int) -> None:
        """Write `byte` into it, as far as is worthwhile."""
        if self.memory is not None:
            self.content()[:MOST_FILLED] = byte

    def is_intact(self) -> bool:
        """Whether nobody wrote just before or just behind it."""
        if self.memory is None:
            return True
        offset = self.start - self.memory.ctypes.data
        guards = (self.memory[offset - GUARD : offset], self.memory[offset + self.nbytes :][:GUARD])
        return all(bool((guard == GUARD_BYTE).all()) for guard in guards)


def new_block(nbytes: int, device: int | None) -> Block:
    """Return a block of `nbytes` with guards; its content is not zero."""
    memory = np.empty(nbytes + 2 * GUARD + ALIGNMENT, np.uint8)
    start = -(-(memory.ctypes.data + GUARD) // ALIGNMENT) * ALIGNMENT
    block = Block(start, nbytes, device, memory)
    offset = start - memory.ctypes.data
    memory[offset - GUARD : offset] = GUARD_BYTE
    memory[offset + nbytes :][:GUARD] = GUARD_BYTE
    block.fill(FRESH_BYTE)
    return block


class Addresses:
    """All blocks of a machine. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._freed: deque[Block] = deque()
        self._freed_nbytes = 0

    def add(self, block: Block) -> None:
        """Take in a block; what was kept of freed ones at its place is forgotten."""
        with self._lock:
            for old in list(self._blocks.values()):
                if old.start < block.end and block.start < old.end:
                    self._forget(old)
            insort(self._starts, block.start)
            self._blocks[block.start] = block

    def find(self, address: int) -> Block | None:
        """Return the block that `address` lies in, freed or not."""
        block = self._before(address)
        return block if block is not None and address < max(block.end, block.start + 1) else None

    def is_guard(self, address: int) -> bool:
        """Whether `address` lies just behind a block, where nobody has anything to do."""
        block = self._before(address)
        return block is not None and block.memory is not None and block.end <= address < block.end + GUARD

    def at(self, address: int) -> Block | None:
        """Return the live block that begins at `address`."""
        with self._lock:
            block = self._blocks.get(address)
            return block if block is not None and block.is_live else None

    def retire(self, block: Block) -> None:
        """Call a block freed: it is filled and kept until others have taken its place among the kept."""
        with self._lock:
            block.is_live = False
            block.fill(FREED_BYTE)
            if block.memory is None:
                self._forget(block)
                return
            self._freed.append(block)
            self._freed_nbytes += block.nbytes
            while self._freed_nbytes > MOST_KEPT:
                oldest = self._freed.popleft()
                self._freed_nbytes -= oldest.nbytes
                self._forget(oldest)

    def live(self) -> list[Block]:
        """Return the live blocks."""
        with self._lock:
            return [block for block in self._blocks.values() if block.is_live]

    def _before(self, address: int) -> Block | None:
        """The last block that begins at `address` or before it."""
        with self._lock:
            index = bisect_right(self._starts, address) - 1
            return self._blocks[self._starts[index]] if index >= 0 else None

    def _forget(self, block: Block) -> None:
        if self._blocks.get(block.start) is block:
            del self._blocks[block.start]
            del self._starts[bisect_right(self._starts, block.start) - 1]
