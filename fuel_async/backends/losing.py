"""Being lost: it happens once, for good, and whoever asked for it is told once.

A base of what knows the fate of a device. Whoever is told may submit or allocate, so nobody is told under the lock.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.errors import FuelError


class Losable:
    """Something that may be lost, as a device. Any thread."""

    def __init__(self, lock: threading.Lock | None = None) -> None:
        """`lock` guards `lost`, and whatever else its owner likes; one of its own unless it is given."""
        self.lock = lock or threading.Lock()
        #: Why it can do nothing any more; None while it can. Never changed again.
        self.lost: FuelError | None = None
        #: Who is to be told.
        self._told: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once when it is lost, at once if it is; the function returned ends that."""
        with self.lock:
            lost = self.lost is not None
            if not lost:
                self._told.append(call)
        if lost:
            call()

        def end() -> None:
            with self.lock:
                if call in self._told:
                    self._told.remove(call)

        return end

    def tell_while_alive(self, method: Callable[[], None]) -> None:
        """Call a method when it is lost, as `when_lost`, unless its object is gone by then; it is not kept for this."""
        me = weakref.WeakMethod(method)

        def call() -> None:
            found = me()
            if found is not None:
                found()

        self.when_lost(call)

    def to_tell(self) -> list[Callable[[], None]]:
        """Take out who is to be told, to be called without the lock, by whoever has set `lost`."""
        with self.lock:
            told, self._told = self._told, []
        return told
