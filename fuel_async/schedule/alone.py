"""Runs of one region on the only device there is: nothing is decided about them, so little is noted.

Such a run takes its slot and its share of memory with its beginning and holds both until everything of it has settled,
its copies included. Those are noted on no link: with one device nothing depends on when they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.errors import InvariantBroken
from fuel_async.schedule.events import AloneEnded, CancelRequested, CopyFailed, RegionFailed
from fuel_async.schedule.instructions import Deliver, Instruction, Release, Stop
from fuel_async.schedule.machine import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.events import Event
    from fuel_async.schedule.machine import DeviceLoad, Machine
    from fuel_async.schedule.shape import RunShape


@dataclass(slots=True)
class AloneRun:
    """All that is known of one: where it is, and what it holds there."""

    device: int
    lane: int
    predicted_ns: int
    share_nbytes: int
    #: Whether it failed or was cancelled: then it only waits for what is under way.
    stopped: bool = False


class Alone:
    """The runs that went the short way. Pure: the part of a `SpreadScheduler` that answers for them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.runs: dict[int, AloneRun] = {}
        #: How many there were so far.
        self.begun = 0

    def begin(self, run: int, shape: RunShape, now_ns: int) -> int | None:
        """Give a run of one region to the lane that would be free first; None when there is something to decide.

        That is so unless there is one device, which is there and has a memory of its own, a kernel for everything and
        room, and that lane has a slot.
        """
        machine, spread = self._machine, shape.spread
        if len(shape) != 1 or spread is None or len(machine.devices) != 1:
            return None
        device, predicted_ns = machine.devices[0], spread.prices.region_ns(0, 0)
        memory, nbytes = machine.memories[device.shape.memory], spread.share_nbytes
        if device.gone is not None or device.shape.memory == HOST or predicted_ns is None or not memory.fits(nbytes):
            return None
        lane = self._lane(device, shape.fine[0], now_ns)
        if lane is None:
            return None
        machine.lanes[lane].add((run, 0), now_ns, predicted_ns, now_ns)
        memory.held_nbytes += nbytes
        device.given += 1
        self.begun += 1
        self.runs[run] = AloneRun(0, lane, predicted_ns, nbytes)
        return lane

    def end(self, run: int, now_ns: int) -> bool:
        """Note that everything of a run has settled; whether it is to be delivered, or else was stopped."""
        known = self.runs.pop(run)
        self._machine.lanes[known.lane].drop((run, 0), now_ns)
        self._machine.memories[self._machine.memory_of(known.lane)].held_nbytes -= known.share_nbytes
        return not known.stopped

    def hear(self, event: Event, now_ns: int) -> Sequence[Instruction]:
        """Take a fact about such a run into account."""
        match event:
            case AloneEnded(run):
                return (Deliver(run), Release(run)) if self.end(run, now_ns) else (Release(run),)
            case RegionFailed(run, _, error) | CopyFailed(run, _, _, error):
                return self._stop(run, error)
            case CancelRequested(run):
                return self._stop(run, None)
            case _:
                raise InvariantBroken("of a run on the short way one hears failures and the end", str(event))

    def ended_before(self, event: AloneEnded) -> Sequence[Instruction]:
        """Hear of the end of a run that is none of these."""
        raise InvariantBroken("a run on the short way ends once", f"run {event.run}")

    def gone(self, device: int, error: BaseException) -> list[Instruction]:
        """Stop the runs on a device that is lost."""
        return [told for run, known in self.runs.items() if known.device == device for told in self._stop(run, error)]

    def _stop(self, run: int, error: BaseException | None) -> Sequence[Instruction]:
        known = self.runs[run]
        if known.stopped:
            return ()
        known.stopped = True
        return (Stop(run, error),)

    def _lane(self, device: DeviceLoad, fine: bool, now_ns: int) -> int | None:
        """The lane that would be free first, of equals the first; None when it has no slot."""
        lanes, loads = device.fine_lanes if fine else device.lanes, self._machine.lanes
        if not lanes:
            return None
        lane = lanes[0] if len(lanes) == 1 else min(lanes, key=lambda one: loads[one].free_ns(now_ns))
        return lane if loads[lane].free else None
