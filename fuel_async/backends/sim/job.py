"""A submission to a simulated lane: its work, its times, and its handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.sim.hands import Signal
from fuel_async.errors import KernelFailed, Stopped
from fuel_async.streams import CompletionHandle, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.sim.lane import Track
    from fuel_async.backends.sim.timer import Event
    from fuel_async.streams import StopFlag


class Job:
    """A submission. It holds its lane: a lane lives as long as it has work."""

    __slots__ = (
        "call", "computing", "elapsed", "end_ns", "error", "event", "handle", "nbytes", "parts", "predicted_ns",
        "ready_ns", "retired", "signal", "spent_ns", "started_ns", "stop", "track", "true_ns", "turn",
        "waiting", "waits", "work_ns",
    )  # fmt: skip

    def __init__(
        self,
        track: Track,
        call: Callable[[], object],
        true_ns: float,
        predicted_ns: int,
        waits: Sequence[CompletionHandle],
        stop: StopFlag | None,
        nbytes: int = 0,
    ) -> None:
        self.track, self.call, self.true_ns, self.predicted_ns = track, call, true_ns, predicted_ns
        self.waits, self.stop, self.nbytes = tuple(waits), stop, nbytes
        now_ns = track.core.clock.now_ns()
        self.signal = Signal(track.core.clock, track.order)
        self.handle = CompletionHandle(
            self.signal, track.location, track.name, now_ns, predicted_ns=predicted_ns, inflight=track.inflight
        )
        self.waiting = 0
        self.ready_ns = self.started_ns = now_ns
        self.end_ns: int | None = None
        self.work_ns = 0.0
        self.event: Event | None = None
        #: Counts re-timings: an end that was planned before means nothing.
        self.turn = 0
        #: Of time and arithmetic, how many are still to end.
        self.parts = 0
        #: Simulated time that the arithmetic alone would take.
        self.spent_ns = 0
        self.elapsed = self.computing = self.retired = False
        self.error: BaseException | None = None

    def refusal(self) -> BaseException | None:
        """Why it must not start, now that its turn has come."""
        if self.stop is not None and self.stop.stopped:
            return Stopped()
        for wait in self.waits:
            error = wait.exception()
            if error is not None:
                return error
        return self.error

    def compute(self) -> BaseException | None:
        """Do the work; the error of it, without frames."""
        try:
            with np.errstate(all="ignore"):
                self.call()
        except KernelFailed as failed:  # the instance is the host's and says so
            named = KernelFailed(failed.node, str(self.track.location), failed.cause, failed.node_id)
            named.__cause__ = failed.__cause__
            return without_frames(named)
        except BaseException as caught:  # a lane outlives whatever a kernel raises
            return without_frames(caught)
        return None
