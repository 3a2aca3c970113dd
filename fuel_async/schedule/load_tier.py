"""How busy a device is, in three tiers: coarse enough that a choice by tier does not follow every submission."""

from __future__ import annotations

from fuel_async.dispatch import BackendStreams, pending_work_count

LOAD_TIER_IDLE, LOAD_TIER_MODERATE, LOAD_TIER_SATURATED = 0, 1, 2

#: Below this part of its capacity a device counts as idle.
_IDLE_BELOW = 4


def load_tier(count: int, capacity: int) -> int:
    """Return the tier of a device that holds `count` submissions and should hold `capacity`, at least 1.

    Idle with nothing or under a quarter, saturated when full, moderate between: the tiers of the seeds.
    """
    capacity = max(capacity, 1)
    if count == 0 or count * _IDLE_BELOW < capacity:
        return LOAD_TIER_IDLE
    return LOAD_TIER_SATURATED if count >= capacity else LOAD_TIER_MODERATE


def load_tier_for(handle: object) -> int:
    """Return the tier of a device's queues; idle for what has none or cannot tell: no signal, no penalty."""
    count = pending_work_count(handle)
    if count is None or not isinstance(handle, BackendStreams):
        return LOAD_TIER_IDLE
    return load_tier(count, handle.slot_capacity)
