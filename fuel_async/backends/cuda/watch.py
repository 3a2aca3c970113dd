"""The watch: gives a device up that has worked on one submission for too long.

A thread that waits for an event sleeps in the driver, without end where a kernel has none. So another one looks from
time to time, while there is work, and settles what will never be heard of.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fuel_async.errors import DeviceLost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.line import Line

#: Looks within a deadline, and the longest time between two.
LOOKS, LONGEST_S = 8, 1.0


class Watch:
    """The watch over the lines of one device. Any thread. Its own starts with the first work."""

    __slots__ = ("__weakref__", "_bell", "_lines", "_lock", "_name", "_over", "_shift", "_thread")

    def __init__(self, context: Context) -> None:
        self._name = context.name
        self._lines: list[weakref.ref[Line]] = []
        self._bell, self._over, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._shift = _Shift(weakref.ref(context), self._lines, self._bell, self._over, context.options.deadline_s)
        self._thread: threading.Thread | None = None
        weakref.finalize(self, _end, self._over, self._bell).atexit = False

    def add(self, line: Line) -> None:
        """Look after a line, too."""
        self._lines.append(weakref.ref(line))

    def remove(self, line: Line) -> None:
        """Look after a line no longer; with the last one the thread ends."""
        with self._lock, contextlib.suppress(ValueError):
            self._lines.remove(weakref.ref(line))
        if not _alive(self._lines):
            _end(self._over, self._bell)

    def wake(self) -> None:
        """There is work."""
        if not self._bell.is_set():
            self._bell.set()
            if self._thread is None:
                self._start()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._shift.serve, name=f"fuel_async {self._name} watch", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads: nothing is given up, then
                    return
                self._thread = thread


class _Shift:
    """The thread's side. It holds neither the device nor its lines."""

    __slots__ = ("_bell", "_context", "_deadline_ns", "_lines", "_over", "_period_s")

    def __init__(
        self,
        context: weakref.ref[Context],
        lines: list[weakref.ref[Line]],
        bell: threading.Event,
        over: threading.Event,
        deadline_s: float,
    ) -> None:
        self._context, self._lines, self._bell, self._over = context, lines, bell, over
        self._deadline_ns, self._period_s = int(deadline_s * 1e9), min(deadline_s / LOOKS, LONGEST_S)

    def serve(self) -> None:
        while True:
            self._bell.wait()
            while not self._over.wait(self._period_s) and self._look():
                pass
            if self._over.is_set():
                return
            self._bell.clear()
            if self._is_busy():  # it came before the bell was free to be rung
                self._bell.set()

    def _is_busy(self) -> bool:
        return any(line.pending_count for line in _alive(self._lines))

    def _look(self) -> bool:
        """Whether there is work to look after."""
        now_ns = perf_counter_ns()
        for line in _alive(self._lines):
            worked_ns = line.worked_ns(now_ns)
            if worked_ns > self._deadline_ns:
                self._give_up(f"{line.name} has worked on one submission for {worked_ns / 1e9:.1f} s")
        return self._is_busy()

    def _give_up(self, reason: str) -> None:
        context = self._context()
        if context is None:
            return
        context.lose(DeviceLost(context.name, reason))
        error = context.lost
        assert error is not None  # it was lost before, or just now
        for line in _alive(self._lines):
            line.give_up(error)


def _alive(lines: Sequence[weakref.ref[Line]]) -> list[Line]:
    return [line for known in list(lines) if (line := known()) is not None]


def _end(over: threading.Event, bell: threading.Event) -> None:
    over.set()
    bell.set()
