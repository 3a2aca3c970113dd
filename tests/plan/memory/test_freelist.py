"""The laws of the offset allocator. Region 0 precedes 1 and 2, which run beside each other; both precede 3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.plan.memory.freelist import FreeList

KIB = 1_024

ZERO, ONE, TWO, THREE = (1 << region for region in range(4))
#: What precedes each region, and itself.
BEFORE = [ZERO, ZERO | ONE, ZERO | TWO, ZERO | ONE | TWO | THREE]


@pytest.fixture
def free() -> FreeList:
    return FreeList(BEFORE)


def test_bytes_come_from_the_top_until_some_are_given_back(free: FreeList) -> None:
    assert [free.take(KIB, ZERO), free.take(2 * KIB, ZERO), free.top] == [0, KIB, 3 * KIB]
    free.give(0, KIB, ZERO)
    assert [free.take(KIB, ZERO), free.top] == [0, 3 * KIB]


def test_what_was_given_back_last_is_taken_first(free: FreeList) -> None:
    """its bytes are the warmest"""
    for _ in range(3):
        free.take(KIB, ZERO)
    for offset in (0, 2 * KIB, KIB):
        free.give(offset, KIB, ZERO)
    assert [free.take(KIB, ZERO) for _ in range(3)] == [KIB, 2 * KIB, 0]


def test_bytes_that_a_region_beside_has_touched_are_not_taken(free: FreeList) -> None:
    free.give(free.take(KIB, BEFORE[1]), KIB, ONE)
    assert free.take(KIB, BEFORE[2]) == KIB
    assert free.take(KIB, BEFORE[1]) == 0


def test_bytes_of_regions_that_all_precede_are_taken(free: FreeList) -> None:
    free.give(free.take(KIB, BEFORE[0]), KIB, ZERO | ONE | TWO)
    assert free.take(KIB, BEFORE[1]) == KIB
    assert free.take(KIB, BEFORE[3]) == 0


def test_a_larger_range_is_cut(free: FreeList) -> None:
    free.give(free.take(8 * KIB, ZERO), 8 * KIB, ZERO)
    assert [free.take(KIB, ZERO), free.take(3 * KIB, ZERO), free.take(4 * KIB, ZERO)] == [0, KIB, 4 * KIB]
    assert free.top == 8 * KIB


def test_the_smallest_range_that_is_large_enough_is_cut(free: FreeList) -> None:
    sizes = [8 * KIB, KIB, 4 * KIB, KIB, 6 * KIB, KIB]
    offsets = [free.take(size, ZERO) for size in sizes]
    for offset, size in list(zip(offsets, sizes, strict=True))[::2]:
        free.give(offset, size, ZERO)
    assert free.take(3 * KIB, ZERO) == offsets[2]
    assert free.take(5 * KIB, ZERO) == offsets[4]
    assert free.take(7 * KIB, ZERO) == offsets[0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_neighbours_are_merged_whatever_the_order_in_which_they_come(free: FreeList, order: tuple[int, ...]) -> None:
    offsets = [free.take(KIB, ZERO) for _ in range(3)]
    for one in order:
        free.give(offsets[one], KIB, ZERO)
    assert free.take(3 * KIB, ZERO) == 0
    assert free.top == 3 * KIB


def test_neighbours_of_different_regions_serve_who_comes_after_all_of_them(free: FreeList) -> None:
    first, second = free.take(KIB, BEFORE[1]), free.take(KIB, BEFORE[2])
    free.give(first, KIB, ONE)
    free.give(second, KIB, TWO)
    free.take(KIB, ZERO)
    assert free.take(2 * KIB, BEFORE[3]) == 0


def test_a_merge_does_not_hide_bytes_from_those_who_may_take_them(free: FreeList) -> None:
    first, second = free.take(KIB, BEFORE[1]), free.take(KIB, BEFORE[2])
    free.give(first, KIB, ONE)
    free.give(second, KIB, TWO)
    assert free.take(2 * KIB, BEFORE[3]) == 0  # puts everything in address order
    free.give(0, KIB, ONE)
    free.give(KIB, KIB, TWO)
    assert free.take(KIB // 2, BEFORE[2]) == KIB
    assert free.take(KIB // 2, BEFORE[1]) == 0


def test_free_bytes_at_the_top_grow_instead_of_being_left_behind(free: FreeList) -> None:
    free.take(KIB, ZERO)
    free.give(free.take(4 * KIB, ZERO), 4 * KIB, ZERO)
    assert [free.take(6 * KIB, ZERO), free.top] == [KIB, 7 * KIB]


def test_free_bytes_at_the_top_that_may_not_be_taken_are_left(free: FreeList) -> None:
    free.give(free.take(4 * KIB, BEFORE[1]), 4 * KIB, ONE)
    assert [free.take(6 * KIB, BEFORE[2]), free.top] == [4 * KIB, 10 * KIB]


def test_nothing_takes_no_bytes(free: FreeList) -> None:
    for _ in range(3):
        free.give(free.take(0, ZERO), 0, ZERO)
    free.take(KIB, ZERO)
    assert free.top == KIB


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 6), st.booleans()), max_size=80),
    st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=8, max_size=8),
)
@settings(max_examples=50)
def test_live_ranges_never_overlap_and_follow_only_what_precedes_them(
    steps: list[tuple[int, int, bool]], reads: list[set[int]]
) -> None:
    """eight regions, each after some of lower number; they take in the order of their numbers"""
    before: list[int] = []
    for region, needs in enumerate(reads):
        mask = 1 << region
        for need in needs:
            if need < region:
                mask |= before[need]
        before.append(mask)
    free = FreeList(before)
    live: list[tuple[int, int]] = []
    touched: dict[int, int] = {}
    for region, size, takes in sorted(steps, key=lambda step: step[0]):
        if takes or not live:
            offset = free.take(size, before[region])
            assert offset + size <= free.top
            assert all(offset >= end or offset + size <= start for start, end in live)
            for byte in range(offset, offset + size):
                assert not touched.get(byte, 0) & ~before[region]
                touched[byte] = 1 << region
            live.append((offset, offset + size))
        else:
            start, end = live.pop(size % len(live))
            mask = 0
            for byte in range(start, end):
                touched[byte] |= 1 << region
                mask |= touched[byte]
            free.give(start, end - start, mask)
    for start, end in live:
        free.give(start, end - start, 1 << 7)
    whole, top = (1 << 8) - 1, free.top
    assert free.take(top, whole) == 0  # every byte was free, and all of them are one run
    assert free.top == top
