"""Streams: what a device works through in order, and what is bound to one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.blas import Handle
from fuel_async.backends.cuda.statuses import error_of

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context


class Stream:
    """One stream of a device, never the default one. Used by one thread at a time, but for `blas`."""

    __slots__ = ("_blas", "_lock", "context", "ptr", "raw")

    def __init__(self, context: Context) -> None:
        """Make it. `DeviceError` when the driver refuses."""
        self.context = context
        try:
            with context.here():
                self.raw: Any = context.own(context.cuda.Stream(non_blocking=True))
        except Exception as error:
            raise error_of(context.name, "cudaStreamCreate", error) from None
        self.ptr: int = self.raw.ptr
        self._blas: Handle | None = None
        self._lock = threading.Lock()

    @property
    def blas(self) -> int:
        """Its cuBLAS handle, made when it is first asked for, which may take a tenth of a second. Any thread.

        Within `Context.here`; raises what cuBLAS raises.
        """
        if self._blas is None:
            with self._lock:
                if self._blas is None:
                    self._blas = self.context.own(Handle(self.context.driver.blas, self.ptr))
        return self._blas.number

    def finish(self) -> None:
        """Block until all that is on it is done. Within `Context.here`; `DeviceError`."""
        context = self.context
        try:
            event = context.events.take()
            event.record(self.raw)
        except Exception as error:
            raise context.noted(context.unheard(error, "cudaEventRecord")) from None
        context.wait(event)
        context.events.give(event)
