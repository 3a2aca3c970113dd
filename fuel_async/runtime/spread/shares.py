"""What a run holds of one device: an arena, buffers for what enters and leaves it there, and bound programs.

Shares are pooled by plan and device between runs, as instances of a single device are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fuel_async.backends import Arena, Device
    from fuel_async.dispatch import LaneProgram
    from fuel_async.plan import Plan
    from fuel_async.runtime.spread.constants import DeviceConstants
    from fuel_async.streams import ProgramInstance

    Array = NDArray[Any]


class Share:
    """One run's part of one device. Belongs to one run at a time."""

    __slots__ = ("_device", "_plan", "arena", "feeds", "outputs", "programs")

    def __init__(self, plan: Plan, device: Device, arena: Arena, programs: Sequence[ProgramInstance | None]) -> None:
        """`programs` has None for regions that the device cannot run."""
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


def bind_share(
    plan: Plan,
    programs: Sequence[LaneProgram | None],
    device: Device,
    constants: DeviceConstants,
    arena: Arena | None = None,
    breathe: Breathe = no_breath,
) -> Share:
    """Make one more share: about 1 µs a kernel on the host. `OutOfMemory` when the device refuses."""
    if arena is None:
        arena = device.memory.allocate(plan.arena_nbytes)
    bound = [None if one is None else device.instantiate(one, constants.arrays, arena, breathe) for one in programs]
    return Share(plan, device, arena, bound)
