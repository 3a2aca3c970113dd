"""What a device tells of its queues: how much work is pending and how much it should hold.

A hint for choosing among devices, never a gate. Devices implement it by having the members; one that cannot measure
says None, which is never taken for "nothing pending" where the difference matters.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class BackendStreams(Protocol):
    """The queues of one device, seen from outside. Any thread; never blocks."""

    @property
    def slot_capacity(self) -> int:
        """Submissions the device should hold at a time."""

    def pending_work_count(self) -> int | None:
        """Submissions that have not settled, all executors of the process together; None if it cannot tell."""


def pending_work_count(handle: object) -> int | None:
    """Return what is pending on a device; None where it cannot tell, has no queues, or is no device at all."""
    return handle.pending_work_count() if isinstance(handle, BackendStreams) else None
