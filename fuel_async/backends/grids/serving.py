"""A queue of a driver's with the thread that hears of the ends of its work."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fuel_async.errors import DeviceLost, ExecutorClosed, InternalError
from fuel_async.registry import Inflight, inflight_of
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.losing import Losable
    from fuel_async.ir import DeviceLocation
    from fuel_async.streams import CompletionHandle

J = TypeVar("J")


class Served(ABC, Generic[J]):
    """The part of a lane that is the same whatever the driver. Any thread.

    Its thread starts with the first work and ends with `close` after what there is, or when nobody has the lane: what
    the thread does must not hold it.
    """

    context: Losable

    def __init__(self, context: Losable, location: DeviceLocation, name: str, *, counted: bool = True) -> None:
        """Work that is not `counted` is none of the device's."""
        self.context, self.location, self.name = context, location, name
        self.inflight: Inflight | None = inflight_of(location) if counted else None
        #: Known to the completions of this lane's own work.
        self.order = object()
        self._lock = threading.Lock()
        #: What the thread is to see through; None ends it.
        self._jobs: SimpleQueue[J | None] = SimpleQueue()
        self._pending_ns = self._busy_ns = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def pending_ns(self) -> int:
        """Predicted time of the submissions that have not settled."""
        return self._pending_ns

    @property
    def busy_ns(self) -> int:
        """Time the device has worked for this lane since it was made."""
        return self._busy_ns

    @property
    def is_running(self) -> bool:
        """Whether its thread has begun and not ended."""
        return self._thread is not None and self._thread.is_alive()

    def submit_copy(self, src: Any, dst: Any, waits: Sequence[CompletionHandle] = ()) -> CompletionHandle:
        """Nothing is copied within a device: values cross regions where they lie."""
        raise InternalError(f"{self.name} runs programs; copies go over the lanes of `copy_lane`")

    def close(self) -> None:
        """Refuse further work; the thread ends after what is there. Idempotent, never blocks."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._end_if_idle()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    # --- what a backend says ----------------------------------------------------------------------

    @abstractmethod
    def _server(self) -> Callable[[], None]:
        """What the thread does, until `_jobs` gives None. It does not hold the lane."""

    @abstractmethod
    def _end_if_idle(self) -> None:
        """Let the thread end when the lane is closed and has nothing left."""

    # --- for a backend ----------------------------------------------------------------------------

    def _refusal(self, *, is_accepted: bool = False) -> BaseException | None:
        """Why nothing can be submitted; None when something can: then the thread runs. Under the lock.

        What `is_accepted` was taken before the lane closed.
        """
        if self.context.lost is not None:
            return fresh(self.context.lost)
        if self._closed and not is_accepted:
            return ExecutorClosed()
        if self._thread is None:
            thread = threading.Thread(target=self._server(), name=f"fuel_async {self.name}", daemon=True)
            weakref.finalize(self, self._jobs.put, None).atexit = False
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                return DeviceLost(f"{self.name} of {self.location}", str(error))
            self._thread = thread
        return None
