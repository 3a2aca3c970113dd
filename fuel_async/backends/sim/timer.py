"""Events to come, and the thread that brings them about in real time."""

from __future__ import annotations

import heapq
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from fuel_async.errors import DeviceLost

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: What errors call the clock's thread.
CLOCK = "the simulated clock"


class Event:
    """Something that a clock will do. Ordered by moment, then by when it was asked for."""

    __slots__ = ("at_ns", "call", "number")

    def __init__(self, at_ns: int, number: int, call: Callable[[], None]) -> None:
        self.at_ns, self.number = at_ns, number
        self.call: Callable[[], None] | None = call

    def __lt__(self, other: Event) -> bool:
        return (self.at_ns, self.number) < (other.at_ns, other.number)

    def cancel(self) -> None:
        """Do nothing when the moment comes. Any thread, any number of times."""
        self.call = None


class Watcher(Protocol):
    """Who works by a clock, and must know when it stops for good."""

    def clock_died(self, reason: str) -> None:
        """Nothing that was asked of the clock will happen any more."""


class Timer:
    """A heap of events and at most one thread that waits for the first of them. Any thread."""

    __slots__ = ("_dead", "_events", "_origin_ns", "_scale", "_turn", "_wake")

    def __init__(self, origin_ns: int, scale: float) -> None:
        """Count simulated time from `origin_ns` of real time, `scale` nanoseconds to a real one."""
        self._origin_ns, self._scale = origin_ns, scale
        self._events: list[Event] = []
        self._wake = threading.Condition()  # over an RLock: a collector inside may call `stop`
        #: Known to the thread that serves; None while there should be none.
        self._turn: object | None = None
        self._dead: str | None = None

    def check(self) -> None:
        """Raise `DeviceLost` when the thread has died."""
        if self._dead is not None:
            raise DeviceLost(CLOCK, self._dead)

    def add(self, event: Event) -> None:
        """Let it happen. `DeviceLost` when the thread has died: it never would."""
        with self._wake:
            self.check()
            heapq.heappush(self._events, event)
            if self._events[0] is event:
                self._wake.notify_all()

    def start(self, watchers: Collection[Watcher]) -> threading.Thread:
        """Start the thread; `watchers` are told if it dies. `DeviceLost` when there are no more threads."""
        turn = self._turn = object()
        thread = threading.Thread(
            target=self._serve, args=(turn, watchers), name="fuel_async simulated clock", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise DeviceLost(CLOCK, str(error)) from error
        return thread

    def stop(self) -> None:
        """Let the thread end at its next look. Never blocks for long."""
        self._turn = None
        with self._wake:
            self._wake.notify_all()

    def _serve(self, turn: object, watchers: Collection[Watcher]) -> None:
        try:
            while self._turn is turn:
                call = self._next(turn)
                if call is not None:
                    call()
                del call  # an idle clock keeps nothing alive
        except BaseException as error:
            with self._wake:
                self._dead = f"its thread died of {type(error).__name__}: {error}"
                self._events.clear()
            for watcher in list(watchers):
                watcher.clock_died(self._dead)

    def _next(self, turn: object) -> Callable[[], None] | None:
        """Wait for what is due next; None when there is nothing more to do for now."""
        with self._wake:
            while self._turn is turn:
                events = self._events
                while events and events[0].call is None:
                    heapq.heappop(events)
                if not events:
                    self._wake.wait()
                    continue
                left_ns = self._origin_ns + events[0].at_ns / self._scale - perf_counter_ns()
                if left_ns <= 0:
                    return heapq.heappop(events).call
                self._wake.wait(min(left_ns / 1e9, threading.TIMEOUT_MAX))
        return None
