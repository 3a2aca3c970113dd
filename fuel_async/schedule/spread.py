"""The scheduler of runs that are spread over several devices.

Regions are placed late: one is given to a lane only while that lane has a slot, by what is true then. A region whose
best offer comes from a lane without one waits for it, and counts there for whoever comes after; so a slow device that
is idle gets work exactly when it would be done with it before the fast ones came to it. Copies are issued with the
region that needs them, one for all readers in a memory. A run holds a share of every memory that a region of it runs
in, from the first such region to its end; of those that its pins demand, from its first region on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken, TransferFailed
from fuel_async.schedule.alone import Alone
from fuel_async.schedule.copies import Copies
from fuel_async.schedule.devices import Devices
from fuel_async.schedule.events import (
    AloneEnded,
    BindFailed,
    Bound,
    CopyFailed,
    CopyFinished,
    DeviceAdded,
    DeviceGone,
    Event,
    RegionFinished,
    Reswept,
    RunAdmitted,
    TopologyChanged,
)
from fuel_async.schedule.instructions import Instruction, Replan
from fuel_async.schedule.line import Line
from fuel_async.schedule.machine import HOST, DeviceShape, Links, Machine
from fuel_async.schedule.offers import POLICIES, Decision, Policy, earliest_finish
from fuel_async.schedule.placing import Placing
from fuel_async.schedule.programs import Programs
from fuel_async.schedule.rolling import Rolling
from fuel_async.schedule.runs import STORY_LENGTH, Runs
from fuel_async.schedule.spread_state import SpreadState
from fuel_async.schedule.state import Phase
from fuel_async.schedule.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.machine import Hop
    from fuel_async.schedule.shape import LaneShape, RunShape


class SpreadScheduler(Runs[SpreadState]):
    """The state of every admitted run and of all devices. Pure: the time is told with each event."""

    def __init__(
        self,
        devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
        links: Links,
        policy: Policy = earliest_finish,
    ) -> None:
        """Start with idle devices."""
        super().__init__()
        self.machine, self.links = Machine(), links
        for shape, lanes in devices:
            self.machine.add(shape, lanes)
        self.loads = self.machine.lanes
        #: The time of the event that is handled, or of the last one: it never falls.
        self.now_ns = 0
        #: Runs with candidates.
        self._line = Line()
        self.copies = Copies(self.machine, links, self.stop_run)
        #: Whether something happened by which a region that waits might go somewhere now.
        self.look_again = False
        #: The last decisions, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=STORY_LENGTH)
        #: Runs of one region that nothing was decided about. A policy of the caller's own is asked about each.
        self.alone = Alone(self.machine)
        self._asks = policy not in POLICIES.values()
        #: Whether runs go by plans of the whole.
        self._plans = policy is earliest_finish
        self.changes = Devices(self)
        self._programs = Programs(self)
        self._streams = Streams(self.machine)
        self._rolling = Rolling(self.machine, self.copies, self._streams)
        self._placing = Placing(self, self._line, policy, self._programs, self._streams, self._rolling)
        self._handlers = {
            **self._handlers,
            RunAdmitted: self._admit,
            RegionFinished: self._finished,
            Bound: self._programs.ready,
            BindFailed: self._programs.failed,
            Reswept: self._swept,
            CopyFinished: self._copy_finished,
            CopyFailed: self._copy_failed,
            DeviceAdded: self.changes.added,
            DeviceGone: self.changes.gone,
            TopologyChanged: self.changes.outdated,
            AloneEnded: self.alone.ended_before,
        }

    def handle(self, event: Event, now_ns: int = 0) -> tuple[Instruction, ...]:
        """Take one fact into account, at `now_ns`, and return what is to be done about it, in order."""
        self.now_ns = max(self.now_ns, now_ns)
        known = event.run in self.alone.runs
        done = self.alone.hear(event, self.now_ns) if known else self._handlers[type(event)](event)
        self.look_again = self.look_again or known
        told = (*done, *self._placing.fill())
        self._story.append((event, told))
        return told

    def begin_alone(self, run: int, shape: RunShape, now_ns: int = 0) -> int | None:
        """See `Runs`; with more than one device there is always something to decide."""
        self.now_ns = max(self.now_ns, now_ns)
        return None if self._line or self._asks else self.alone.begin(run, shape, self.now_ns)

    def end_alone(self, run: int, now_ns: int = 0) -> Sequence[Instruction] | None:
        """See `Runs`. None when the run was stopped: then `AloneEnded` is the way."""
        if self.alone.runs[run].stopped:
            return None
        self.now_ns = max(self.now_ns, now_ns)
        self.alone.end(run, self.now_ns)
        self.look_again = True
        return self._placing.fill()

    def forget(self, run: int) -> list[str]:
        """Drop all that is known of a run that cannot go on; return its story."""
        if run in self.alone.runs:
            self.alone.end(run, self.now_ns)
        return super().forget(run)

    def waiting(self) -> list[SpreadState]:
        """The runs that have regions to place, in the order of their turns."""
        return [self.runs[run] for run in self._line]

    # --- runs -------------------------------------------------------------------------------------

    def _admit(self, event: RunAdmitted) -> Sequence[Instruction]:
        if event.run in self.runs:
            raise InvariantBroken("a run is admitted once", f"run {event.run}", self.story(event.run))
        # Behind all that wait already, before the one that was served last.
        state = SpreadState(event.run, event.shape, event.priority, self._turn - 1, event.resident)
        state.since_ns = self.now_ns
        if not self._plans:
            state.follow(None)
        self._streams.admitted(state, self.now_ns)
        state.pinned_memories = self.machine.memories_of(set(state.spread.pins))
        self.runs[event.run] = state
        error = self.changes.hopeless(state)
        return self._go_on(state) if error is None else self._stop(state, error)

    def _finished(self, event: RegionFinished) -> Sequence[Instruction]:
        region, state = event.region, self.known(event.run, "only admitted runs settle regions")
        promised_ns = state.promised_ns.get(region, 0)
        lane = self.give_back(state, region)
        memory = self.machine.memory_of(lane)
        self._streams.learn(self.machine.device_of[lane], event.took_ns, promised_ns)
        state.finished.add(region)
        state.left -= 1
        if state.phase is Phase.DRAINING:
            return self._drained(state)
        for value in state.spread.reads[region]:
            state.readers_left[value] -= 1
        for value in state.spread.writes[region]:
            state.places[value][memory] = self.now_ns
        owed = state.owed.intersection(state.spread.writes[region])
        prior = state.prior
        told = [] if prior is None else self.copies.send(state, prior.sends[region], memory, self.now_ns)
        told += self._rolling.finished(state, event, lane, self.now_ns)
        if memory == HOST:
            state.owed -= owed
            return [*told, *self._go_on(state)]
        home = self.copies.bring_home(state, sorted(owed), memory, self.now_ns)
        if isinstance(home, TransferFailed):
            return [*told, *self._stop(state, home)]
        return [*told, *home, *self._go_on(state)]

    def _swept(self, event: Reswept) -> Sequence[Instruction]:
        state = self.runs.get(event.run)
        if state is None or state.phase is not Phase.RUNNING:
            return ()
        self.look_again = True
        return [*self._rolling.swept(state, event, self.now_ns), *self._programs.ahead(state)]

    def _go_on(self, state: SpreadState) -> Sequence[Instruction]:
        if not state.left and not state.owed:
            return self._deliver(state)
        self.look_again = True
        self._line.enter(state)
        return ()

    def take_turn(self, state: SpreadState) -> None:
        """Note that a run was served: it stands behind all that wait already."""
        self._turn += 2
        state.turn = self._turn

    # --- ends -------------------------------------------------------------------------------------

    def stop_run(self, state: SpreadState, error: BaseException | None) -> Sequence[Instruction]:
        """End a run early: nothing more of it is issued."""
        return self._stop(state, error)

    def sweep_run(self, state: SpreadState) -> Sequence[Instruction]:
        """Have what is left of a run placed anew, if that was for devices that are gone."""
        return self._rolling.lost(state, self.now_ns)

    def drained_run(self, state: SpreadState) -> Sequence[Instruction]:
        """End a run that was stopped, when nothing is under way for it."""
        return self._drained(state)

    def replan_run(self, state: SpreadState) -> Sequence[Instruction]:
        """Let a run of which nothing was issued begin anew."""
        self._withdraw(state)
        return (Replan(state.run), *self._end(state))

    def _stop(self, state: SpreadState, error: BaseException | None) -> tuple[Instruction, ...]:
        self._withdraw(state)
        return super()._stop(state, error)

    def _withdraw(self, state: SpreadState) -> None:
        """Take a run out of the line, and what is held back for programs to be ready off the lanes."""
        self._line.leave(state)
        self._streams.follow(state, None)
        for held_back in state.binding.values():
            while held_back:
                self.give_back(state, held_back.pop())

    def _end(self, state: SpreadState) -> tuple[Instruction, ...]:
        if not state.quiet:  # delivered, and what tells of a copy's arrival is late
            state.stop()
            return ()
        self._give_shares_back(state)
        return super()._end(state)

    def _give_shares_back(self, state: SpreadState) -> None:
        for memory in state.memories:
            self.machine.memories[memory].held_nbytes -= state.spread.share_nbytes
            self.look_again = True
        state.memories.clear()

    def _abandon(self, state: SpreadState) -> None:
        self._line.leave(state)
        self._streams.follow(state, None)
        for region in list(state.in_flight):
            self.give_back(state, region)
        self.copies.give_up(state, self.now_ns)
        self._give_shares_back(state)

    def known(self, run: int, law: str) -> SpreadState:
        """A run that is under way; `InvariantBroken`, of that law, when it is not."""
        state = self.runs.get(run)
        if state is None:
            raise InvariantBroken(law, f"run {run}", self.story(run))
        return state

    def _settle(self, run: int, region: int) -> SpreadState:
        state = self.known(run, "only admitted runs settle regions")
        self.take_back(state, region)
        return state

    def take_back(self, state: SpreadState, region: int) -> None:
        """Take a region off its lane that has not finished."""
        self.give_back(state, region)
        self._streams.taken_back(state, region)

    def give_back(self, state: SpreadState, region: int) -> int:
        """Take a region off its lane; return the lane."""
        lane = state.settle(region)
        del state.promised_ns[region]
        self.machine.lanes[lane].drop((state.run, region), self.now_ns)
        self.look_again = True
        return lane

    # --- copies -----------------------------------------------------------------------------------

    def _copy_finished(self, event: CopyFinished) -> Sequence[Instruction]:
        state, hop = self._arrived(event)
        told = self.copies.go_on(hop.ports, self.now_ns)
        self.look_again = self.look_again or bool(told)
        if state.phase is Phase.DRAINING:
            return [*told, *self._drained(state)]
        if event.memory in state.places[event.value]:
            state.places[event.value][event.memory] = self.now_ns
        if event.memory == HOST and event.value in state.owed:
            state.owed.discard(event.value)
            return [*told, *self._go_on(state)]
        return told

    def _copy_failed(self, event: CopyFailed) -> Sequence[Instruction]:
        state, hop = self._arrived(event)
        ended = self._drained(state) if state.phase is Phase.DRAINING else self._stop(state, event.error)
        return [*ended, *self.copies.go_on(hop.ports, self.now_ns)]

    def _arrived(self, event: CopyFinished | CopyFailed) -> tuple[SpreadState, Hop]:
        state = self.known(event.run, "a copy ends once")
        hop = self.copies.ended(state, event, self.now_ns)
        if hop is None:
            found = f"value {event.value} of run {event.run} in memory {event.memory}"
            raise InvariantBroken("a copy ends once", found, self.story(event.run))
        return state, hop
