"""Where a region could go, and when it would be done there: the pure half of placement.

An offer is one device's promise for one region: earliest finish = max(inputs there, lane free) + predicted time
(Topcuoglu et al., HEFT, 2002, applied late and one region at a time). Policies choose among offers; the scheduler
carries the choice out when the chosen lane has a slot, and waits for it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule.machine import Hop

if TYPE_CHECKING:
    from fuel_async.schedule.machine import Links, Machine
    from fuel_async.schedule.spread_state import SpreadState


@dataclass(frozen=True, slots=True)
class Offer:
    """What one device promises for one region. Times are of the executor's clock, in ns."""

    device: int
    lane: int
    #: When what it reads would be there, constants included, and when the lane would be free.
    ready_ns: int
    free_ns: int
    predicted_ns: int
    #: The copies it takes: (value, hop), in order.
    copies: Sequence[tuple[int, Hop]] = ()
    #: Whether taking it would leave the device's memory nearly full.
    tight: bool = False
    #: Regions given to the device so far, and held by it now.
    given: int = 0
    held: int = 0

    @property
    def start_ns(self) -> int:
        """When it would start."""
        return max(self.ready_ns, self.free_ns)

    @property
    def finish_ns(self) -> int:
        """When it would be done."""
        return max(self.ready_ns, self.free_ns) + self.predicted_ns


#: Chooses among the offers of a region; there is at least one, in the order of devices.
Policy: TypeAlias = Callable[[Sequence[Offer]], Offer]


def earliest_finish(offers: Sequence[Offer]) -> Offer:
    """The device that would be done first; one whose memory would be nearly full only if all would be."""
    return min(offers, key=lambda offer: (offer.tight, offer.finish_ns, offer.held))


def spread_evenly(offers: Sequence[Offer]) -> Offer:
    """The device that was given the fewest regions, of equals the one that would be done first."""
    return min(offers, key=lambda offer: (offer.tight, offer.given, offer.finish_ns))


#: The placement policies that have a name.
POLICIES: dict[str, Policy] = {"earliest_finish": earliest_finish, "spread": spread_evenly}


def offers_for(
    state: SpreadState,
    region: int,
    machine: Machine,
    links: Links,
    now_ns: int,
    expected_ns: dict[int, int],
) -> list[Offer]:
    """Return the offers of all devices that could take the region: there, allowed, with room for the run's share.

    `expected_ns` is the predicted time, by lane, of regions that stand in line for it before this one.
    """
    spread, found = state.spread, list[Offer]()
    pin = spread.pins[region]
    pending = state.lanes_waited_for(region)
    behind = next(iter(pending)) if len(pending) == 1 else None
    for number, device in enumerate(machine.devices):
        if device.gone is not None or (pin is not None and pin != number):
            continue
        memory = device.shape.memory
        room = machine.memories[memory]
        share_nbytes = 0 if memory in state.memories else spread.share_nbytes
        if share_nbytes and not room.fits(share_nbytes):
            continue
        lane, free_ns = _best_lane(machine, device.lanes, behind, state.shape.fine[region], now_ns, expected_ns)
        if lane is None:
            continue
        free_ns += device.foreign_ns // len(device.lanes)
        arrived = arrival(state, region, memory, machine, links, now_ns, behind)
        if arrived is None:
            continue
        ready_ns, copies = arrived
        found.append(
            Offer(
                device=number,
                lane=lane,
                ready_ns=ready_ns + spread.prices.upload_ns(region, number),
                free_ns=free_ns,
                predicted_ns=spread.prices.region_ns(region, number),
                copies=copies,
                tight=bool(share_nbytes) and room.tight(share_nbytes),
                given=device.given,
                held=machine.lanes[lane].held,
            )
        )
    return found


def _best_lane(
    machine: Machine,
    lanes: Sequence[int],
    behind: int | None,
    fine: bool,
    now_ns: int,
    expected_ns: dict[int, int],
) -> tuple[int | None, int]:
    """The lane of a device that is free first, and when; the one that holds what the region waits for, if it does."""
    best, best_ns = None, 0
    for lane in (behind,) if behind is not None and behind in lanes else lanes:
        load = machine.lanes[lane]
        if fine and not load.shape.takes_fine:
            continue
        free_ns = (load.free_ns if load.held and load.free_ns > now_ns else now_ns) + expected_ns.get(lane, 0)
        if best is None or free_ns < best_ns:
            best, best_ns = lane, free_ns
    return best, best_ns


def arrival(
    state: SpreadState,
    region: int,
    memory: int,
    machine: Machine,
    links: Links,
    now_ns: int,
    behind: int | None,
) -> tuple[int, Sequence[tuple[int, Hop]]] | None:
    """When all that the region reads would be in a memory, with the copies that takes; None when there is no way.

    `behind` is the lane that holds what the region waits for, if it waits for one.
    """
    ready_ns, copies = now_ns, list[tuple[int, Hop]]()
    busy_ns: dict[tuple[int, int], int] = {}
    for value in state.spread.reads[region]:
        places = state.places[value]
        there_ns = places.get(memory)
        if there_ns is None:
            sources = places.items() or _being_made(machine, behind, now_ns)
            best: tuple[int, Sequence[Hop]] | None = None
            for source, since_ns in sources:
                if source == memory:  # made there, by what it would stand behind
                    best = (since_ns, ())
                    break
                hops = links.route(source, memory, state.spread.nbytes[value])
                if hops is None:
                    continue
                at_ns = max(since_ns, now_ns)
                for hop in hops:
                    link = hop.source, hop.memory
                    at_ns = max(at_ns, busy_ns.get(link, machine.link_free_ns.get(link, 0))) + hop.copy_ns
                if best is None or at_ns < best[0]:
                    best = (at_ns, hops)
            if best is None:
                return None
            there_ns, hops = best
            for hop in hops:
                link = hop.source, hop.memory
                busy_ns[link] = max(busy_ns.get(link, machine.link_free_ns.get(link, 0)), now_ns) + hop.copy_ns
                copies.append((value, hop))
        if there_ns > ready_ns:
            ready_ns = there_ns
    return ready_ns, copies


def _being_made(machine: Machine, behind: int | None, now_ns: int) -> Sequence[tuple[int, int]]:
    """Where a value will be whose region is in flight on one lane, and when."""
    if behind is None:
        return ()
    return ((machine.memory_of(behind), max(machine.lanes[behind].free_ns, now_ns)),)
