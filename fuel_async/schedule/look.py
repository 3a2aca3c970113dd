"""One look along the line of waiting regions: what each is offered, with what those before it stand in line for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.schedule.arrival import arrival
from fuel_async.schedule.offers import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.machine import Hop, Links, Machine
    from fuel_async.schedule.shape import RunShape
    from fuel_async.schedule.spread_state import SpreadState

#: Regions that are looked at for free slots, and of one run: those beyond stand too far back for one.
LOOKED_AT = 48
LOOKED_AT_OF_RUN = 8


class _Way(NamedTuple):
    """How a region could come to a device, whatever its lanes hold."""

    device: int
    ready_ns: int
    predicted_ns: int
    copies: Sequence[tuple[int, Hop]]
    #: Memories of which the run would take a share.
    shares: AbstractSet[int]


class Look:
    """What one look has seen so far. Lives while one event is handled."""

    __slots__ = ("_claimed", "_links", "_machine", "_now_ns", "_ways", "busy_ns", "left", "of_run")

    def __init__(self, machine: Machine, links: Links, now_ns: int, *, everything: bool) -> None:
        """`everything` looks at all that wait: when nothing is in flight, nothing may be overlooked."""
        self._machine, self._links, self._now_ns = machine, links, now_ns
        self.left, self.of_run = (sys.maxsize, sys.maxsize) if everything else (LOOKED_AT, LOOKED_AT_OF_RUN)
        #: By lane: when it would be through with what it holds, and with what stands in line for it.
        self.busy_ns = machine.free_ns(now_ns)
        #: Memories that a run further ahead waits for: nobody else begins to use them.
        self._claimed: set[int] = set()
        #: What runs of which nothing was issued have in common, until something is issued.
        self._ways: dict[tuple[RunShape, int], list[_Way]] = {}

    def offers(self, state: SpreadState, region: int, behind: int | None) -> list[Offer] | None:
        """The offers of all devices that have room; None when no device could ever take the region.

        `behind` is the lane that holds what the region waits for, if it waits for one. Without room for it anywhere,
        what it could use is kept free for it.
        """
        self.left -= 1
        ways = self._ways_for(state, region, behind)
        found = [self._offer(state, region, way, behind) for way in ways if self._has_room(state, way)]
        if not found:
            for way in ways:
                self._claimed |= way.shares
        return found if ways or behind is not None else None

    def stand(self, offer: Offer) -> None:
        """Note that a region stands in line as offered, or has gone there."""
        self.busy_ns[offer.lane] = offer.finish_ns

    def issued(self) -> None:
        """Note that something was issued: links and memories are not what they were."""
        self._ways.clear()
        self.left, self.of_run = min(self.left, LOOKED_AT), LOOKED_AT_OF_RUN

    def _has_room(self, state: SpreadState, way: _Way) -> bool:
        if not way.shares:
            return True
        if not state.memories and not self._claimed.isdisjoint(way.shares):
            return False
        memories, nbytes = self._machine.memories, state.spread.share_nbytes
        return all(memories[memory].fits(nbytes) for memory in way.shares)

    def _offer(self, state: SpreadState, region: int, way: _Way, behind: int | None) -> Offer:
        machine, busy_ns = self._machine, self.busy_ns
        device, nbytes = machine.devices[way.device], state.spread.share_nbytes
        lanes = device.fine_lanes if state.shape.fine[region] else device.lanes
        lane = behind if behind is not None and behind in lanes else min(lanes, key=busy_ns.__getitem__)
        return Offer(
            way.device,
            lane,
            way.ready_ns,
            busy_ns[lane],
            way.predicted_ns,
            way.copies,
            any(machine.memories[memory].tight(nbytes) for memory in way.shares),
            device.given,
            machine.lanes[lane].held,
        )

    def _ways_for(self, state: SpreadState, region: int, behind: int | None) -> list[_Way]:
        """The devices that are there, allowed, large enough, and can be sent what the region reads."""
        if state.issued or not state.plain:
            return self._find_ways(state, region, behind)
        key = state.shape, region
        ways = self._ways.get(key)
        if ways is None:
            ways = self._ways[key] = self._find_ways(state, region, behind)
        return ways

    def _find_ways(self, state: SpreadState, region: int, behind: int | None) -> list[_Way]:
        machine, spread, found = self._machine, state.spread, list[_Way]()
        pin = spread.pins[region]
        for number, device in enumerate(machine.devices):
            memory = device.shape.memory
            if device.gone is not None or (pin is not None and pin != number) or not device.lanes:
                continue
            if spread.share_nbytes > machine.memories[memory].budget_nbytes:
                continue
            upload_ns = spread.prices.upload_ns(region, number)
            come = arrival(
                state, region, memory, machine, self._links, self._now_ns, upload_ns=upload_ns, behind=behind
            )
            if come is not None:
                predicted_ns = spread.prices.region_ns(region, number)
                found.append(_Way(number, come.ready_ns, predicted_ns, come.copies, state.shares_for(memory)))
        return found
