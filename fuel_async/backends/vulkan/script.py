"""Scripts: dispatches in order with the barriers between them, recorded into command buffers for given places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.backends.grids.operands import Bound, Hazards, is_same
from fuel_async.backends.vulkan.recording import Commands, DescriptorSets, bind, push
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Shader
    from fuel_async.backends.grids.operands import Space
    from fuel_async.backends.vulkan.memory import VulkanArray
    from fuel_async.backends.vulkan.pipelines import Pipeline
    from fuel_async.backends.vulkan.site import Site


class _Step(NamedTuple):
    """One dispatch, ready to be recorded; the number is that of its descriptor set."""

    pipeline: Pipeline
    number: int
    push: bytes
    groups: tuple[int, int, int]
    barrier: bool


class Recording(NamedTuple):
    """A command buffer, as the array of one that a submission takes, and the descriptor sets that it names."""

    sets: DescriptorSets
    commands: Any


class Script:
    """Dispatches over operands in spaces; where the spaces lie is told when it is recorded. One thread at a time."""

    __slots__ = ("_bindings", "_hazards", "_layouts", "_numbers", "_pipelines", "_pool", "_site", "_steps")

    def __init__(self, site: Site) -> None:
        self._site, self._hazards, self._pool = site, Hazards(), Commands(site.context)
        self._steps: list[_Step] = []
        self._pipelines: dict[int, tuple[Shader, Pipeline]] = {}
        #: The layout of each descriptor set; dispatches over the same bytes share one.
        self._layouts: list[Pipeline] = []
        self._numbers: dict[tuple[tuple[Space, int, int], ...], int] = {}
        #: Number of the set, number of the binding, and what is bound.
        self._bindings: list[tuple[int, int, Bound]] = []

    @property
    def dispatches(self) -> int:
        """How many there are."""
        return len(self._steps)

    @property
    def barriers(self) -> int:
        """How many of them wait for earlier ones."""
        return sum(step.barrier for step in self._steps)

    def add(self, dispatch: Dispatch, operands: Sequence[Bound]) -> None:
        """Append a dispatch of a kernel with these operands. Makes its pipeline: milliseconds, the first time."""
        shader = dispatch.shader
        if len(dispatch.push) != shader.push_nbytes:
            raise InternalError(f"{len(dispatch.push)} bytes of push constants for {shader.name}: {shader.push_nbytes}")
        if dispatch.copies is not None and is_same(*[operands[at] for at in dispatch.copies]):
            return
        due = self._hazards.step([operands[at] for at in dispatch.reads], [operands[at] for at in dispatch.writes])
        pipeline = self._pipeline(shader)
        key = tuple([operands[at].where for at in dispatch.operands])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._layouts)
            self._layouts.append(pipeline)
            self._bindings.extend([(number, place, operands[at]) for place, at in enumerate(dispatch.operands)])
        self._steps.append(_Step(pipeline, number, dispatch.push, dispatch.groups, due))

    def _pipeline(self, shader: Shader) -> Pipeline:
        """A shader's pipeline; by identity, since comparing modules costs more than all else done for a step."""
        found = self._pipelines.get(id(shader))
        if found is None:
            found = self._pipelines[id(shader)] = shader, self._site.pipelines.get(shader)
        return found[1]

    def record(self, place: Callable[[Space], VulkanArray], old: Recording | None = None) -> Recording:
        """Record it, in the place of an old recording of this script if there is one. `DeviceError`."""
        site, pool = self._site, self._pool
        if old is None:
            old = Recording(DescriptorSets(site.context, self._layouts), pool.allocate())
        rows = []
        arrays: dict[Space, VulkanArray] = {}
        for number, binding, one in self._bindings:
            array = arrays.get(one.space)
            if array is None:
                array = arrays[one.space] = place(one.space)
            rows.append((number, binding, array.block.buffer, array.offset + one.start, one.nbytes))
        old.sets.write(rows)
        commands = old.commands[0]
        pool.begin(commands)
        site.barriers.leading(commands)
        self._walk(commands, old.sets)
        site.barriers.trailing(commands)
        pool.end(commands)
        return old

    def _walk(self, commands: Any, sets: DescriptorSets) -> None:
        lib, ffi = self._site.context.lib, self._site.context.ffi
        null, between, dispatch = ffi.NULL, self._site.barriers.between, lib.vkCmdDispatch
        bound: Pipeline | None = None
        buffers = {step.push: ffi.from_buffer(step.push) for step in self._steps if step.push}
        for pipeline, number, pushed, groups, barrier in self._steps:
            if barrier:
                between(commands)
            handle = None if pipeline is bound else pipeline.handle
            bind(lib, commands, handle, pipeline.layout, sets.sets + number, null)
            bound = pipeline
            if pushed:
                push(lib, commands, pipeline.layout, buffers[pushed], len(pushed))
            dispatch(commands, *groups)
