"""Frozen graphs: an immutable snapshot of a `Graph` in columns, with a structural hash.

Columns (one sequence a fact, indexed by node) instead of an object a node: the cyclic garbage collector has
nothing to walk, and a graph of 10^5 nodes freezes in C-speed passes over slices. Node ids are topological by
construction. Nodes that no output needs are dropped; every input stays, since every input is fed.

A function here that may take over a millisecond takes `breathe` and calls it at least every few thousand
cheap steps, so that a thread that freezes can give the interpreter away.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, compress
from typing import TYPE_CHECKING, Any

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.bundle import BundleType, OutputView, bundle_type
from fuel_async.ir.op import Attrs, Check, Form, OpSpec, TensorType
from fuel_async.ir.ops.inplace import RELEASE
from fuel_async.ir.ops.movement import Slice
from fuel_async.ir.symbol import Dim, Shape, Symbolic, bind

if TYPE_CHECKING:
    from types import CodeType

    from numpy.typing import NDArray

    from fuel_async.ir.device import DeviceLocation
    from fuel_async.ir.dtype import DType

#: A C call over more items than this holds the interpreter for longer than a loop should wait.
SLICE = 2_048

Breathe = Callable[[], None]


def no_breath() -> None:
    """Breathe for callers that run where nobody waits."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FrozenGraph:
    """An immutable graph, safe to share between threads.

    Equal `digest` means equal structure, types and parameters, whatever the constants hold.
    """

    name: str
    digest: bytes
    ops: Sequence[OpSpec]
    args: Sequence[tuple[int, ...]]
    types: Sequence[TensorType]
    attrs: Sequence[Attrs]
    #: Where the user's line built each node: code object and instruction offset, never the frame.
    codes: Sequence[CodeType]
    lastis: Sequence[int]
    inputs: Mapping[str, int]
    constants: Mapping[int, NDArray[Any]]
    outputs: Mapping[str, int]
    #: Outputs whose values are truth values in uint8.
    boolean: frozenset[str]
    #: Symbols of all dimensions and slices, sorted; empty once they are bound.
    symbols: tuple[str, ...]
    #: The device that a kernel node must run on, for the nodes that are pinned.
    pins: Mapping[int, DeviceLocation]
    #: Whether any op may write over its operand; `ir.ordering` says what that asks for.
    destructive: bool = False
    #: The outputs of each node that has several: where they lie in its bytes. The node's type is that of slot 0.
    bundles: Mapping[int, tuple[OutputView, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ops)

    def operand_types(self, node: int) -> list[TensorType]:
        """Return the types of what the node's kernel reads; of a bundle it reads the slot that it copies."""
        types = self.types
        return [types[node]] if self.ops[node].takes_bundle else [types[arg] for arg in self.args[node]]

    def line(self, node: int) -> str:
        """Return `file:line` of the user's line that built the node."""
        code, lasti = self.codes[node], self.lastis[node]
        line = next((n for start, end, n in code.co_lines() if start <= lasti < end), None)
        return f"{code.co_filename}:{line}"

    def describe(self, node: int) -> str:
        """Return the node as error texts name it: id, op, types, operands, and the line that built it."""
        operands = ", ".join(f"%{i} {self.types[i]}" for i in self.args[node])
        name = next((f" {name!r}" for name, i in self.inputs.items() if i == node), "")
        attrs = self.attrs[node]
        extra = "" if attrs is None else f" {attrs}"
        pin = f" pinned to {self.pins[node]}" if node in self.pins else ""
        return (
            f"node %{node} {self.ops[node].name}{name}({operands}){extra} -> {self.types[node]}{pin}, "
            f"built at {self.line(node)}"
        )

    def without_constants(self) -> FrozenGraph:
        """Return the same graph without the constants' values, for what outlives them."""
        return replace(self, constants=dict.fromkeys(self.constants))  # type: ignore[arg-type]

    def bind(self, sizes: Mapping[str, int], breathe: Breathe = no_breath) -> FrozenGraph:
        """Return this graph with its symbols bound to `sizes`; itself when it has none. O(nodes).

        `UnboundSymbol` when `sizes` lacks one of `symbols`; `ShapeMismatch`, naming the node, when a
        dimension becomes negative, a slice leaves its operand, or a maximum of nothing is asked for.
        """
        return self if not self.symbols else _bind(self, sizes, breathe)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A graph as it was at one moment: its columns, which it copies before it grows, and copies of its ports.

    Taking one is O(ports) and happens where the graph is built; freezing it may happen in another thread
    meanwhile.
    """

    name: str
    count: int
    ops: Sequence[OpSpec]
    args: Sequence[tuple[int, ...]]
    types: Sequence[TensorType]
    attrs: Sequence[Attrs]
    codes: Sequence[CodeType]
    lastis: Sequence[int]
    inputs: Mapping[str, int]
    constants: Mapping[int, NDArray[Any]]
    outputs: Mapping[str, int]
    pins: Mapping[int, DeviceLocation]
    #: Whether there may be ops that write over their operand.
    destructive: bool = False
    #: The types of nodes that have several outputs.
    bundles: Mapping[int, BundleType] = field(default_factory=dict)


def freeze(graph: Snapshot, breathe: Breathe = no_breath) -> FrozenGraph:
    """Return the immutable form of `graph`. O(nodes), about 1 µs a node."""
    live = _live(graph, breathe)
    sources: tuple[Sequence[Any], ...] = (
        graph.ops,
        graph.args,
        graph.types,
        graph.attrs,
        graph.codes,
        graph.lastis,
    )
    place: Sequence[int]
    if live.count(1) == len(live):
        # The graph's own columns: it copies them before it grows. Copies would be young objects of as many references
        # as there are nodes, and the collector would walk them in one go, for milliseconds.
        columns, place = list(sources), range(graph.count)
    else:
        kept: list[list[Any]] = [[] for _ in sources]
        for part in _parts(graph.count):
            for column, source in zip(kept, sources, strict=True):
                column.extend(compress(source[part], live[part]))
            breathe()
        place = _places(live, breathe)
        for part in _parts(len(kept[1])):
            kept[1][part] = [tuple([place[a] for a in arg]) for arg in kept[1][part]]
            breathe()
        columns = [*kept]
    ops, args, types, attrs, codes, lastis = columns
    inputs = {name: place[i] for name, i in graph.inputs.items()}
    outputs = {name: place[i] for name, i in graph.outputs.items()}
    constants = {place[i]: value for i, value in graph.constants.items() if live[i]}
    pins = _pins(graph, live, place, breathe)
    bundles = {place[node]: kind.views for node, kind in graph.bundles.items() if live[node]}
    ports = [inputs, outputs, list(constants)]
    digest, symbols = _digest(ops, args, types, attrs, [*ports, pins] if pins else ports, breathe)
    boolean = frozenset(name for name, node in outputs.items() if _is_boolean(ops, args, node))
    return FrozenGraph(
        graph.name,
        digest,
        ops,
        args,
        types,
        attrs,
        codes,
        lastis,
        inputs,
        constants,
        outputs,
        boolean,
        tuple(sorted(symbols)),
        pins,
        graph.destructive and _destroys(ops, breathe),
        bundles,
    )


def with_ops(graph: FrozenGraph, ops: Sequence[OpSpec], breathe: Breathe = no_breath) -> FrozenGraph:
    """Return `graph` with other ops at its nodes, which take the same operands and parameters. O(nodes)."""
    ports = [graph.inputs, graph.outputs, list(graph.constants)]
    if graph.pins:
        ports.append(graph.pins)
    digest, _ = _digest(ops, graph.args, graph.types, graph.attrs, ports, breathe)
    return replace(graph, ops=ops, digest=digest)


def _pins(graph: Snapshot, live: bytearray, place: Sequence[int], breathe: Breathe) -> dict[int, DeviceLocation]:
    """The pins of the live nodes. The graph's own go on growing only after it has copied them."""
    pins: dict[int, DeviceLocation] = {}
    for count, (node, device) in enumerate(graph.pins.items()):
        if live[node]:
            pins[place[node]] = device
        if not count % SLICE:
            breathe()
    return pins


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + SLICE, count)) for start in range(0, count, SLICE)]


