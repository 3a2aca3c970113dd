"""In-flight work by device: how many submissions have not settled, and how long they are predicted to take.

A hint for choosing devices, never a gate: counts are of the whole process, all executors together. Whoever
submits counts up once, and settling counts down once; a count never goes below zero, so a stray decrement
does no harm.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_async.ir import DeviceLocation


class InflightCounters:
    """Saturating counters by device. Usable from any thread; the lock is held for one addition only."""

    __slots__ = ("_counts", "_lock", "_pending_ns")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[DeviceLocation, int] = {}
        self._pending_ns: dict[DeviceLocation, int] = {}

    def inc(self, location: DeviceLocation) -> None:
        """Count one more submission."""
        with self._lock:
            self._counts[location] = self._counts.get(location, 0) + 1

    def dec(self, location: DeviceLocation) -> None:
        """Count one submission less; nothing happens at zero or on a device never counted."""
        with self._lock:
            count = self._counts.get(location, 0)
            if count:
                self._counts[location] = count - 1

    def count(self, location: DeviceLocation) -> int:
        """Return the submissions that have not settled; 0 for a device never counted."""
        return self._counts.get(location, 0)

    def pending_ns_add(self, location: DeviceLocation, delta_ns: int) -> None:
        """Add predicted nanoseconds of queued work, or take them off when negative; never below zero."""
        with self._lock:
            self._pending_ns[location] = max(self._pending_ns.get(location, 0) + delta_ns, 0)

    def pending_ns(self, location: DeviceLocation) -> int:
        """Return the predicted nanoseconds of work that has not settled; 0 for a device never counted."""
        return self._pending_ns.get(location, 0)


_INFLIGHT = InflightCounters()


def inflight_inc(location: DeviceLocation) -> None:
    """Count one more unsettled submission on a device of this process. Any thread."""
    _INFLIGHT.inc(location)


def inflight_dec(location: DeviceLocation) -> None:
    """Count one unsettled submission less; saturates at zero. Any thread."""
    _INFLIGHT.dec(location)


def inflight_count(location: DeviceLocation) -> int:
    """Return the unsettled submissions on a device, all executors together. Any thread."""
    return _INFLIGHT.count(location)


def pending_ns_add(location: DeviceLocation, delta_ns: int) -> None:
    """Add (or take off) predicted nanoseconds of unsettled work on a device, down to zero. Any thread."""
    _INFLIGHT.pending_ns_add(location, delta_ns)


def pending_ns(location: DeviceLocation) -> int:
    """Return the predicted nanoseconds of unsettled work on a device. Any thread."""
    return _INFLIGHT.pending_ns(location)
