"""Stretches of blocks: each byte given once, the budget, and what comes back."""

from __future__ import annotations

import gc
import random

import pytest

from fuel_async.backends.grids.blocks import BLOCK_NBYTES, Block, Blocks
from fuel_async.errors import OutOfMemory


class _Owner:
    """What a stretch belongs to."""


def _blocks(budget_nbytes: int, made: list[int]) -> Blocks[Block]:
    def make(nbytes: int, number: int) -> Block:
        made.append(nbytes)
        return Block(number, nbytes)

    return Blocks("device", budget_nbytes, 256, make)


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


def test_the_budget_is_kept_and_what_is_collected_is_given_again() -> None:
    made: list[int] = []
    blocks, owner = _blocks(4_096, made), _Owner()
    place = blocks.take(4_000)
    blocks.give_with(owner, place)
    assert (place[1:], blocks.used_nbytes, blocks.reserved_nbytes) == ((0, 4_096), 4_096, 4_096)
    with pytest.raises(OutOfMemory, match="its budget is 4,096 bytes, of which 4,096 are in use"):
        blocks.take(1)
    del owner
    gc.collect()
    assert blocks.used_nbytes == 0
    assert blocks.take(0)[2] == 256
    assert made == [4_096]


def test_the_driver_is_asked_for_few_pieces_and_empty_ones_make_room() -> None:
    made: list[int] = []
    blocks, owner = _blocks(2 * BLOCK_NBYTES, made), _Owner()
    blocks.give_with(owner, blocks.take(1_000))
    blocks.take(2_000)
    assert made == [BLOCK_NBYTES]
    big = _Owner()
    blocks.give_with(big, blocks.take(BLOCK_NBYTES))
    assert made == [BLOCK_NBYTES] * 2
    del big
    gc.collect()
    blocks.take(BLOCK_NBYTES + 256)
    assert blocks.reserved_nbytes <= 2 * BLOCK_NBYTES + 512 + 256
    assert made == [BLOCK_NBYTES, BLOCK_NBYTES, BLOCK_NBYTES + 256]
