"""Where everything goes, decided for the whole graph at once: the order of each lane and of the copies, and the times.

    placement = place(problem)
    placement.devices[task], placement.order[lane], placement.makespan_ns

The plan is the best of several: HEFT (Topcuoglu et al., 2002), two-way list scheduling (`two_way.py`) with a local
search behind it or, where copies wait for ports, passes with the ports on their time lines (`ports.py`), and everything
on one device (`whole.py`). Of a problem that repeats itself only a few layers are planned like that, and the others go
where those went (`fold.py`). Where there are ports, plans are judged by what they come to when they are played
(`replay.py`): no plan is longer than HEFT's, whose copies go as they come.
Large graphs get a quick form. Pure and deterministic. It makes many lists, and a collection would walk all of them:
callers hold the cyclic collector meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.bound import lower_bound_ns
from fuel_async.plan.placement.fold import shortened
from fuel_async.plan.placement.replay import Copy, Played, lane_orders, replay
from fuel_async.plan.placement.search import search
from fuel_async.plan.placement.sweep import Pass
from fuel_async.plan.placement.tables import tables_of
from fuel_async.plan.placement.two_way import TwoWay, effort_for, heft
from fuel_async.plan.placement.whole import best_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.plan.placement.problem import Problem
    from fuel_async.plan.placement.tables import Tables
    from fuel_async.plan.placement.two_way import Effort

#: HEFT's plan is taken as it is when it is at most this many times the bound below which no plan can be.
CLOSE = 1.01


class Origin(Enum):
    """Which way a plan was found."""

    HEFT = "HEFT"
    TWO_WAY = "two-way"
    PORTS = "ports"
    WHOLE = "whole"
    FOLDED = "folded"


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A plan. Immutable. Times are ns from the start."""

    #: By task.
    devices: Sequence[int]
    lanes: Sequence[int]
    starts_ns: Sequence[float]
    ends_ns: Sequence[float]
    #: The tasks of each lane, in order; lanes are numbered device by device.
    order: Sequence[Sequence[int]]
    #: In the order in which they should be made: of two that wait, the earlier one first.
    copies: Sequence[Copy]
    #: What the plan promises, until the last task has ended and what is owed is where it should be.
    makespan_ns: float
    #: No plan can be shorter.
    bound_ns: float
    origin: Origin


class _Played(NamedTuple):
    """A plan, and what came of it."""

    origin: Origin
    plan: Pass
    played: Played


def place(
    problem: Problem, effort: Effort | None = None, breathe: Breathe = no_breath, tables: Tables | None = None
) -> Placement:
    """Place the tasks of a problem, which is as `Problem.verify` wants it.

    `effort` is by default what the size of the graph allows; `tables` are those of the problem, for who has them.
    Calls `breathe` every 64 tasks, and in a few plain loops and sorts every few hundred.
    """
    tables = tables or tables_of(problem, breathe)
    if effort is None:
        effort = effort_for(len(tables), problem.fleet)
    first = heft(tables, breathe)
    bound_ns = lower_bound_ns(tables, breathe)
    choose = _by_replay if problem.fleet.contended else _by_promise
    best = choose(tables, first, effort, CLOSE * bound_ns, breathe)
    if any(effort):
        best = _or_whole(tables, best, breathe)
    return _placement(tables, best, bound_ns)


def _by_replay(tables: Tables, first: Pass, effort: Effort, enough_ns: float, breathe: Breathe) -> _Played:
    """The plan that is carried out soonest, each with its own order of copies, HEFT's as they come."""
    best = _Played(Origin.HEFT, first, replay(tables, first, planned=False, breathe=breathe))
    if best.played.makespan_ns > enough_ns:
        for origin, plan in _others(tables, first, effort, enough_ns, breathe):
            best = min(best, _Played(origin, plan, replay(tables, plan, breathe=breathe)), key=_length)
    return best


def _by_promise(tables: Tables, first: Pass, effort: Effort, enough_ns: float, breathe: Breathe) -> _Played:
    """The plan that promises most: where copies do not wait, promises are kept."""
    best = Origin.HEFT, first
    if first.makespan_ns > enough_ns:
        others = _others(tables, first, effort, enough_ns, breathe)
        best = min([best, *others], key=lambda one: one[1].makespan_ns)
    return _Played(*best, replay(tables, best[1], breathe=breathe))


def _or_whole(tables: Tables, best: _Played, breathe: Breathe) -> _Played:
    """The plan, or everything on one device if that is carried out sooner."""
    plan = best_whole(tables, best.played.makespan_ns, breathe)
    if plan is None:
        return best
    return min(best, _Played(Origin.WHOLE, plan, replay(tables, plan, breathe=breathe)), key=_length)


def _others(
    tables: Tables, first: Pass, effort: Effort, enough_ns: float, breathe: Breathe
) -> Iterator[tuple[Origin, Pass]]:
    """Plans beside HEFT's."""
    short = shortened(tables, breathe) if effort.folds else None
    folded = None if short is None else short.unfolded(place(short.problem, breathe=breathe))
    if folded is not None:
        yield Origin.FOLDED, folded if tables.problem.fleet.contended else _timed(tables, folded, breathe)
        return
    ways = TwoWay(tables, breathe)
    for plan in ways.with_ports(effort):
        yield Origin.PORTS, plan
    if effort.starts:
        plan = ways.best(first, effort, enough_ns)
        if effort.searched and plan.makespan_ns > enough_ns:
            plan = search(tables, plan, effort.searched * len(tables), breathe)
        yield Origin.TWO_WAY, plan


def _timed(tables: Tables, plan: Pass, breathe: Breathe) -> Pass:
    """The plan with the times that it comes to."""
    played = replay(tables, plan, breathe=breathe)
    return Pass(played.makespan_ns, plan.devices, plan.lanes, played.starts_ns, played.ends_ns, [])


def _length(one: _Played) -> float:
    return one.played.makespan_ns


def _placement(tables: Tables, best: _Played, bound_ns: float) -> Placement:
    plan, played = best.plan, best.played
    return Placement(
        devices=plan.devices,
        lanes=plan.lanes,
        starts_ns=played.starts_ns,
        ends_ns=played.ends_ns,
        order=lane_orders(tables, plan),
        copies=played.copies,
        makespan_ns=played.makespan_ns,
        bound_ns=bound_ns,
        origin=best.origin,
    )
