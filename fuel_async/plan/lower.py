"""Lowering: from a frozen graph with concrete shapes to rows of kernels over slots.

Views disappear into slot layouts; a node whose kernel is not there, a reshape that allows no view, and an output that
no kernel can write where the caller will receive it become explicit copies. What is the same for equal (op, parameters,
operand types) is resolved once: kernel, parameters, price, scratch. Nothing is placed yet: see `plan.regions` and
`plan.memory`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuel_async.cost import Rates
from fuel_async.dispatch import (
    BackendCapabilities,
    BindingEntry,
    KernelBindingTable,
    KernelRef,
    OpParams,
    SlotClass,
    derive_params,
    kernel_dtypes,
)
from fuel_async.errors import FuelError, GraphError
from fuel_async.ir import (
    BY_NAME,
    Breathe,
    DType,
    Form,
    FrozenGraph,
    Layout,
    OpSpec,
    PrecisionGuarantee,
    TensorType,
    no_breath,
)

#: A feed read by more rows than this is copied once, if it is no larger: patching an argument costs about 80 ns a run.
COPIED_FEED_READERS = 16
COPIED_FEED_NBYTES = 4_096

#: An output read by more rows than this is written to the arena and copied at the end.
COPIED_OUTPUT_READERS = 16

_COPY = BY_NAME["copy"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a plan is made for: the kernels and facts of one device, and what the caller demands."""

    bindings: KernelBindingTable
    capabilities: BackendCapabilities
    rates: Rates
    precision: PrecisionGuarantee | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """Everything about a kernel call that follows from op, parameters and operand types."""

    kernel: KernelRef
    params: OpParams
    cost_ns: int
    in_place: bool
    strided: bool
    scratch_nbytes: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Rows:
    """The lowered graph in columns: one entry a kernel call, in an order in which producers precede consumers."""

    graph: FrozenGraph
    nodes: array[int] = field(default_factory=lambda: array("i"))
    resolved: list[Resolved] = field(default_factory=list)
    #: Input slots, then the output slot.
    slots: list[tuple[int, ...]] = field(default_factory=list)
    #: Rows whose results this row reads, without repeats.
    preds: list[tuple[int, ...]] = field(default_factory=list)
    # --- by slot ---
    classes: array[int] = field(default_factory=lambda: array("b"))
    places: array[int] = field(default_factory=lambda: array("q"))
    types: list[TensorType] = field(default_factory=list)
    layouts: list[Layout | None] = field(default_factory=list)
    #: The slot whose bytes this slot shows: itself unless it is a view.
    bases: array[int] = field(default_factory=lambda: array("i"))
    #: The row that writes the slot's bytes, -1 when they come from outside. By base slot.
    writers: array[int] = field(default_factory=lambda: array("i"))

    def slot(self, cls: SlotClass, place: int, kind: TensorType, writer: int = -1) -> int:
        """Add a slot that owns its bytes."""
        number = len(self.types)
        self.classes.append(cls)
        self.places.append(place)
        self.types.append(kind)
        self.layouts.append(None)
        self.bases.append(number)
        self.writers.append(writer)
        return number

    def view(self, base: int, layout: Layout, kind: TensorType) -> int:
        """Add a slot that shows the bytes of another one."""
        number = len(self.types)
        self.classes.append(self.classes[base])
        self.places.append(self.places[base])
        self.types.append(kind)
        self.layouts.append(layout)
        self.bases.append(base)
        self.writers.append(self.writers[base])
        return number

    def row(self, node: int, resolved: Resolved, inputs: list[int], output: int) -> int:
        """Add a kernel call that writes the slot `output`."""
        number = len(self.resolved)
        writers, bases = self.writers, self.bases
        if len(inputs) == 1:
            pred = writers[bases[inputs[0]]]
            self.preds.append((pred,) if pred >= 0 else ())
        else:
            found = {writers[bases[slot]] for slot in inputs}
            found.discard(-1)
            self.preds.append(tuple(found))
        writers[output] = number
        self.nodes.append(node)
        self.resolved.append(resolved)
        inputs.append(output)
        self.slots.append(tuple(inputs))
        return number


def lower(graph: FrozenGraph, target: Target, breathe: Breathe = no_breath) -> Rows:
    """Return the kernel calls of `graph`. O(nodes). `NoBackendForOp` names the line that built an unserved node."""
    return _Lowering(graph, target).run(breathe)


