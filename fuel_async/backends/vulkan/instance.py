"""Program instances: kernels planned and bound once, command buffers recorded once for the arrays that they are given.

A repeated submission over the same arrays records nothing and allocates nothing. The first one over others records
anew; the latest few recordings are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.backends.vulkan.operands import Bound, Hazards, Operands
from fuel_async.backends.vulkan.recording import Commands, DescriptorSets, bind, push
from fuel_async.dispatch import BINDABLE, SlotClass
from fuel_async.errors import FuelError, InternalError, KernelFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.vulkan.kernels.base import Dispatch
    from fuel_async.backends.vulkan.memory import VulkanArena, VulkanArray
    from fuel_async.backends.vulkan.pipelines import Pipeline
    from fuel_async.backends.vulkan.site import Site
    from fuel_async.dispatch import KernelCall, LaneProgram
    from fuel_async.ir import Breathe
    from fuel_async.streams import History

#: Recordings kept for different given arrays.
RECORDINGS = 4


class _Step(NamedTuple):
    """One dispatch, ready to be recorded."""

    pipeline: Pipeline
    push: bytes
    groups: tuple[int, int, int]
    barrier: bool


#: A binding: set, number, what is bound.
_Binding = tuple[int, int, Bound]


class _Recording:
    """Command buffers for one choice of given arrays, and the sets that they name."""

    __slots__ = ("commands", "sets")

    def __init__(self, sets: DescriptorSets, commands: Any) -> None:
        self.sets, self.commands = sets, commands


class VulkanInstance:
    """A lane program bound to a device's memory. One run at a time."""

    __slots__ = (
        "__weakref__", "_arena", "_bindings", "_constants", "_given", "_pool", "_recordings", "_site", "_steps",
        "history", "program",
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
        self._steps: list[_Step] = []
        self._bindings: list[_Binding] = []
        #: What a submission gives, in order: (class, place).
        self._given = [
            (int(cls), place) for cls, places in zip(BINDABLE, program.ports, strict=True) for place in places
        ]
        self._pool = Commands(site.context)
        #: By block and offset of every given array.
        self._recordings: OrderedDict[tuple[tuple[int, int], ...], _Recording] = OrderedDict()
        self._plan(breathe)
        if not self._given:
            self.commands(())

    @property
    def predicted_ns(self) -> int:
        """What the next run of it is expected to take."""
        return self.history.predicted_ns

    @property
    def dispatches(self) -> int:
        """Dispatches of one run."""
        return len(self._steps)

    @property
    def barriers(self) -> int:
        """Barriers between them."""
        return sum(step.barrier for step in self._steps)

    @property
    def recordings(self) -> int:
        """Recordings that are kept."""
        return len(self._recordings)

    def commands(self, given: Sequence[Sequence[Any]]) -> Any:
        """See `lane.Recorded`. Records when these arrays are not among the latest that it was given."""
        arrays = [array for group in given for array in group]
        if len(arrays) != len(self._given):
            raise InternalError(f"{len(self._given)} arrays must be given to {self.program!r}, got {len(arrays)}")
        key = tuple([(array.block.number, array.offset) for array in arrays])
        found = self._recordings.get(key)
        if found is None:
            old = self._recordings.popitem(last=False)[1] if len(self._recordings) == RECORDINGS else None
            found = self._recordings[key] = self._record(arrays, old)
        elif len(self._recordings) > 1:
            self._recordings.move_to_end(key)
        return found.commands

    # --- planning ---------------------------------------------------------------------------------

    def _plan(self, breathe: Breathe) -> None:
        program, site = self.program, self._site
        operands = Operands(program, site.memory.alignment, site.limits)
        hazards = Hazards()
        known: dict[tuple[int, ...], Sequence[Dispatch]] = {}
        for index, (call, row) in enumerate(zip(program.calls, program.rows, strict=True)):
            try:
                bound = [operands.get(slot) for slot in row]
                key = (id(call), *[id(one.operand) for one in bound])
                dispatches = known.get(key)
                if dispatches is None:
                    dispatches = known[key] = self._dispatches(call, bound)
                for dispatch in dispatches:
                    self._step(dispatch, bound, hazards)
            except Exception as error:
                raise self._failed(index, error) from error
            if not index & 63:
                breathe()

    def _dispatches(self, call: KernelCall, bound: Sequence[Bound]) -> Sequence[Dispatch]:
        kernel: Any = call.kernel
        found: Sequence[Dispatch] = kernel.dispatches([one.operand for one in bound], call.params, self._site.limits)
        return found

    def _step(self, dispatch: Dispatch, bound: Sequence[Bound], hazards: Hazards) -> None:
        shader = dispatch.shader
        if len(dispatch.push) != shader.push_nbytes:
            raise InternalError(f"{len(dispatch.push)} bytes of push constants for {shader.name}: {shader.push_nbytes}")
        if dispatch.copies is not None and _same(*[bound[at] for at in dispatch.copies]):
            return
        due = hazards.step([bound[at] for at in dispatch.reads], [bound[at] for at in dispatch.writes])
        number = len(self._steps)
        self._steps.append(_Step(self._site.pipelines.get(shader), dispatch.push, dispatch.groups, due))
        self._bindings.extend([(number, place, bound[at]) for place, at in enumerate(dispatch.operands)])

    def _failed(self, index: int, error: Exception) -> FuelError:
        node = self.program.nodes[index]
        described, device = self.program.graph.describe(node), self._site.context.name
        return KernelFailed(described, device, f"{type(error).__name__}: {error}", node)

    # --- recording --------------------------------------------------------------------------------

    def _record(self, arrays: Sequence[VulkanArray], old: _Recording | None) -> _Recording:
        """Record for these arrays, in the place of an old recording if there is one."""
        site, pool = self._site, self._pool
        if old is None:
            old = _Recording(DescriptorSets(site.context, [step.pipeline for step in self._steps]), pool.allocate())
        sets, commands = old.sets, old.commands
        places: dict[tuple[int, int], VulkanArray] = dict(zip(self._given, arrays, strict=True))
        temporary, constant = int(SlotClass.TEMPORARY), int(SlotClass.CONSTANT)

        def place(one: Bound) -> tuple[Any, int]:
            cls, at = one.space
            if cls == temporary:
                array = self._arena.bytes
            else:
                array = self._constants[at] if cls == constant else places[one.space]
            return array.block.buffer, array.offset + one.start

        sets.write([(number, binding, *place(one), one.nbytes) for number, binding, one in self._bindings])
        pool.begin(commands[0])
        site.barriers.leading(commands[0])
        self._walk(commands[0], sets)
        site.barriers.trailing(commands[0])
        pool.end(commands[0])
        return old

    def _walk(self, commands: Any, sets: DescriptorSets) -> None:
        lib, ffi = self._site.context.lib, self._site.context.ffi
        null, between, pipeline = ffi.NULL, self._site.barriers.between, None
        for number, step in enumerate(self._steps):
            if step.barrier:
                between(commands)
            handle, layout = step.pipeline.handle, step.pipeline.layout
            bind(lib, commands, None if handle == pipeline else handle, layout, sets.sets + number, null)
            pipeline = handle
            if step.push:
                push(lib, commands, layout, ffi.from_buffer(step.push), len(step.push))
            lib.vkCmdDispatch(commands, *step.groups)


def _same(source: Bound, target: Bound) -> bool:
    """Whether two operands are the same elements in the same order."""
    where = (source.space, source.start) == (target.space, target.start)
    return where and source.operand == target.operand
