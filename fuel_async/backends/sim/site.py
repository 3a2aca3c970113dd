"""What the parts of a simulated machine share: one lock, one clock, and what befalls each device and each link."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING

from fuel_async.backends.losing import Losable
from fuel_async.backends.sim.memory import Deeds
from fuel_async.backends.sim.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from fuel_async.backends.sim.clock import SimClock
    from fuel_async.backends.sim.lane import Track
    from fuel_async.backends.sim.spec import Slowdowns


class Core:
    """The machine as its lanes see it."""

    __slots__ = ("blocked", "broken", "clock", "closed", "deeds", "idle", "lock", "pending_count")

    def __init__(self, clock: SimClock, idle: Callable[[], None], broken: Callable[[str], None]) -> None:
        self.clock = clock
        #: Guards every queue and every count of the machine. Nothing is settled while it is held.
        self.lock = threading.Lock()
        self.deeds = Deeds()
        #: Submissions to the whole machine that have not settled.
        self.pending_count = 0
        self.closed = False
        #: Called when the last submission to a closed machine has settled.
        self.idle = idle
        #: Called with the reason when a thread of the machine dies.
        self.broken = broken
        #: Links whose next copy waits for a port, in the order in which they came to it.
        self.blocked: deque[Track] = deque()


class Port:
    """One side of a memory that passes one copy at a time. Guarded by the machine's lock."""

    __slots__ = ("busy", "free_ns")

    def __init__(self) -> None:
        self.busy = False
        self.free_ns = 0


class Site(Losable):
    """A device or a link: how fast it is over time, and whether it is still there. Guarded by the machine's lock."""

    def __init__(self, core: Core, slowdowns: Slowdowns, jitter: float) -> None:
        super().__init__(core.lock)
        self.core = core
        self.timeline = Timeline(slowdowns)
        self.jitter = jitter
        #: What the next submissions will fail with.
        self.armed: deque[BaseException] = deque()

    def duration_ns(self, true_ns: float, random: Random) -> float:
        """Return how long work takes this time, at factor 1 of the timeline."""
        spread = self.jitter
        return true_ns * math.exp(random.gauss(-spread * spread / 2, spread)) if spread else true_ns
