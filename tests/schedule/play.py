"""Runs played on lanes and links that take the time they truly take: how good placement is, without any device.

Lanes and links are first in, first out. Time is a number, so a play of thousands of regions takes milliseconds.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule import (
    Bind,
    Bound,
    Copy,
    CopyFinished,
    Deliver,
    DeviceGone,
    Event,
    Launch,
    Policy,
    RegionFinished,
    Resweep,
    Reswept,
    RunAdmitted,
    RunShape,
    SpreadScheduler,
    Stop,
    answer,
    earliest_finish,
)

if TYPE_CHECKING:
    from fuel_async.schedule import Instruction
    from tests.schedule.spread_support import DeviceParts, Mesh

#: What sweeping a region again takes.
SWEPT_NS = 10_000

#: The speed of a device at a time.
Speed: TypeAlias = Callable[[int], float]


class Learned:
    """Prices that are told one speed for all and learn: the mean of the last 8 times, the first dropped."""

    def __init__(self, told_ns: Sequence[int]) -> None:
        self.told_ns = told_ns
        self._met: set[tuple[int, int]] = set()
        self._last: dict[tuple[int, int], deque[int]] = {}

    def region_ns(self, region: int, device: int) -> int:
        last = self._last.get((region, device))
        return sum(last) // len(last) if last else self.told_ns[region]

    def upload_ns(self, region: int, device: int) -> int:
        return 0

    def took(self, region: int, device: int, took_ns: int) -> None:
        if (region, device) in self._met:
            self._last.setdefault((region, device), deque(maxlen=8)).append(took_ns)
        self._met.add((region, device))


class Play:
    """A machine whose devices have the given true speeds; `work_ns` is what a region takes at speed 1."""

    def __init__(
        self,
        devices: Sequence[DeviceParts],
        speeds: Sequence[float | Speed],
        links: Mesh,
        policy: Policy = earliest_finish,
        *,
        tells: bool = False,
    ) -> None:
        """`tells` has the scheduler know how long regions took: then it learns of devices."""
        self.tells = tells
        self.scheduler = SpreadScheduler(devices, links, policy)
        self.speeds = [speed if callable(speed) else _always(speed) for speed in speeds]
        self.now_ns = self.events = 0
        self.work_ns: dict[int, Sequence[int]] = {}
        self.shapes: dict[int, RunShape] = {}
        self.placed: dict[tuple[int, int], int] = {}
        self.done_ns: dict[int, int] = {}
        self.copies = self.sweeps = 0
        self._to_come: list[tuple[int, int, Event]] = []
        self._order = count()
        self._lane_free_ns: dict[int, int] = {}
        self._link_free_ns: dict[tuple[int, int], int] = {}
        self._arrived_ns: dict[tuple[int, int, int], int] = {}
        self._took: dict[tuple[int, int], tuple[int, int]] = {}

    def admit(self, run: int, shape: RunShape, work_ns: Sequence[int] | None = None) -> None:
        """`work_ns` is what its regions take at speed 1, where that is not what is predicted."""
        self.shapes[run], self.work_ns[run] = shape, work_ns or shape.predicted_ns
        self._tell(RunAdmitted(run, shape))

    def lose(self, device: int, at_ns: int) -> None:
        """A device is gone from then on."""
        self._later(at_ns, DeviceGone(device, RuntimeError("gone")))

    def to_the_end(self) -> int:
        """Let everything happen; return when the last run was delivered."""
        while self._to_come:
            self.now_ns, _, event = heapq.heappop(self._to_come)
            if isinstance(event, RegionFinished):
                self._learn(event)
            self._tell(event)
        assert not self.scheduler.runs
        return max(self.done_ns.values())

    def on(self, device: int) -> int:
        """How many regions a device was given."""
        return sum(there == device for there in self.placed.values())

    def _tell(self, event: Event) -> None:
        self.events += 1
        for one in self.scheduler.handle(event, self.now_ns):
            self._perform(one)

    def _perform(self, one: Instruction) -> None:
        match one:
            case Bind(run, device):
                self._later(self.now_ns, Bound(run, device))
            case Copy(run, value, source, memory):
                spread = self.shapes[run].spread
                assert spread is not None
                hops = self.scheduler.links.route(source, memory, spread.nbytes[value])
                assert hops is not None
                since_ns = self._arrived_ns.get((run, value, source), 0)
                starts_ns = max(self.now_ns, since_ns, self._link_free_ns.get((source, memory), 0))
                ends_ns = starts_ns + hops[0].copy_ns
                self._link_free_ns[source, memory] = self._arrived_ns[run, value, memory] = ends_ns
                self.copies += 1
                self._later(ends_ns, CopyFinished(run, value, memory))
            case Launch(run, region, lane):
                self._launch(run, region, lane)
            case Resweep(run, question):
                self.sweeps += 1
                self._later(self.now_ns + SWEPT_NS * len(question.progress.left), Reswept(run, answer(question)))
            case Deliver(run):
                self.done_ns[run] = self.now_ns
            case Stop(_, error):
                raise AssertionError(error)

    def _launch(self, run: int, region: int, lane: int) -> None:
        spread, machine = self.shapes[run].spread, self.scheduler.machine
        assert spread is not None
        device, memory = machine.device_of[lane], machine.memory_of(lane)
        arrivals = [self._arrived_ns.get((run, value, memory), 0) for value in spread.reads[region]]
        starts_ns = max(self.now_ns, self._lane_free_ns.get(lane, 0), *arrivals)
        took_ns = self._took_ns(self.work_ns[run][region], self.speeds[device], starts_ns)
        self._lane_free_ns[lane] = starts_ns + took_ns
        self.placed[run, region] = device
        self._took[run, region] = device, took_ns
        self._later(starts_ns + took_ns, RegionFinished(run, region, took_ns if self.tells else 0))

    @staticmethod
    def _took_ns(work_ns: int, speed: Speed, starts_ns: int) -> int:
        """The time of some work under a speed that may change while it is done, in a hundred steps."""
        at_ns, step = float(starts_ns), work_ns / 100
        for _ in range(100):
            at_ns += step / speed(int(at_ns))
        return round(at_ns - starts_ns)

    def _learn(self, event: RegionFinished) -> None:
        spread = self.shapes[event.run].spread
        assert spread is not None
        if isinstance(spread.prices, Learned):
            spread.prices.took(event.region, *self._took[event.run, event.region])

    def _later(self, at_ns: int, event: Event) -> None:
        heapq.heappush(self._to_come, (at_ns, next(self._order), event))


def _always(speed: float) -> Speed:
    return lambda _: speed
