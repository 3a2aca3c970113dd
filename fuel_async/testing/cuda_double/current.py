"""The stream that a call without one goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.testing.cuda_double.machine import installed

if TYPE_CHECKING:
    from fuel_async.testing.cuda_double.work import StreamWork


def current_stream_ptr() -> int:
    """Return the number of the calling thread's current stream: 0, the legacy one, unless another was chosen."""
    machine = installed()
    machine.demand_driver()
    stream = machine.here.streams.get(machine.here.device)
    return 0 if stream is None else int(stream.ptr)


def current_stream() -> StreamWork:
    """Return that stream."""
    return installed().stream(current_stream_ptr())
