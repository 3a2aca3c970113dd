"""The laws of a scheduler's state, checked by its tests after every step and at the end of every test.

Those that only runs over several devices have are in `spread_invariants`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.errors import InvariantBroken
from fuel_async.schedule.scheduler import Scheduler
from fuel_async.schedule.spread import SpreadScheduler
from fuel_async.schedule.spread_invariants import check_machine, check_spread
from fuel_async.schedule.state import Phase, RunState

if TYPE_CHECKING:
    from fuel_async.schedule.runs import Runs


def check(scheduler: Runs[Any]) -> None:
    """Raise `InvariantBroken` with the story of the run when a law does not hold. Changes nothing."""
    held = [0] * len(scheduler.loads)
    held_ns = [0] * len(scheduler.loads)
    for state in scheduler.runs.values():
        try:
            _check_run(state)
            if isinstance(scheduler, SpreadScheduler):
                check_spread(state, scheduler)
        except InvariantBroken as broken:
            raise InvariantBroken(broken.law, broken.found, scheduler.story(state.run)) from None
        for region, lane in state.in_flight.items():
            held[lane] += 1
            held_ns[lane] += state.held_ns(region)
    for lane, predicted_ns in _alone(scheduler):
        held[lane] += 1
        held_ns[lane] += predicted_ns
    for lane, load in enumerate(scheduler.loads):
        found = (load.held, load.held_ns)
        if found != (held[lane], held_ns[lane]):
            raise InvariantBroken("a lane holds what runs have in flight on it", f"lane {lane}: {found}")
        if load.held > load.shape.slot_capacity:
            raise InvariantBroken("a lane never holds more than its slots", f"lane {lane}: {load.held}")
    starving = [state.run for state in scheduler.runs.values() if state.phase is Phase.RUNNING]
    if starving and not any(held) and all(state.quiet for state in scheduler.runs.values()):
        raise InvariantBroken("lanes do not idle while a run could go on", f"runs {starving}")
    if isinstance(scheduler, SpreadScheduler):
        check_machine(scheduler)


def _alone(scheduler: Runs[Any]) -> list[tuple[int, int]]:
    """Lane and predicted time of the runs that went the short way."""
    if isinstance(scheduler, Scheduler):
        return [(lane, shape.predicted_ns[0]) for shape, lane in scheduler.alone.values()]
    if isinstance(scheduler, SpreadScheduler):
        return [(one.lane, one.predicted_ns) for one in scheduler.alone.runs.values()]
    return []


def _check_run(state: RunState) -> None:
    name = f"run {state.run}"
    if state.phase is Phase.ENDED:
        raise InvariantBroken("an ended run is forgotten", name)
    if state.phase is Phase.DRAINING and (state.candidates or state.quiet):
        raise InvariantBroken("a stopped run only waits for what is in flight", name)
    if state.finished & state.in_flight.keys():
        raise InvariantBroken("a region is in flight or finished, not both", name)
    if state.left != len(state.shape) - len(state.finished):
        raise InvariantBroken("what is left is counted right", name)
    if state.phase is Phase.DRAINING:  # what failed is neither finished nor in flight
        return
    known = state.finished | state.in_flight.keys()
    for region, needs in enumerate(state.shape.needs):
        missing = len(needs - known)
        if region in known and missing:
            raise InvariantBroken("what a region needs is issued before it", f"{name}, region {region}")
        if missing != state.missing()[region]:
            raise InvariantBroken("missing needs are counted right", f"{name}, region {region}")
        ready = not missing and region not in known
        if ready != (region in state.candidates):
            raise InvariantBroken("candidates are the regions that could be issued", f"{name}, region {region}")
