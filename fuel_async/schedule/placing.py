"""Giving free slots to regions that wait: which run's turn it is, what its regions are offered, and who gets one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.errors import UserError
from fuel_async.schedule.guard import kept_until_ns, waits_for_answer
from fuel_async.schedule.look import Look
from fuel_async.schedule.offers import Decision, Offer, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.instructions import Instruction
    from fuel_async.schedule.line import Line
    from fuel_async.schedule.programs import Programs
    from fuel_async.schedule.rolling import Rolling
    from fuel_async.schedule.spread import SpreadScheduler
    from fuel_async.schedule.spread_state import SpreadState
    from fuel_async.schedule.streams import Streams


class Placing:
    """The part of a `SpreadScheduler` that places regions."""

    def __init__(
        self,
        scheduler: SpreadScheduler,
        line: Line,
        policy: Policy,
        programs: Programs,
        streams: Streams,
        rolling: Rolling,
    ) -> None:
        self._scheduler, self._machine, self._line, self._policy = scheduler, scheduler.machine, line, policy
        self._programs, self._streams, self._rolling = programs, streams, rolling

    def fill(self) -> list[Instruction]:
        """Give free slots to candidates: the run of highest priority first, then whoever has waited for most turns."""
        scheduler, machine = self._scheduler, self._machine
        told: list[Instruction] = []
        while self._line:
            idle = self._idle()
            if not idle and not (scheduler.look_again and machine.roomy):
                break
            scheduler.look_again = False
            told += self._look_along(Look(machine, scheduler.links, scheduler.now_ns, everything=idle))
            if scheduler.look_again:  # a run was stopped: those before it may have what it held
                continue
            if not (self._line and self._idle()):
                break
            first = scheduler.waiting()[0]  # nothing in flight can ever make room for anybody
            told += scheduler.stop_run(first, scheduler.changes.no_room(first))
        return told

    def _idle(self) -> bool:
        runs = self._scheduler.runs.values()
        return not any(lane.held for lane in self._machine.lanes) and all(state.quiet for state in runs)

    def _look_along(self, look: Look) -> list[Instruction]:
        told: list[Instruction] = []
        line, machine, place = self._line, self._machine, 0
        while place < min(len(line), look.of_line) and look.left > 0 and machine.roomy:
            state = self._scheduler.runs[line[place]]
            if look.passes_over(state):
                place += 1
                continue
            self._streams.looked_at(state, self._scheduler.now_ns)
            if (done := self._place_first(state, look)) is not None:
                told += done
                look.changed()
            else:
                look.got_none(state)
                place += 1
        return told

    def _place_first(self, state: SpreadState, look: Look) -> Sequence[Instruction] | None:
        """Issue the first region whose best lane has a slot; those before it stand in line for theirs.

        None when there is none. A run that can never go on is stopped.
        """
        scheduler, machine = self._scheduler, self._machine
        for region in state.candidates[: look.of_run]:
            pending = state.lanes_waited_for(region)
            if len(pending) > 1:
                continue
            behind = next(iter(pending), None)
            offers = look.offers(state, region, behind)
            if offers is None:
                return scheduler.stop_run(state, scheduler.changes.no_way(state, region))
            if not offers:
                continue
            try:
                best = self._choose(state, region, offers, look)
            except Exception as error:  # of a policy that is the caller's own
                return scheduler.stop_run(state, error)
            if behind is not None and best.lane != behind:  # better there than behind, once it may go there
                continue
            chosen = self._allowed(state, region, best, look, behind)
            if chosen is None or (chosen.copies and scheduler.copies.hold_back(state, chosen.copies)):
                continue
            look.stand(chosen)
            if machine.lanes[chosen.lane].free:
                scheduler.decisions.append(Decision(state.run, region, offers, chosen))
                return self._issue(state, region, chosen)
        return None

    def _allowed(self, state: SpreadState, region: int, offer: Offer, look: Look, behind: int | None) -> Offer | None:
        """What a region may take up: the offer, or that of another lane where this one is kept; None where it waits."""
        machine, now_ns = self._machine, self._scheduler.now_ns
        if waits_for_answer(state, offer, now_ns):
            return None
        until_ns = kept_until_ns(state, region, offer, machine, look, now_ns)
        if until_ns is None:
            return offer
        beside = look.beside(state, region, offer) if behind is None and until_ns < math.inf else None
        if beside is None or beside.start_ns > until_ns:
            return None
        return beside if kept_until_ns(state, region, beside, machine, look, now_ns) is None else None

    def _choose(self, state: SpreadState, region: int, offers: Sequence[Offer], look: Look) -> Offer:
        prior = state.prior
        if prior is not None:
            return prior.choose(region, state.since_ns, offers, self._machine, state.spread.nbytes, look.route)
        chosen = self._policy(offers)
        if chosen not in offers:
            raise UserError(f"the placement policy chose {chosen!r}: let it return one of the offers that it is given")
        return chosen

    def _issue(self, state: SpreadState, region: int, offer: Offer) -> Sequence[Instruction]:
        scheduler, machine, is_first = self._scheduler, self._machine, not state.issued
        machine.take_shares(state, state.shares_for(machine.devices[offer.device].shape.memory))
        self._streams.issued(state, region)
        state.issue(region, offer.lane)
        state.promised_ns[region] = offer.predicted_ns
        machine.take((state.run, region), offer, scheduler.now_ns)
        self._line.leave(state)
        if state.prior is None or not state.prior.is_whole:  # those finish what they have begun before others begin
            scheduler.take_turn(state)
        self._line.enter(state)
        told = self._programs.launch(state, region, offer)
        if is_first:
            told = [*told, *self._programs.ahead(state), *self._rolling.begin(state, scheduler.now_ns)]
        return told
