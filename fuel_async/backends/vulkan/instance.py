"""Program instances: kernels planned and bound once, command buffers recorded once for the arrays that they are given.

A repeated submission over the same arrays records nothing and allocates nothing. The first one over others records
anew; the latest few recordings are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.planning import given_spaces, placed, plan_calls
from fuel_async.backends.vulkan.parameters import Parameters
from fuel_async.backends.vulkan.script import Recording, Script
from fuel_async.dispatch import BINDABLE
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.memory import VulkanArena, VulkanArray
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import Breathe
    from fuel_async.streams import History

#: Recordings kept for different given arrays.
RECORDINGS = 4


class VulkanInstance:
    """A lane program bound to a device's memory. One run at a time."""

    __slots__ = (
        "__weakref__", "_arena", "_constants", "_given", "_parameters", "_recordings", "_script", "_site", "history",
        "program",
    )  # fmt: skip

    def __init__(
        self,
        site: Site,
        program: LaneProgram,
        constants: Sequence[VulkanArray],
        arena: VulkanArena,
        history: History,
        breathe: Breathe,
    ) -> None:
        """Plan all kernels and make their pipelines. `KernelFailed` names the node that cannot be."""
        self._site, self.program, self.history = site, program, history
        self._arena, self._constants = arena, constants
        self._script = Script(site)
        #: What a submission gives, in order: (class, place).
        self._given = given_spaces(program)
        self._parameters = Parameters(site, program) if program.ports[3] else None
        #: By block and offset of every given array.
        self._recordings: OrderedDict[tuple[tuple[int, int], ...], Recording] = OrderedDict()
        plan_calls(program, site.context.name, site.memory.alignment, site.limits, self._script.add, breathe)
        if not self._given:
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
        *groups, scalars = given if len(given) == len(BINDABLE) else ((), (), (), ())
        arrays = [array for group in groups for array in group]
        if len(arrays) + len(scalars) != len(self._given):
            raise InternalError(
                f"{len(self._given)} arrays must be given to {self.program!r}, got {len(arrays) + len(scalars)}"
            )
        if self._parameters is not None:
            self._parameters.write(scalars)
            arrays += self._parameters.arrays
        key = tuple([(array.block.number, array.offset) for array in arrays])
        found = self._recordings.get(key)
        if found is None:
            old = self._recordings.popitem(last=False)[1] if len(self._recordings) == RECORDINGS else None
            found = self._recordings[key] = self._record(arrays, old)
        elif len(self._recordings) > 1:
            self._recordings.move_to_end(key)
        return found.commands

    def _record(self, arrays: Sequence[VulkanArray], old: Recording | None) -> Recording:
        given = dict(zip(self._given, arrays, strict=True))
        return self._script.record(placed(given, self._arena.bytes, self._constants), old)
