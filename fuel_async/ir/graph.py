"""The graph under construction: an append-only arena of nodes, kept as columns.

`Graph` appends and types nodes; `Tensor` (in `ir.tensor`) is the handle users compose; `freeze` makes the
immutable snapshot that everything else reads. Each node remembers the user's line that built it. A graph is
built in one thread; a snapshot may be frozen in another while building goes on.

    >>> g = Graph("double")
    >>> x = g.input("x", ("n",))
    >>> g.output("y", x + x)
"""

from __future__ import annotations

import sys
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.errors import BundleMisuse, DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.bundle import BundleType, bundle_type
from fuel_async.ir.constants import constant_array, scalar_array
from fuel_async.ir.device import DeviceLocation
from fuel_async.ir.dtype import DType
from fuel_async.ir.frozen import Breathe, FrozenGraph, Snapshot, freeze, no_breath
from fuel_async.ir.op import Attrs, Form, OpSpec, TensorType, require_array_dtype
from fuel_async.ir.ops.leaf import CONSTANT, INPUT
from fuel_async.ir.shape import normal_dims, show
from fuel_async.ir.slots import Bundle
from fuel_async.ir.symbol import Shape, Symbolic, is_static
from fuel_async.ir.tensor import Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, FrameType

    from numpy.typing import NDArray

#: Names that `Executor.run` takes for itself and that therefore cannot name an input.
RESERVED = frozenset({"on_device", "precision", "timeout_s", "priority"})

#: Source files whose frames are ours: the user's line is the first one outside of them.
_OWN_FILES = frozenset(
    __file__.removesuffix("graph.py") + f"{name}.py"
    for name in (
        *("graph", "tensor", "views", "products", "functions", "text", "folds", "gradients", "fused"),
        *("borders", "creation", "decompose", "indexed", "inplace", "scans", "slots"),
    )
)


class NodeFacts(NamedTuple):
    """One node: its op, operands, type and parameters, and the value of a constant."""

    op: OpSpec
    args: tuple[int, ...]
    type: TensorType
    attrs: Attrs
    value: NDArray[Any] | None