def _digest(
    ops: Sequence[OpSpec],
    args: Sequence[tuple[int, ...]],
    types: Sequence[TensorType],
    attrs: Sequence[Attrs],
    ports: object,
    breathe: Breathe,
) -> tuple[bytes, set[str]]:
    """Hash of the columns as they stand, whatever was dropped on the way to them, and the symbols met."""
    state, seen, dims = hashlib.blake2b(digest_size=16), dict[TensorType, int](), set[Dim]()
    for part in _parts(len(ops)):
        places, params = args[part], attrs[part]
        state.update(array("q", [op.code for op in ops[part]]).tobytes())
        state.update(array("q", map(len, places)).tobytes())
        state.update(array("q", chain.from_iterable(places)).tobytes())
        state.update(array("q", [seen.setdefault(kind, len(seen)) for kind in types[part]]).tobytes())
        state.update(repr([(i, a) for i, a in enumerate(params) if a is not None]).encode())
        dims.update(*[a.starts for a in params if a.__class__ is Slice])
        breathe()
    state.update(repr([len(ops), [str(kind) for kind in seen], ports]).encode())
    dims.update(*[kind.shape for kind in seen])
    return state.digest(), {name for dim in dims if isinstance(dim, Symbolic) for name in dim.symbols}


def _live(graph: Snapshot, breathe: Breathe) -> bytearray:
    live = bytearray(graph.count)
    for index in chain(graph.outputs.values(), graph.inputs.values()):
        live[index] = 1
    args = graph.args
    for index in range(graph.count - 1, -1, -1):
        if live[index]:
            for arg in args[index]:
                live[arg] = 1
        if not index % SLICE:
            breathe()
    if graph.destructive:
        _keep_releases(graph, live, breathe)
    return live


