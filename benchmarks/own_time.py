"""The time that this thread and the package's own have worked: what a device costs its host."""

from __future__ import annotations

import threading
import time

from benchmarks.timing import now_ns


class OwnTime:
    """What they have worked since it was made. Threads that begin later are not seen."""

    def __init__(self) -> None:
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("fuel_async")]
        self._clocks = [time.pthread_getcpuclockid(thread.ident) for thread in ours if thread.ident is not None]
        self._began_ns, self._began_at_ns = self._read_ns(), now_ns()

    def _read_ns(self) -> int:
        return time.thread_time_ns() + sum(map(time.clock_gettime_ns, self._clocks))

    def us(self) -> float:
        """In microseconds."""
        return (self._read_ns() - self._began_ns) / 1e3

    def percent(self) -> float:
        """Of one core."""
        return 100 * (self._read_ns() - self._began_ns) / (now_ns() - self._began_at_ns)
