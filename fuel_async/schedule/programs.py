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
        held_back = state.binding.setdefault(offer.device, [])
        held_back.append(region)
        return [Bind(state.run, offer.device)] if len(held_back) == 1 else []

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
        """Stop the run."""
        state, _ = self._find(event)
        told = self._scheduler.stop_run(state, event.error) if state.phase is Phase.RUNNING else ()
        del state.binding[event.device]
        return [*told, *self._scheduler.drained_run(state)]

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
            scheduler.give_back(state, region)
            error = TransferFailed("its inputs", self._machine.name_of(memory), "there is no way")
            return scheduler.stop_run(state, error)
        self._machine.lanes[lane].delay((state.run, region), come.ready_ns, now_ns)
        return [*scheduler.copies.make(state, come.copies, now_ns), Launch(state.run, region, lane, waits)]
