"""Whether a chain wants to change its device."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.plan import ChainInput, PlacementDp
from fuel_async.plan.execution import RowStatus
from tests.plan.rank.support import CUDA0, HOST, MOST, VK0, Links

if TYPE_CHECKING:
    from fuel_async.ir import DeviceLocation

BOTH = (HOST, CUDA0)


def row(*costs: int) -> list[tuple[DeviceLocation, int]]:
    return list(zip((HOST, CUDA0, VK0), costs, strict=False))


def test_cc_11_a_chain_carries_its_best_times_forward() -> None:
    dp = PlacementDp(Links(1000))
    dp.push_row(0, row(800, 100), [(HOST, 4)])
    assert dp.best(0) == (800, 1100)
    dp.push_row(1, row(800, 100), (), [ChainInput(0, (4,))])
    assert dp.best(1) == (1600, 1200)
    assert [dp.status(node) for node in (0, 1)] == [RowStatus.CHAINED, RowStatus.OPEN]
    assert dp.finish(HOST, lambda node: 4) == [(1, HOST), (0, HOST)]  # 1600 against 2200
    assert dp.status(0) is dp.status(1) is RowStatus.COMMITTED


@pytest.mark.parametrize(("way_out", "device"), [(HOST, HOST), (None, CUDA0)])
def test_cc_11_the_way_out_counts_where_there_is_one(way_out: DeviceLocation | None, device: DeviceLocation) -> None:
    dp = PlacementDp(Links(1000))
    dp.push_row(0, row(1050, 100))
    assert dp.finish(way_out, lambda node: 4) == [(0, device)]


def test_cc_11_a_reader_at_a_known_place_commits_what_it_reads() -> None:
    dp = PlacementDp(Links(10, 1))
    dp.push_row(7, row(300, 100))
    assert dp.close_toward(7, HOST, (1024,)) == [(7, HOST)]  # 300 against 1134
    assert dp.close_toward(7, HOST, (1024,)) == []
    assert dp.finish(HOST, lambda node: 0) == []
    assert 7 in dp
    assert 8 not in dp


def test_cc_11_an_operand_that_is_copied_twice_is_paid_twice() -> None:
    """A plan gives one copy a value, however often a node reads it: see the test of compiled plans."""
    for edges in ((4,), (4, 4)):
        dp = PlacementDp(Links(1000))
        dp.push_row(0, row(100, 5000))
        dp.push_row(1, row(700, 0), (), [ChainInput(0, edges)])
        assert dp.best(1) == (800, 100 + 1000 * len(edges))


def test_cc_11_saturated_times_still_commit() -> None:
    dp = PlacementDp(Links(MOST))
    dp.push_row(0, row(MOST, MOST), [(VK0, 4)])
    dp.push_row(1, row(MOST, MOST), (), [ChainInput(0, (4,))])
    assert dp.best(1) == (MOST, MOST)
    assert dp.finish(HOST, lambda node: 4) == [(1, HOST), (0, HOST)]


def test_of_two_readers_the_first_to_commit_decides_for_what_both_go_on_from() -> None:
    dp = PlacementDp(Links(1000))
    dp.push_row(0, row(100, 100))
    dp.push_row(1, row(1, 5000), (), [ChainInput(0, (4,))])
    dp.push_row(2, row(5000, 1), (), [ChainInput(0, (4,))])
    assert dp.finish(None, lambda node: 4) == [(1, HOST), (0, HOST), (2, CUDA0)]


def test_equals_stay_on_the_device_that_comes_first() -> None:
    dp = PlacementDp(Links(0))
    dp.push_row(0, row(5, 5, 5))
    dp.push_row(1, row(5, 5, 5), (), [ChainInput(0, (4,))])
    assert dp.finish(None, lambda node: 4) == [(1, HOST), (0, HOST)]


def test_a_long_chain_is_committed_without_recursion() -> None:
    dp = PlacementDp(Links())
    dp.push_row(0, row(2, 1))
    for node in range(1, 4_000):
        dp.push_row(node, row(2, 1), (), [ChainInput(node - 1, (4,))])
    committed = dp.finish(None, lambda node: 4)
    assert len(committed) == 4_000
    assert {device for _, device in committed} == {CUDA0}


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """By node: what it takes on each device, the rows that it reads, each once over all, and where its feed lies."""
    count = draw(st.integers(1, 5))
    costs = [draw(st.lists(st.integers(0, 9), min_size=2, max_size=2)) for _ in range(count)]
    reads: list[list[int]] = [[] for _ in range(count)]
    for node in range(count - 1):
        reads[draw(st.integers(node + 1, count - 1))].append(node)
    feeds = [draw(st.integers(-1, 1)) for _ in range(count)]
    return costs, reads, feeds


@given(trees(), st.integers(0, 6), st.sampled_from([None, *BOTH]))
def test_trees_are_placed_as_well_as_they_can_be(
    tree: tuple[list[list[int]], list[list[int]], list[int]], latency: int, way_out: DeviceLocation | None
) -> None:
    costs, reads, feeds = tree
    links = Links(latency)
    dp = PlacementDp(links)
    for node, (own, producers, feed) in enumerate(zip(costs, reads, feeds, strict=True)):
        fixed = [(BOTH[feed], 4)] if feed >= 0 else []
        dp.push_row(node, row(*own), fixed, [ChainInput(one, (4,)) for one in producers])
    found = dict(dp.finish(way_out, lambda node: 4))
    sinks = set(range(len(costs))) - {one for producers in reads for one in producers}

    def total(at: dict[int, DeviceLocation]) -> int:
        spent = 0
        for node, own in enumerate(costs):
            spent += own[BOTH.index(at[node])]
            spent += sum(links.estimate_transfer_ns(at[one], at[node], 4) for one in reads[node])
            if feeds[node] >= 0:
                spent += links.estimate_transfer_ns(BOTH[feeds[node]], at[node], 4)
            if node in sinks and way_out is not None:
                spent += links.estimate_transfer_ns(at[node], way_out, 4)
        return spent

    every = (dict(enumerate(choice)) for choice in product(BOTH, repeat=len(costs)))
    assert total(found) == min(map(total, every))
