"""Devices that come and go while runs are under way, and runs that no device can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DeviceLost, OutOfMemory, TransferFailed
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.spread_state import SpreadState
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.events import DeviceAdded, DeviceGone
    from fuel_async.schedule.instructions import Instruction
    from fuel_async.schedule.spread import SpreadScheduler


class Devices:
    """The part of a `SpreadScheduler` that answers for its devices."""

    def __init__(self, scheduler: SpreadScheduler) -> None:
        self._scheduler = scheduler

    def added(self, event: DeviceAdded) -> Sequence[Instruction]:
        """One more device takes regions from now on."""
        self._scheduler.machine.add(event.device, event.lanes)
        return ()

    def gone(self, event: DeviceGone) -> Sequence[Instruction]:
        """Stop the runs that cannot go on without a device; the others never go there again."""
        scheduler, machine = self._scheduler, self._scheduler.machine
        device = machine.devices[event.device]
        if device.gone is not None:
            return ()
        device.gone = event.error
        for lane in device.lanes:
            machine.lanes[lane].free = False
        told: list[Instruction] = []
        memory = device.shape.memory
        for state in list(scheduler.runs.values()):
            if not isinstance(state, SpreadState) or state.phase is not Phase.RUNNING:
                continue
            pinned = any(
                pin == event.device and region not in state.finished for region, pin in enumerate(state.spread.pins)
            )
            stranded = memory != HOST and state.needed_at(memory)
            if pinned or stranded:
                told += scheduler.stop_run(state, event.error)
            elif memory != HOST:
                state.left_behind(memory)
        return told

    def stuck(self, waiting: Sequence[SpreadState]) -> Sequence[Instruction]:
        """Stop the first of the waiting runs when nothing in flight could ever make room for it."""
        scheduler, machine = self._scheduler, self._scheduler.machine
        if any(load.held for load in machine.lanes):
            return ()
        if any(isinstance(state, SpreadState) and not state.quiet for state in scheduler.runs.values()):
            return ()
        for state in waiting:
            if state.candidates and state.phase is Phase.RUNNING:
                return scheduler.stop_run(state, self._reason(state))
        return ()

    def _reason(self, state: SpreadState) -> BaseException:
        machine, spread = self._scheduler.machine, state.spread
        pin = spread.pins[state.candidates[0]]
        allowed = [device for number, device in enumerate(machine.devices) if pin is None or pin == number]
        there = [device for device in allowed if device.gone is None]
        if not there:
            gone = [device.gone for device in allowed if device.gone is not None]
            names = ", ".join(device.shape.name for device in allowed)
            return gone[0] if len(gone) == 1 else DeviceLost(names or "every device", "none is left to run on")
        lacking = [device for device in there if not self._fits(state, device.shape.memory)]
        if len(lacking) == len(there):
            roomiest = max(there, key=lambda device: device.shape.budget_nbytes)
            held_nbytes = machine.memories[roomiest.shape.memory].held_nbytes
            return OutOfMemory(
                roomiest.shape.name,
                spread.share_nbytes,
                roomiest.shape.budget_nbytes,
                f", of which runs under way hold {held_nbytes:,}" if held_nbytes else " in all",
            )
        return TransferFailed("where its inputs lie", ", ".join(one.shape.name for one in there), "there is no way")

    def _fits(self, state: SpreadState, memory: int) -> bool:
        return memory in state.memories or self._scheduler.machine.memories[memory].fits(state.spread.share_nbytes)
