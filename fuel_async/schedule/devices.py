"""Devices that come and go while runs are under way, and runs that no device can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DeviceLost, OutOfMemory, TransferFailed
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.events import DeviceAdded, DeviceGone, TopologyChanged
    from fuel_async.schedule.instructions import Instruction
    from fuel_async.schedule.machine import DeviceLoad
    from fuel_async.schedule.spread import SpreadScheduler
    from fuel_async.schedule.spread_state import SpreadState


class Devices:
    """The part of a `SpreadScheduler` that answers for its devices."""

    def __init__(self, scheduler: SpreadScheduler) -> None:
        self._scheduler, self._machine = scheduler, scheduler.machine

    def added(self, event: DeviceAdded) -> Sequence[Instruction]:
        """One more device takes regions from now on."""
        self._machine.add(event.device, event.lanes)
        self._scheduler.look_again = True
        return ()

    def gone(self, event: DeviceGone) -> Sequence[Instruction]:
        """Stop the runs that cannot go on without a device; the others never go there again."""
        scheduler, machine = self._scheduler, self._machine
        device = machine.devices[event.device]
        if device.gone is not None:
            return ()
        machine.lose(event.device, event.error)
        scheduler.look_again = True
        memory = device.shape.memory
        told: list[Instruction] = scheduler.alone.gone(event.device, event.error)
        for state in list(scheduler.runs.values()):
            if state.phase is not Phase.RUNNING:
                continue
            in_flight_there = any(machine.device_of[lane] == event.device for lane in state.in_flight.values())
            if in_flight_there or (memory != HOST and state.needed_at(memory)):
                told += scheduler.stop_run(state, event.error)
            elif (error := self.hopeless(state)) is not None:
                told += scheduler.stop_run(state, error)
            else:
                if memory != HOST:
                    state.left_behind(memory)
                told += scheduler.sweep_run(state)
        return told

    def outdated(self, event: TopologyChanged) -> Sequence[Instruction]:
        """Have the runs planned anew of which nothing was issued."""
        scheduler = self._scheduler
        waiting = [state for state in scheduler.waiting() if not state.issued]
        return [told for state in waiting for told in scheduler.replan_run(state)]

    def hopeless(self, state: SpreadState) -> BaseException | None:
        """Why some region of a run has no device that is there and large enough; None when all have one."""
        pins, devices = state.spread.pins, self._machine.devices
        left = {pin for region, pin in enumerate(pins) if region not in state.finished} if state.finished else set(pins)
        for pin in left:
            error = self._no_place(state, devices if pin is None else [devices[pin]])
            if error is not None:
                return error
        return None

    def no_way(self, state: SpreadState, region: int) -> BaseException:
        """Why no device can be sent what a region reads."""
        devices, pin = self._machine.devices, state.spread.pins[region]
        allowed = devices if pin is None else [devices[pin]]
        names = ", ".join(device.shape.name for device in allowed if device.gone is None)
        return TransferFailed("its inputs", names, "there is no way")

    def no_room(self, state: SpreadState) -> BaseException:
        """Why nobody can go on: the runs under way wait for memory that others of them hold."""
        there = [device for device in self._machine.devices if device.gone is None]
        roomiest = max(there, key=lambda device: device.shape.budget_nbytes)
        held_nbytes = self._machine.memories[roomiest.shape.memory].held_nbytes
        return OutOfMemory(
            roomiest.shape.name,
            state.spread.share_nbytes,
            roomiest.shape.budget_nbytes,
            f", of which runs that wait for one another hold {held_nbytes:,}",
        )

    def _no_place(self, state: SpreadState, allowed: Sequence[DeviceLoad]) -> BaseException | None:
        there = [device for device in allowed if device.gone is None]
        if not there:
            gone = [device.gone for device in allowed if device.gone is not None]
            names = ", ".join(device.shape.name for device in allowed)
            why = "; ".join(dict.fromkeys(str(error) for error in gone))
            return gone[0] if len(gone) == 1 else DeviceLost(names or "every device", f"none is left to run on: {why}")
        nbytes = state.spread.share_nbytes
        if any(self._machine.memories[device.shape.memory].budget_nbytes >= nbytes for device in there):
            return None
        roomiest = max(there, key=lambda device: device.shape.budget_nbytes)
        return OutOfMemory(roomiest.shape.name, nbytes, roomiest.shape.budget_nbytes, " in all")
