"""Streams: what a device works through in order, and what is bound to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context


class Stream:
    """One stream of a device, never the default one. Used by one thread at a time."""

    __slots__ = ("_blas", "context", "ptr", "raw")

    def __init__(self, context: Context) -> None:
        """Make it. `DeviceError` when the driver refuses."""
        self.context = context
        try:
            with context.here():
                self.raw: Any = context.own(context.cuda.Stream(non_blocking=True))
        except Exception as error:
            raise context.failed(error, "cudaStreamCreate") from None
        self.ptr: int = self.raw.ptr
        self._blas: Any = None

    @property
    def blas(self) -> Any:
        """Its cuBLAS handle, made when it is first asked for. Within `Context.here`; raises what cuBLAS raises."""
        if self._blas is None:
            from fuel_async.backends.cuda.kernels.matmul import handle_on

            self._blas = self.context.own(handle_on(self.context.driver.cupy, self.ptr))
        return self._blas