class _Lowering:
    """One pass over the nodes; `slot_of` maps each node to the slot that holds or shows its value."""

    def __init__(self, graph: FrozenGraph, target: Target) -> None:
        self.graph, self.target, self.rows = graph, target, Rows(graph)
        self.slot_of = [-1] * len(graph)
        self.memo: dict[tuple[object, ...], Resolved] = {}
        self.readers = self._readers()
        #: Nodes that a kernel may write where the caller will receive them, with their output's index.
        self.direct = self._direct_outputs()

    def _readers(self) -> list[int]:
        readers = [0] * len(self.graph)
        for args in self.graph.args:
            for arg in args:
                readers[arg] += 1
        return readers

    def _direct_outputs(self) -> dict[int, int]:
        nodes = list(self.graph.outputs.values())
        return {
            node: index
            for index, node in enumerate(nodes)
            if self.graph.ops[node].form is Form.KERNEL
            and nodes.count(node) == 1
            and self.readers[node] <= COPIED_OUTPUT_READERS
        }

    def run(self, breathe: Breathe) -> Rows:
        graph, rows, slot_of, memo = self.graph, self.rows, self.slot_of, self.memo
        types, attrs, direct = graph.types, graph.attrs, self.direct
        self._leaves()
        for node, (op, args) in enumerate(zip(graph.ops, graph.args, strict=True)):
            if op.form is Form.KERNEL:
                kind = types[node]
                key = (op, attrs[node], kind, *[types[arg] for arg in args])
                resolved = memo.get(key)
                if resolved is None:
                    resolved = memo[key] = self._resolve(node, op, attrs[node], [types[a] for a in args], kind)
                inputs = [slot_of[arg] for arg in args]
                if not resolved.strided:
                    inputs = [self._dense(node, slot) for slot in inputs]
                if node in direct:
                    output = rows.slot(SlotClass.OUTPUT, direct[node], kind)
                else:
                    output = rows.slot(SlotClass.TEMPORARY, -1, kind)
                slot_of[node] = output
                rows.row(node, resolved, inputs, output)
            elif op.form is Form.VIEW:
                slot_of[node] = self._view(node, op, args[0])
            if not node & 63:
                breathe()
        self._copied_outputs()
        return rows

    def _leaves(self) -> None:
        graph, rows = self.graph, self.rows
        for index, node in enumerate(graph.constants):
            self.slot_of[node] = rows.slot(SlotClass.CONSTANT, index, graph.types[node])
        for index, node in enumerate(graph.inputs.values()):
            kind = graph.types[node]
            slot = rows.slot(SlotClass.FEED, index, kind)
            if self.readers[node] > COPIED_FEED_READERS and kind.nbytes <= COPIED_FEED_NBYTES:
                slot = self._copy(node, slot)
            self.slot_of[node] = slot

    def _view(self, node: int, op: OpSpec, arg: int) -> int:
        rows, kind, slot = self.rows, self.graph.types[node], self.slot_of[arg]
        layout = rows.layouts[slot] or Layout.contiguous(_sizes(rows.types[slot]))
        assert op.view is not None  # the form says so
        shown = op.view(layout, self.graph.attrs[node], _sizes(kind))
        if shown is None:
            slot = self._copy(node, slot)
            if rows.types[slot].shape == kind.shape:
                return slot
            shown = Layout.contiguous(_sizes(kind))
        return rows.view(rows.bases[slot], shown, kind)

    def _dense(self, node: int, slot: int) -> int:
        """The slot itself when it is row-major, else a copy of it for a kernel that reads no strides."""
        layout = self.rows.layouts[slot]
        if layout is None or (layout.is_contiguous and not layout.offset):
            return slot
        return self._copy(node, slot)

    def _copy(self, node: int, slot: int, output: int | None = None) -> int:
        """Add a copy of what `slot` shows, into a temporary or into the given output; return its slot."""
        rows, kind = self.rows, self.rows.types[slot]
        key = (_COPY, None, kind, kind)
        resolved = self.memo.get(key)
        if resolved is None:
            resolved = self.memo[key] = self._resolve(node, _COPY, None, [kind], kind)
        cls = SlotClass.TEMPORARY if output is None else SlotClass.OUTPUT
        made = rows.slot(cls, -1 if output is None else output, kind)
        rows.row(node, resolved, [slot], made)
        return made

    def _copied_outputs(self) -> None:
        for index, node in enumerate(self.graph.outputs.values()):
            if node not in self.direct:
                self._copy(node, self.slot_of[node], output=index)

    def _resolve(
        self, node: int, op: OpSpec, attrs: Any, inputs: Sequence[TensorType], output: TensorType
    ) -> Resolved:
        target = self.target
        assert op.kind is not None  # the form says so
        dtypes = kernel_dtypes(op, inputs, output)
        try:
            entry = _pick(target, op, dtypes)
            params = derive_params(op, attrs, inputs, output)
            scratch: Callable[..., tuple[int, ...]] | None = getattr(entry.kernel, "scratch_nbytes", None)
            return Resolved(
                kernel=entry.kernel,
                params=params,
                cost_ns=target.rates.predict_ns(
                    op.kind,
                    entry.cost([_sizes(t) for t in (*inputs, output)], dtypes, params, target.capabilities),
                ),
                in_place=entry.caps.in_place,
                strided=entry.caps.strided_input,
                scratch_nbytes=() if scratch is None else scratch(params, inputs, (output,)),
            )
        except FuelError as error:
            error.add_note(f"for {self.graph.describe(node)}")
            raise


def _pick(target: Target, op: OpSpec, dtypes: tuple[DType, ...]) -> BindingEntry:
    """The first sibling that serves dense operands and meets the precision floor."""
    assert op.kind is not None
    backend = target.capabilities.backend_id
    first = target.bindings.lookup_entry(op.kind, dtypes, backend)
    floor = target.precision
    if floor is None or first.precision.satisfies(floor):
        return first
    for entry in target.bindings.lookup_alternatives(op.kind, dtypes, backend):
        if not entry.caps.requires_broadcast and entry.precision.satisfies(floor):
            return entry
    raise GraphError(op.name, f"no kernel on {backend} meets the precision floor {floor}", [d.value for d in dtypes])


def _sizes(kind: TensorType) -> tuple[int, ...]:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound


