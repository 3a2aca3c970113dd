"""One run on idle devices, as predicted: what the scheduler would decide, and when each region would be done.

The scheduler is the real one; only the effects are played, each taking exactly the predicted time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from fuel_async.errors import InternalError
from fuel_async.ir import Breathe, no_breath
from fuel_async.schedule.events import Bound, CopyFinished, DeviceGone, Event, RegionFinished, Reswept, RunAdmitted
from fuel_async.schedule.instructions import Bind, Copy, Instruction, Launch, Resweep, Stop
from fuel_async.schedule.look import Routes
from fuel_async.schedule.rolling import answer
from fuel_async.schedule.spread import SpreadScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.schedule.machine import DeviceShape, Links, Port, Prices
    from fuel_async.schedule.offers import Decision, Policy
    from fuel_async.schedule.shape import LaneShape, RunShape, SpreadShape


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would happen. Times are ns after admission."""

    decisions: Mapping[int, Decision]
    started_ns: Mapping[int, int]
    finished_ns: Mapping[int, int]
    #: (value, source, memory, arrival), in order of arrival.
    copies: Sequence[tuple[int, int, int, int]]
    makespan_ns: int
    #: Why the run would be stopped; None when it would be delivered.
    error: BaseException | None = None


def dry_run(
    devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
    links: Links,
    policy: Policy,
    shape: RunShape,
    gone: Mapping[int, BaseException] | None = None,
    breathe: Breathe = no_breath,
    took_ns: Callable[[int, int], int] | None = None,
) -> DryRun:
    """Play one run of `shape` from admission to its end. Pure, if the policy is; O(regions × devices).

    `gone` are devices, by number, that do nothing any more, and why. `took_ns(region, device)` is what a region really
    takes, where that is not what is predicted.
    """
    if shape.spread is None:
        raise InternalError("the plan was made for one device")
    return _Play(devices, links, policy, shape, shape.spread, took_ns, breathe).run(gone or {})


class _Told:
    """Prices as they are when they are first asked for."""

    __slots__ = ("_prices", "_regions_ns", "_uploads_ns")

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._regions_ns: dict[tuple[int, int], int | None] = {}
        self._uploads_ns: dict[tuple[int, int], int] = {}

    def region_ns(self, region: int, device: int) -> int | None:
        """See `Prices`."""
        pair = region, device
        if pair not in self._regions_ns:
            self._regions_ns[pair] = self._prices.region_ns(region, device)
        return self._regions_ns[pair]

    def upload_ns(self, region: int, device: int) -> int:
        """See `Prices`."""
        pair = region, device
        if pair not in self._uploads_ns:
            self._uploads_ns[pair] = self._prices.upload_ns(region, device)
        return self._uploads_ns[pair]


class _Play:
    """The lanes and links of the play, and what is to come."""

    def __init__(
        self,
        devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
        links: Links,
        policy: Policy,
        shape: RunShape,
        spread: SpreadShape,
        took_ns: Callable[[int, int], int] | None,
        breathe: Breathe,
    ) -> None:
        self.breathe = breathe
        self.links, self.prices = Routes(links), _Told(spread.prices)  # nothing is learned while it is played
        self.scheduler = SpreadScheduler(devices, self.links, policy)
        self.shape = replace(shape, spread=replace(spread, prices=self.prices))
        self.took_ns = took_ns or self.prices.region_ns
        self.lane_free_ns = [0] * len(self.scheduler.loads)
        self.port_free_ns: dict[Port, int] = {}
        self.arrived_ns: dict[tuple[int, int], int] = {}
        self.to_come: list[tuple[int, int, Event]] = []
        self.order = count()
        self.decisions: dict[int, Decision] = {}
        self.started_ns: dict[int, int] = {}
        self.finished_ns: dict[int, int] = {}
        self.copies: list[tuple[int, int, int, int]] = []
        self.error: BaseException | None = None

    def run(self, gone: Mapping[int, BaseException]) -> DryRun:
        now_ns = 0
        for device, error in gone.items():
            self._tell(DeviceGone(device, error), 0)
        self._tell(RunAdmitted(0, self.shape), 0)
        while self.to_come:
            now_ns, _, event = heapq.heappop(self.to_come)
            self._tell(event, now_ns)
            self.breathe()
        return DryRun(self.decisions, self.started_ns, self.finished_ns, self.copies, now_ns, self.error)

    def _tell(self, event: Event, now_ns: int) -> None:
        told = self.scheduler.handle(event, now_ns)
        for decision in self.scheduler.decisions:
            self.decisions.setdefault(decision.region, decision)
        for instruction in told:
            self._play(instruction, now_ns)

    def _play(self, instruction: Instruction, now_ns: int) -> None:
        match instruction:
            case Bind():
                self._later(now_ns, Bound(0, instruction.device))
            case Copy():
                self._copy(instruction, now_ns)
            case Launch():
                self._launch(instruction, now_ns)
            case Resweep():
                self._later(now_ns, Reswept(0, answer(instruction.question, self.breathe)))
            case Stop():
                self.error = instruction.error
            case _:
                pass  # the end of the run

    def _copy(self, copy: Copy, now_ns: int) -> None:
        assert self.shape.spread is not None
        hops = self.links.route(copy.source, copy.memory, self.shape.spread.nbytes[copy.value]) or ()
        ports = [port for hop in hops for port in hop.ports]
        since_ns = self.arrived_ns.get((copy.value, copy.source), 0)
        since_ns = max([now_ns, since_ns, *[self.port_free_ns.get(port, 0) for port in ports]])
        arrival_ns = self.arrived_ns[copy.value, copy.memory] = since_ns + sum([hop.copy_ns for hop in hops])
        self.port_free_ns.update(dict.fromkeys(ports, arrival_ns))
        self.copies.append((copy.value, copy.source, copy.memory, arrival_ns))
        self._later(arrival_ns, CopyFinished(0, copy.value, copy.memory))

    def _launch(self, launch: Launch, now_ns: int) -> None:
        assert self.shape.spread is not None
        region, lane = launch.region, launch.lane
        device, memory = self.scheduler.machine.device_of[lane], self.scheduler.machine.memory_of(lane)
        arrivals = [self.arrived_ns.get((value, memory), 0) for value in self.shape.spread.reads[region]]
        ready_ns = max([now_ns + self.prices.upload_ns(region, device), self.lane_free_ns[lane], *arrivals])
        self.started_ns[region] = ready_ns
        took_ns = self.took_ns(region, device)
        assert took_ns is not None  # it was offered
        self.finished_ns[region] = self.lane_free_ns[lane] = ready_ns + took_ns
        self._later(self.finished_ns[region], RegionFinished(0, region, took_ns))

    def _later(self, at_ns: int, event: Event) -> None:
        heapq.heappush(self.to_come, (at_ns, next(self.order), event))
