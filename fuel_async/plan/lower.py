"""Lowering: from a frozen graph with concrete shapes to rows of kernels over slots.

Nodes are taken in the order of `ir.ordering`, which is that of their numbers unless an op may write over its operand.
Views disappear into slot layouts; a node whose kernel is not there, a reshape that allows no view, and an output that
no kernel can write where the caller will receive it become explicit copies. The outputs of a node that has several are
views of one slot of bytes, its bundle. What is the same for equal (op, parameters, operand types) is resolved once:
kernel, parameters, price, scratch. Nothing is placed yet: see `plan.regions` and `plan.memory`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.dispatch import KernelCall, SlotClass
from fuel_async.errors import FuelError
from fuel_async.ir import (
    BY_NAME,
    Breathe,
    DType,
    Form,
    FrozenGraph,
    Layout,
    OpSpec,
    TensorType,
    derive_ordering,
    no_breath,
)
from fuel_async.plan.overwrites import order_overwrites
from fuel_async.plan.resolve import Target, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A feed read by more rows than this is copied once, if it is no larger: patching an argument costs about 80 ns a run.
COPIED_FEED_READERS = 16
COPIED_FEED_NBYTES = 4_096

#: An output read by more rows than this is written to the arena and copied at the end.
COPIED_OUTPUT_READERS = 16

#: Kernel calls that a target remembers from plan to plan: about a kilobyte each.
MOST_CALLS = 16_384

_COPY, _VIEW_SLOT, _VIEW_OWNED = BY_NAME["copy"], BY_NAME["view_slot"], BY_NAME["view_owned"]

#: Rows that are counted or gone through in one C call.
_SLICE = 1_024


class Rows:
    """The lowered graph in columns: one entry a kernel call, in an order in which producers precede consumers.

    The slot of a node's own value has the node's number; slots that lowering adds (copies, scratch) follow. Columns by
    slot are plain sequences, filled at once: a graph of 10^5 nodes makes no object a node.
    """

    __slots__ = (
        "bases",
        "calls",
        "classes",
        "graph",
        "layouts",
        "nodes",
        "pieces",
        "places",
        "preds",
        "slots",
        "types",
        "writers",
    )

    def __init__(self, graph: FrozenGraph) -> None:
        count = len(graph)
        self.graph = graph
        # --- by row ---
        self.nodes: array[int] = array("i")
        self.calls: list[KernelCall] = []
        #: Input slots, then the output slot.
        self.slots: list[tuple[int, ...]] = []
        #: Rows whose results this row reads, and rows that must have read what it writes over; without repeats.
        self.preds: list[tuple[int, ...]] = []
        # --- by slot ---
        self.classes = bytearray([SlotClass.TEMPORARY]) * count
        self.places: array[int] = array("q", [-1]) * count
        self.types: list[TensorType] = list(graph.types)
        self.layouts: list[Layout | None] = [None] * count
        #: The slot whose bytes this slot shows: itself unless it is a view.
        self.bases: array[int] = array("i", np.arange(count, dtype=np.int32).tobytes())
        #: The row that writes the slot's bytes, -1 when they come from outside. By base slot.
        self.writers: array[int] = array("i", [-1]) * count
        #: By slot that shows bytes of a bundle: the slot of that output as a whole. What crosses regions are these.
        self.pieces: dict[int, int] = {}
        self._make_bundles(graph)

    def _make_bundles(self, graph: FrozenGraph) -> None:
        """The slot of a node with several outputs holds bytes: of one type for equal sizes, as others are."""
        sizes: dict[int, TensorType] = {}
        for node, views in graph.bundles.items():
            nbytes = max(view.end for view in views)
            self.types[node] = sizes.setdefault(nbytes, TensorType((nbytes,), DType.U8, nbytes))

    def slot(self, cls: SlotClass, place: int, kind: TensorType) -> int:
        """Add a slot that owns its bytes."""
        number = len(self.types)
        self.classes.append(cls)
        self.places.append(place)
        self.types.append(kind)
        self.layouts.append(None)
        self.bases.append(number)
        self.writers.append(-1)
        return number

    def show(self, slot: int, base: int, layout: Layout) -> None:
        """Make a node's slot a view of another slot's bytes."""
        self.classes[slot], self.places[slot] = self.classes[base], self.places[base]
        self.layouts[slot], self.bases[slot] = layout, base

    def shows_all(self, slot: int) -> bool:
        """Whether the slot shows all bytes of its base, row-major: itself, or in another shape."""
        layout, base = self.layouts[slot], self.bases[slot]
        if slot == base:
            return True
        plain = layout is None or (layout.is_contiguous and not layout.offset)
        return plain and self.types[slot].nbytes == self.types[base].nbytes

    def row(self, node: int, call: KernelCall, inputs: tuple[int, ...], output: int) -> None:
        """Add a kernel call that writes the slot `output`."""
        writers, bases = self.writers, self.bases
        first = writers[bases[inputs[0]]]
        preds: tuple[int, ...]
        if len(inputs) == 1:
            preds = (first,) if first >= 0 else ()
        elif len(inputs) == 2:
            second = writers[bases[inputs[1]]]
            if second < 0 or second == first:
                preds = (first,) if first >= 0 else ()
            else:
                preds = (first, second) if first >= 0 else (second,)
        else:
            preds = tuple({writers[bases[slot]] for slot in inputs} - {-1})
        self.preds.append(preds)
        writers[output] = len(self.calls)
        self.nodes.append(node)
        self.calls.append(call)
        self.slots.append((*inputs, output))


def lower(graph: FrozenGraph, target: Target, breathe: Breathe = no_breath) -> Rows:
    """Return the kernel calls of `graph`. O(nodes). `NoBackendForOp` names the line that built an unserved node."""
    rows = _Lowering(graph, target).run(breathe)
    if graph.destructive:
        order_overwrites(rows, breathe)
    return rows


class _Lowering:
    """One pass over the nodes."""

    def __init__(self, graph: FrozenGraph, target: Target) -> None:
        self.graph, self.target, self.rows = graph, target, Rows(graph)
        #: Slots that stand in for a node's own: copies.
        self.instead: dict[int, int] = {}
        #: Row-major copies of strided slots, for kernels that read no strides.
        self.dense: dict[int, int] = {}
        #: The slot that shows an output of a bundle: (bundle, output).
        self.outputs: dict[tuple[int, int], int] = {}
        self.memo = target.calls
        if len(self.memo) > MOST_CALLS:
            self.memo.clear()

    def run(self, breathe: Breathe) -> Rows:
        graph, rows, memo, instead = self.graph, self.rows, self.memo, self.instead
        types, attrs = graph.types, graph.attrs
        kernel, view, view_owned, slot_types = Form.KERNEL, Form.VIEW, _VIEW_OWNED, rows.types
        add_row = rows.row
        readers = self._readers(breathe)
        direct = self._direct_outputs(readers)
        self._leaves(readers)
        nodes: Iterable[tuple[int, tuple[OpSpec, tuple[int, ...]]]] = enumerate(zip(graph.ops, graph.args, strict=True))
        if graph.destructive:
            order = derive_ordering(graph, breathe).order
            nodes = ((node, (graph.ops[node], graph.args[node])) for node in order)
        for node, (op, args) in nodes:
            form = op.form
            if form is kernel:
                kind, given = types[node], attrs[node]
                if given is not None and 0.0 in given:  # -0.0 is another parameter, though it is equal
                    given = (*given, repr(given))
                if len(args) == 2:
                    left, right = args
                    key: tuple[object, ...] = (op, given, kind, types[left], types[right])
                elif op is view_owned:
                    args = (self._output_of(node, args[0], rows.slot(SlotClass.TEMPORARY, -1, kind)),)
                    key = (_COPY, None, kind, kind)
                else:
                    key = (op, given, kind, *[types[arg] for arg in args])
                call = memo.get(key)
                if call is None:
                    call = memo[key] = resolve(self.target, graph, node, op, [slot_types[a] for a in args], kind)
                inputs = args
                if instead and not instead.keys().isdisjoint(args):
                    inputs = tuple([instead.get(arg, arg) for arg in args])
                if not call.strided:
                    inputs = tuple([self._dense(node, slot) for slot in inputs])
                if node in direct:
                    rows.classes[node], rows.places[node] = SlotClass.OUTPUT, direct[node]
                add_row(node, call, inputs, node)
            elif op is _VIEW_SLOT:
                self._output_of(node, args[0], node)
            elif form is view:
                self._view(node, op, instead.get(args[0], args[0]))
            if not node & 63:
                breathe()
        for index, node in enumerate(graph.outputs.values()):
            if node not in direct:
                self._copy(node, instead.get(node, node), rows.slot(SlotClass.OUTPUT, index, types[node]))
        return rows

    def _readers(self, breathe: Breathe) -> array[int]:
        """How many operands of kernels each node is, as it is or through views."""
        args, ops, view = self.graph.args, self.graph.ops, Form.VIEW
        readers = count_items(args, len(args), breathe)
        for start in range(len(ops) // _SLICE * _SLICE, -1, -_SLICE):
            shown = [node for node, op in enumerate(ops[start : start + _SLICE], start) if op.form is view]
            for node in reversed(shown):
                readers[args[node][0]] += readers[node] - 1
            breathe()
        return readers

    def _direct_outputs(self, readers: Sequence[int]) -> dict[int, int]:
        """Nodes that a kernel may write where the caller will receive them, with their output's index."""
        nodes = list(self.graph.outputs.values())
        times = Counter(nodes)
        return {
            node: index
            for index, node in enumerate(nodes)
            if self.graph.ops[node].form is Form.KERNEL and times[node] == 1 and readers[node] <= COPIED_OUTPUT_READERS
        }

    def _leaves(self, readers: Sequence[int]) -> None:
        graph, rows = self.graph, self.rows
        for index, node in enumerate(graph.constants):
            rows.classes[node], rows.places[node] = SlotClass.CONSTANT, index
        for index, node in enumerate(graph.inputs.values()):
            rows.classes[node], rows.places[node] = SlotClass.FEED, index
            if readers[node] > COPIED_FEED_READERS and graph.types[node].nbytes <= COPIED_FEED_NBYTES:
                self.instead[node] = self._temporary(node, node)

    def _view(self, node: int, op: OpSpec, slot: int) -> None:
        rows, kind = self.rows, self.graph.types[node]
        layout = rows.layouts[slot] or Layout.contiguous(_sizes(rows.types[slot]))
        assert op.view is not None  # the form says so
        try:
            shown = op.view(layout, self.graph.attrs[node], _sizes(kind))
        except FuelError as error:
            error.add_note(f"for {self.graph.describe(node)}")
            raise
        if shown is None:
            slot = self._temporary(node, slot)
            shown = Layout.contiguous(_sizes(kind))
        rows.show(node, rows.bases[slot], shown)
        if slot in rows.pieces:
            rows.pieces[node] = rows.pieces[slot]

    def _output_of(self, node: int, bundle: int, slot: int) -> int:
        """Make `slot` show the output of a bundle that `node` takes; return it."""
        (number,) = self.graph.attrs[node] or ()
        self.rows.show(slot, bundle, self.graph.bundles[bundle][number].layout)
        self.rows.pieces[slot] = self.outputs.setdefault((bundle, number), slot)
        return slot

    def _dense(self, node: int, slot: int) -> int:
        """The slot itself when it is row-major, else a copy of it for a kernel that reads no strides."""
        layout = self.rows.layouts[slot]
        if layout is None or (layout.is_contiguous and not layout.offset):
            return slot
        made = self.dense.get(slot)
        if made is None:
            made = self.dense[slot] = self._temporary(node, slot)
        return made

    def _temporary(self, node: int, slot: int) -> int:
        """A row-major copy of what `slot` shows; its slot."""
        made = self.rows.slot(SlotClass.TEMPORARY, -1, self.rows.types[slot])
        self._copy(node, slot, made)
        return made

    def _copy(self, node: int, slot: int, output: int) -> None:
        kind = self.rows.types[slot]
        key = (_COPY, None, kind, kind)
        call = self.memo.get(key)
        if call is None:
            call = self.memo[key] = resolve(self.target, self.graph, node, _COPY, [kind], kind)
        self.rows.row(node, call, (slot,), output)


def count_items(tuples: Sequence[tuple[int, ...]], bound: int, breathe: Breathe) -> array[int]:
    """How often each number below `bound` occurs in the tuples."""
    counts = np.zeros(bound, np.int64)
    for start in range(0, len(tuples), _SLICE):
        np.add.at(counts, np.fromiter(chain.from_iterable(tuples[start : start + _SLICE]), np.int64), 1)
        breathe()
    return array("q", counts.tobytes())


def _sizes(kind: TensorType) -> tuple[int, ...]:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound
