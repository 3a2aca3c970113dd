"""Blocks of memory: each byte given once, the budget kept, and one more try when the driver refuses."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from fuel_async.backends.blocks import BLOCK_NBYTES, Block, Blocks, Stretch
from fuel_async.errors import OutOfMemory


class Owner:
    """What holds bytes."""


def _nbytes(block: weakref.ref[Block]) -> int:
    alive = block()
    return 0 if alive is None else alive.nbytes


class Drivers:
    """Memory of so many bytes, and what was asked of it."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.asked, self.alive = nbytes, list[int](), list["weakref.ref[Block]"]()

    def make(self, nbytes: int, number: int) -> Block:
        self.asked.append(nbytes)
        gc.collect()
        if sum(map(_nbytes, self.alive)) + nbytes > self.nbytes:
            raise OutOfMemory("here", nbytes, self.nbytes)
        made = Block(number, nbytes)
        self.alive.append(weakref.ref(made))
        return made


def test_a_block_gives_each_byte_once_and_joins_what_comes_back() -> None:
    chance = random.Random(5)
    block, held = Block(0, 4_096), dict[int, int]()
    for _ in range(2_000):
        if held and chance.random() < 0.5:
            offset = chance.choice(list(held))
            block.give(offset, held.pop(offset))
        else:
            size = 256 * chance.randint(1, 4)
            found = block.take(size)
            if found is not None:
                assert all(found + size <= start or start + more <= found for start, more in held.items())
                held[found] = size
        assert block.used_nbytes == sum(held.values())
        assert sum(size for _, size in block.free) == 4_096 - block.used_nbytes
    for offset, size in held.items():
        block.give(offset, size)
    assert block.free == [(0, 4_096)]


def test_a_driver_that_refuses_a_large_block_is_asked_for_what_is_needed() -> None:
    drivers = Drivers(5_000)
    blocks = Blocks("here", 1 << 30, 256, drivers.make)
    assert blocks.take(1_000).block.nbytes == 1_024
    assert drivers.asked == [BLOCK_NBYTES, 1_024]


def test_what_idles_is_given_back_before_a_driver_is_asked_again() -> None:
    drivers = Drivers(BLOCK_NBYTES + 4_096)
    blocks, owner = Blocks("here", 1 << 30, 256, drivers.make), Owner()
    blocks.free_with(owner, blocks.take(256))
    del owner
    gc.collect()
    assert blocks.take(BLOCK_NBYTES + 1).nbytes == BLOCK_NBYTES + 256
    assert drivers.asked == [BLOCK_NBYTES, BLOCK_NBYTES + 256, BLOCK_NBYTES + 256]
    with pytest.raises(OutOfMemory) as caught:
        blocks.take(8_192)
    words = f", of which {BLOCK_NBYTES + 256:,} are in use; 0 of {BLOCK_NBYTES + 256:,} bytes reserved are free, 0 in"
    assert caught.value.__notes__ == [f"here{words} one piece"]


def test_what_does_not_fit_is_told_with_all_that_is_known() -> None:
    blocks = Blocks("here", 4_096, 256, Drivers(1 << 30).make)
    taken = [blocks.take(1_024) for _ in range(4)]
    owners = [Owner() for _ in taken]
    for owner, one in zip(owners, taken, strict=True):
        blocks.free_with(owner, one)
    del owners[2], owners[0], owner
    gc.collect()
    words = "its budget is 4,096 bytes, of which 2,048 are in use; 2,048 of 4,096 bytes reserved are free, 1,024 in one"
    with pytest.raises(OutOfMemory, match=words):
        blocks.take(2_049)


def test_freed_bytes_are_told_before_they_are_given_again() -> None:
    told = list[Stretch[Block]]()
    blocks, owner = Blocks("here", 4_096, 256, Drivers(1 << 30).make, told.append), Owner()
    first = blocks.take(4_096)
    blocks.free_with(owner, first)
    assert told == []
    del owner
    gc.collect()
    assert blocks.take(4_096) == first
    assert told == [first]
