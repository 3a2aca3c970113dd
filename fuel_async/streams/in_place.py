"""A lane that does its work at once, in the thread that submits: where no other thread may do anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.streams.completion import REACHED, CompletionHandle, Timing
from fuel_async.streams.errors import without_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir import DeviceLocation
    from fuel_async.streams.clock import Clock
    from fuel_async.streams.host import HostCall
    from fuel_async.streams.lane import StopFlag


class InPlaceLane:
    """Runs what it is given inside `submit`. For virtual time, in which off-loop work takes none."""

    def __init__(self, name: str, location: DeviceLocation, clock: Clock) -> None:
        self.name, self.location, self._clock = name, location, clock
        self.pending_count = self.pending_ns = self.busy_ns = 0

    def submit(
        self,
        instance: HostCall,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        *,
        stop: StopFlag | None = None,
    ) -> CompletionHandle:
        """Run `instance` to its end and return its settled handle."""
        started_ns, error = self._clock.now_ns(), None
        try:
            instance.execute(feeds, outputs, sessions, scalars, stop, None)
        except Exception as caught:
            error = without_frames(caught)
        now_ns = self._clock.now_ns()
        handle = CompletionHandle(REACHED, self.location, self.name, started_ns)
        timing = Timing(self.location, self.name, started_ns, started_ns, now_ns, now_ns - started_ns)
        handle.settle(timing, error)
        return handle

    def close(self) -> None:
        """It holds nothing."""

    def join(self, timeout_s: float | None = None) -> None:
        """It has no thread."""
