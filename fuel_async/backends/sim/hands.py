"""The thread of a lane in scaled time, which computes while simulated time passes, and completions of both clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.streams import HostSignal

if TYPE_CHECKING:
    from queue import SimpleQueue

    from fuel_async.backends.sim.clock import SimClock
    from fuel_async.backends.sim.job import Job
    from fuel_async.streams import WaitStatus


class Signal(HostSignal):
    """The completion of a job. Waiting for it in virtual time lets time pass."""

    __slots__ = ("_clock",)

    def __init__(self, clock: SimClock, owner: object) -> None:
        super().__init__(owner)
        self._clock = clock

    def wait(self, timeout_s: float | None) -> WaitStatus:
        """Block until the job has settled; never LOST: jobs of a lost device settle with an error."""
        return self._clock.wait(lambda: self._reached, super().wait, timeout_s)


def work(jobs: SimpleQueue[Job | None]) -> None:
    """Compute one job after the other until there is None."""
    while (job := jobs.get()) is not None:
        job.track.compute(job)
        del job  # an idle lane keeps nothing alive
