"""Copies through pinned memory, which devices reach by themselves and the host's own pages are not.

A ring of slots: while the device copies one, the host fills or empties another. Small copies have pockets, so that
whoever submits one need not wait.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.memory import CudaArray
    from fuel_async.backends.cuda.streams import Stream

#: Slots of a ring, and the size of each.
SLOTS, SLOT_NBYTES = 4, 1 << 20

#: Pockets of a line of copies, and the size of each: copies of up to so many bytes go without a hop to a thread.
POCKETS, POCKET_NBYTES = 16, 65_536

#: cudaMemcpyKind.
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Pinned:
    """Pinned memory in equal pieces. Freed with it, unless the device is lost."""

    __slots__ = ("__weakref__", "_bytes", "_nbytes", "ptr")

    def __init__(self, context: Context, count: int, nbytes: int) -> None:
        """`count` pieces of `nbytes`. `OutOfMemory` when the driver refuses."""
        try:
            with context.here():
                held = context.cuda.alloc_pinned_memory(count * nbytes)
        except Exception as error:
            raise context.failed(error, "cudaHostAlloc", count * nbytes) from None
        context.end_with(self, held)
        self.ptr, self._nbytes = int(held.ptr), nbytes
        self._bytes = np.frombuffer(held, np.uint8, count * nbytes)

    def piece(self, number: int) -> NDArray[np.uint8]:
        """A piece as the host sees it."""
        return self._bytes[number * self._nbytes : (number + 1) * self._nbytes]

    def address(self, number: int) -> int:
        """A piece as copies name it."""
        return self.ptr + number * self._nbytes


class Pockets:
    """Pieces for copies that nobody waits for. Any thread."""

    __slots__ = ("_context", "_free", "pinned")

    def __init__(self, context: Context) -> None:
        """There is none before `fill`."""
        self._context = context
        self._free: list[int] = []
        self.pinned: Pinned | None = None

    def fill(self) -> None:
        """Make them, unless they are there: milliseconds. `OutOfMemory`."""
        if self.pinned is None:
            self.pinned = Pinned(self._context, POCKETS, POCKET_NBYTES)
            self._free.extend(range(POCKETS))

    def take(self) -> int | None:
        """A pocket of one's own; None when there is none."""
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give(self, number: int) -> None:
        """Take one back that the device is through with."""
        self._free.append(number)


class Ring:
    """Slots on one stream, made for the first copy. Any thread; they take turns, and each waits for its copy."""

    def __init__(self, context: Context, stream: Stream) -> None:
        self._context, self._stream, self._lock = context, stream, threading.RLock()
        self._slots: Pinned | None = None

    def upload(self, source: NDArray[Any], target: CudaArray) -> None:
        """Copy to the device, and wait until it is there. `DeviceError`."""
        data = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        with self._lock, self._open() as turns:
            for slot, start in turns(len(data)):
                piece = data[start : start + SLOT_NBYTES]
                turns.host(slot)[: len(piece)] = piece
                turns.copy(slot, target.ptr + start, turns.address(slot), len(piece), HOST_TO_DEVICE)

    def download(self, source: CudaArray, target: NDArray[Any]) -> None:
        """Copy to the host, and wait until it is there. `DeviceError`."""
        data = target.reshape(-1).view(np.uint8) if target.flags.c_contiguous else np.empty(source.nbytes, np.uint8)
        starts = range(0, len(data), SLOT_NBYTES)
        with self._lock, self._open() as turns:
            for slot, start in turns(len(data) + SLOTS * SLOT_NBYTES):
                behind = start - SLOTS * SLOT_NBYTES
                if behind in starts:
                    piece = data[behind : behind + SLOT_NBYTES]
                    piece[:] = turns.host(slot)[: len(piece)]
                if start in starts:
                    nbytes = min(SLOT_NBYTES, len(data) - start)
                    turns.copy(slot, turns.address(slot), source.ptr + start, nbytes, DEVICE_TO_HOST)
        if not target.flags.c_contiguous:
            np.copyto(target, data.view(target.dtype).reshape(target.shape))

    def fill(self, ptr: int, value: int, nbytes: int) -> None:
        """Fill bytes of the device, and wait until that is done. `DeviceError`."""
        with self._lock, self._open() as turns:
            turns.fill(ptr, value, nbytes)

    def _open(self) -> AbstractContextManager[_Turns]:
        if self._slots is None:
            self._slots = Pinned(self._context, SLOTS, SLOT_NBYTES)
        return _Turns(self._context, self._stream, self._slots)


class _Turns:
    """The slots during one copy: none is used again before the device is through with it."""

    __slots__ = ("_busy", "_context", "_here", "_pinned", "_stream", "address", "host")

    def __init__(self, context: Context, stream: Stream, pinned: Pinned) -> None:
        self._context, self._stream, self._pinned = context, stream, pinned
        self._here, self.host, self.address = context.here(), pinned.piece, pinned.address
        #: By slot: what is reached when its copy is done.
        self._busy: dict[int, Any] = {}

    def __enter__(self) -> Self:
        try:
            self._here.__enter__()
        except Exception as error:
            raise self._context.failed(error, "cudaSetDevice") from None
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for slot in list(self._busy):  # also after an error: nothing may be written once this is over
                self._wait(slot)
        finally:
            self._here.__exit__()

    def __call__(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """Slots in turn, each free, with where the next so many bytes begin."""
        for number, start in enumerate(range(0, nbytes, SLOT_NBYTES)):
            slot = number % SLOTS
            self._wait(slot)
            yield slot, start

    def copy(self, slot: int, target: int, source: int, nbytes: int, kind: int) -> None:
        """Have the device copy between a slot and its own memory. `DeviceError`."""
        self._put(slot, "cudaMemcpyAsync", self._context.runtime.memcpyAsync, target, source, nbytes, kind)

    def fill(self, ptr: int, value: int, nbytes: int) -> None:
        """Have the device fill its own memory. `DeviceError`."""
        self._put(0, "cudaMemsetAsync", self._context.runtime.memsetAsync, ptr, value, nbytes)

    def _put(self, slot: int, name: str, call: Callable[..., None], *args: int) -> None:
        """Make a call on the stream, and note its end."""
        context, event = self._context, None
        try:
            event = context.events.take()
            call(*args, self._stream.ptr)
        except Exception as error:
            if event is not None:
                context.events.give(event)
            raise context.failed(error, name) from None
        try:
            event.record(self._stream.raw)
        except Exception as error:  # the copy is under way and its end will not be heard of
            raise context.noted(context.unheard(error, "cudaEventRecord")) from None
        self._busy[slot] = event

    def _wait(self, slot: int) -> None:
        event = self._busy.pop(slot, None)
        if event is not None:
            self._context.wait(event)
            self._context.events.give(event)
