"""One look along the line of waiting regions: what each is offered, with what those before it stand in line for."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.schedule.arrival import arrival
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.offers import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.machine import Hop, Links, Machine
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.shape import RunShape
    from fuel_async.schedule.spread_state import SpreadState

#: Regions that are looked at for free slots, of one run, and how far back in line: those beyond stand too far back
#: for one. A device so slow that it would only be worth waiting for by more gets none of them, and little is lost.
LOOKED_AT = 16
LOOKED_AT_OF_RUN = 8
LINE_LOOKED_AT = 128


class _Way(NamedTuple):
    """How a region could come to a device, whatever its lanes hold."""

    device: int
    ready_ns: int
    predicted_ns: int
    copies: Sequence[tuple[int, Hop]]
    #: Memories of which the run would take a share, whether they have room, and whether one would be nearly full.
    shares: AbstractSet[int]
    fits: bool
    tight: bool


class _Alike:
    """Runs of one shape and plan, nothing of which was issued, that got no slot: only their turns differ."""

    __slots__ = ("count", "pass_over", "stands")

    def __init__(self) -> None:
        self.count = self.pass_over = 0
        #: What the last one that was looked at stands in line for.
        self.stands: Sequence[Offer] = ()


class Routes:
    """The ways between memories as they are for one look, or as long as nothing is learned: each is asked for once."""

    __slots__ = ("_known", "_links")

    def __init__(self, links: Links) -> None:
        self._links = links
        self._known: dict[tuple[int, int, int], Sequence[Hop] | None] = {}

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        """See `Links`."""
        key = source, memory, nbytes
        if key not in self._known:
            self._known[key] = self._links.route(source, memory, nbytes)
        return self._known[key]


class Look:
    """What one look has seen so far. Lives while one event is handled."""

    __slots__ = (
        "_alike",
        "_claimed",
        "_links",
        "_machine",
        "_now_ns",
        "_stands",
        "_ways",
        "busy_ns",
        "left",
        "of_line",
        "of_run",
    )

    def __init__(self, machine: Machine, links: Links, now_ns: int, *, everything: bool) -> None:
        """`everything` looks at all that wait: when nothing is in flight, nothing may be overlooked."""
        self._machine, self._links, self._now_ns = machine, Routes(links), now_ns
        #: How many more regions to look at; of the regions of a run, and of the runs in line, only so many.
        self.left = self.of_run = self.of_line = sys.maxsize
        if not everything:
            self._limit()
        #: By lane: when it would be through with what it holds, and with what stands in line for it.
        self.busy_ns = machine.free_ns(now_ns)
        #: Memories that a run further ahead waits for: nobody else begins to use them.
        self._claimed: set[int] = set()
        #: What runs of which nothing was issued have in common, until something changes.
        self._ways: dict[tuple[RunShape, int], list[_Way]] = {}
        self._alike: dict[tuple[RunShape, Prior | None], _Alike] = {}
        #: What the run that is looked at stands in line for.
        self._stands: list[Offer] = []

    def passes_over(self, state: SpreadState) -> bool:
        """Whether to take the next run in line for one that gets no slot, because runs just like it got none.

        The further back they stand, the fewer of them are looked at, so that a long line costs little: the 1st to 4th,
        then the 6th, 9th, 13th, 19th and so on. All of them count for the lanes that they wait for.
        """
        alike = self._alike.get((state.shape, state.prior))
        if alike is None or not alike.pass_over or not _untouched(state):
            self._stands = []
            return False
        alike.count += 1
        alike.pass_over -= 1
        for offer in alike.stands:
            self.busy_ns[offer.lane] += offer.predicted_ns
        return True

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        """See `Links`: the ways as they are for this look."""
        return self._links.route(source, memory, nbytes)

    def got_none(self, state: SpreadState) -> None:
        """Note that the run was looked at and got no slot."""
        if _untouched(state):
            alike = self._alike.setdefault((state.shape, state.prior), _Alike())
            alike.count += 1
            alike.pass_over, alike.stands = max(alike.count // 2 - 1, 0), self._stands

    def offers(self, state: SpreadState, region: int, behind: int | None) -> list[Offer] | None:
        """The offers of all devices that have room; None when no device could ever take the region.

        `behind` is the lane that holds what the region waits for, if it waits for one. Without room for it anywhere,
        what it could use is kept free for it.
        """
        self.left -= 1
        ways, claimed = self._ways_for(state, region, behind), self._claimed if not state.memories else ()
        found = [
            self._offer(state, region, way, behind)
            for way in ways
            if way.fits and (not claimed or way.shares.isdisjoint(claimed))
        ]
        if not found:
            for way in ways:
                self._claimed |= way.shares
        return found if ways else None

    def beside(self, state: SpreadState, region: int, offer: Offer) -> Offer | None:
        """The offer of another lane of the device, the first to be free; None where there is none."""
        device, busy_ns = self._machine.devices[offer.device], self.busy_ns
        lanes = device.fine_lanes if state.shape.fine[region] else device.lanes
        lane = min([lane for lane in lanes if lane != offer.lane], key=busy_ns.__getitem__, default=None)
        if lane is None:
            return None
        return replace(offer, lane=lane, free_ns=busy_ns[lane], held=self._machine.lanes[lane].held)

    def stand(self, offer: Offer) -> None:
        """Note that a region stands in line as offered, or has gone there."""
        self.busy_ns[offer.lane] = offer.finish_ns
        self._stands.append(offer)

    def changed(self) -> None:
        """Note that something was issued or given up: lanes, links and memories are not what they were."""
        self._ways.clear()
        self._limit()

    def _limit(self) -> None:
        self.left, self.of_run, self.of_line = min(self.left, LOOKED_AT), LOOKED_AT_OF_RUN, LINE_LOOKED_AT

    def _offer(self, state: SpreadState, region: int, way: _Way, behind: int | None) -> Offer:
        machine, busy_ns = self._machine, self.busy_ns
        device = machine.devices[way.device]
        lanes = device.fine_lanes if state.shape.fine[region] else device.lanes
        lane = behind if behind is not None and behind in lanes else min(lanes, key=busy_ns.__getitem__)
        return Offer(
            way.device,
            lane,
            way.ready_ns,
            busy_ns[lane],
            way.predicted_ns,
            way.copies,
            way.tight,
            device.given,
            machine.lanes[lane].held,
        )

    def _ways_for(self, state: SpreadState, region: int, behind: int | None) -> list[_Way]:
        """The devices that are there, allowed, large enough, and can be sent what the region reads."""
        if not _untouched(state):
            return self._find_ways(state, region, behind)
        key = state.shape, region
        ways = self._ways.get(key)
        if ways is None:
            ways = self._ways[key] = self._find_ways(state, region, behind)
        return ways

    def _find_ways(self, state: SpreadState, region: int, behind: int | None) -> list[_Way]:
        devices, pin, found = self._machine.devices, state.spread.pins[region], list[_Way]()
        for number in range(len(devices)) if pin is None else (pin,):
            if devices[number].gone is None and devices[number].lanes:
                way = self._way(state, region, number, behind)
                if way is not None:
                    found.append(way)
        return found

    def _way(self, state: SpreadState, region: int, device: int, behind: int | None) -> _Way | None:
        machine, spread, nbytes = self._machine, state.spread, state.spread.share_nbytes
        memory = machine.devices[device].shape.memory
        predicted_ns = spread.prices.region_ns(region, device)
        if predicted_ns is None or nbytes > machine.memories[memory].budget_nbytes:
            return None
        comes_back = memory == HOST or not spread.outputs or self._links.route(memory, HOST, 0) is not None
        if not comes_back and spread.pins[region] is None:
            return None
        upload_ns = spread.prices.upload_ns(region, device)
        come = arrival(state, region, memory, machine, self._links, self._now_ns, upload_ns=upload_ns, behind=behind)
        if come is None:
            return None
        shares = state.shares_for(memory)
        fits, tight = True, False
        for one in shares:
            load = machine.memories[one]
            fits, tight = fits and load.fits(nbytes), tight or load.tight(nbytes)
        return _Way(device, come.ready_ns, predicted_ns, come.copies, shares, fits, tight)


def _untouched(state: SpreadState) -> bool:
    """Whether a run is like any other of its shape: nothing was issued, and its feeds lie where feeds do."""
    return state.plain and not state.issued