class Graph:
    """A DAG of tensor operations, described once and run many times. One thread builds it."""

    def __init__(self, name: str = "graph") -> None:
        """Start an empty graph; `name` appears in errors and reports."""
        self.name = name
        self._ops: list[OpSpec] = []
        self._args: list[tuple[int, ...]] = []
        self._types: list[TensorType] = []
        self._attrs: list[Attrs] = []
        self._codes: list[CodeType] = []
        self._lastis: array[int] = array("i")
        #: Whether a snapshot has the columns: then they are copied before they grow.
        self._lent = False
        self._inputs: dict[str, int] = {}
        self._constants: dict[int, NDArray[Any]] = {}
        self._outputs: dict[str, int] = {}
        self._hints: dict[str, int] = {}
        self._pins: dict[int, DeviceLocation] = {}
        #: Where kernels that are appended now must run.
        self._pin: DeviceLocation | None = None
        #: The types of nodes that have several outputs.
        self._bundles: dict[int, BundleType] = {}
        self._interned: dict[tuple[Shape, DType], TensorType] = {}
        self._interned_bundles: dict[tuple[TensorType, ...], BundleType] = {}
        self._inferred: dict[tuple[Any, ...], TensorType] = {}
        self._scalars: dict[tuple[Any, ...], Tensor] = {}
        self._frozen: FrozenGraph | None = None
        #: Whether an op that may write over its operand has been added.
        self._destructive = False

    def __len__(self) -> int:
        return len(self._ops)

    def __repr__(self) -> str:
        ports = f"{len(self._inputs)} inputs, {len(self._outputs)} outputs"
        return f"<Graph {self.name!r}: {len(self)} nodes, {ports}>"

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """Type of each input by name, in the order they were declared."""
        return {name: self._types[node] for name, node in self._inputs.items()}

    @property
    def outputs(self) -> Mapping[str, TensorType]:
        """Type of each output by name, in the order they were declared."""
        return {name: self._types[node] for name, node in self._outputs.items()}

    @property
    def hints(self) -> Mapping[str, int]:
        """Usual sizes of symbols, as inputs were declared with."""
        return dict(self._hints)

    @property
    def frozen(self) -> FrozenGraph | None:
        """The snapshot of the graph as it is now, when somebody has frozen it since the last change."""
        return self._frozen

    def input(
        self,
        name: str,
        shape: Sequence[int | str | Symbolic],
        dtype: DType = DType.F32,
        *,
        hint: Mapping[str, int] | None = None,
    ) -> Tensor:
        """Declare a value that each run feeds by `name`.

        A string dimension is a symbol, bound by the feed's shape. `hint` gives sizes of symbols that are usual, for
        explanations before the first run; it changes nothing else. `GraphError` when the name is taken, empty or one
        of `Executor.run`'s own, or a hint is no size of a symbol of this input; `DTypeMismatch` when no array can hold
        `dtype`.
        """
        _check_name("input", name, self._inputs, RESERVED)
        dims = normal_dims("input", shape)
        if any(isinstance(dim, int) and dim < 0 for dim in dims):
            raise ShapeMismatch("input", f"a dimension of {name!r} is negative: {show(dims)}")
        require_array_dtype("input", dtype)
        self._take_hints(name, dims, hint or {})
        made = self._append(INPUT, (), self.type_of(dims, dtype), None)
        self._inputs[name] = made.index
        return made

    def _take_hints(self, name: str, dims: Shape, hint: Mapping[str, int]) -> None:
        symbols = {symbol for dim in dims if isinstance(dim, Symbolic) for symbol in dim.symbols}
        for symbol, size in hint.items():
            if symbol not in symbols or size < 0:
                there = ", ".join(sorted(symbols)) or "none"
                raise GraphError("input", f"hint {symbol}={size} is no size of a symbol of {name!r}; it has {there}")
        self._hints.update(hint)

    def constant(self, value: object, dtype: DType | None = None) -> Tensor:
        """Hold a value that is known now.

        A read-only C-contiguous array that owns its bytes (or stands on `bytes`) is adopted as it is; any
        other is copied, so that nobody can write it afterwards. Python numbers and lists become float32 or
        int64 when `dtype` is None; bool becomes uint8. `GraphError` when numpy can make no such array of
        `value`.
        """
        if dtype is not None:
            require_array_dtype("constant", dtype)
        if isinstance(value, Tensor | Bundle):
            raise GraphError("constant", "wanted an array or numbers; a Tensor has no value yet", [value.type])
        array = constant_array(value, dtype)
        made = self._append(CONSTANT, (), self.type_of(array.shape, DType.from_numpy(array.dtype)), None)
        self._constants[made.index] = array
        return made

    def output(self, name: str, value: Tensor) -> None:
        """Deliver `value` from each run under `name`."""
        _check_name("output", name, self._outputs)
        self.own("output", value)
        self._outputs[name] = value.index
        self._frozen = None

    def node(
        self, op: OpSpec, operands: Sequence[Tensor | Bundle], attrs: Attrs = None, shape: Shape | None = None
    ) -> Tensor:
        """Append an op of the table that has operands.

        `shape` is given for the views that cannot infer it, and for no other op. `GraphError` and its kinds
        name op, shapes and dtypes when operands, `attrs` or `shape` do not fit.
        """
        for operand in operands:
            if operand.__class__ is not Tensor or operand.graph is not self:
                self._own_operand(op, operand)
        if op.arity not in (-1, len(operands)) or not operands:
            raise _wrong_arity(op, operands)
        types = tuple([operand.type for operand in operands])
        key = (op, attrs, shape, *types)
        try:
            result = self._inferred.get(key)
        except TypeError as error:
            raise GraphError(op.name, f"wanted hashable parameters, got {attrs} and shape {shape}", types) from error
        if result is None:
            if op.slots:
                raise BundleMisuse(op.name, "gives several outputs; build it with Graph.bundle()", types)
            result = self._inferred[key] = self._result(op, types, attrs, shape)
        return self._append(op, tuple([operand.index for operand in operands]), result, attrs)

    def bundle(self, op: OpSpec, operands: Sequence[Tensor], attrs: Attrs = None) -> Bundle:
        """Append an op that gives several outputs; tensors are what `Bundle.slot` gives. Errors are those of `node`."""
        for operand in operands:
            self.own(op.name, operand)
        types = tuple([operand.type for operand in operands])
        if not op.slots:
            raise BundleMisuse(op.name, "gives one output; build it with Graph.node()", types)
        if op.arity not in (-1, len(operands)) or not operands:
            raise _wrong_arity(op, operands)
        try:
            hash(attrs)
        except TypeError as error:
            raise GraphError(op.name, f"wanted hashable parameters, got {attrs}", types) from error
        kind = self._result(op, types, attrs, None)
        made = self._append(op, tuple([operand.index for operand in operands]), kind, attrs)
        assert isinstance(kind, BundleType)  # the op says so
        self._bundles[made.index] = kind
        return Bundle(self, made.index, kind)

    @contextmanager
    def on(self, device: DeviceLocation | str) -> Iterator[None]:
        """Pin what is built in the block to `device`, for example `"cpu:0"`: it runs there or not at all.

        Kernels are pinned, not views, inputs and constants: those have no place. The innermost block counts.
        `UserError` when `device` names none; whether there is such a device is known when the graph runs.
        """
        if not isinstance(device, DeviceLocation | str):
            raise GraphError("on", f'wanted a DeviceLocation or text such as "cpu:0", got {device!r}')
        before = self._pin
        self._pin = device if isinstance(device, DeviceLocation) else DeviceLocation.parse(device)
        try:
            yield
        finally:
            self._pin = before

    def node_at(self, index: int) -> NodeFacts:
        """Return what is known of a node, in O(1): for who looks at a graph while it grows."""
        return NodeFacts(
            self._ops[index], self._args[index], self._types[index], self._attrs[index], self._constants.get(index)
        )

    def freeze(self, breathe: Breathe = no_breath) -> FrozenGraph:
        """Return the immutable snapshot of the graph; made once for each state of it. O(nodes)."""
        if self._frozen is None:
            self._frozen = freeze(self.snapshot(), breathe)
        return self._frozen

    def snapshot(self) -> Snapshot:
        """Return the graph as it is now, in O(ports), for another thread to freeze."""
        self._lent = True
        return Snapshot(
            self.name,
            len(self._ops),
            self._ops,
            self._args,
            self._types,
            self._attrs,
            self._codes,
            self._lastis,
            dict(self._inputs),
            dict(self._constants),
            dict(self._outputs),
            self._pins,
            self._destructive,
            dict(self._bundles),
        )

    def adopt_frozen(self, frozen: FrozenGraph, snapshot: Snapshot) -> FrozenGraph:
        """Remember what another thread froze, unless the graph has changed since `snapshot` was taken; return it."""
        if snapshot.count == len(self._ops) and snapshot.outputs == self._outputs:
            self._frozen = frozen
        return frozen

    # --- for the builder's own modules ----------------------------------------------------------------------

    def _result(self, op: OpSpec, types: tuple[TensorType, ...], attrs: Attrs, shape: Shape | None) -> TensorType:
        """The type of a node; refuses operands, attrs or a shape that do not fit the op."""
        if attrs.__class__ is not (op.attrs or type(None)):
            raise GraphError(op.name, f"takes other parameters than {attrs}", types)
        if op.is_given is (shape is None):
            raise GraphError(op.name, "wanted the shape exactly where it cannot be inferred", types)
        try:
            result, dtype = op.infer(types, attrs) if shape is None else (shape, types[0].dtype)
            if any(isinstance(dim, int) and dim < 0 for dim in result):
                raise ShapeMismatch(op.name, f"{show(result)} has a negative dimension", types)
            if op.check is not None:
                op.check(types, attrs, result)
            if op.outputs is not None:
                return self.bundle_of([self.type_of(*slot) for slot in op.outputs(types, attrs)])
        except (TypeError, ValueError, LookupError) as error:  # fields that hold something else than they should
            raise GraphError(op.name, f"cannot take {attrs} and shape {shape}: {error}", types) from error
        self._destructive = self._destructive or op.destroys is not None
        return self.type_of(result, dtype)

    def type_of(self, shape: Shape, dtype: DType) -> TensorType:
        """Return the one `TensorType` object of this graph for (shape, dtype)."""
        key = (shape, dtype)
        found = self._interned.get(key)
        if found is None:
            nbytes = -1
            if is_static(shape):
                nbytes = dtype.nbytes
                for dim in shape:
                    nbytes *= int(dim)  # type: ignore[arg-type]
            found = self._interned[key] = TensorType(shape, dtype, nbytes)
        return found

    def bundle_of(self, slots: Sequence[TensorType]) -> BundleType:
        """Return the one type of this graph for a node with outputs of the types `slots`."""
        key = tuple(slots)
        found = self._interned_bundles.get(key)
        if found is None:
            found = self._interned_bundles[key] = bundle_type(slots)
        return found

    def scalar(self, value: Scalar, dtype: DType) -> Tensor:
        """Return a rank-0 constant, one for each value and dtype: numbers take the dtype of the tensor
        beside them.

        `DTypeMismatch` for a float among integers, and for a finite number beyond the dtype's range.
        """
        key = (repr(value), dtype)
        found = self._scalars.get(key)
        if found is None:
            if isinstance(value, float) and not dtype.is_float:
                reason = f"{value!r} is no integer; cast the tensor with astype() first"
                raise DTypeMismatch("scalar", reason, [dtype])
            array = scalar_array(value, dtype)
            if array is None:
                reason = f"{value!r} is beyond its range; cast the tensor with astype() first"
                raise DTypeMismatch("scalar", reason, [dtype])
            found = self._scalars[key] = self.constant(array)
        return found

    def own(self, op: str, value: object) -> None:
        """Refuse anything but a tensor of this graph."""
        if isinstance(value, Bundle):
            raise BundleMisuse(op, "a bundle is no tensor; take its outputs with slot() or owned()", [value.type])
        if not isinstance(value, Tensor):
            got = type(value).__name__
            raise GraphError(op, f"wanted a Tensor, got {got}; wrap arrays with Graph.constant()")
        if value.graph is not self:
            raise GraphError(op, f"a tensor of {value.graph!r} cannot be used in {self!r}", [value.type])

    def _own_operand(self, op: OpSpec, value: object) -> None:
        """Refuse what is no operand of `op`: for most ops anything but a tensor of this graph."""
        if not (op.takes_bundle and isinstance(value, Bundle) and value.graph is self):
            self.own(op.name, value)

    def _own_columns(self) -> None:
        """Leave the columns to the snapshots that have them, and go on with copies."""
        self._ops, self._args, self._types = list(self._ops), list(self._args), list(self._types)
        self._attrs, self._codes, self._lastis = list(self._attrs), list(self._codes), self._lastis[:]
        self._pins = dict(self._pins)
        self._lent = False

    def _append(self, op: OpSpec, args: tuple[int, ...], kind: TensorType, attrs: Attrs) -> Tensor:
        if self._lent:
            self._own_columns()
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and (code := frame.f_code).co_filename in _OWN_FILES:
            frame = frame.f_back
        ops = self._ops
        index = len(ops)
        self._codes.append(code)
        # f_lineno decodes a table: that waits until somebody asks.
        self._lastis.append(-1 if frame is None else frame.f_lasti)
        self._args.append(args)
        self._types.append(kind)
        self._attrs.append(attrs)
        if self._pin is not None and op.form is Form.KERNEL:
            self._pins[index] = self._pin
        ops.append(op)
        self._frozen = None
        return Tensor(self, index, kind)


def _wrong_arity(op: OpSpec, operands: Sequence[Tensor | Bundle]) -> GraphError:
    wanted = "one or more" if op.arity < 0 else op.arity
    return GraphError(op.name, f"takes {wanted} operands, got {len(operands)}", [operand.type for operand in operands])


def _check_name(what: str, name: object, taken: Mapping[str, int], reserved: frozenset[str] = frozenset()) -> None:
    if not isinstance(name, str):
        raise GraphError(what, f"wanted a string as name, got {name!r}")
    if name in taken or name in reserved or not name:
        reason = "reserved" if name in reserved else "taken" if name else "empty"
        raise GraphError(what, f"the name {name!r} is {reason}; choose another")
