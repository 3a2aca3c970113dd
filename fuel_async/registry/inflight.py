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


class Inflight:
    """The in-flight work of one device. Usable from any thread; the lock is held for two additions."""

    __slots__ = ("_lock", "count", "pending_ns")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Submissions that have not settled, and the nanoseconds that they are predicted to take.
        self.count = 0
        self.pending_ns = 0

    def begin(self, predicted_ns: int = 0) -> None:
        """Count one more submission."""
        with self._lock:
            self.count += 1
            self.pending_ns += predicted_ns

    def end(self, predicted_ns: int = 0) -> None:
        """Count one submission less; nothing goes below zero."""
        with self._lock:
            if self.count:
                self.count -= 1
            self.pending_ns = max(self.pending_ns - predicted_ns, 0)

    def pending_ns_add(self, delta_ns: int) -> None:
        """Add predicted nanoseconds alone, or take them off when negative."""
        with self._lock:
            self.pending_ns = max(self.pending_ns + delta_ns, 0)


class InflightCounters:
    """Saturating counters by device. Usable from any thread."""

    __slots__ = ("_by_location",)

    def __init__(self) -> None:
        self._by_location: dict[DeviceLocation, Inflight] = {}

    def of(self, location: DeviceLocation) -> Inflight:
        """Return the counter of a device, for who counts often: always the same object."""
        found = self._by_location.get(location)
        return found if found is not None else self._by_location.setdefault(location, Inflight())

    def inc(self, location: DeviceLocation) -> None:
        """Count one more submission."""
        self.of(location).begin()

    def dec(self, location: DeviceLocation) -> None:
        """Count one submission less; nothing happens at zero or on a device never counted."""
        found = self._by_location.get(location)
        if found is not None:
            found.end()

    def count(self, location: DeviceLocation) -> int:
        """Return the submissions that have not settled; 0 for a device never counted."""
        found = self._by_location.get(location)
        return 0 if found is None else found.count

    def pending_ns_add(self, location: DeviceLocation, delta_ns: int) -> None:
        """Add predicted nanoseconds of queued work, or take them off when negative; never below zero."""
        self.of(location).pending_ns_add(delta_ns)

    def pending_ns(self, location: DeviceLocation) -> int:
        """Return the predicted nanoseconds of work that has not settled; 0 for a device never counted."""
        found = self._by_location.get(location)
        return 0 if found is None else found.pending_ns


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


def inflight_of(location: DeviceLocation) -> Inflight:
    """Return the counter of a device of this process: what lanes count with. Any thread."""
    return _INFLIGHT.of(location)
