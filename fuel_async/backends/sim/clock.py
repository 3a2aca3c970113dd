"""The clocks of simulated machines: virtual time, which passes only when somebody advances it, and scaled real time.

Both begin at 0 and hold the events to come. A `VirtualClock` fires them in the thread that advances it: the event loop
of `testing.virtual_loop`, or whoever waits for a completion. A `ScaledClock` has a thread of its own that does.
"""

from __future__ import annotations

import heapq
import threading
import weakref
from collections.abc import Callable
from itertools import count
from time import perf_counter_ns
from typing import ClassVar, Protocol

from fuel_async.backends.sim.timer import Event, Timer, Watcher
from fuel_async.errors import UserError
from fuel_async.streams import WaitStatus

#: Blocks for at most so many seconds of real time and says how that ended.
Block = Callable[[float | None], WaitStatus]


class VirtualDeadlock(RuntimeError):
    """Somebody waits, and nothing is to come that could end it."""


class SimClock(Protocol):
    """What a simulated machine needs of its clock. Any thread."""

    #: Whether time passes only when somebody waits for it: then nothing may happen in other threads meanwhile.
    is_virtual: ClassVar[bool]
    #: Simulated nanoseconds to a real one; 0 where real time does not count.
    scale: float

    def now_ns(self) -> int:
        """Nanoseconds of simulated time since the clock was made."""

    def call_at(self, at_ns: int, call: Callable[[], None]) -> Event:
        """Call `call` at a moment, at once if that has passed; never inside this call."""

    def wait(self, reached: Callable[[], bool], block: Block, timeout_s: float | None) -> WaitStatus:
        """Block until `reached()`, which `block` waits for in real time."""

    def attach(self, watcher: Watcher) -> None:
        """Keep going for `watcher`, which is held weakly. `DeviceLost` when the clock is dead."""

    def detach(self, watcher: Watcher) -> None:
        """`watcher` needs it no more."""


class VirtualClock:
    """Time that stands still until it is advanced. Any thread may look and ask; one advances it."""

    is_virtual: ClassVar[bool] = True
    scale = 0.0

    def __init__(self) -> None:
        self._now_ns = 0
        self._events: list[Event] = []
        self._numbers = count()
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Nanoseconds of simulated time since the clock was made."""
        return self._now_ns

    def call_at(self, at_ns: int, call: Callable[[], None]) -> Event:
        """Call `call` when time comes to `at_ns`, or is advanced next if it has."""
        with self._lock:
            event = Event(max(at_ns, self._now_ns), next(self._numbers), call)
            heapq.heappush(self._events, event)
        return event

    def next_ns(self) -> int | None:
        """Return when the next event is due; None when there is none."""
        with self._lock:
            events = self._events
            while events and events[0].call is None:
                heapq.heappop(events)
            return events[0].at_ns if events else None

    def advance_to(self, at_ns: int) -> None:
        """Let time come to `at_ns`: everything due until then happens here, each at its own moment."""
        while (call := self._next_until(at_ns)) is not None:
            call()

    def wait(self, reached: Callable[[], bool], block: Block, timeout_s: float | None) -> WaitStatus:
        """Advance from event to event until `reached()`; `VirtualDeadlock` when nothing is to come.

        No real time passes, so `timeout_s` is never over.
        """
        while not reached():
            next_ns = self.next_ns()
            if next_ns is None:
                raise VirtualDeadlock(f"waiting at {self._now_ns:,} ns, and nothing is to come")
            self.advance_to(next_ns)
        return WaitStatus.REACHED

    def _next_until(self, at_ns: int) -> Callable[[], None] | None:
        """Let time come to the next event until `at_ns` and return its call; None when it has come to `at_ns`."""
        with self._lock:
            events = self._events
            while events and events[0].at_ns <= at_ns:
                event = heapq.heappop(events)
                if event.call is not None:
                    self._now_ns = event.at_ns
                    return event.call
            self._now_ns = max(self._now_ns, at_ns)
        return None

    def attach(self, watcher: Watcher) -> None:
        """It has no thread that could end."""

    def detach(self, watcher: Watcher) -> None:
        """It has no thread that could end."""

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now_ns:,} ns, {len(self._events)} to come>"


class ScaledClock:
    """Real time, `scale` simulated nanoseconds to a real one. Its thread runs while a machine is attached."""

    is_virtual: ClassVar[bool] = False

    def __init__(self, scale: float = 1.0) -> None:
        if not scale > 0:
            raise UserError(f"time cannot pass at {scale} times its pace; use a positive number")
        self.scale = scale
        self._origin_ns = perf_counter_ns()
        self._numbers = count()
        self._timer = Timer(self._origin_ns, scale)
        self._lock = threading.Lock()
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        # The thread knows the timer only: a clock that nobody refers to is collected, and the thread ends.
        weakref.finalize(self, self._timer.stop).atexit = False

    def now_ns(self) -> int:
        """Nanoseconds of simulated time since the clock was made."""
        return int((perf_counter_ns() - self._origin_ns) * self.scale)

    def call_at(self, at_ns: int, call: Callable[[], None]) -> Event:
        """Call `call` in the clock's thread when time comes to `at_ns`. `DeviceLost` when that thread has died."""
        event = Event(at_ns, next(self._numbers), call)
        self._timer.add(event)
        return event

    def wait(self, reached: Callable[[], bool], block: Block, timeout_s: float | None) -> WaitStatus:
        """Block until `reached()`, at most `timeout_s` of real time."""
        return block(timeout_s)

    def attach(self, watcher: Watcher) -> None:
        """Keep the thread going for `watcher`. `DeviceLost` when it has died or cannot be started."""
        with self._lock:
            if not self._watchers:
                self._thread = self._timer.start(self._watchers)
            self._timer.check()
            self._watchers.add(watcher)

    def detach(self, watcher: Watcher) -> None:
        """Let the thread end if `watcher` was the last. Never blocks."""
        with self._lock:
            self._watchers.discard(watcher)
            if not self._watchers:
                self._timer.stop()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`: after the last machine is closed."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def __repr__(self) -> str:
        return f"<ScaledClock at {self.now_ns():,} ns, {self.scale:g} times real time>"
