"""When what a region reads would be in a memory, and the copies that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fuel_async.schedule.machine import HOST, Hop, Port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.schedule.machine import Links, Machine
    from fuel_async.schedule.spread_state import SpreadState


class Arrival(NamedTuple):
    """When everything would be there, with the copies that takes: (value, hop), in order."""

    ready_ns: int
    copies: Sequence[tuple[int, Hop]]


#: When a value would be there, its hops, and when each of them would end.
_Way: TypeAlias = tuple[int, Sequence[Hop], Sequence[int]]


def arrival(
    state: SpreadState,
    region: int,
    memory: int,
    machine: Machine,
    links: Links,
    now_ns: int,
    *,
    upload_ns: int = 0,
    behind: int | None = None,
) -> Arrival | None:
    """Predict the arrival in a memory of all that a region reads; None when something has no way there.

    `behind` is the lane that holds what the region waits for, if it waits for one. Constants, which take `upload_ns`,
    come from the host behind the values that do.
    """
    ready_ns = now_ns
    copies: list[tuple[int, Hop]] = []
    busy_ns: dict[Port, int] = {}
    for value in state.spread.reads[region]:
        places = state.places[value]
        there_ns = places.get(memory)
        if there_ns is None:
            sources = places.items() or _being_made(machine, behind, (state.run, region), now_ns)
            way = _fastest(sources, memory, state.spread.nbytes[value], machine, links, now_ns, busy_ns)
            if way is None:
                return None
            there_ns, hops, ends_ns = way
            for hop, end_ns in zip(hops, ends_ns, strict=True):
                busy_ns.update(dict.fromkeys(hop.ports, end_ns))
                copies.append((value, hop))
        ready_ns = max(ready_ns, there_ns)
    if upload_ns:
        hops = links.route(HOST, memory, 0) or ()
        ready_ns = max(ready_ns, _free_ns(hops[-1], machine, busy_ns, now_ns) + upload_ns) if hops else ready_ns
    return Arrival(ready_ns, copies)


def _fastest(
    sources: Iterable[tuple[int, int]],
    memory: int,
    nbytes: int,
    machine: Machine,
    links: Links,
    now_ns: int,
    busy_ns: dict[Port, int],
) -> _Way | None:
    """The way on which a value arrives first; of equals from the source named first."""
    best: _Way | None = None
    for source, since_ns in sources:
        if source == memory:  # made there, by what the region would stand behind
            return since_ns, (), ()
        hops = links.route(source, memory, nbytes)
        if hops is None:
            continue
        at_ns, ends_ns = max(since_ns, now_ns), list[int]()
        for hop in hops:
            at_ns = _free_ns(hop, machine, busy_ns, at_ns) + hop.copy_ns
            ends_ns.append(at_ns)
        if best is None or at_ns < best[0]:
            best = at_ns, hops, ends_ns
    return best


def _free_ns(hop: Hop, machine: Machine, busy_ns: dict[Port, int], since_ns: int) -> int:
    """When all that a copy occupies is free, from some moment on."""
    for port in hop.ports:
        free_ns = busy_ns[port] if port in busy_ns else machine.port_free_ns(port)
        since_ns = max(since_ns, free_ns)
    return since_ns


def _being_made(
    machine: Machine, behind: int | None, reader: tuple[int, int], now_ns: int
) -> Sequence[tuple[int, int]]:
    """Where a value will be whose region is in flight on one lane, and when; its reader may stand there, too."""
    return () if behind is None else ((machine.memory_of(behind), machine.lanes[behind].free_ns(now_ns, reader)),)
