"""A stream as it really is: work in order, done by a thread of its own, which begins with the first work."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from fuel_async.testing.cuda_double.gpu import SHARED
from fuel_async.testing.cuda_double.statuses import LAUNCH_FAILURE, CUDARuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.testing.cuda_double.capture import Capture
    from fuel_async.testing.cuda_double.gpu import Gpu

THREAD_PREFIX = "cuda_double"
Engine = Literal["compute", "upload", "download", "none"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One piece of work. `duration_s` is what it takes at least, on the engine that it occupies."""

    name: Literal["launch", "copy", "fill", "wait", "time", "graph"]
    run: Callable[[], None]
    engine: Engine = "none"
    duration_s: float = 0.0


class Mark(NamedTuple):
    """A place in a stream: everything that was submitted until then."""

    stream: StreamWork
    place: int

    def is_reached(self) -> bool:
        """Whether the work before it is done."""
        return self.stream.finished >= self.place

    def wait(self) -> None:
        """Wait until it is, or the machine ends."""
        self.stream.wait(self.place)


class StreamWork:
    """A stream's queue and thread. Any thread may submit; the caller's never runs the work."""

    def __init__(self, gpu: Gpu, handle: int, number: int, flags: int, priority: int) -> None:
        self.gpu, self.handle, self.number, self.flags, self.priority = gpu, handle, number, flags, priority
        self.submitted = 0
        self.finished = 0
        #: The capture that what is submitted goes to, and which of its nodes the next one comes after.
        self.capture: Capture | None = None
        self.frontier: frozenset[int] = frozenset()
        self._changed = threading.Condition()
        #: Each with the moment when it was submitted.
        self._queue: deque[tuple[float, Operation]] = deque()
        #: When what came before ended, as far as time is made up.
        self._ready_s = 0.0
        self._is_closing = False
        self._is_dropped = False
        self._thread: threading.Thread | None = None

    def submit(self, operation: Operation) -> Mark:
        """Append work and return the place behind it."""
        with self._changed:
            self.submitted += 1
            if self._is_closing:
                self.finished = self.submitted
            else:
                self._queue.append((perf_counter(), operation))
                self._begin()
                self._changed.notify_all()
            return Mark(self, self.submitted)

    def tail(self) -> Mark:
        """Return the place behind all that was submitted."""
        with self._changed:
            return Mark(self, self.submitted)

    def pending(self) -> int:
        """How much work is not done."""
        with self._changed:
            return self.submitted - self.finished

    def wait(self, count: int) -> None:
        """Wait until `count` pieces of work are done, without the interpreter's lock."""
        with self._changed:
            self._changed.wait_for(lambda: self.finished >= count)

    def close(self, *, drops: bool) -> None:
        """End the thread after what was submitted, or at once if it `drops` it."""
        with self._changed:
            self._is_closing = True
            if drops:
                self._is_dropped = True
                self._queue.clear()
                self.finished = self.submitted
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it came."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self.is_running()

    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self._is_closing and not self.is_running()

    def is_running(self) -> bool:
        """Whether it has a thread now."""
        return self._thread is not None and self._thread.is_alive()

    @staticmethod
    def is_here() -> bool:
        """Whether the calling thread is that of a stream."""
        return threading.current_thread().name.startswith(THREAD_PREFIX)

    def _begin(self) -> None:
        if self._thread is None:
            name = f"{THREAD_PREFIX} gpu:{self.gpu.index} stream {self.number}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            self._perform(*taken)
            del taken
            with self._changed:
                self.finished = min(self.finished + 1, self.submitted)
                self._changed.notify_all()

    def _next(self) -> tuple[float, Operation] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            return self._queue.popleft() if self._queue else None

    def perform(self, operation: Operation) -> None:
        """Do it here and now, taking at least its time, from the end of what came before."""
        gpu = self.gpu
        gpu.strike(operation.name)
        start_s = gpu.book(operation.engine, self._ready_s, operation.duration_s)
        began_s = perf_counter()
        operation.run()
        if operation.name == "graph":
            return  # its nodes took their time
        if operation.name == "wait":
            self._ready_s = perf_counter()
            return
        took_s = perf_counter() - began_s
        if took_s > operation.duration_s:
            gpu.keep(operation.engine, start_s + took_s)
        latency_s = gpu.model.latency_s if operation.engine in SHARED else 0.0
        self._ready_s = start_s + max(took_s, operation.duration_s) + latency_s
        if (rest_s := self._ready_s - perf_counter()) > 0:
            gpu.rest(rest_s)

    def _perform(self, submitted_s: float, operation: Operation) -> None:
        """Do it if the device still works. What it raises ends the device."""
        gpu = self.gpu
        since_s = perf_counter() if gpu.pass_gate() else submitted_s
        self._ready_s = max(self._ready_s, since_s)
        if gpu.status or self._is_dropped:
            return
        try:
            self.perform(operation)
        except CUDARuntimeError as error:
            gpu.fail(error.status, error)
        except BaseException as error:  # whatever a kernel raises is a failed launch
            gpu.fail(LAUNCH_FAILURE, error)
