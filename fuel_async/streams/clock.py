"""Clocks: what the time of a device is read from."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Protocol


class Clock(Protocol):
    """A source of time that only grows. Any thread."""

    @property
    def is_virtual(self) -> bool:
        """Whether time passes only when somebody waits: then nothing may happen in other threads meanwhile."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment."""


class HostClock:
    """The time of the machine at hand: `time.perf_counter_ns`."""

    __slots__ = ()
    is_virtual = False
    now_ns = staticmethod(perf_counter_ns)


#: What real devices are timed by.
HOST_CLOCK = HostClock()
