"""Streams: the runtime's functions for them and for captures, and `cupy.cuda.Stream`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from fuel_async.testing.cuda_double import events, statuses
from fuel_async.testing.cuda_double.capture import RELAXED
from fuel_async.testing.cuda_double.devices import getDevice
from fuel_async.testing.cuda_double.events import Event
from fuel_async.testing.cuda_double.graphs import Graph, keep_graph
from fuel_async.testing.cuda_double.machine import LEGACY, PER_THREAD, installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from typing import Self

    from fuel_async.testing.cuda_double.machine import Machine

NON_BLOCKING = 1


def streamCreateWithPriority(flags: int, priority: int) -> int:
    """Make a stream on the current device and return its number."""
    machine = installed()
    gpu = machine.enter("streamCreateWithPriority", place="stream")
    handle = machine.number()
    machine.streams[handle] = machine.new_stream(gpu, handle, flags, priority)
    return handle


def streamCreateWithFlags(flags: int) -> int:
    """Make a stream on the current device and return its number."""
    return streamCreateWithPriority(flags, 0)


def streamDestroy(stream: int) -> None:
    """Give a stream back; what it was given is done first, behind the caller's back."""
    _give_back(installed(), stream)


def _give_back(machine: Machine, stream: int) -> None:
    work = machine.take_out(machine.streams, stream)
    machine.captures.drop(work)
    work.close(drops=False)


def streamSynchronize(stream: int) -> None:
    """Wait until a stream has done what it was given, without the interpreter's lock."""
    machine = installed()
    work = machine.stream(stream)
    gpu = machine.enter("streamSynchronize", work.gpu, place="sync")
    machine.captures.refuse_on(work)
    machine.captures.refuse_unsafe()
    work.tail().wait()
    machine.demand_healthy(gpu)


def streamQuery(stream: int) -> int:
    """Return 0 when all is done, 600 when not, or what ended the device."""
    machine = installed()
    try:
        work = machine.stream(stream)
        machine.enter("streamQuery", work.gpu)
        machine.captures.refuse_on(work)
        machine.captures.refuse_unsafe()
    except CUDARuntimeError as error:
        return error.status
    return statuses.NOT_READY if work.pending() else statuses.SUCCESS


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    """Let a stream wait for the place where an event is recorded now.

    Within a capture the event must be of that capture, and a stream outside that waits for one joins it.
    """
    machine = installed()
    work, waited = machine.stream(stream), machine.event(event)
    machine.enter("streamWaitEvent", work.gpu)
    if work.capture is not None or waited.captured is not None:
        _wait_in_capture(work, waited)
    elif (mark := waited.mark) is not None and mark.stream is not work and not mark.is_reached():
        work.submit(Operation("wait", mark.wait))


def _wait_in_capture(work: Any, waited: Any) -> None:
    if waited.captured is None:
        work.capture.is_valid = False
        raise CUDARuntimeError(statuses.CAPTURE_ISOLATION)
    capture, after = waited.captured
    if capture.is_over:
        raise CUDARuntimeError(statuses.CAPTURED_EVENT)
    capture.demand_valid()
    if work.capture is None:
        capture.join(work, after)
    elif work.capture is capture:
        work.frontier |= after
    else:
        work.capture.is_valid = capture.is_valid = False
        raise CUDARuntimeError(statuses.CAPTURE_MERGE)


def streamGetFlags(stream: int) -> int:
    """Return the flags it was made with."""
    return installed().stream(stream).flags


def streamGetPriority(stream: int) -> int:
    """Return the priority it was made with."""
    return installed().stream(stream).priority


def streamBeginCapture(stream: int, mode: int = RELAXED) -> None:
    """Let what is given to a stream become nodes of a graph."""
    machine = installed()
    work = machine.stream(stream)
    machine.enter("streamBeginCapture", work.gpu, place="capture")
    machine.captures.begin(work, mode)


