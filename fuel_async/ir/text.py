"""The text form of a graph: one node a line, exact, and read back with every type inferred anew.

    graph "scores"
    %0 = input "x" : f32[batch, 4]
    %1 = constant AAAAPw== : f32[]  # 0.5
    %2 = mul %0 %1 : f32[batch, 4]
    %3 = sum %2 axes=[1] keepdims=false : f32[batch]
    output "y" = %3

Names are JSON strings; a constant's bytes are base64 of the row-major array, little-endian. Blank lines and
lines that begin with # are skipped. `@cpu:0` after a node's parameters pins it to that device. A graph with
bound symbols reads back as a graph of fixed shapes. A node with several outputs states the types of all of them, and
`view_slot` and `view_owned` take one:

    %5 = selective_scan %0 %1 %2 %3 %4 delta_softplus=false : (f32[1, 8, 2], f32[1, 2, 4])
    %6 = view_slot %5 slot=1 : f32[1, 2, 4]
"""

from __future__ import annotations

import binascii
import json
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.errors import GraphTextError, UserError
from fuel_async.ir.dtype import DType
from fuel_async.ir.graph import Graph
from fuel_async.ir.op import Form
from fuel_async.ir.ops import BY_NAME
from fuel_async.ir.ops.borders import PAD_MODES, Pad, PadBackward, Roll
from fuel_async.ir.ops.bundle import Slot
from fuel_async.ir.ops.elementwise import Affine, Cast, Clamp, PowI
from fuel_async.ir.ops.indexing import Along, IndexSelect
from fuel_async.ir.ops.inplace import WriteSlice, WriteSliceDoff, WriteSliceRotating
from fuel_async.ir.ops.leaf import CONSTANT, INPUT
from fuel_async.ir.ops.masks import MaskedFill, Triangular
from fuel_async.ir.ops.movement import Axes, Concat, Permute, Slice
from fuel_async.ir.ops.normalise import REDUCTION_NAMES, CrossEntropy, LayerNorm, RmsNorm
from fuel_async.ir.ops.reduce import ArgExtreme, Cumulate, Reduce
from fuel_async.ir.ops.scan import SelectiveScan
from fuel_async.ir.symbol import parse_dim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from fuel_async.ir.frozen import FrozenGraph, Snapshot
    from fuel_async.ir.op import Attrs, OpSpec, TensorType
    from fuel_async.ir.slots import Bundle
    from fuel_async.ir.tensor import Tensor


