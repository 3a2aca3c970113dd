"""How late an event loop is, asked by a timer of the kernel.

`asyncio.sleep` cannot tell: its timers are rounded to milliseconds on their way to the poll. A timerfd becomes readable
on the nanosecond, whatever the loop thinks of it. A tick that the loop slept through counts with its own lateness, so a
stall of 10 ms is ten late ticks, not one. Linux only.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
import time
from array import array
from pathlib import Path

from benchmarks.timing import quantile

PERIOD_NS = 1_000_000

_CLOCK_MONOTONIC, _ABSTIME = 1, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Ticks:
    """A tick each millisecond from `start` to `stop`, and how late the running loop noticed each of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.late_ns = array("q")
        #: The latest tick, without the time in which this thread was ready and the machine gave it no core.
        self.worst_own_ns = 0
        self._wait = _CoreWait()

    def start(self) -> Ticks:
        """Begin to tick, on the running loop."""
        self._fd = _timerfd()
        self._next_ns = time.monotonic_ns() + PERIOD_NS
        _arm(self._fd, self._next_ns)
        self._waited_ns = self._wait.read_ns()
        self._loop.add_reader(self._fd, self._tick)
        return self

    def stop(self) -> Ticks:
        """End; ticks that are due by now and were not noticed count, too."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._count(time.monotonic_ns())
        self._wait.close()
        return self

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        os.read(self._fd, 8)
        self._count(now_ns)

    def _count(self, now_ns: int) -> None:
        waited_ns = self._wait.read_ns()
        self.worst_own_ns = max(self.worst_own_ns, now_ns - self._next_ns - (waited_ns - self._waited_ns))
        self._waited_ns = waited_ns
        while self._next_ns <= now_ns:
            self.late_ns.append(now_ns - self._next_ns)
            self._next_ns += PERIOD_NS

    def late_ms(self, share: float) -> float:
        """The lateness that a `share` of the ticks do not exceed."""
        return quantile(self.late_ns, share) / 1e6

    @property
    def worst_ms(self) -> float:
        return max(self.late_ns) / 1e6


async def idle_ticks(duration_s: float) -> Ticks:
    """Tick while this task does nothing."""
    ticks = Ticks().start()
    try:
        await asyncio.sleep(duration_s)
    finally:
        ticks.stop()
    return ticks


class _CoreWait:
    """How long this thread has been waiting for a core since it exists: the scheduler's own account, 0 without one."""

    def __init__(self) -> None:
        self._file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._fd = os.open(self._file, os.O_RDONLY) if self._file.exists() else -1

    def read_ns(self) -> int:
        return int(os.pread(self._fd, 96, 0).split()[1]) if self._fd >= 0 else 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _timerfd() -> int:
    if not sys.platform.startswith("linux"):
        raise SystemExit("the lateness of a loop is measured with a timerfd, which only Linux has")
    fd = _LIBC.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    return int(fd)


def _arm(fd: int, first_ns: int) -> None:
    spec = _Itimerspec(_Timespec(0, PERIOD_NS), _Timespec(*divmod(first_ns, 10**9)))
    if _LIBC.timerfd_settime(fd, _ABSTIME, ctypes.byref(spec), None):
        raise OSError(ctypes.get_errno(), "timerfd_settime")


_LIBC = ctypes.CDLL(None, use_errno=True)
