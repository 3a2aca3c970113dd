"""Runs that go on by another plan than they began with: when what is left is swept again, and what comes of it.

How much longer than predicted regions take on each device is learned as they finish. After every twentieth of a run's
regions, if that has moved or the run is off its plan, what has not started is placed anew from where everything is:
outside, for it takes a while (`Resweep`). The answer is a plan of this run, not of others of its shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan import EVERY, Progress, due, learned, resweep
from fuel_async.schedule.instructions import Resweep
from fuel_async.schedule.prior import Prior
from fuel_async.schedule.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.schedule.basis import Basis
    from fuel_async.schedule.copies import Copies
    from fuel_async.schedule.events import RegionFinished, Reswept
    from fuel_async.schedule.instructions import Instruction
    from fuel_async.schedule.machine import Machine
    from fuel_async.schedule.spread_state import SpreadState
    from fuel_async.schedule.streams import Streams

#: The fewest regions that finish between two looks.
FEWEST = 4
#: The weight of a region's lateness in that of its run.
LATENESS = 0.2
#: How much shorter what is left of a run must be elsewhere if all of it goes to one device: it would hold memory of one
#: more.
SHORTER_WHOLE = 0.1


class Course:
    """How a run that is planned does beside its plan."""

    __slots__ = ("before", "every", "factors", "is_asked", "late_ns", "lost", "since")

    def __init__(self, regions: int, factors: Sequence[float]) -> None:
        #: By device: how many times longer than planned regions take, now and when the plan was made.
        self.factors, self.before = list(factors), list(factors)
        self.late_ns = 0.0
        #: Regions that have finished since the last look, and after how many to look. One that took longer than planned
        #: counts for as many as it could have been.
        self.since, self.every = 0.0, max(FEWEST, int(EVERY * regions))
        #: Whether what is left is being swept, and whether devices were lost meanwhile.
        self.is_asked = self.lost = False


@record
class Question:
    """What is to be swept again: all that `answer` needs. Times are ns after the run began."""

    basis: Basis
    prior: Prior
    progress: Progress
    factors: Sequence[float]


def answer(question: Question, breathe: Breathe = no_breath) -> Prior:
    """Sweep again. Pure; about 10 µs for each region that is left."""
    basis, prior, left = question.basis, question.prior, question.progress.left
    found = resweep(
        basis.tables,
        prior.devices,
        basis.ahead(breathe),
        question.progress,
        question.factors,
        SHORTER_WHOLE if prior.is_whole else None,
        breathe,
    )
    if found.makespan_ns == math.inf:  # some of it can go nowhere: that is found out when it is its turn
        return prior
    is_whole = prior.is_whole and len({found.devices[region] for region in left}) == 1
    devices, starts_ns, ends_ns = list(prior.devices), list(prior.starts_ns), list(prior.ends_ns)
    for region in left:
        devices[region] = found.devices[region]
        starts_ns[region], ends_ns[region] = int(found.starts_ns[region]), int(found.ends_ns[region])
    return Prior(
        devices=devices,
        starts_ns=starts_ns,
        sends=basis.sends(devices, starts_ns),
        makespan_ns=int(found.makespan_ns),
        ends_ns=ends_ns,
        basis=basis,
        is_strict=prior.is_strict,
        is_whole=is_whole,
    )


class Rolling:
    """The part of a `SpreadScheduler` that keeps the plans of runs up to what happens."""

    def __init__(self, machine: Machine, copies: Copies, streams: Streams) -> None:
        self._machine, self._copies, self._streams = machine, copies, streams

    def begin(self, state: SpreadState, now_ns: int) -> Sequence[Instruction]:
        """Look after a run from now on, if its plan is worth being made again."""
        basis = _basis(state)
        if basis is None or not (basis.lasts or basis.rolls):
            return ()
        known = self._machine.devices[: len(basis.tables.devices)]
        state.course = Course(len(state.shape), [device.factor for device in known])
        return self.lost(state, now_ns)

    def finished(self, state: SpreadState, event: RegionFinished, lane: int, now_ns: int) -> Sequence[Instruction]:
        """Learn from the end of a region; ask for another plan when that is due."""
        course, prior, basis = state.course, state.prior, _basis(state)
        if course is None or prior is None or basis is None:
            return ()
        region, device = event.region, self._machine.device_of[lane]
        course.since += 1
        if device < len(course.factors) and event.took_ns:
            predicted_ns = basis.tables.times_ns[region][device]
            course.factors[device] = learned(course.factors[device], event.took_ns, predicted_ns)
            course.since += max(event.took_ns / predicted_ns - 1, 0) if predicted_ns else 0
        if not prior.is_whole:  # those wait for their device, however late they are
            course.late_ns += LATENESS * (now_ns - state.since_ns - prior.ends_ns[region] - course.late_ns)
        if course.since < course.every or course.is_asked:
            return ()
        course.since = 0
        if not (basis.rolls or prior.is_whole) or not due(
            course.factors, course.before, course.late_ns, prior.makespan_ns
        ):
            return ()
        return self._ask(state, course, prior, basis, now_ns)

    def lost(self, state: SpreadState, now_ns: int) -> Sequence[Instruction]:
        """Ask for another plan if something of what is left is for a device that is gone."""
        course, prior, basis, devices = state.course, state.prior, _basis(state), self._machine.devices
        gone = {number for number, device in enumerate(devices) if device.gone is not None}
        if not gone or course is None or prior is None or basis is None:
            return ()
        if not any(device in gone and not state.is_issued(region) for region, device in enumerate(prior.devices)):
            return ()
        if course.is_asked:
            course.lost = True
            return ()
        return self._ask(state, course, prior, basis, now_ns)

    def _ask(
        self, state: SpreadState, course: Course, prior: Prior, basis: Basis, now_ns: int
    ) -> Sequence[Instruction]:
        progress = self._progress(state, prior, basis, now_ns)
        if not progress.left:
            return ()
        course.is_asked, course.before = True, list(course.factors)
        known = zip(self._machine.devices, course.factors, strict=False)
        factors = [factor if device.gone is None else math.inf for device, factor in known]
        return (Resweep(state.run, Question(basis, prior, progress, factors)),)

    def swept(self, state: SpreadState, event: Reswept, now_ns: int) -> Sequence[Instruction]:
        """Go by the answer. What is there already is sent to where it is read now."""
        course, prior = state.course, event.prior
        assert course is not None  # it was asked for
        course.is_asked, course.late_ns = False, 0.0
        self._streams.follow(state, prior)
        told = self._send_again(state, prior, now_ns)
        if course.lost:
            course.lost = False
            told += self.lost(state, now_ns)
        return told

    def _send_again(self, state: SpreadState, prior: Prior, now_ns: int) -> list[Instruction]:
        """Have what is there sent to where it is read by another plan; what waits by the one before waits no more."""
        self._copies.forget(state)
        first: dict[tuple[int, int], int] = {}
        for region, device in enumerate(prior.devices):
            if state.is_issued(region):
                continue
            memory = self._machine.devices[device].shape.memory
            for value in state.spread.reads[region]:
                if state.places[value] and memory not in state.places[value]:
                    pair = value, memory
                    first[pair] = min(first.get(pair, prior.starts_ns[region]), prior.starts_ns[region])
        told: list[Instruction] = []
        for (value, memory), needed_ns in sorted(first.items(), key=lambda one: (one[1], one[0])):
            places = state.places[value]
            source = min(places, key=places.__getitem__)
            told += self._copies.send(state, [(value, memory, needed_ns)], source, now_ns)
        return told

    def _progress(self, state: SpreadState, prior: Prior, basis: Basis, now_ns: int) -> Progress:
        """Where a run is, in the numbers of its problem."""
        machine, since_ns, begun_ns = self._machine, state.since_ns, 0.0
        left = sorted(
            [region for region in range(len(state.shape)) if not state.is_issued(region)],
            key=lambda region: (prior.starts_ns[region], region),
        )
        number = {memory: place for place, memory in enumerate(basis.memories)}
        places = {value: _known(there, number, now_ns, since_ns) for value, there in enumerate(state.places) if there}
        for region, lane in state.in_flight.items():
            end_ns = float(machine.lanes[lane].end_ns((state.run, region), now_ns) - since_ns)
            begun_ns = max(begun_ns, end_ns)
            memory = number.get(machine.memory_of(lane), 0)
            places.update({value: {memory: end_ns} for value in state.spread.writes[region]})
        for value in range(len(state.places), len(basis.tables.nbytes)):
            region = basis.tables.producers[value]
            if region in state.finished:
                places[value] = dict.fromkeys(number.values(), 0.0)
            elif region in state.in_flight:
                end_ns = float(machine.lanes[state.in_flight[region]].end_ns((state.run, region), now_ns) - since_ns)
                places[value] = dict.fromkeys(number.values(), end_ns)
        places = {value: there for value, there in places.items() if there}
        ports_ns = self._ports_ns(basis, now_ns, since_ns)
        return Progress(self._free_ns(state, prior, basis, left, now_ns), places, left, ports_ns, begun_ns)

    def _free_ns(
        self, state: SpreadState, prior: Prior, basis: Basis, left: Sequence[int], now_ns: int
    ) -> Sequence[float]:
        """By lane of a problem: when it would be free for what is left.

        A run that goes whole to one device would come to another behind what others have planned there, and with its
        constants.
        """
        machine, lanes_ns, free_ns = self._machine, self._machine.free_ns(now_ns), list[float]()
        upload_ns = state.spread.prices.upload_ns
        for number in basis.tables.devices:
            device, wait_ns = machine.devices[number], 0.0
            if prior.is_whole and left and device.lanes and number != prior.devices[left[0]]:
                wait_ns = device.planned_ns * device.factor / len(device.lanes)
                wait_ns += sum([upload_ns(region, number) for region in left])
            free_ns += [lanes_ns[lane] - state.since_ns + wait_ns for lane in device.lanes]
        return free_ns

    def _ports_ns(self, basis: Basis, now_ns: int, since_ns: int) -> dict[int, float]:
        """By port: when it is through with what is on its way, of those that are busy."""
        return {
            basis.ports[port]: float(load.free_ns - since_ns)
            for port, load in self._machine.ports.items()
            if load.free_ns > now_ns and port in basis.ports
        }


def _basis(state: SpreadState) -> Basis | None:
    """What the plan was made from that a run goes by, whole or not."""
    first = state.shape.prior
    return None if first is None or state.prior is None else first.basis


def _known(there: Mapping[int, int], number: Mapping[int, int], now_ns: int, since_ns: int) -> dict[int, float]:
    """By memory of a problem: from when a value is there, not before now: no copy of it could begin earlier.

    What lies only on devices that joined later comes by way of the host, as far as the problem knows.
    """
    known = {number[memory]: ns for memory, ns in there.items() if memory in number} or {0: min(there.values())}
    return {memory: float(max(ns, now_ns) - since_ns) for memory, ns in known.items()}
