"""The plan of a whole run as the scheduler's prior: where its regions go unless something speaks against it.

A plan is made for idle devices and predicted times; what is true when a region may run is another matter. A region
leaves its planned device when that is gone or full. In a run that is far behind its plan, on devices that others use or
that are slower than they say, it also leaves when what reads its values could start earlier otherwise. Ends of the
region itself are not compared, for then regions that belong together would be torn apart. In a run that is not far
behind, moves that seem to gain something cost more: values are sent ahead to where the plan has their readers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan import STAYS, Fleet, Problem, Way, arriving, place, tables_of
from fuel_async.schedule.basis import Basis
from fuel_async.schedule.machine import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.schedule.machine import DeviceShape, Hop, Links, Machine, Port
    from fuel_async.schedule.offers import Offer
    from fuel_async.schedule.shape import LaneShape, RunShape, SpreadShape

    Route = Callable[[int, int, int], Sequence[Hop] | None]

#: A run is far behind its plan when it is late by that share of the plan's makespan.
FAR_BEHIND = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """A plan as the scheduler reads it."""

    #: By region: its device, and when it would start, in ns after the run does.
    devices: Sequence[int]
    starts_ns: Sequence[int]
    #: By region: (value, memory, ns after the run begins) for each value that it makes and each memory where a reader
    #: is planned, and when the first would start there; what is needed first is first.
    sends: Sequence[Sequence[tuple[int, int, int]]]
    makespan_ns: int
    #: When each region would end, where that is known.
    ends_ns: Sequence[int] = ()
    #: What it was made from, if it was made and is not just told.
    basis: Basis | None = None
    #: Whether all of it is for one device, however late that is.
    is_whole: bool = False
    #: Whether devices take regions in no other order than that of the plan.
    is_strict: bool = False
    #: How urgent each region is: the earlier it would start, the more.
    ranks: Sequence[int] = field(init=False)
    #: By device: its regions in the order of their starts.
    queues: Sequence[Sequence[int]] = field(init=False)
    #: By region, how long it would take; 0 where that is not known.
    took_ns: Sequence[int] = field(init=False)
    #: By device, how long all that it has would take.
    work_ns: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        queues: list[list[int]] = [[] for _ in range(max(self.devices, default=-1) + 1)]
        for region in sorted(range(len(self.starts_ns)), key=self.starts_ns.__getitem__):
            queues[self.devices[region]].append(region)
        took_ns = [end_ns - start_ns for start_ns, end_ns in zip(self.starts_ns, self.ends_ns, strict=False)]
        took_ns = took_ns or [0] * len(self.starts_ns)
        object.__setattr__(self, "took_ns", took_ns)
        object.__setattr__(self, "work_ns", [sum([took_ns[region] for region in queue]) for queue in queues])
        object.__setattr__(self, "queues", queues)
        object.__setattr__(self, "ranks", [-start_ns for start_ns in self.starts_ns])

    def choose(
        self,
        region: int,
        since_ns: int,
        offers: Sequence[Offer],
        machine: Machine,
        nbytes: Sequence[int],
        route: Route,
    ) -> Offer:
        """The offer of the planned device, or one with which the readers could start earlier.

        `since_ns` is when the run began, `route` that of `Links`, `nbytes` the sizes of the run's values.
        """

        def readers_ns(offer: Offer) -> int:
            source, longest_ns = machine.devices[offer.device].shape.memory, 0
            for value, memory, _ in self.sends[region]:
                if memory != source:
                    hops = route(source, memory, nbytes[value]) or ()
                    longest_ns = max(longest_ns, sum([hop.copy_ns for hop in hops]))
            return offer.finish_ns + longest_ns

        best = min(offers, key=lambda offer: (offer.tight, readers_ns(offer), offer.held))
        planned = next((offer for offer in offers if offer.device == self.devices[region]), best)
        if planned is best or (planned.tight and not best.tight):
            return best
        if self.is_whole:
            return planned
        late_ns = planned.start_ns - since_ns - self.starts_ns[region]
        if late_ns <= FAR_BEHIND * self.makespan_ns:
            return planned
        return best if readers_ns(planned) - readers_ns(best) > planned.predicted_ns else planned


def prior_of(
    shape: RunShape,
    devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
    links: Links,
    gone: AbstractSet[int] = frozenset(),
    breathe: Breathe = no_breath,
) -> Prior | None:
    """Plan a run for idle devices, of which some may be `gone`. Pure, about 100 µs a region.

    None where there is nothing to decide: for a single region or device, or when a region could go nowhere.
    """
    if shape.spread is None or len(shape) < 2 or len(devices) - len(gone) < 2:
        return None
    posed = problem_of(shape, devices, links, gone)
    if posed is None:
        return None
    tables = tables_of(posed.problem, breathe)
    placement = place(posed.problem, breathe=breathe, tables=tables)
    ahead = arriving(tables, placement, breathe)
    basis = Basis(tables, placement, posed.memories, posed.ports, shape.spread, ahead)
    return Prior(
        devices=list(placement.devices),
        starts_ns=[int(start) for start in placement.starts_ns],
        sends=basis.sends(placement.devices, placement.starts_ns),
        makespan_ns=int(placement.makespan_ns),
        ends_ns=[int(end) for end in placement.ends_ns],
        basis=basis,
    )


class Posed(NamedTuple):
    """A problem, and what numbers in it stand for: those of memories by their order, and those of ports."""

    problem: Problem
    memories: Sequence[int]
    ports: Mapping[Port, int]


def problem_of(
    shape: RunShape,
    devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
    links: Links,
    gone: AbstractSet[int] = frozenset(),
) -> Posed | None:
    """A run on idle devices, with its constants there, as a problem of placement; None when it could not end.

    Memories keep their numbers in the order of their own; the host's is 0, whether a device works in it or not.
    """
    spread = shape.spread
    assert spread is not None
    there = [device for device in range(len(devices)) if device not in gone]
    memories = sorted({HOST, *[devices[device][0].memory for device in there]})
    number = {memory: place for place, memory in enumerate(memories)}
    ports: dict[Port, int] = {}
    ways = _ways(memories, links, max(spread.nbytes, default=1), ports)
    times_ns = [_times(spread, region, len(devices), there) for region in range(len(shape))]
    if ways is None or any(min(row) == math.inf for row in times_ns):
        return None
    fleet = Fleet(
        [max(len(lanes), 1) for _, lanes in devices], [number.get(device.memory, 0) for device, _ in devices], ways
    )
    reads, writes = [list(values) for values in spread.reads], [list(values) for values in spread.writes]
    nbytes = [float(size) for size in spread.nbytes]
    for region, needs in enumerate(shape.needs):
        # What only has to come after another reads nothing of it: nothing, sent from there.
        for need in sorted(needs - {spread.producers[value] for value in spread.reads[region]}):
            reads[region].append(len(nbytes))
            writes[need].append(len(nbytes))
            nbytes.append(0.0)
    given = {value: {number[HOST]: 0.0} for value, producer in enumerate(spread.producers) if producer < 0}
    owed = dict.fromkeys(spread.outputs, number[HOST])
    return Posed(Problem(fleet, times_ns, reads, writes, nbytes, given, owed), memories, ports)


def _times(spread: SpreadShape, region: int, devices: int, there: Sequence[int]) -> list[float]:
    pin = spread.pins[region]
    row = [math.inf] * devices
    for device in there if pin is None else {pin}.intersection(there):
        predicted_ns = spread.prices.region_ns(region, device)
        if predicted_ns is not None:
            row[device] = float(predicted_ns)
    return row


def _ways(
    memories: Sequence[int], links: Links, largest_nbytes: int, ports: dict[Port, int]
) -> Sequence[Sequence[Way]] | None:
    """By source and memory: the line through the times of nothing and of the largest value; numbers `ports`.

    Of the ports that are passed on the way, the first and the last count.
    """
    ways: list[list[Way]] = []
    size = max(largest_nbytes, 1)
    for source in memories:
        row: list[Way] = []
        for memory in memories:
            if memory == source:
                row.append(STAYS)
                continue
            empty, full = links.route(source, memory, 0), links.route(source, memory, size)
            if empty is None or full is None:
                return None
            setup_ns = sum([hop.copy_ns for hop in empty])
            per_byte = max(sum([hop.copy_ns for hop in full]) - setup_ns, 0) / size
            over = [ports.setdefault(port, len(ports)) for hop in full for port in hop.ports]
            row.append(Way(0.0, per_byte, (over[0], over[-1]), float(setup_ns)))
        ways.append(row)
    return ways
