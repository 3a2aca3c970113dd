"""The laws of runs that are spread over several devices, beside those of all runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from fuel_async.schedule.machine import Port
    from fuel_async.schedule.spread import SpreadScheduler
    from fuel_async.schedule.spread_state import SpreadState


def check_spread(state: SpreadState, scheduler: SpreadScheduler) -> None:
    """Raise `InvariantBroken` when a law of one run does not hold."""
    _programs(state, scheduler)
    _shares(state, scheduler)
    if state.promised_ns.keys() != state.in_flight.keys():
        raise InvariantBroken("what is in flight was promised a time", f"run {state.run}")
    if (state.entry is not None) != bool(state.candidates):
        raise InvariantBroken("a run stands in line while it has candidates", f"run {state.run}")
    if state.phase is Phase.RUNNING:
        _values(state)
        _inputs(state, scheduler)


def check_machine(scheduler: SpreadScheduler) -> None:
    """Raise `InvariantBroken` when a law of lanes, links and memories does not hold."""
    machine, runs = scheduler.machine, scheduler.runs.values()
    shares: Counter[int] = Counter()
    jobs: list[dict[tuple[int, int], int]] = [{} for _ in machine.lanes]
    on_ports: Counter[Port] = Counter()
    for state in runs:
        for memory in state.memories:
            shares[memory] += state.spread.share_nbytes
        for region, lane in state.in_flight.items():
            jobs[lane][state.run, region] = state.promised_ns[region]
        for hop in state.arriving.values():
            on_ports.update(dict.fromkeys(hop.ports, hop.copy_ns))
    for run, one in scheduler.alone.runs.items():
        if run in scheduler.runs:
            raise InvariantBroken("a run is on the short way or has events", f"run {run}")
        if machine.devices[one.device].gone is not None and not one.stopped:
            raise InvariantBroken("a run on the short way is stopped with its device", f"run {run}")
        shares[machine.memory_of(one.lane)] += one.share_nbytes
        jobs[one.lane][run, 0] = one.predicted_ns
    planned = Counter[int]()
    for state in runs:
        if state.prior is not None:
            for region, device in enumerate(state.prior.devices):
                planned[device] += 0 if state.is_issued(region) else state.prior.took_ns[region]
    for number, place in enumerate(machine.devices):
        if place.planned_ns != planned[number]:
            raise InvariantBroken("what is planned and not issued is counted right", f"device {number}: {place}")
    for memory, load in machine.memories.items():
        if not load.held_nbytes == shares[memory] <= load.budget_nbytes:
            raise InvariantBroken(
                "a memory holds the shares of runs, within its budget", f"memory {memory}: {load}, of {shares[memory]}"
            )
    for lane, queue in enumerate(machine.lanes):
        if {job: predicted_ns for job, (_, predicted_ns) in queue.jobs.items()} != jobs[lane]:
            raise InvariantBroken("a lane's queue is what runs have in flight on it", f"lane {lane}: {queue.jobs}")
        gone = machine.devices[machine.device_of[lane]].gone is not None
        if queue.free != (not gone and queue.held < queue.shape.slot_capacity):
            raise InvariantBroken("a lane is free while it has a slot and a device", f"lane {lane}: {queue}")
    for port, busy in machine.ports.items():
        if busy.held_ns != on_ports[port]:
            raise InvariantBroken("a port holds the copies that are on their way", f"port {port}: {busy}")
    for port, line in scheduler.copies.waiting.items():
        if line and not machine.ports[port].count:
            raise InvariantBroken("what waits for a port waits for copies", f"port {port}: {len(line)} wait")
    entries = [state.entry for state in scheduler.waiting()]
    if entries != sorted(state.entry for state in runs if state.entry is not None):
        raise InvariantBroken("runs stand in line by priority and turn", f"entries {entries}")


def _values(state: SpreadState) -> None:
    """Where values lie, and who still wants them."""
    spread, name = state.spread, f"run {state.run}"
    readers = Counter(
        value for region, read in enumerate(spread.reads) if region not in state.finished for value in read
    )
    if state.readers_left != [readers[value] for value in range(len(spread.nbytes))]:
        raise InvariantBroken("readers that have not finished are counted right", f"{name}: {state.readers_left}")
    there = {value for value in spread.outputs if HOST in state.places[value] and (value, HOST) not in state.arriving}
    if state.owed != spread.outputs - there:
        raise InvariantBroken("what is not in the host's memory yet is owed", f"{name}: {state.owed}")
    for value, producer in enumerate(spread.producers):
        wanted = bool(state.readers_left[value]) or value in state.owed
        made = producer < 0 or producer in state.finished
        if (wanted and made and not state.places[value]) or (state.places[value] and not made):
            raise InvariantBroken("a wanted value lies somewhere once it is made", f"{name}, value {value}")


def _inputs(state: SpreadState, scheduler: SpreadScheduler) -> None:
    """What is launched has what it reads: in its memory, arriving there, or made there before it on its lane."""
    spread, held_back = state.spread, {region for regions in state.binding.values() for region in regions}
    for region, lane in state.in_flight.items():
        memory = scheduler.machine.memory_of(lane)
        for value in spread.reads[region]:
            made_before = state.in_flight.get(spread.producers[value]) == lane
            if region not in held_back and memory not in state.places[value] and not made_before:
                raise InvariantBroken("what a region reads is there before it", f"run {state.run}, region {region}")


def _programs(state: SpreadState, scheduler: SpreadScheduler) -> None:
    """Programs become ready before what was held back for them, and that is in flight there."""
    for device, regions in state.binding.items():
        if device in state.bound:
            raise InvariantBroken("programs become ready once", f"run {state.run}, device {device}")
        lanes = {state.in_flight.get(region) for region in regions}
        if not lanes <= set(scheduler.machine.devices[device].lanes):
            raise InvariantBroken("what is held back is held by its lane", f"run {state.run}, device {device}")


def _shares(state: SpreadState, scheduler: SpreadScheduler) -> None:
    """A run holds its share of each memory that it works in, and all that its pins demand or none."""
    memories = {scheduler.machine.memory_of(lane) for lane in state.in_flight.values()}
    if state.issued:
        memories |= state.pinned_memories
    if not memories <= state.memories:
        raise InvariantBroken("a run holds a share of the memories it works in", f"run {state.run}: {state.memories}")
    if not state.issued and not (state.quiet and not state.memories):
        raise InvariantBroken("a run of which nothing was issued holds nothing", f"run {state.run}")
