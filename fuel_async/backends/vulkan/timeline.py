"""Timeline semaphores: numbers that a queue or the host raises, and what waits for them.

Waits are for one semaphore and for a bounded time: a wait for any of several keeps a core busy on some drivers, and one
without end would never see that the device is gone.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from fuel_async.backends.vulkan.results import SUCCESS, TIMEOUT, name_of
from fuel_async.errors import DeviceLost
from fuel_async.streams import HostSignal, WaitStatus

if TYPE_CHECKING:
    from fuel_async.backends.vulkan.context import Context

#: How long a lane's thread may take to settle what was under way when its device was lost.
LOSS_S = 5.0

#: The longest that the driver is asked to wait at a time.
ROUND_NS = 200_000_000


class Timeline:
    """One semaphore, destroyed with its last holder. Any thread."""

    __slots__ = ("__weakref__", "context", "handle", "seen")

    def __init__(self, context: Context) -> None:
        keep = context.keep()
        kind = keep.struct(
            "SemaphoreTypeCreateInfo",
            "SEMAPHORE_TYPE_CREATE_INFO",
            semaphoreType=context.lib.VK_SEMAPHORE_TYPE_TIMELINE,
            initialValue=0,
        )
        info = keep.struct("SemaphoreCreateInfo", "SEMAPHORE_CREATE_INFO", pNext=kind)
        self.context = context
        #: The number that the host has seen it at.
        self.seen = 0
        self.handle = context.create("vkCreateSemaphore", info, "VkSemaphore")
        context.end_with(self, "vkDestroySemaphore", self.handle)

    def waiter(self) -> Waiter:
        """Prepare waiting in one thread."""
        return Waiter(self)

    def signal(self, value: int) -> int:
        """Raise it to `value` from the host; the driver's result."""
        keep = self.context.keep()
        info = keep.struct("SemaphoreSignalInfo", "SEMAPHORE_SIGNAL_INFO", semaphore=self.handle, value=value)
        code: int = self.context.lib.vkSignalSemaphore(self.context.handle, info)
        return code


class Waiter:
    """Waits for one timeline, with structs made once. Belongs to one thread."""

    __slots__ = ("_count", "_info", "_keep", "_timeline", "_values")

    def __init__(self, timeline: Timeline) -> None:
        context = timeline.context
        self._timeline, self._keep = timeline, context.keep()
        self._values, self._count = self._keep.array("uint64_t", 1), self._keep.array("uint64_t", 1)
        self._info = self._keep.struct(
            "SemaphoreWaitInfo",
            "SEMAPHORE_WAIT_INFO",
            semaphoreCount=1,
            pSemaphores=self._keep.array("VkSemaphore", [timeline.handle]),
            pValues=self._values,
        )

    def wait(self, value: int, timeout_ns: int = ROUND_NS) -> WaitStatus:
        """Block until it is at `value` or the time is over; LOST when the device is lost.

        A driver that fails at waiting cannot say when anything ends: then the device is given up, too.
        """
        context = self._timeline.context
        if context.lost is not None:
            return WaitStatus.LOST
        self._values[0] = value
        code = context.lib.vkWaitSemaphores(context.handle, self._info, timeout_ns)
        if code == SUCCESS:
            self._timeline.seen = max(self._timeline.seen, value)
            return WaitStatus.REACHED
        if code != TIMEOUT:
            context.lose(DeviceLost(context.name, f"vkWaitSemaphores gave {name_of(code)}"))
        return WaitStatus.TIMEOUT if context.lost is None else WaitStatus.LOST

    def reached(self) -> int:
        """The number it is at. `DeviceError`."""
        context = self._timeline.context
        code = context.lib.vkGetSemaphoreCounterValue(context.handle, self._timeline.handle, self._count)
        context.check(code, "vkGetSemaphoreCounterValue")
        return int(self._count[0])


class Point:
    """The completion of a submission: its number on its queue's timeline."""

    __slots__ = ("_over", "owner", "timeline", "value")

    def __init__(self, timeline: Timeline, owner: object) -> None:
        self.timeline, self.owner = timeline, owner
        #: None until it is submitted; never, when the submission was refused.
        self.value: int | None = None
        self._over = HostSignal()

    def set(self) -> None:
        """Let every waiter go: whatever there was to wait for is over."""
        self._over.set()

    def wait(self, timeout_s: float | None) -> WaitStatus:
        """Block until it is reached; TIMEOUT when the time is over, LOST when the device is."""
        over = self._over
        if self.value is None or over.wait(0) is WaitStatus.REACHED:
            return over.wait(timeout_s)
        waiter, end_ns = self.timeline.waiter(), None if timeout_s is None else perf_counter_ns() + int(timeout_s * 1e9)
        while True:
            left_ns = ROUND_NS if end_ns is None else max(end_ns - perf_counter_ns(), 0)
            status = waiter.wait(self.value, min(left_ns, ROUND_NS))
            if status is WaitStatus.LOST and self.owner is not None:
                # The lane's thread is about to settle it with the reason.
                return WaitStatus.REACHED if over.wait(LOSS_S) is WaitStatus.REACHED else status
            if status is not WaitStatus.TIMEOUT or over.wait(0) is WaitStatus.REACHED:
                return WaitStatus.REACHED if status is WaitStatus.TIMEOUT else status
            if end_ns is not None and perf_counter_ns() >= end_ns:
                return WaitStatus.TIMEOUT
