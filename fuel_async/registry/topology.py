"""The topology generation: one number a process that grows whenever the set of kernels or devices changes.

Plans and snapshots name the generation they were made for and are stale when it has moved on. It is bumped
after a change is visible, never before: whoever reads a generation sees everything that led to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeAlias

#: Called with the new generation, on the thread that bumped it. Of two bumps at once the later may report
#: first.
OnChange: TypeAlias = Callable[[int], None]

_log = logging.getLogger(__name__)


class GenerationCounter:
    """A number that only grows, and the callbacks told about it. Usable from any thread; never waits."""

    __slots__ = ("_callbacks", "_generation", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = 0
        self._callbacks: tuple[OnChange, ...] = ()

    def current(self) -> int:
        """Return the generation; it starts at 0."""
        return self._generation

    def bump(self) -> int:
        """Increment the generation, tell the callbacks, and return it.

        A callback that raises is dropped with a log record: it cannot fail the change it was told about.
        """
        with self._lock:
            self._generation += 1
            generation, callbacks = self._generation, self._callbacks
        for callback in callbacks:
            try:
                callback(generation)
            except Exception:
                _log.exception("dropped a topology callback that raised: %r", callback)
                self._remove(callback)
        return generation

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Call `callback` after every bump from now on; the function returned ends that (twice is fine)."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)
        return lambda: self._remove(callback)

    def _remove(self, callback: OnChange) -> None:
        with self._lock:
            self._callbacks = tuple(kept for kept in self._callbacks if kept is not callback)


_TOPOLOGY = GenerationCounter()


def topology_generation() -> int:
    """Return the process's topology generation. Any thread."""
    return _TOPOLOGY._generation  # the hottest of all reads: a call less


def bump_topology_generation() -> int:
    """Mark every plan and snapshot as stale, once a change is visible; return the new generation."""
    return _TOPOLOGY.bump()


def on_topology_change(callback: OnChange) -> Callable[[], None]:
    """Call `callback(generation)` after every bump, on the bumping thread; returns what ends that."""
    return _TOPOLOGY.on_change(callback)
