"""Copies through memory that both sides see, for devices whose own the host cannot see.

A ring of slots: while the device copies one, the host fills or empties another. Used by one thread at a time.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.vulkan.memory import make_block, staging_type
from fuel_async.backends.vulkan.queue import Queue, Submission
from fuel_async.backends.vulkan.recording import Barriers, Commands
from fuel_async.backends.vulkan.timeline import Timeline
from fuel_async.errors import DeviceLost
from fuel_async.streams import WaitStatus, fresh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.memory import VulkanArray

#: Slots of a ring, and the size of each.
SLOTS, SLOT_NBYTES = 4, 1 << 20


class StagingRing:
    """Slots of host-visible memory with a command buffer each, made for the first copy. Any thread; they take turns."""

    def __init__(self, context: Context, queue: Queue, peers: list[Timeline]) -> None:
        """`peers` are the timelines of the device's queues, to which this adds its own."""
        self._context, self._queue, self._peers, self._lock = context, queue, peers, threading.RLock()
        self._slots: _Slots | None = None

    def upload(self, source: NDArray[Any], target: VulkanArray) -> None:
        """Copy to the device, and wait until it is there. `DeviceError`."""
        data = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        with self._lock:
            slots = self._open()
            try:
                for number, start in enumerate(range(0, len(data), SLOT_NBYTES)):
                    slot, piece = number % SLOTS, data[start : start + SLOT_NBYTES]
                    slots.wait(slots.busy[slot])
                    slots.host(slot)[: len(piece)] = piece
                    slots.copy(slot, slots.device(slot), _at(target, start), len(piece))
            finally:
                slots.wait(slots.last)  # also after an error: nothing may be written once this is over

    def download(self, source: VulkanArray, target: NDArray[Any]) -> None:
        """Copy to the host, and wait until it is there. `DeviceError`."""
        data = target.reshape(-1).view(np.uint8) if target.flags.c_contiguous else np.empty(source.nbytes, np.uint8)
        starts = range(0, len(data), SLOT_NBYTES)
        with self._lock:
            slots = self._open()
            try:
                for number in range(len(starts) + SLOTS):
                    slot, behind = number % SLOTS, number - SLOTS
                    if 0 <= behind < len(starts):
                        slots.wait(slots.busy[slot])
                        piece = data[starts[behind] : starts[behind] + SLOT_NBYTES]
                        piece[:] = slots.host(slot)[: len(piece)]
                    if number < len(starts):
                        start = starts[number]
                        slots.copy(slot, _at(source, start), slots.device(slot), min(SLOT_NBYTES, len(data) - start))
            finally:
                slots.wait(slots.last)
        if not target.flags.c_contiguous:
            np.copyto(target, data.view(target.dtype).reshape(target.shape))

    def _open(self) -> _Slots:
        if self._slots is None:
            self._slots = _Slots(self._context, self._queue, self._peers)
        return self._slots


class _Slots:
    """The ring's memory and command buffers, under its lock."""

    def __init__(self, context: Context, queue: Queue, peers: list[Timeline]) -> None:
        """`OutOfMemory` when the driver refuses them."""
        self._context, self._queue = context, queue
        kind = staging_type(context.physical.memory_types)
        self._block = make_block(context, kind, SLOTS * SLOT_NBYTES, -1, mapped=True)
        self._commands, self._barriers = Commands(context), Barriers(context)
        self._buffers = [self._commands.allocate() for _ in range(SLOTS)]
        self._timeline = Timeline(context)
        self._waiter = self._timeline.waiter()
        peers.append(self._timeline)
        self._submission = Submission(context, self._timeline, None, peers)
        self._keep = context.keep()
        self._piece = self._keep.struct("BufferCopy")
        #: By slot: what the timeline is at when the device is through with it; and that of the last copy.
        self.busy = [0] * SLOTS
        self.last = 0

    def host(self, slot: int) -> NDArray[np.uint8]:
        """A slot's bytes."""
        assert self._block.host is not None  # it is mapped
        return self._block.host[slot * SLOT_NBYTES : (slot + 1) * SLOT_NBYTES]

    def device(self, slot: int) -> tuple[Any, int]:
        """A slot as copies name it: buffer and offset."""
        return self._block.buffer, slot * SLOT_NBYTES

    def copy(self, slot: int, source: tuple[Any, int], target: tuple[Any, int], nbytes: int) -> None:
        """Have the device copy between a slot and its own memory. `DeviceError`."""
        context, commands, piece = self._context, self._buffers[slot], self._piece
        piece.srcOffset, piece.dstOffset, piece.size = source[1], target[1], nbytes
        self._commands.begin(commands[0])
        self._barriers.leading(commands[0])
        context.lib.vkCmdCopyBuffer(commands[0], source[0], target[0], 1, piece)
        self._barriers.trailing(commands[0])
        self._commands.end(commands[0])
        context.check(self._queue.submit(self._submission, commands, self.last + 1), "vkQueueSubmit")
        self.last += 1
        self.busy[slot] = self.last

    def wait(self, value: int) -> None:
        """Wait until a copy is through. `DeviceLost` when the device is, or has worked on it for too long."""
        context, began_ns = self._context, perf_counter_ns()
        while value and self._waiter.wait(value) is not WaitStatus.REACHED:
            if perf_counter_ns() - began_ns > context.options.deadline_s * 1e9:
                context.lose(DeviceLost(context.name, "a copy did not end in time"), hangs=True)
            if context.lost is not None:
                raise fresh(context.lost)


def _at(array: VulkanArray, start: int) -> tuple[Any, int]:
    return array.block.buffer, array.offset + start
