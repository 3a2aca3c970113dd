"""A queue of the driver's: one submission at a time, from any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.gates import Gate
    from fuel_async.backends.vulkan.timeline import Point, Timeline

#: Semaphores of sibling queues that one submission waits for; what is beyond them goes through the gate.
MOST_SIBLINGS = 7

#: Peers of a queue at most: other queues of its device.
MOST_PEERS = 8

_COMPUTE_AND_TRANSFER = 0x800 | 0x1000


class Queue:
    """One VkQueue, shared by a lane and by copies. Any thread."""

    __slots__ = ("_call", "_handle", "_lock", "_null", "context", "number")

    def __init__(self, context: Context, number: int) -> None:
        self.context, self.number, self._lock = context, number, threading.Lock()
        found = context.ffi.new("VkQueue *")
        context.lib.vkGetDeviceQueue(context.handle, context.family, number, found)
        self._handle, self._call, self._null = found[0], context.lib.vkQueueSubmit, context.ffi.NULL

    def submit(
        self,
        submission: Submission,
        commands: Any,
        value: int,
        siblings: Sequence[Point] = (),
        gate: Gate | None = None,
    ) -> int:
        """Submit one command buffer; the driver's result. Unless it is success nothing was submitted."""
        with self._lock:
            code: int = self._call(self._handle, 1, submission.fill(commands, value, siblings, gate), self._null)
        return code


class Submission:
    """The structs of the submissions that raise one timeline, made once and filled under the queue's lock.

    That the host has seen another queue's work end makes nothing that it wrote visible on this one. So a submission
    waits for its *peers*, the timelines of the device's other queues, as far as the host has seen them: they are there
    already, and nothing is held up.
    """

    __slots__ = ("_commands", "_gate", "_info", "_keep", "_own", "_peers", "_timelines", "_values", "_waits")

    def __init__(self, context: Context, timeline: Timeline, gate: Timeline | None, peers: list[Timeline]) -> None:
        """`peers` may grow; `timeline` may be among them."""
        keep = self._keep = context.keep()
        self._gate = None if gate is None else gate.handle
        self._own, self._peers = timeline, peers
        most = MOST_SIBLINGS + MOST_PEERS + 1
        self._waits, self._values = keep.array("VkSemaphore", most), keep.array("uint64_t", most + 1)
        self._timelines = keep.struct(
            "TimelineSemaphoreSubmitInfo",
            "TIMELINE_SEMAPHORE_SUBMIT_INFO",
            pWaitSemaphoreValues=self._values + 1,
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._values,
        )
        self._info = keep.struct(
            "SubmitInfo",
            "SUBMIT_INFO",
            pNext=self._timelines,
            pWaitSemaphores=self._waits,
            pWaitDstStageMask=keep.array("uint32_t", [_COMPUTE_AND_TRANSFER] * most),
            commandBufferCount=1,
            signalSemaphoreCount=1,
            pSignalSemaphores=keep.array("VkSemaphore", [timeline.handle]),
        )

    def fill(self, commands: Any, value: int, siblings: Sequence[Point], gate: Gate | None) -> Any:
        """The `VkSubmitInfo` that raises the timeline to `value`, after `siblings` and behind `gate`."""
        count, values, waits = 0, self._values, self._waits
        values[0] = value
        for point in siblings:
            waits[count] = point.timeline.handle
            count += 1
            values[count] = point.value
        for peer in self._peers[:MOST_PEERS]:
            if peer is not self._own and peer.seen:
                waits[count] = peer.handle
                count += 1
                values[count] = peer.seen
        if gate is not None:
            waits[count] = self._gate
            count += 1
            values[count] = gate.value
        self._info.waitSemaphoreCount = self._timelines.waitSemaphoreValueCount = count
        self._info.pCommandBuffers = commands
        return self._info