def streamEndCapture(stream: int) -> int:
    """End a capture and return the number of its graph."""
    machine = installed()
    work = machine.stream(stream)
    gpu = machine.enter("streamEndCapture", work.gpu)
    return keep_graph(gpu, machine.captures.end(work))


def streamIsCapturing(stream: int) -> bool:
    """Whether a stream captures. `CUDARuntimeError` when its capture is spoiled."""
    work = installed().stream(stream)
    if work.capture is None:
        return False
    work.capture.demand_valid()
    return True


class _BaseStream:
    """What streams of any origin have."""

    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr, self.device_id = ptr, device_id

    def __eq__(self, other: object) -> bool:
        return self.ptr == other.ptr if isinstance(other, _BaseStream) else False

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def __enter__(self) -> Self:
        here = installed().here
        device = self._matched_device()
        here.streams_before.append((device, here.streams.get(device)))
        here.streams[device] = self
        return self

    def __exit__(self, *_: object) -> None:
        here = installed().here
        device, before = here.streams_before.pop()
        if before is None:
            here.streams.pop(device, None)
        else:
            here.streams[device] = before

    def use(self) -> Self:
        """Make it the calling thread's current stream of its device."""
        installed().here.streams[self._matched_device()] = self
        return self

    def _matched_device(self) -> int:
        current = getDevice()
        if self.device_id not in (-1, current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id})"
                f" does not match with the current device ({current})"
            )
        return current

    @property
    def done(self) -> bool:
        """Whether all its work is done; false for ever after an error."""
        return streamQuery(self.ptr) == statuses.SUCCESS

    @property
    def is_non_blocking(self) -> bool:
        """Whether it takes no notice of the legacy stream."""
        return bool(streamGetFlags(self.ptr) & NON_BLOCKING)

    @property
    def priority(self) -> int:
        """The lower, the more urgent."""
        return streamGetPriority(self.ptr)

    def synchronize(self) -> None:
        """Wait until it has done what it was given."""
        streamSynchronize(self.ptr)

    def record(self, event: Event | None = None) -> Event:
        """Record an event, or a new one, behind what it was given."""
        event = Event() if event is None else event
        events.eventRecord(event.ptr, self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        """Let what it is given later wait for an event."""
        streamWaitEvent(self.ptr, event.ptr)

    def begin_capture(self, mode: int | None = None) -> None:
        """Let what it is given become nodes of a graph; without `mode` the relaxed one."""
        if self.ptr in LEGACY:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        streamBeginCapture(self.ptr, RELAXED if mode is None else mode)

    def end_capture(self) -> Graph:
        """End the capture and return its graph."""
        return Graph._of(streamEndCapture(self.ptr))

    def is_capturing(self) -> bool:
        """Whether it captures."""
        return streamIsCapturing(self.ptr)


class Stream(_BaseStream):
    """`cupy.cuda.Stream`: a stream that is given back with this object."""

    null: ClassVar[Stream]
    ptds: ClassVar[Stream]

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self.ptr, self._machine = 0, None
        if null or ptds:
            super().__init__(0 if null else PER_THREAD, -1)
            return
        machine = installed()
        ptr = streamCreateWithPriority(NON_BLOCKING if non_blocking else 0, priority or 0)
        super().__init__(ptr, machine.here.device)
        self._machine = machine

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:
        # By a default: at the end of the process the names of the module are gone.
        if self._machine is not None and not is_finalizing() and self.ptr in self._machine.streams:
            _give_back(self._machine, self.ptr)

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        """Wrap what has `__cuda_stream__`."""
        _, ptr = obj.__cuda_stream__()
        stream = cls.__new__(cls)
        _BaseStream.__init__(stream, ptr, getDevice())
        stream._machine = None
        return stream


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


def get_current_stream(device_id: int = -1) -> Stream:
    """Return the calling thread's current stream of a device, by default of its current one."""
    machine = installed()
    machine.demand_driver()
    current: Stream = machine.here.streams.get(machine.here.device if device_id == -1 else device_id, Stream.null)
    return current
