"""Program instances: kernels planned and bound once, command buffers recorded once for the arrays that they are given.

A repeated submission over the same arrays records nothing and allocates nothing. The first one over others records
anew; the latest few recordings are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.planning import plan_calls
from fuel_async.backends.grids.recordings import Recordings
from fuel_async.backends.vulkan.parameters import Parameters
from fuel_async.backends.vulkan.script import Recording, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.memory import GridArena
    from fuel_async.backends.vulkan.memory import VulkanArray
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import Breathe
    from fuel_async.streams import History


class VulkanInstance:
    """A lane program bound to a device's memory. One run at a time."""

    __slots__ = ("__weakref__", "_parameters", "_recordings", "_script", "history", "program")

    def __init__(
        self,
        site: Site,
        program: LaneProgram,
        constants: Sequence[VulkanArray],
        arena: GridArena[VulkanArray],
        history: History,
        breathe: Breathe,
    ) -> None:
        """Plan all kernels and make their pipelines. `KernelFailed` names the node that cannot be."""
        self.program, self.history = program, history
        self._script = Script(site)
        self._parameters = Parameters(site, program) if program.ports[3] else None
        self._recordings: Recordings[VulkanArray, Recording] = Recordings(program, arena.bytes, constants)
        plan_calls(program, site.context.name, site.memory.alignment, site.limits, self._script.add, breathe)
        if self._recordings.is_always_the_same:
            self.commands(())

    @property
    def predicted_ns(self) -> int:
        """What the next run of it is expected to take."""
        return self.history.predicted_ns

    @property
    def dispatches(self) -> int:
        """Dispatches of one run."""
        return self._script.dispatches

    @property
    def barriers(self) -> int:
        """Barriers between them."""
        return self._script.barriers

    @property
    def recordings(self) -> int:
        """Recordings that are kept."""
        return len(self._recordings)

    def commands(self, given: Sequence[Sequence[Any]]) -> Any:
        """See `lane.Recorded`. Records when these arrays are not among the latest that it was given."""
        arrays, scalars = self._recordings.split(given)
        if self._parameters is not None:
            self._parameters.write(scalars)
            arrays += self._parameters.arrays
        return self._recordings.get(arrays, self._script.record).commands
