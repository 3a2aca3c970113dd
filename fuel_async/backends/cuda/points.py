"""Points: the completions of what is on a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.streams import HostSignal

if TYPE_CHECKING:
    from fuel_async.streams import WaitStatus


class Point:
    """The end of one piece of work. Any thread."""

    __slots__ = ("_over", "event", "owner")

    def __init__(self, owner: object) -> None:
        """`owner` is known to all points of one line, which are reached in the order in which work was submitted."""
        self.owner = owner
        #: What other streams wait for: there while the work is on its stream.
        self.event: Any = None
        self._over = HostSignal()

    def set(self) -> None:
        """Let every waiter go: whatever there was to wait for is over."""
        self.event = None
        self._over.set()

    def wait(self, timeout_s: float | None) -> WaitStatus:
        """Block until it is reached; TIMEOUT when the time is over. Never LOST: a loss settles what is under way."""
        return self._over.wait(timeout_s)
