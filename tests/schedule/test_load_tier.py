"""The tiers of load."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.schedule.load_tier import (
    LOAD_TIER_IDLE,
    LOAD_TIER_MODERATE,
    LOAD_TIER_SATURATED,
    load_tier,
    load_tier_for,
)


@dataclasses.dataclass(frozen=True)
class Queues:
    pending: int | None
    slot_capacity: int

    def pending_work_count(self) -> int | None:
        return self.pending


@pytest.mark.parametrize(
    ("count", "capacity", "tier"),
    [(0, 0, 0), (1, 0, 2), (1, 1, 2), (1, 8, 0), (2, 8, 1), (7, 8, 1), (8, 8, 2), (9, 8, 2)],
)
def test_cc_12_tiers_by_count_and_capacity(count: int, capacity: int, tier: int) -> None:
    assert load_tier(count, capacity) == tier
    assert load_tier_for(Queues(count, capacity)) == tier


def test_the_tiers_are_ordered_and_numbered_as_in_the_seeds() -> None:
    assert (LOAD_TIER_IDLE, LOAD_TIER_MODERATE, LOAD_TIER_SATURATED) == (0, 1, 2)


@pytest.mark.parametrize("handle", [None, object(), Queues(None, 1)])
def test_no_signal_is_no_penalty(handle: object) -> None:
    assert load_tier_for(handle) == LOAD_TIER_IDLE


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 50))
def test_more_work_is_never_a_lower_tier_and_more_capacity_never_a_higher(count: int, capacity: int, more: int) -> None:
    assert load_tier(count, capacity) <= load_tier(count + more, capacity)
    assert load_tier(count, capacity + more) <= load_tier(count, capacity)
