"""Programs that are made ready on devices, and regions that are held back until they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken, TransferFailed
from fuel_async.schedule.arrival import arrival
from fuel_async.schedule.instructions import Bind, Instruction, Launch
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.events import BindFailed, Bound
    from fuel_async.schedule.offers import Offer
    from fuel_async.schedule.spread import SpreadScheduler
    from fuel_async.schedule.spread_state import SpreadState


class Programs:
    """The part of a `SpreadScheduler` that launches, where programs are ready."""

    def __init__(self, scheduler: SpreadScheduler) -> None:
        self._scheduler, self._machine = scheduler, scheduler.machine

    def launch(self, state: SpreadState, region: int, offer: Offer) -> Sequence[Instruction]:
        """Submit a region as offered, or hold it back."""
        if offer.device in state.bound:
            launch = Launch(state.run, region, offer.lane, state.waits(region))
            return [*self._scheduler.copies.make(state, offer.copies, self._scheduler.now_ns), launch]
        held_back = state.binding.get(offer.device)
        if held_back is not None:
            held_back.append(region)
            return []
        state.binding[offer.device] = [region]
        return [Bind(state.run, offer.device)]

    def ahead(self, state: SpreadState) -> Sequence[Instruction]:
        """Have programs made ready wherever the plan has something left, so that values can be sent ahead at once.

        Not where that would leave the memory nearly full: others could need it before this run does.
        """
        prior, told, nbytes = state.prior, list[Instruction](), state.spread.share_nbytes
        if prior is None:
            return told
        firsts = {number: first for number in range(len(prior.queues)) if (first := state.next_on(number)) is not None}
        for number in sorted(firsts, key=lambda number: prior.starts_ns[firsts[number]]):  # first come, first ready
            device = self._machine.devices[number]
            if device.gone is not None or number in state.bound or number in state.binding:
                continue
            shares = state.shares_for(device.shape.memory)
            if any(self._machine.memories[memory].tight(nbytes) for memory in shares):
                continue
            self._machine.take_shares(state, shares)
            state.binding[number] = []
            told.append(Bind(state.run, number))
        return told

    def ready(self, event: Bound) -> Sequence[Instruction]:
        """Submit what was held back."""
        state, held_back = self._find(event)
        told: list[Instruction] = []
        state.bound.add(event.device)
        while held_back:  # a run that stops takes the rest back
            told += self._launch_late(state, held_back.pop(0))
        del state.binding[event.device]
        return [*told, *self._scheduler.drained_run(state)] if state.phase is Phase.DRAINING else told

    def failed(self, event: BindFailed) -> Sequence[Instruction]:
        """Stop the run, unless no region went there yet: then others may do without."""
        state, held_back = self._find(event)
        stops = bool(held_back) and state.phase is Phase.RUNNING
        told = self._scheduler.stop_run(state, event.error) if stops else ()
        del state.binding[event.device]
        return [*told, *self._scheduler.drained_run(state)] if state.phase is Phase.DRAINING else told

    def _find(self, event: Bound | BindFailed) -> tuple[SpreadState, list[int]]:
        state = self._scheduler.known(event.run, "programs become ready once")
        held_back = state.binding.get(event.device)
        if held_back is None:
            found = f"run {event.run}, device {event.device}"
            raise InvariantBroken("programs become ready once", found, self._scheduler.story(event.run))
        return state, held_back

    def _launch_late(self, state: SpreadState, region: int) -> Sequence[Instruction]:
        """Submit what was held back, by what is true now."""
        lane, now_ns, scheduler = state.in_flight[region], self._scheduler.now_ns, self._scheduler
        memory, waits = self._machine.memory_of(lane), state.waits(region)
        come = arrival(state, region, memory, self._machine, scheduler.links, now_ns, behind=lane if waits else None)
        if come is None:  # a link has gone since it was placed
            scheduler.take_back(state, region)
            error = TransferFailed("its inputs", self._machine.name_of(memory), "there is no way")
            return scheduler.stop_run(state, error)
        self._machine.lanes[lane].delay((state.run, region), come.ready_ns, now_ns)
        return [*scheduler.copies.make(state, come.copies, now_ns), Launch(state.run, region, lane, waits)]
