"""Whether a lane waits: for the region that the plan has next, or for the plan of what is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.plan import may_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.schedule.look import Look
    from fuel_async.schedule.machine import Machine
    from fuel_async.schedule.offers import Offer
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.spread_state import SpreadState

#: What it may take until what is left of a run is placed anew, for each region.
SWEPT_NS = 20_000


def kept_until_ns(
    state: SpreadState, region: int, offer: Offer, machine: Machine, look: Look, now_ns: int
) -> float | None:
    """Until when a region is to be kept off the lane that it is offered, for one that the plan has there before it.

    None where it is not. Only while something of the run is in flight: what it waits for then comes without anybody
    else's doing. The first of all that the plan has left waits for nothing but what is in flight, so a run never waits
    for itself.
    """
    prior = state.prior
    if prior is None or prior.is_whole or not state.in_flight:
        return None
    first = state.next_on(offer.device)
    if first is None or first == region or prior.starts_ns[first] >= prior.starts_ns[region]:
        return None
    if prior.is_strict:
        return math.inf
    expected_ns = _expected_ns(state, first, prior, machine, look, now_ns)
    if expected_ns is None or may_start(offer.predicted_ns, expected_ns, offer.start_ns):
        return None
    others = [lane for lane in machine.devices[offer.device].lanes if lane != offer.lane]
    if any(look.busy_ns[lane] <= expected_ns for lane in others):
        return None
    return expected_ns + (state.spread.prices.region_ns(first, offer.device) or 0)


def waits_for_answer(state: SpreadState, offer: Offer, now_ns: int) -> bool:
    """Whether a region is to be kept off a lane while what is left is placed anew: it may have to go elsewhere.

    Only while the lane is at work for this run, and for longer than that takes. So whatever becomes of the answer, the
    run goes on.
    """
    course = state.course
    if course is None or not course.is_asked or offer.lane not in state.in_flight.values():
        return False
    return offer.free_ns - now_ns > SWEPT_NS * (state.left - len(state.in_flight))


def _expected_ns(
    state: SpreadState, region: int, prior: Prior, machine: Machine, look: Look, now_ns: int
) -> float | None:
    """When all that a region reads is expected where the plan has it; None when it should be there by now."""
    memory = machine.devices[prior.devices[region]].shape.memory
    expected_ns = now_ns
    for need in state.shape.needs[region]:
        values = state.made_for(need, region)
        if need in state.finished:
            since_ns, sources = now_ns, [state.places[value] for value in values]
        elif (lane := state.in_flight.get(need)) is not None:
            since_ns = machine.lanes[lane].end_ns((state.run, need), now_ns)
            sources = [{machine.memory_of(lane): since_ns}] * len(values)
        else:
            return state.since_ns + prior.starts_ns[region] + _late_ns(state, prior, machine, now_ns)
        arrivals = [
            places[memory] if memory in places else since_ns + _copy_ns(state, look, value, places, memory)
            for value, places in zip(values, sources, strict=True)
        ]
        expected_ns = max(expected_ns, since_ns, *arrivals)
    return expected_ns if expected_ns > now_ns else None


def _copy_ns(state: SpreadState, look: Look, value: int, places: Mapping[int, int], memory: int) -> int:
    """The time of a copy from where a value is first, with nothing in its way."""
    source = min(places, key=places.__getitem__, default=memory)
    hops = look.route(source, memory, state.spread.nbytes[value]) or ()
    return sum([hop.copy_ns for hop in hops])


def _late_ns(state: SpreadState, prior: Prior, machine: Machine, now_ns: int) -> int:
    """How late the first region that is left will start at least, behind what lanes hold."""
    heads = [first for device in range(len(prior.queues)) if (first := state.next_on(device)) is not None]
    first = min(heads, key=prior.starts_ns.__getitem__)
    lanes = [machine.lanes[lane] for lane in machine.devices[prior.devices[first]].lanes]
    free_ns = min([lane.free_ns(now_ns) for lane in lanes], default=now_ns)
    return max(max(free_ns, now_ns) - state.since_ns - prior.starts_ns[first], 0)
