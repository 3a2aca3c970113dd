"""What a run holds of one device: an arena, buffers for what enters and leaves it there, and bound programs.

Shares are pooled by plan and device between runs, as instances of a single device are. Constants are kept once a
plan and device: their arrays are there from the first share on, their bytes are sent when the first region that reads
them is launched, and whoever comes meanwhile waits for the same copy.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fuel_async.ir import CPU_DEVICE, Breathe, DType, no_breath

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fuel_async.backends import Arena, Device
    from fuel_async.plan import Plan
    from fuel_async.streams import CompletionHandle, ProgramInstance

    Array = NDArray[Any]


class Share:
    """One run's part of one device. Belongs to one run at a time."""

    __slots__ = ("_device", "_plan", "arena", "feeds", "outputs", "programs")

    def __init__(self, plan: Plan, device: Device, arena: Arena, programs: Sequence[ProgramInstance]) -> None:
        self._plan, self._device, self.arena, self.programs = plan, device, arena, programs
        self.feeds: dict[int, Any] = {}
        self.outputs: dict[int, Any] = {}

    def feed(self, place: int) -> Any:
        """The device's buffer of a feed; allocated when it is first asked for."""
        found = self.feeds.get(place)
        if found is None:
            kind = self._plan.feeds[place].type
            found = self.feeds[place] = self._device.memory.allocate_array(kind.shape, kind.dtype)  # type: ignore[arg-type]
        return found

    def output(self, place: int) -> Any:
        """The device's buffer of an output; allocated when it is first asked for."""
        found = self.outputs.get(place)
        if found is None:
            kind = self._plan.outputs[place].type
            found = self.outputs[place] = self._device.memory.allocate_array(kind.shape, kind.dtype)  # type: ignore[arg-type]
        return found


class DeviceConstants:
    """A plan's constants in one memory. Any thread."""

    def __init__(self, values: Sequence[Array], device: Device) -> None:
        """Allocate their arrays; `OutOfMemory` when the device refuses. Nothing is sent yet."""
        self._values = values
        self._lock = threading.Lock()
        self._sent: dict[int, CompletionHandle] = {}
        self._is_host = device.memory_location == CPU_DEVICE
        self.arrays: Sequence[Any] = (
            values
            if self._is_host
            else [device.memory.allocate_array(value.shape, DType.from_numpy(value.dtype)) for value in values]
        )

    def missing_nbytes(self, places: Sequence[int]) -> int:
        """Bytes of those that have not been sent yet."""
        if self._is_host or len(self._sent) == len(self._values):
            return 0
        return sum(self._values[place].nbytes for place in places if place not in self._sent)

    def arrive(self, places: Sequence[int], send: Callable[[Array, Any], CompletionHandle]) -> list[CompletionHandle]:
        """What to wait for before they may be read; sends those that nobody has sent. A failed copy is sent again."""
        if self._is_host:
            return []
        waits: list[CompletionHandle] = []
        for place in places:
            handle = self._sent.get(place)
            if handle is None or (handle.done() and handle.exception() is not None):
                with self._lock:
                    handle = self._sent.get(place)
                    if handle is None or (handle.done() and handle.exception() is not None):
                        handle = self._sent[place] = send(self._values[place], self.arrays[place])
            if not handle.done():
                waits.append(handle)
        return waits


def bind_share(
    plan: Plan, device: Device, constants: DeviceConstants, arena: Arena | None = None, breathe: Breathe = no_breath
) -> Share:
    """Make one more share: about 1 µs a kernel on the host. `OutOfMemory` when the device refuses."""
    if arena is None:
        arena = device.memory.allocate(plan.arena_nbytes)
    programs = [device.instantiate(region.program, constants.arrays, arena, breathe) for region in plan.regions]
    return Share(plan, device, arena, programs)
