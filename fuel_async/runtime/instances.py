"""Plan instances: what one run of a plan needs for itself, pooled between runs.

An instance is the arena and the program instances of one plan on its device. It belongs to one run from launch to the
last completion; concurrent runs of a plan take different instances, as many as admission lets in. Idle ones stay for
the next run until memory is asked back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fuel_async.errors import UserError
from fuel_async.ir import Breathe, FrozenGraph, no_breath
from fuel_async.schedule import RunShape, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import DeviceLocation
    from fuel_async.plan import Plan, Port
    from fuel_async.runtime.measured import Measured
    from fuel_async.streams import ProgramInstance

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class PlanInstance:
    """The program instances of a plan's regions, over one arena."""

    programs: Sequence[ProgramInstance]
    nbytes: int


class Prepared:
    """A plan with the constants of one graph: everything a run needs but an instance and feeds.

    Holds the constants, not the graph they come from: the cache forgets it when that graph is gone.
    """

    __slots__ = (
        "_booleans",
        "_free",
        "_names",
        "_outputs",
        "alive",
        "constants",
        "device",
        "feed_types",
        "generation",
        "idle",
        "last_used",
        "measured",
        "nbytes",
        "output_nbytes",
        "plan",
        "ports",
        "shape",
    )

    def __init__(
        self,
        plan: Plan,
        graph: FrozenGraph,
        device: Device,
        generation: int,
        measured: Measured,
        free: Callable[[int], None],
    ) -> None:
        """`measured` belongs to the plan; `free(nbytes)` is told when an instance ceases to hold memory."""
        self.plan, self.device, self.generation = plan, device, generation
        self.constants: list[Array] = [graph.constants[node] for node in plan.constants]
        self.shape: RunShape = shape_of(plan)
        self.measured = measured
        #: Name, shape and numpy dtype of each feed, for the check that nearly every run passes.
        self.feed_types = [(port.name, port.type.shape, port.type.dtype.require_np()) for port in plan.feeds]
        self._outputs = [(port.type.shape, port.type.dtype.require_np()) for port in plan.outputs]
        self._names = [port.name for port in plan.outputs]
        self._booleans = [port.name for port in plan.outputs if port.boolean]
        #: Feeds and outputs of each region by place; None where it takes all of them in order.
        self.ports = [
            (_unless_all(region.program.feeds, plan.feeds), _unless_all(region.program.outputs, plan.outputs))
            for region in plan.regions
        ]
        #: Bytes that a run needs: without, and with, an instance of its own.
        self.output_nbytes = plan.output_nbytes
        self.nbytes = plan.arena_nbytes + plan.output_nbytes
        self.idle: deque[PlanInstance] = deque()
        self._free = free
        self.last_used = 0
        #: False once the cache has dropped it: instances that come back are not kept.
        self.alive = True

    @property
    def idle_nbytes(self) -> int:
        """Bytes that idle instances hold."""
        return len(self.idle) * self.plan.arena_nbytes

    def take(self) -> PlanInstance | None:
        """Return an idle instance, or None when all are in use. Any thread."""
        try:
            return self.idle.pop()
        except IndexError:
            return None

    def give(self, instance: PlanInstance) -> None:
        """Keep an instance for the next run. Any thread."""
        self.idle.append(instance)
        if not self.alive:
            self.drop_idle()

    def drop_idle(self) -> int:
        """Give up the idle instances; return the bytes that they held. Any thread."""
        dropped = 0
        while (instance := self.take()) is not None:
            dropped += instance.nbytes
        if dropped:
            self._free(dropped)
        return dropped

    def __del__(self) -> None:
        # The graph is gone, and with it the last holder: the bytes of idle instances are free again.
        self.drop_idle()

    def bind(self, breathe: Breathe = no_breath) -> PlanInstance:
        """Make one more instance: about 1 µs a kernel. `OutOfMemory` when the device refuses."""
        arena = self.device.memory.allocate(self.plan.arena_nbytes)
        programs = [
            self.device.instantiate(region.program, self.constants, arena, breathe) for region in self.plan.regions
        ]
        return PlanInstance(programs, self.plan.arena_nbytes)

    def match(self, feeds: dict[str, Any]) -> list[Array] | None:
        """Return the feeds in order if they are exactly the arrays wanted, lying as kernels read them; else None."""
        if len(feeds) != len(self.feed_types):
            return None
        values: list[Array] = []
        for name, shape, dtype in self.feed_types:
            feed = feeds.get(name)
            if feed.__class__ is not np.ndarray or feed.shape != shape or feed.dtype != dtype:
                return None
            flags = feed.flags
            if not (flags.c_contiguous and flags.aligned):
                return None
            values.append(feed)
        return values

    def allocate_outputs(self) -> list[Array]:
        """Make the arrays that the caller will receive. Their pages are touched when a kernel writes them."""
        return [np.empty(shape, dtype) for shape, dtype in self._outputs]  # type: ignore[arg-type]

    def deliver(self, outputs: Sequence[Array]) -> dict[str, Array]:
        """Return the outputs by name, truth values as bool."""
        results = dict(zip(self._names, outputs, strict=False))  # as many as allocate_outputs made
        for name in self._booleans:
            results[name] = results[name].view(np.bool_)
        return results


def refuse_other_pins(plan: Plan, location: DeviceLocation) -> None:
    """Raise `UserError` when something is pinned to another device than the only one there is."""
    for region in plan.regions:
        if region.pin is not None and region.pin != location:
            raise UserError(f"graph {plan.graph.name!r} is pinned to {region.pin}, which is not among {location}")


def _unless_all(places: tuple[int, ...], ports: tuple[Port, ...]) -> tuple[int, ...] | None:
    return None if places == tuple(range(len(ports))) else places
