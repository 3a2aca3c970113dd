"""Gates: how a queue waits for what it cannot see itself, a host thread or another device.

A submission behind a gate is on the queue at once; whoever settles the last thing that it waits for raises the queue's
gate timeline, without a hop through any loop. Every gate is raised in the end, whatever became of what it waits for:
then the work runs, and its results are discarded.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from fuel_async.backends.vulkan.timeline import Timeline
from fuel_async.streams import when_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.streams import CompletionHandle


class Gate:
    """One number of the gate timeline."""

    __slots__ = ("is_open", "value")

    def __init__(self, value: int) -> None:
        self.value, self.is_open = value, False


class Gates:
    """The gates of one queue. A timeline only rises, so a gate opens when all before it are open, too. Any thread."""

    def __init__(self, context: Context) -> None:
        self.timeline = Timeline(context)
        self._lock = threading.Lock()
        self._shut: deque[Gate] = deque()
        self._last = 0

    def make(self) -> Gate:
        """A gate for a submission that comes next; call `watch` when that is on the queue."""
        with self._lock:
            self._last += 1
            gate = Gate(self._last)
            self._shut.append(gate)
        return gate

    def watch(self, gate: Gate, waits: Sequence[CompletionHandle], then: Callable[[], None]) -> None:
        """Open the gate when all of `waits` have settled, and call `then` just before that."""

        def free() -> None:
            then()
            self.open(gate)

        when_all(waits, free)

    def open(self, gate: Gate) -> None:
        """Open it, and raise the timeline as far as all gates are open."""
        with self._lock:
            gate.is_open = True
            reached = 0
            while self._shut and self._shut[0].is_open:
                reached = self._shut.popleft().value
            if reached:
                self.timeline.signal(reached)  # of what goes wrong here the lane's thread hears, too

    def open_all(self) -> None:
        """Open every gate: the device is lost, and nobody waits for its results."""
        with self._lock:
            if self._shut:
                reached = self._shut[-1].value
                self._shut.clear()
                self.timeline.signal(reached)