class _Codec(NamedTuple):
    """How one field of a node's parameters is written and read."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _listed(item: _Codec) -> _Codec:
    def write(values: tuple[Any, ...]) -> str:
        return f"[{', '.join(item.write(value) for value in values)}]"

    def read(text: str) -> tuple[Any, ...]:
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError(f"{text!r} is no list in brackets")
        return tuple([item.read(part) for part in text[1:-1].split(", ") if text != "[]"])

    return _Codec(write, read)


_DIM = _Codec(str, parse_dim)
_INT = _Codec(str, int)
_FLOAT = _Codec(repr, float)
_BOOL = _Codec(lambda value: str(value).lower(), {"true": True, "false": False}.__getitem__)
_DTYPE = _Codec(lambda code: DType.ALL[code].as_str(), lambda text: DType.parse(text).code)
_REDUCTION = _Codec(REDUCTION_NAMES.__getitem__, REDUCTION_NAMES.index)
_PAD_MODE = _Codec(PAD_MODES.__getitem__, PAD_MODES.index)
#: An integer or a float, as it is.
_NUMBER = _Codec(repr, lambda text: float(text) if set(text) - set("-0123456789") else int(text))
_SHAPE, _INTS = _listed(_DIM), _listed(_INT)

#: The codec of each field of each class of parameters.
CODECS: Mapping[type[tuple[Any, ...]], Mapping[str, _Codec]] = {
    Affine: {"mul": _FLOAT, "add": _FLOAT},
    Along: {"axis": _INT},
    ArgExtreme: {"axis": _INT, "keepdims": _BOOL},
    Axes: {"axes": _INTS},
    Cast: {"code": _DTYPE},
    Clamp: {"low": _FLOAT, "high": _FLOAT},
    Concat: {"axis": _INT},
    CrossEntropy: {"reduction": _REDUCTION, "ignore_index": _INT},
    Cumulate: {"axis": _INT},
    IndexSelect: {"axis": _INT},
    LayerNorm: {"eps": _FLOAT},
    MaskedFill: {"value": _NUMBER},
    Pad: {"befores": _INTS, "afters": _INTS, "mode": _PAD_MODE, "value": _NUMBER},
    PadBackward: {"befores": _INTS, "afters": _INTS, "mode": _PAD_MODE},
    Permute: {"axes": _INTS},
    PowI: {"exp": _INT},
    Reduce: {"axes": _INTS, "keepdims": _BOOL},
    RmsNorm: {"eps": _FLOAT},
    Roll: {"axis": _INT, "shift": _INT},
    SelectiveScan: {"delta_softplus": _BOOL},
    Slice: {"starts": _SHAPE, "steps": _INTS},
    Slot: {"slot": _INT},
    Triangular: {"diagonal": _INT},
    WriteSlice: {"starts": _INTS},
    WriteSliceDoff: {"axis": _INT, "starts": _INTS},
    WriteSliceRotating: {"axis": _INT, "modulus": _INT, "starts": _INTS},
}

_STRING = r'("(?:[^"\\]|\\.)*")'
_TYPE = r"(\w+)(\[[^\]]*\])"
_GRAPH = re.compile(rf"graph {_STRING}")
_INPUT = re.compile(rf"%(\d+) = input {_STRING} : {_TYPE}")
_CONSTANT = re.compile(rf"%(\d+) = constant ([A-Za-z0-9+/=]*) : {_TYPE}(?:  #.*)?")
_COMPUTED = r"%(\d+) = (\w+)((?: %\d+)*)((?: \w+=(?:\[[^\]]*\]|[^\s\[]+))*)(?: @(\S+))?"
_NODE = re.compile(rf"{_COMPUTED} : ({_TYPE})")
_BUNDLE = re.compile(rf"{_COMPUTED} : (\({_TYPE}(?:, {_TYPE})*\))")
_EACH_TYPE = re.compile(_TYPE)
_OUTPUT = re.compile(rf"output {_STRING} = %(\d+)")
_FIELD = re.compile(r" (\w+)=(\[[^\]]*\]|\S+)")


def to_text(graph: Graph | FrozenGraph) -> str:
    """Return the text form of `graph`; of a graph under construction, nodes that nobody needs included."""
    columns = graph.snapshot() if isinstance(graph, Graph) else graph
    names = {node: name for name, node in columns.inputs.items()}
    lines = [f"graph {json.dumps(columns.name)}"]
    lines += [_node_text(columns, node, names) for node in range(len(graph))]
    lines += [f"output {json.dumps(name)} = %{node}" for name, node in columns.outputs.items()]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Graph:
    """Return the graph that `text` describes.

    `GraphTextError`, with the line's number, when a line has no such form, names what does not exist, or
    states a type that is not the one inferred. Nodes count as built by the line that calls this.
    """
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            reader.read(stripped)
        except GraphTextError as error:
            raise GraphTextError(number, error.reason) from error.__cause__
        except (UserError, ValueError, LookupError) as error:
            raise GraphTextError(number, str(error)) from error
    if reader.graph is None:
        raise GraphTextError(1, 'the text does not begin with a line: graph "name"')
    return reader.graph


def _node_text(columns: Snapshot | FrozenGraph, node: int, names: Mapping[int, str]) -> str:
    op, attrs, kind = columns.ops[node], columns.attrs[node], columns.types[node]
    shown = f": {kind}"
    if op is INPUT:
        return f"%{node} = input {json.dumps(names[node])} {shown}"
    if op is CONSTANT:
        array = columns.constants[node]
        return f"%{node} = constant {_bytes_text(array)} {shown}{_note(array)}"
    words = [f"%{node} =", op.name, *(f"%{arg}" for arg in columns.args[node])]
    if attrs is not None:
        words += [f"{name}={codec.write(getattr(attrs, name))}" for name, codec in CODECS[type(attrs)].items()]
    if node in columns.pins:
        words.append(f"@{columns.pins[node]}")
    return " ".join([*words, shown])


def _bytes_text(array: NDArray[Any]) -> str:
    return binascii.b2a_base64(array.tobytes(), newline=False).decode()


def _note(array: NDArray[Any]) -> str:
    """The value of a scalar, for the reader's eyes only."""
    return "" if array.ndim else f"  # {array.item()!r}"


