"""Copies into and out of a device's memory: from the host, to it, and from other devices.

Small ones are put on the stream by whoever submits them. Large ones are made by the line's thread, a piece at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cuda.line import Line
from fuel_async.backends.cuda.memory import CudaArray
from fuel_async.backends.cuda.staging import DEVICE_TO_HOST, HOST_TO_DEVICE, POCKET_NBYTES, Pockets, Ring
from fuel_async.backends.cuda.work import Work
from fuel_async.errors import InternalError, ShapeMismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.peers import Peers
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.cuda.watch import Watch
    from fuel_async.streams import CompletionHandle

#: What a copy is said to take: a start, and so many bytes a nanosecond.
_START_NS, _BYTES_PER_NS = 10_000, 8


class CopyLane(Line):
    """One direction between a device's memory and all others. Any thread."""

    def __init__(self, context: Context, watch: Watch, name: str, peers: Peers) -> None:
        """Make the stream. `DeviceError` when the driver refuses."""
        super().__init__(context, watch, f"{context.name} {name}", counted=False)
        self.ring, self.pockets, self.peers = Ring(context, self.stream), Pockets(context), peers

    def submit(self, *_: Any, **__: Any) -> CompletionHandle:
        """No programs run on the way."""
        raise InternalError(f"the lane {self.name} copies and runs nothing; submit to a stream of the device")

    def submit_copy(self, src: Any, dst: Any, waits: Sequence[CompletionHandle] = ()) -> CompletionHandle:
        """See `Lane.submit_copy`: a numpy array at the host's end, a `CudaArray` at a device's."""
        ends = isinstance(src, CudaArray), isinstance(dst, CudaArray)
        work = (_Across if all(ends) else _Upload if ends[1] else _Download)(self, src, dst, waits)
        if src.shape != dst.shape:  # numpy would broadcast
            self.refuse(work, ShapeMismatch("copy", "the arrays differ in shape", [src.shape, dst.shape]))
            return work.handle
        return self.take(work)


class _Copy(Work):
    """One copy."""

    __slots__ = ("_lane", "_pocket")

    def __init__(self, lane: CopyLane, src: Any, dst: Any, waits: Sequence[CompletionHandle]) -> None:
        super().__init__(lane, (src, dst), waits, _START_NS + src.nbytes // _BYTES_PER_NS)
        self._lane = lane
        #: The number of its pocket; None without.
        self._pocket: int | None = None

    @property
    def src(self) -> Any:
        """What is copied."""
        return self.held[0]

    @property
    def dst(self) -> Any:
        """Where it goes."""
        return self.held[1]

    def can_begin(self) -> bool:
        if self.src.nbytes <= POCKET_NBYTES:
            self._pocket = self._lane.pockets.take()
        return self._pocket is not None

    def let_go(self) -> None:
        if self._pocket is not None:
            self._lane.pockets.give(self._pocket)
            self._pocket = None

    def _piece(self) -> tuple[Any, int]:
        """Its pocket, as the host and as the device see it."""
        pinned, number = self._lane.pockets.pinned, self._pocket
        assert pinned is not None  # it has a pocket
        assert number is not None
        return pinned.piece(number)[: self.src.nbytes], pinned.address(number)


class _Upload(_Copy):
    """From the host."""

    __slots__ = ()
    reads_host = True

    def begin(self, stream: Stream) -> None:
        seen, address = self._piece()
        seen.view(self.src.dtype).reshape(self.src.shape)[...] = self.src
        stream.context.runtime.memcpyAsync(self.dst.ptr, address, self.src.nbytes, HOST_TO_DEVICE, stream.ptr)

    def perform(self, stream: Stream) -> None:
        self._lane.pockets.fill()
        self._lane.ring.upload(self.src, self.dst)


class _Download(_Copy):
    """To the host."""

    __slots__ = ()

    def begin(self, stream: Stream) -> None:
        _, address = self._piece()
        stream.context.runtime.memcpyAsync(address, self.src.ptr, self.src.nbytes, DEVICE_TO_HOST, stream.ptr)

    def perform(self, stream: Stream) -> None:
        self._lane.pockets.fill()
        self._lane.ring.download(self.src, self.dst)

    def finish(self) -> None:
        if self._pocket is not None:
            seen, _ = self._piece()
            self.dst[...] = seen.view(self.dst.dtype).reshape(self.dst.shape)


class _Across(_Copy):
    """From another device: straight, where their memories are mapped, else through the host's."""

    __slots__ = ()

    def can_begin(self) -> bool:
        return self._lane.peers.is_enabled(self._from)

    @property
    def _from(self) -> int:
        ordinal: int = self.src.memory.context.ordinal
        return ordinal

    def begin(self, stream: Stream) -> None:
        context = stream.context
        context.runtime.memcpyPeerAsync(
            self.dst.ptr, context.ordinal, self.src.ptr, self._from, self.src.nbytes, stream.ptr
        )

    def perform(self, stream: Stream) -> None:
        if self._lane.peers.enable(self._from):
            self.begin(stream)
            stream.finish()
            return
        between = np.empty(self.src.shape, self.src.dtype.require_np())
        self.src.memory.ring.download(self.src, between)
        self._lane.ring.upload(between, self.dst)
