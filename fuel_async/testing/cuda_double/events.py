"""Events: the runtime's functions for them, and `cupy.cuda.Event`."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.current import current_stream_ptr
from fuel_async.testing.cuda_double.machine import EventState, installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from fuel_async.testing.cuda_double.machine import Machine

BLOCKING_SYNC = 1
DISABLE_TIMING = 2
INTERPROCESS = 4


def eventCreateWithFlags(flags: int) -> int:
    """Make an event of the current device and return its number."""
    machine = installed()
    gpu = machine.enter("eventCreateWithFlags", place="event")
    handle = machine.number()
    machine.events[handle] = EventState(gpu, is_timed=not flags & DISABLE_TIMING)
    return handle


def eventDestroy(event: int) -> None:
    """Give an event back. Who waits for it still waits for where it was recorded."""
    machine = installed()
    machine.take_out(machine.events, event)


def eventRecord(event: int, stream: int) -> None:
    """Record an event behind what a stream was given. Both must be of one device."""
    machine = installed()
    state, work = machine.event(event), machine.stream(stream)
    if state.gpu is not work.gpu:
        raise CUDARuntimeError(statuses.INVALID_HANDLE)
    machine.enter("eventRecord", state.gpu, place="event")
    state.times_s = times_s = []
    state.captured, state.mark = None, None
    if work.capture is not None:
        work.capture.demand_valid()
        state.captured = (work.capture, work.frontier)
    elif state.is_timed:
        state.mark = work.submit(Operation("time", lambda: times_s.append(perf_counter())))
    else:
        state.mark = work.tail()


def _refuse_captured(machine: Machine, state: EventState) -> None:
    """Spoil the capture that an event belongs to. `CUDARuntimeError` if it belongs to one."""
    if state.captured is not None:
        state.captured[0].is_valid = False
        raise CUDARuntimeError(statuses.CAPTURED_EVENT)
    machine.captures.refuse_unsafe()


def eventSynchronize(event: int) -> None:
    """Wait until the place of an event is reached, without the interpreter's lock."""
    machine = installed()
    state = machine.event(event)
    gpu = machine.enter("eventSynchronize", state.gpu, place="sync")
    _refuse_captured(machine, state)
    if (mark := state.mark) is not None:
        mark.wait()
    machine.demand_driver()
    machine.demand_healthy(gpu)


def eventQuery(event: int) -> int:
    """Return 0 when the place of an event is reached, 600 when not, or what ended the device."""
    machine = installed()
    try:
        state = machine.event(event)
        machine.enter("eventQuery", state.gpu)
        _refuse_captured(machine, state)
    except CUDARuntimeError as error:
        return error.status
    return statuses.SUCCESS if state.mark is None or state.mark.is_reached() else statuses.NOT_READY


def eventElapsedTime(start: int, end: int) -> float:
    """Return the milliseconds between two events that were both recorded, with timing, and reached."""
    machine = installed()
    states = machine.event(start), machine.event(end)
    for state in states:
        machine.enter("eventElapsedTime", state.gpu)
        if not state.is_timed or state.mark is None:
            raise CUDARuntimeError(statuses.INVALID_HANDLE)
        if not state.mark.is_reached():
            raise CUDARuntimeError(statuses.NOT_READY)
    return (states[1].times_s[0] - states[0].times_s[0]) * 1e3


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Return the milliseconds between two events."""
    return eventElapsedTime(start_event.ptr, end_event.ptr)


class Event:
    """`cupy.cuda.Event`: an event that is given back with this object."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.ptr, self._machine = 0, None
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        machine = installed()
        flags = block * BLOCKING_SYNC | disable_timing * DISABLE_TIMING | interprocess * INTERPROCESS
        self.ptr = eventCreateWithFlags(flags)
        self._machine = machine

    def __del__(self) -> None:
        if self._machine is not None:
            self._machine.events.pop(self.ptr, None)

    @property
    def done(self) -> bool:
        """Whether its place is reached; false for ever after an error."""
        return eventQuery(self.ptr) == statuses.SUCCESS

    def record(self, stream: Any = None) -> None:
        """Record it behind what a stream was given, by default the current one."""
        eventRecord(self.ptr, current_stream_ptr() if stream is None else stream.ptr)

    def synchronize(self) -> None:
        """Wait until its place is reached."""
        eventSynchronize(self.ptr)
