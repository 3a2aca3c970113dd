"""Program instances of the host: kernels and their arguments bound once, walked as `zip(kernels, args)`.

Arguments are tuples of arrays; where an array is given by each submission the arguments are a list whose entries are
set before the walk and cleared after it, so that an idle instance keeps none of a caller's arrays alive. A kernel that
offers no way of binding is called through its plain signature with storages, made anew for each call. A kernel of
several outputs is bound to arrays over the bytes of its bundle, one for each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fuel_async.dispatch import BINDABLE, BindableKernel, KernelCall, LaneProgram, SlotClass
from fuel_async.errors import InternalError, KernelFailed, Stopped
from fuel_async.ir import CPU_DEVICE, Breathe, Layout, SubstrateClass
from fuel_async.storage import HostArena, Storage, from_array, laid_out, slot_arrays

if TYPE_CHECKING:
    from fuel_async.streams import History, StopFlag

Array = NDArray[Any]
Pace = Callable[[bool, int], None]

#: The stop flag and the clock are looked at once a chunk of this predicted time.
CHUNK_NS = 64_000

#: numpy releases the interpreter for operands of more elements than a few hundred; below, kernels hold it.
HOLDS_NS = 1_500

#: Placeholder in an argument list for what a submission gives.
_UNSET: Any = None


#: A bound call: the callable, and its arguments as (place in the row, -) or (-1, a value of the kernel's own). None
#: for a kernel whose arguments do not hold the operands themselves: it is bound anew for each call.
_Pattern = tuple[Callable[..., object], list[tuple[int, Any]]] | None


class _Chunk:
    """Consecutive kernels that run without looking up."""

    __slots__ = ("args", "cost_ns", "first", "holds", "kernels")

    def __init__(
        self, first: int, holds: bool, cost_ns: int, kernels: list[Callable[..., object]], args: list[Sequence[Any]]
    ) -> None:
        self.first, self.holds, self.cost_ns, self.kernels, self.args = first, holds, cost_ns, kernels, args


#: Where an array that a submission gives goes: its position among all that are given, the argument list, the position
#: in that, and how it lies in the given array.
_Patch = tuple[int, list[Any], int, "Layout | None"]


class HostInstance:
    """A lane program bound to host arrays. One run at a time."""

    __slots__ = ("__weakref__", "_arena", "_chunks", "_patches", "_positions", "history", "program")

    def __init__(
        self,
        program: LaneProgram,
        constants: Sequence[Array],
        arena: HostArena,
        history: History,
        breathe: Breathe,
    ) -> None:
        self.program, self._arena, self.history = program, arena, history
        self._patches: list[_Patch] = []
        # By class and place: the position among all that a submission gives, in the order of `execute`.
        given = [(cls, place) for cls, places in zip(BINDABLE, program.ports, strict=True) for place in places]
        self._positions: dict[tuple[int, int], int] = {port: position for position, port in enumerate(given)}
        self._chunks = self._bind(constants, breathe)

    @property
    def predicted_ns(self) -> int:
        """What the next run of it is expected to take."""
        return self.history.predicted_ns

    @property
    def measures(self) -> bool:
        """Whether its history wants to know how long the next run works."""
        return self.history.due

    def execute(
        self,
        feeds: Sequence[Any],
        outputs: Sequence[Any],
        sessions: Sequence[Any],
        scalars: Sequence[Any],
        stop: StopFlag | None,
        pace: Pace | None,
    ) -> None:
        """Run every kernel in order over the given arrays. `KernelFailed` names the node; `Stopped` when told to."""
        given = (*feeds, *outputs, *sessions, *scalars)
        if len(given) != len(self._positions):
            raise InternalError(f"{len(self._positions)} arrays must be given to {self.program!r}, got {len(given)}")
        try:
            for value, args, at, layout in self._patches:
                args[at] = given[value] if layout is None else laid_out(given[value], layout)
            self._walk(stop, pace)
        finally:
            for _, args, at, _ in self._patches:
                args[at] = _UNSET

    def _walk(self, stop: StopFlag | None, pace: Pace | None) -> None:
        for chunk in self._chunks:
            if stop is not None and stop.stopped:
                raise Stopped
            if pace is not None:
                pace(chunk.holds, chunk.cost_ns)
            rest = iter(chunk.args)
            try:
                for kernel, args in zip(chunk.kernels, rest):  # noqa: B905 - strict would cost a check a kernel
                    kernel(*args)
            except BaseException as error:
                # The iterator knows how far it got: no counter in the loop.
                done = len(chunk.args) - operator.length_hint(rest)
                node = self.program.nodes[chunk.first + done - 1]
                described = self.program.graph.describe(node)
                raise KernelFailed(described, str(CPU_DEVICE), f"{type(error).__name__}: {error}", node) from error

    def _bind(self, constants: Sequence[Array], breathe: Breathe) -> list[_Chunk]:
        program, known = self.program, self._arena.arrays.__getitem__
        chunks: list[_Chunk] = []
        kernels: list[Callable[..., object]] = []
        bound: list[Sequence[Any]] = []
        patterns: dict[tuple[object, ...], _Pattern] = {}
        first = spent = held = 0
        last = len(program) - 1
        for index, (what, row) in enumerate(zip(program.calls, program.rows, strict=True)):
            given = False
            try:
                args: Sequence[Any] = tuple(map(known, row))
            except KeyError:
                args = [self._array(slot, constants) for slot in row]
                given = any(arg is None for arg in args)
            call = getattr(what.kernel, "direct", None)
            if call is None or given:
                call, args = self._call(what, row, list(args), given, patterns)
            kernels.append(call)
            bound.append(args)
            cost = what.cost_ns
            spent += cost
            held += cost < HOLDS_NS
            if spent >= CHUNK_NS or index == last:
                chunks.append(_Chunk(first, held > 0, spent, kernels, bound))
                first, spent, held, kernels, bound = index + 1, 0, 0, [], []
            if not index & 63:
                breathe()
        return chunks

    def _array(self, slot: int, constants: Sequence[Array]) -> Array | None:
        """The array of a slot that is known now, None for one that submissions give."""
        arena, slots = self._arena, self.program.slots
        cls = slots.classes[slot]
        if cls == SlotClass.TEMPORARY:
            return arena.array(slots, slot)
        if cls != SlotClass.CONSTANT:
            return None
        found = arena.arrays.get(slot)
        if found is None:
            found = arena.arrays[slot] = laid_out(constants[slots.places[slot]], slots.layouts[slot])
        return found

    def _call(
        self,
        what: KernelCall,
        row: tuple[int, ...],
        arrays: list[Any],
        given: bool,
        patterns: dict[tuple[object, ...], _Pattern],
    ) -> tuple[Callable[..., object], Sequence[Any]]:
        """Bind one kernel; register its arguments that submissions give."""
        kernel: Any = what.kernel
        direct = getattr(kernel, "direct", None)
        if direct is not None:
            self._patch(arrays, row, {position: position for position in range(len(row))})
            return direct, arrays
        if getattr(kernel, "bind", None) is None:
            return self._plain(what, row, arrays, given)
        # A binding follows from the call and the layouts of its operands: made once, it serves equal rows. What a
        # kernel carves from its scratch is its own: rows share it only where their scratch lies at the same place.
        layouts, places = self.program.slots.layouts, self.program.slots.places
        scratch = row[what.arity + 1 :]
        if what.bundle:
            output = what.arity
            row = (*row[:output], *row[output : output + 1] * len(what.bundle), *scratch)
            arrays = [*arrays[:output], *slot_arrays(_bundled(arrays[output], what)), *arrays[output + 1 :]]
        key = (what, *[layouts[slot] for slot in row], *[places[slot] for slot in scratch])
        if key not in patterns:
            patterns[key] = self._pattern(what, row, arrays)
        pattern = patterns[key]
        if pattern is None:
            return self._each_time(what, row, arrays)
        call, template = pattern
        args = [arrays[place] if place >= 0 else value for place, value in template]
        if not given:
            return call, tuple(args)
        self._patch(args, row, {at: place for at, (place, _) in enumerate(template) if place >= 0})
        return call, args

    def _pattern(self, what: KernelCall, row: tuple[int, ...], arrays: Sequence[Any]) -> _Pattern:
        """Let the kernel bind once and find its operands among the arguments."""
        slots, inputs, kernel = self.program.slots, what.arity, cast("BindableKernel", what.kernel)
        # Each operand as an object of its own, so that one given twice is found twice.
        operands = [
            stand_in(slots.types[slot], slots.layouts[slot]) if array is None else array.view()
            for slot, array in zip(row, arrays, strict=True)
        ]
        end = inputs + (len(what.bundle) or 1)
        call, args = kernel.bind(operands[:inputs], operands[inputs:end], what.params, operands[end:])
        places = {id(operand): place for place, operand in enumerate(operands)}
        if not {id(operand) for operand in operands[:end]} <= {id(arg) for arg in args}:
            return None
        return call, [(places.get(id(arg), -1), None if id(arg) in places else arg) for arg in args]

    def _each_time(
        self, what: KernelCall, row: tuple[int, ...], arrays: list[Any]
    ) -> tuple[Callable[..., object], Sequence[Any]]:
        """Call a kernel by binding it over the operands of the moment."""
        inputs, kernel = what.arity, cast("BindableKernel", what.kernel)
        end = inputs + (len(what.bundle) or 1)

        def call(*operands: Array) -> None:
            bound, args = kernel.bind(operands[:inputs], operands[inputs:end], what.params, operands[end:])
            bound(*args)

        self._patch(arrays, row, {position: position for position in range(len(row))})
        return call, arrays

    def _patch(self, args: list[Any], row: tuple[int, ...], places: dict[int, int]) -> None:
        slots = self.program.slots
        for at, position in places.items():
            slot = row[position]
            cls = slots.classes[slot]
            if cls in BINDABLE:
                args[at] = _UNSET
                self._patches.append((self._positions[cls, slots.places[slot]], args, at, slots.layouts[slot]))

    def _plain(
        self, what: KernelCall, row: tuple[int, ...], arrays: list[Any], given: bool
    ) -> tuple[Callable[..., object], Sequence[Any]]:
        """Call a kernel through `(inputs, outputs, layouts, params)`, over storages made for each call."""
        kernel, inputs, params = what.kernel, what.arity, what.params
        shapes = [self.program.slots.types[slot].shape for slot in row[: inputs + 1]]
        if what.bundle:  # its slot is bytes, and the layout that of its first output
            shapes[inputs] = what.bundle[0].shape
        layouts = tuple([Layout.contiguous(shape) for shape in shapes])  # type: ignore[arg-type]  # concrete

        def call(*operands: Array) -> None:
            storages = [from_array(np.ascontiguousarray(operand)) for operand in operands[:inputs]]
            storages.append(_bundled(operands[inputs], what) if what.bundle else from_array(operands[inputs]))
            kernel(storages[:inputs], storages[inputs:], layouts, params)

        args: list[Any] = arrays[: inputs + 1]
        if given:
            self._patch(args, row, {position: position for position in range(len(args))})
        return call, args


def _bundled(data: Array, what: KernelCall) -> Storage:
    """The bytes of a bundle as a storage with its slots."""
    storage = Storage(what.bundle[0].dtype, data.nbytes, CPU_DEVICE, SubstrateClass.HostBytes, data)
    return storage.with_bundle(what.bundle)


def stand_in(kind: Any, layout: Layout | None) -> Array:
    """An uninitialised array of the given type and layout."""
    dtype = kind.dtype.require_np()
    if layout is None:
        return np.empty(kind.shape, dtype)
    span = layout.span()
    return laid_out(np.empty(0 if span is None else span[1] + 1, dtype), layout)
