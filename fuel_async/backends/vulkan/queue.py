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
    """The structs of the submissions that raise one timeline, made once and filled under the queue's lock."""

    __slots__ = ("_commands", "_gate", "_info", "_keep", "_timelines", "_values", "_waits")

    def __init__(self, context: Context, timeline: Timeline, gate: Timeline | None = None) -> None:
        keep = self._keep = context.keep()
        self._gate = None if gate is None else gate.handle
        most = MOST_SIBLINGS + 1
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
        if gate is not None:
            waits[count] = self._gate
            count += 1
            values[count] = gate.value
        self._info.waitSemaphoreCount = self._timelines.waitSemaphoreValueCount = count
        self._info.pCommandBuffers = commands
        return self._info
