"""The scheduler of runs that are spread over several devices.

Regions are placed late: one is given to a lane only while that lane has a slot, by what is true then. A region whose
best offer comes from a lane without one waits for it, and counts there for whoever comes after; so a slow device that
is idle gets work exactly when it would be done with it before the fast ones came to it. Copies are issued with the
region that needs them, one for all readers in a memory. A run holds a share of every memory that a region of it runs
in, from the first such region to its end.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import InvariantBroken, TransferFailed
from fuel_async.schedule.devices import Devices
from fuel_async.schedule.events import (
    BindFailed,
    Bound,
    CopyFailed,
    CopyFinished,
    DeviceAdded,
    DeviceGone,
    Event,
    RegionFinished,
    RunAdmitted,
    TopologyChanged,
)
from fuel_async.schedule.instructions import Bind, Copy, Instruction, Launch, Replan
from fuel_async.schedule.machine import HOST, DeviceShape, Hop, Links, Machine
from fuel_async.schedule.offers import Offer, Policy, arrival, earliest_finish, offers_for
from fuel_async.schedule.scheduler import STORY_LENGTH, Scheduler
from fuel_async.schedule.spread_state import SpreadState
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.shape import LaneShape
    from fuel_async.schedule.state import RunState

#: Runs that are looked at for a free slot: those beyond stand too far back for one.
LOOKED_AT = 64

#: Regions of one run that are looked at.
REGIONS_LOOKED_AT = 8


class Decision(NamedTuple):
    """Why a region went where it did."""

    run: int
    region: int
    offers: Sequence[Offer]
    chosen: Offer


class SpreadScheduler(Scheduler):
    """The state of every admitted run and of all devices. Pure: the time is told with each event."""

    def __init__(
        self,
        devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
        links: Links,
        policy: Policy = earliest_finish,
    ) -> None:
        """Start with idle devices."""
        super().__init__(())
        self.machine, self.links, self._policy = Machine(), links, policy
        for shape, lanes in devices:
            self.machine.add(shape, lanes)
        self.loads = self.machine.lanes
        self.now_ns = 0
        self._line: list[tuple[int, int, int]] = []
        #: The last decisions, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=STORY_LENGTH)
        changes = Devices(self)
        self._handlers = {
            **self._handlers,
            Bound: self._bound,
            BindFailed: self._bind_failed,
            CopyFinished: self._copy_finished,
            CopyFailed: self._copy_failed,
            DeviceAdded: changes.added,
            DeviceGone: changes.gone,
            TopologyChanged: self._topology_changed,
        }
        self._changes = changes

    def handle(self, event: Event, now_ns: int = 0) -> tuple[Instruction, ...]:
        """Take one fact into account, at `now_ns`, and return what is to be done about it, in order."""
        self.now_ns = now_ns
        told = [*self._handlers[type(event)](event), *self._fill()]
        while self._line and (stuck := self._changes.stuck(self.waiting())):
            told += [*stuck, *self._fill()]
        self._story.append((event, tuple(told)))
        return tuple(told)

    def forget(self, run: int) -> list[str]:
        """Drop all that is known of a run that cannot go on; return its story."""
        state = self.runs.get(run)
        if isinstance(state, SpreadState):
            self._give_shares_back(state)
        return super().forget(run)

    def waiting(self) -> list[SpreadState]:
        """The runs that have regions to place, first come first."""
        return [state for _, _, run in sorted(self._line) if (state := self._spread(run)) is not None]

    def _spread(self, run: int) -> SpreadState | None:
        state = self.runs.get(run)
        assert state is None or isinstance(state, SpreadState)  # no other is admitted here
        return state

    # --- runs -------------------------------------------------------------------------------------

    def _admit(self, event: RunAdmitted) -> Sequence[Instruction]:
        if event.run in self.runs:
            raise InvariantBroken("a run is admitted once", f"run {event.run}", self.story(event.run))
        state = SpreadState(event.run, event.shape, event.priority, self._turn - 1, event.resident)
        self.runs[event.run] = state
        return self._go_on(state)

    def _finished(self, event: RegionFinished) -> Sequence[Instruction]:
        region, memory = event.region, self._memory_of(event.run, event.region)
        state = self._settle(event.run, region)
        assert isinstance(state, SpreadState)
        state.finished.add(region)
        state.left -= 1
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        for value in state.spread.reads[region]:
            state.readers_left[value] -= 1
        copies: list[tuple[int, Hop]] = []
        for value in state.spread.writes[region]:
            state.places[value][memory] = self.now_ns
            if value not in state.owed:
                continue
            if memory == HOST:
                state.owed.discard(value)
                continue
            hops = self.links.route(memory, HOST, state.spread.nbytes[value])
            if hops is None:
                name = self.machine.name_of(memory)
                return self.stop_run(state, TransferFailed(name, "the host", "there is no way"))
            copies += [(value, hop) for hop in hops]
        return [*self._copies(state, copies), *self._go_on(state)]

    def _go_on(self, state: RunState) -> Sequence[Instruction]:
        assert isinstance(state, SpreadState)
        if not state.left and not state.owed:
            return self._deliver(state)
        self._enqueue(state)
        return ()

    def stop_run(self, state: SpreadState, error: BaseException | None) -> tuple[Instruction, ...]:
        """End a run early: nothing more of it is issued."""
        return self._stop(state, error)

    def _drained(self, state: RunState) -> tuple[Instruction, ...]:
        assert isinstance(state, SpreadState)
        if not state.quiet:
            return ()
        return self._end(state)

    def _end(self, state: RunState) -> tuple[Instruction, ...]:
        assert isinstance(state, SpreadState)
        if not state.quiet:  # delivered, and a copy that a reader elsewhere needed no more is on its way
            state.stop()
            return ()
        self._give_shares_back(state)
        return super()._end(state)

    def _give_shares_back(self, state: SpreadState) -> None:
        for memory in state.memories:
            self.machine.memories[memory].held_nbytes -= state.spread.share_nbytes
        state.memories.clear()

    def _memory_of(self, run: int, region: int) -> int:
        state = self.runs.get(run)
        lane = None if state is None else state.in_flight.get(region)
        return HOST if lane is None else self.machine.memory_of(lane)

    def _settle(self, run: int, region: int) -> RunState:
        state = self._spread(run)
        if state is None:
            raise InvariantBroken("only admitted runs settle regions", f"run {run}", self.story(run))
        self._give_back(state, region)
        return state

    def _give_back(self, state: SpreadState, region: int) -> None:
        lane = state.settle(region)
        self.machine.give(lane, state.promised_ns.pop(region), self.now_ns)

    # --- copies -----------------------------------------------------------------------------------

    def _copies(self, state: SpreadState, copies: Sequence[tuple[int, Hop]]) -> list[Instruction]:
        told: list[Instruction] = []
        link_free_ns = self.machine.link_free_ns
        for value, hop in copies:
            places, link = state.places[value], (hop.source, hop.memory)
            if hop.memory in places:  # there, or on its way for another reader
                continue
            starts_ns = max(self.now_ns, places.get(hop.source, 0), link_free_ns.get(link, 0))
            link_free_ns[link] = places[hop.memory] = starts_ns + hop.copy_ns
            state.arriving.add((value, hop.memory))
            told.append(Copy(state.run, value, hop.source, hop.memory))
        return told

    def _copy_finished(self, event: CopyFinished) -> Sequence[Instruction]:
        state = self._arrived(event.run, event.value, event.memory)
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        state.places[event.value][event.memory] = self.now_ns
        if event.memory == HOST and event.value in state.owed:
            state.owed.discard(event.value)
            return self._go_on(state)
        return ()

    def _copy_failed(self, event: CopyFailed) -> Sequence[Instruction]:
        state = self._arrived(event.run, event.value, event.memory)
        state.places[event.value].pop(event.memory, None)
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        return self._stop(state, event.error)

    def _arrived(self, run: int, value: int, memory: int) -> SpreadState:
        state = self._spread(run)
        if state is None or (value, memory) not in state.arriving:
            raise InvariantBroken("a copy ends once", f"value {value} of run {run} in memory {memory}", self.story(run))
        state.arriving.discard((value, memory))
        return state

    # --- programs ---------------------------------------------------------------------------------

    def _bound(self, event: Bound) -> Sequence[Instruction]:
        state, held_back = self._ready(event.run, event.device)
        state.bound.add(event.device)
        told: list[Instruction] = []
        for place, region in enumerate(held_back):
            if state.phase is Phase.DRAINING:
                for other in held_back[place:]:
                    self._give_back(state, other)
                return [*told, *self._drained(state)]
            told += self._launch(state, region)
        return told

    def _bind_failed(self, event: BindFailed) -> Sequence[Instruction]:
        state, held_back = self._ready(event.run, event.device)
        for region in held_back:
            self._give_back(state, region)
        return self._drained(state) if state.phase is Phase.DRAINING else self._stop(state, event.error)

    def _ready(self, run: int, device: int) -> tuple[SpreadState, list[int]]:
        state = self._spread(run)
        held_back = None if state is None else state.binding.pop(device, None)
        if state is None or held_back is None:
            raise InvariantBroken("programs become ready once", f"run {run}, device {device}", self.story(run))
        return state, held_back

    def _launch(self, state: SpreadState, region: int) -> list[Instruction]:
        """Have copied what the region lacks, then submit it."""
        lane = state.in_flight[region]
        memory, waits = self.machine.memory_of(lane), state.waits(region)
        arrived = arrival(state, region, memory, self.machine, self.links, self.now_ns, lane if waits else None)
        if arrived is None:  # a link has gone since it was placed
            self._give_back(state, region)
            name = self.machine.name_of(memory)
            return [*self._stop(state, TransferFailed("where it lies", name, "there is no way"))]
        return [*self._copies(state, arrived[1]), Launch(state.run, region, lane, waits)]

    # --- placing ----------------------------------------------------------------------------------

    def _enqueue(self, state: RunState) -> None:
        if state.candidates and state.run not in self._queued:
            self._queued[state.run] = 0
            heapq.heappush(self._line, (-state.priority, state.turn, state.run))

    def _fill(self) -> list[Instruction]:
        """Give free slots to candidates: the run of highest priority first, then whoever has waited for most turns."""
        told: list[Instruction] = []
        kept: list[tuple[int, int, int]] = []
        expected_ns: dict[int, int] = {}
        looked_at = 0
        while self._line and looked_at < LOOKED_AT and self.machine.roomy:
            entry = heapq.heappop(self._line)
            state = self._spread(entry[2])
            if state is None or not state.candidates:
                self._queued.pop(entry[2], None)
                continue
            looked_at += 1
            issued = self._place_first(state, expected_ns)
            if issued is None:
                kept.append(entry)
                continue
            told += issued
            self._turn += 2
            state.turn = self._turn
            del self._queued[state.run]
            self._enqueue(state)
        for entry in kept:
            heapq.heappush(self._line, entry)
        return told

    def _place_first(self, state: SpreadState, expected_ns: dict[int, int]) -> list[Instruction] | None:
        """Issue the first region whose best lane has a slot; those before it stand in line for theirs."""
        for region in state.candidates[:REGIONS_LOOKED_AT]:
            pending = state.lanes_waited_for(region)
            if len(pending) > 1:
                continue
            offers = offers_for(state, region, self.machine, self.links, self.now_ns, expected_ns)
            if not offers:
                continue
            chosen = self._policy(offers)
            if (pending and chosen.lane not in pending) or not self.loads[chosen.lane].free:
                expected_ns[chosen.lane] = expected_ns.get(chosen.lane, 0) + chosen.predicted_ns
                continue
            self.decisions.append(Decision(state.run, region, offers, chosen))
            return self._issue(state, region, chosen)
        return None

    def _issue(self, state: SpreadState, region: int, offer: Offer) -> list[Instruction]:
        device, machine = offer.device, self.machine
        memory = machine.devices[device].shape.memory
        if memory not in state.memories:
            state.memories.add(memory)
            machine.memories[memory].held_nbytes += state.spread.share_nbytes
        state.issue(region, offer.lane)
        state.promised_ns[region] = offer.predicted_ns
        machine.take(offer, self.now_ns)
        if device in state.bound:
            return self._launch(state, region)
        held_back = state.binding.get(device)
        if held_back is not None:
            held_back.append(region)
            return []
        state.binding[device] = [region]
        return [Bind(state.run, device)]

    def _topology_changed(self, event: TopologyChanged) -> Sequence[Instruction]:
        told: list[Instruction] = []
        for state in [state for state in self.waiting() if not state.issued]:
            state.stop()
            told += [Replan(state.run), *self._end(state)]
        return told