def _error(reason: str) -> GraphTextError:
    """A `GraphTextError` whose line is filled in by who knows it."""
    return GraphTextError(0, reason)


class _Reader:
    """Builds a graph line by line."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        self._made: list[Tensor | Bundle] = []

    def read(self, line: str) -> None:
        if self.graph is None:
            match = _GRAPH.fullmatch(line)
            if match is None:
                raise _error('the text does not begin with a line: graph "name"')
            self.graph = Graph(json.loads(match[1]))
        elif match := _INPUT.fullmatch(line):
            self._input(self.graph, *match.groups())
        elif match := _CONSTANT.fullmatch(line):
            self._constant(self.graph, *match.groups())
        elif match := _NODE.fullmatch(line):
            self._node(self.graph, *match.groups()[:6])
        elif match := _BUNDLE.fullmatch(line):
            self._bundle(self.graph, *match.groups()[:6])
        elif match := _OUTPUT.fullmatch(line):
            value = self._value(match[2])
            self.graph.output(json.loads(match[1]), value)  # type: ignore[arg-type]  # it refuses bundles
        else:
            raise _error(f"no node, output or comment: {line[:80]!r}")

    def _input(self, graph: Graph, node: str, name: str, dtype: str, dims: str) -> None:
        made = graph.input(json.loads(name), _SHAPE.read(dims), DType.parse(dtype))
        self._add(node, made, made.type)

    def _constant(self, graph: Graph, node: str, data: str, dtype: str, dims: str) -> None:
        shape, kind = _INTS.read(dims), DType.parse(dtype)
        raw = binascii.a2b_base64(data, strict_mode=True)
        made = graph.constant(np.frombuffer(raw, kind.require_np()).reshape(shape))
        self._add(node, made, graph.type_of(shape, kind))

    def _node(self, graph: Graph, node: str, name: str, args: str, fields: str, pin: str | None, kind: str) -> None:
        op, operands = _op(name, pin), self._operands(args)
        (stated,) = _types(graph, kind)
        with nullcontext() if pin is None else graph.on(pin):
            made = graph.node(op, operands, _attrs(op, fields), stated.shape if op.is_given else None)
        self._add(node, made, stated)

    def _bundle(self, graph: Graph, node: str, name: str, args: str, fields: str, pin: str | None, kinds: str) -> None:
        op, operands = _op(name, pin), self._operands(args)
        with nullcontext() if pin is None else graph.on(pin):
            made = graph.bundle(op, operands, _attrs(op, fields))  # type: ignore[arg-type]  # it refuses bundles
        self._add(node, made, graph.bundle_of(_types(graph, kinds)))

    def _operands(self, args: str) -> list[Tensor | Bundle]:
        return [self._value(arg) for arg in args.replace("%", "").split()]

    def _value(self, node: str) -> Tensor | Bundle:
        if int(node) >= len(self._made):
            raise _error(f"%{node} is not defined above")
        return self._made[int(node)]

    def _add(self, node: str, made: Tensor | Bundle, stated: TensorType) -> None:
        if int(node) != len(self._made):
            raise _error(f"wanted node %{len(self._made)} here, got %{node}")
        if made.type is not stated:
            raise _error(f"the type is {made.type}, not {stated}")
        self._made.append(made)


def _op(name: str, pin: str | None) -> OpSpec:
    op = BY_NAME.get(name)
    if op is None:
        raise _error(f"there is no op {name!r}")
    if pin is not None and op.form is not Form.KERNEL:
        raise _error(f"{name} has no place and cannot be pinned to {pin}")
    return op


def _types(graph: Graph, text: str) -> list[TensorType]:
    return [graph.type_of(_SHAPE.read(dims), DType.parse(dtype)) for dtype, dims in _EACH_TYPE.findall(text)]


def _attrs(op: OpSpec, fields: str) -> Attrs:
    given = dict(_FIELD.findall(fields))
    codecs = {} if op.attrs is None else CODECS[op.attrs]
    if list(given) != list(codecs):
        raise _error(f"{op.name} takes the parameters {list(codecs)}, got {list(given)}")
    return None if op.attrs is None else op.attrs(*[codec.read(given[name]) for name, codec in codecs.items()])
