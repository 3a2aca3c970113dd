"""Copies between the host's memory and a device's: at once where they are small, else by a thread of their own."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.vulkan.memory import VulkanArray
from fuel_async.errors import InternalError, ShapeMismatch
from fuel_async.streams import CompletionHandle, HostLane, HostSignal, Timing, fresh, without_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.staging import StagingRing
    from fuel_async.ir import DeviceLocation

#: Copies of up to so many bytes are made by whoever submits them, or settles what they wait for: a hop to a thread and
#: back costs more.
AT_ONCE_NBYTES = 65_536

#: What a copy is said to take: a start, and so many bytes a nanosecond.
_START_NS, _BYTES_PER_NS = 1_000, 4


class CopyLane:
    """One direction between the host and a device. Any thread."""

    def __init__(
        self,
        context: Context,
        source: DeviceLocation,
        destination: DeviceLocation,
        ring: StagingRing | None,
    ) -> None:
        """`ring` is what copies go through; None where the host sees the device's memory."""
        self.location, self.name = context.location, f"{source} to {destination}"
        self._context, self._ring = context, ring
        self._thread = HostLane(self.name, context.location, counted=False)

    @property
    def pending_count(self) -> int:
        """Copies that have not settled and are not made at once."""
        return self._thread.pending_count

    @property
    def pending_ns(self) -> int:
        """Their predicted time."""
        return self._thread.pending_ns

    def submit(self, *_: Any, **__: Any) -> CompletionHandle:
        """No programs run on the way."""
        raise InternalError(f"the lane {self.name} copies and runs nothing; submit to a queue of the device")

    def submit_copy(self, src: Any, dst: Any, waits: Sequence[CompletionHandle] = ()) -> CompletionHandle:
        """See `Lane.submit_copy`: a numpy array at the host's end, a `VulkanArray` at the device's."""
        copy = _Copy(self._context, src, dst, self._ring)
        if self._ring is None and copy.nbytes <= AT_ONCE_NBYTES and not [wait for wait in waits if not wait.done()]:
            return self._at_once(copy, waits)
        return self._thread.submit(copy, waits=waits)

    def close(self) -> None:
        """Refuse large copies; the thread ends after what is queued."""
        self._thread.close()

    def join(self, timeout_s: float | None = None) -> None:
        """Block until the thread has ended, at most `timeout_s`."""
        self._thread.join(timeout_s)

    def _at_once(self, copy: _Copy, waits: Sequence[CompletionHandle]) -> CompletionHandle:
        started_ns = perf_counter_ns()
        error: BaseException | None = None
        try:
            for wait in waits:
                wait.result()
            copy.execute()
        except Exception as caught:
            error = without_frames(caught)
        now_ns = perf_counter_ns()
        timing = Timing(self.location, self.name, started_ns, started_ns, now_ns, now_ns - started_ns)
        signal = HostSignal()
        signal.set()
        handle = CompletionHandle(signal, self.location, self.name, started_ns)
        handle.settle(timing, error)
        return handle


class _Copy:
    """One copy, as a host lane runs it."""

    __slots__ = ("_context", "_dst", "_ring", "_src", "nbytes", "predicted_ns")
    measures = False

    def __init__(self, context: Context, src: Any, dst: Any, ring: StagingRing | None) -> None:
        self._context, self._src, self._dst, self._ring = context, src, dst, ring
        self.nbytes: int = src.nbytes
        self.predicted_ns = _START_NS + self.nbytes // _BYTES_PER_NS

    def execute(self, *_: Any) -> None:
        """Copy. `ShapeMismatch`, where numpy would broadcast; `DeviceError`."""
        src, dst, context = self._src, self._dst, self._context
        if src.shape != dst.shape:
            raise ShapeMismatch("copy", "the arrays differ in shape", [src.shape, dst.shape])
        if context.lost is not None:
            raise fresh(context.lost)
        if self._ring is not None:
            if isinstance(dst, VulkanArray):
                self._ring.upload(src, dst)
            else:
                self._ring.download(src, dst)
            return
        np.copyto(_seen(dst), _seen(src), casting="no")


def _seen(array: Any) -> Any:
    """An array as the host sees it."""
    return array.host if isinstance(array, VulkanArray) else array