def _destroys(ops: Sequence[OpSpec], breathe: Breathe) -> bool:
    """Whether any of the ops may write over its operand."""
    for part in _parts(len(ops)):
        if any(op.destroys is not None for op in set(ops[part])):
            return True
        breathe()
    return False


def _keep_releases(graph: Snapshot, live: bytearray, breathe: Breathe) -> None:
    """Mark the releases of what is live: nobody reads them."""
    for part in _parts(graph.count):
        for index, op in enumerate(graph.ops[part], part.start):
            if op is RELEASE and live[graph.args[index][0]]:
                live[index] = 1
        breathe()


def _places(live: bytearray, breathe: Breathe) -> list[int]:
    """The new ids of the live nodes; entries of the others mean nothing."""
    places = [0]
    for part in _parts(len(live)):
        places.extend(accumulate(live[part], initial=places.pop()))
        breathe()
    return places


def _is_boolean(ops: Sequence[OpSpec], args: Sequence[tuple[int, ...]], node: int) -> bool:
    while ops[node].form is Form.VIEW:
        node = args[node][0]
    return ops[node].boolean


def _bind(graph: FrozenGraph, sizes: Mapping[str, int], breathe: Breathe) -> FrozenGraph:
    bound: dict[TensorType, TensorType] = {}
    interned: dict[tuple[Shape, Any], TensorType] = {}
    types: list[TensorType] = []
    attrs: list[Attrs] = []
    for part in _parts(len(graph)):
        for node, kind in enumerate(graph.types[part], part.start):
            if kind in bound:
                continue
            slots = kind.views if isinstance(kind, BundleType) else (kind,)
            concrete: list[TensorType] = []
            for slot in slots:
                shape = tuple([bind(dim, sizes) for dim in slot.shape])
                if any(dim < 0 for dim in shape):
                    raise ShapeMismatch(graph.describe(node), f"has a negative dimension in {shape} at {dict(sizes)}")
                concrete.append(interned.setdefault((shape, slot.dtype), _concrete(shape, slot.dtype)))
            bound[kind] = bundle_type(concrete) if isinstance(kind, BundleType) else concrete[0]
        types.extend([bound[kind] for kind in graph.types[part]])
        attrs.extend([_bind_slice(a, sizes) if a.__class__ is Slice else a for a in graph.attrs[part]])
        breathe()
    used = [(name, sizes[name]) for name in graph.symbols]
    digest = hashlib.blake2b(graph.digest + repr(used).encode(), digest_size=16).digest()
    bundles = {node: kind.views for node in graph.bundles if isinstance(kind := types[node], BundleType)}
    result = replace(graph, digest=digest, types=types, attrs=attrs, symbols=(), bundles=bundles)
    for part in _parts(len(graph)):
        for node, op in enumerate(graph.ops[part], part.start):
            if op.check is not None:
                _check_bound(graph, result, node, op.check)
        breathe()
    return result


def _check_bound(graph: FrozenGraph, result: FrozenGraph, node: int, check: Check) -> None:
    """Refuse a node whose parameters, with the sizes known, do not fit together."""
    args, attrs, types = graph.args[node], result.attrs[node], result.types
    if attrs is graph.attrs[node] and all(graph.types[i].nbytes >= 0 for i in (node, *args)):
        return
    try:
        check([types[arg] for arg in args], attrs, types[node].shape)
    except GraphError as error:
        raise ShapeMismatch(result.describe(node), error.reason) from None


def _concrete(shape: tuple[int, ...], dtype: DType) -> TensorType:
    nbytes = dtype.nbytes
    for dim in shape:
        nbytes *= dim
    return TensorType(shape, dtype, nbytes)


def _bind_slice(attrs: Any, sizes: Mapping[str, int]) -> Attrs:
    """A slice with its starts bound; the same object when it has no symbolic one."""
    starts: tuple[Dim, ...] = attrs.starts
    if not any(isinstance(start, Symbolic) for start in starts):
        return attrs  # type: ignore[no-any-return]
    return Slice(tuple([bind(start, sizes) for start in attrs.starts]), attrs.steps)
