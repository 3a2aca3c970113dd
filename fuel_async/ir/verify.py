"""What a legal frozen graph is, as named rules, and the verifier that holds a graph against them.

For tests and for whoever rewrites graphs: a rule that fails is a bug of the rewriting code, not of the user.
Not on the path of a run. What `Graph.freeze` and `FrozenGraph.bind` give is legal by construction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.errors import GraphIllegal, UserError
from fuel_async.ir.bundle import BundleType, compose_bundle
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import Form, TensorType
from fuel_async.ir.ops import OPS
from fuel_async.ir.ops.leaf import CONSTANT, INPUT
from fuel_async.ir.shape import show
from fuel_async.ir.symbol import Symbolic, is_static

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fuel_async.ir.frozen import FrozenGraph
    from fuel_async.ir.symbol import Shape

#: (node, what was found there); node -1 stands for the graph as a whole.
Violation = tuple[int, str]


class Rule(NamedTuple):
    """One law of legal graphs. A rule may rely on those before it."""

    name: str
    violations: Callable[[FrozenGraph], Iterator[Violation]]


def verify(graph: FrozenGraph) -> None:
    """Raise `GraphIllegal`, naming node and rule, for the first broken rule; O(nodes)."""
    for rule in RULES:
        for node, found in rule.violations(graph):
            where = graph.describe(node) if 0 <= node < len(graph) and rule not in _COLUMN_RULES else ""
            raise GraphIllegal(node, rule.name, f"{found} ({where})" if where else found)


def _columns(graph: FrozenGraph) -> Iterator[Violation]:
    for name in ("args", "types", "attrs", "codes", "lastis"):
        entries = len(getattr(graph, name))
        if entries != len(graph.ops):
            yield -1, f"{entries} {name} for {len(graph.ops)} ops"


def _operands(graph: FrozenGraph) -> Iterator[Violation]:
    for node, args in enumerate(graph.args):
        if not all(0 <= arg < node for arg in args):
            yield node, f"operands {args}"


def _ops(graph: FrozenGraph) -> Iterator[Violation]:
    known = frozenset(OPS)
    return ((node, f"{op!r}") for node, op in enumerate(graph.ops) if op not in known)


def _arity(graph: FrozenGraph) -> Iterator[Violation]:
    for node, (op, args) in enumerate(zip(graph.ops, graph.args, strict=True)):
        fits = bool(args) if op.arity < 0 else len(args) == op.arity
        if not fits:
            yield node, f"{len(args)} operands"


def _attrs(graph: FrozenGraph) -> Iterator[Violation]:
    for node, (op, attrs) in enumerate(zip(graph.ops, graph.attrs, strict=True)):
        if type(attrs) is not (op.attrs or type(None)):
            yield node, f"{attrs!r}"


def _leaves(graph: FrozenGraph) -> Iterator[Violation]:
    named, held = list(graph.inputs.values()), graph.constants.keys()
    if len(set(named)) != len(named):
        yield -1, f"two inputs are one node: {dict(graph.inputs)}"
    for op, nodes in ((INPUT, set(named)), (CONSTANT, set(held))):
        listed = {node for node, found in enumerate(graph.ops) if found is op}
        for node in sorted(listed ^ nodes):
            yield node, f"{'unlisted' if node in listed else 'no'} {op.name}"


def _bundles(graph: FrozenGraph) -> Iterator[Violation]:
    several = {node for node, op in enumerate(graph.ops) if op.slots}
    for node in sorted(several ^ graph.bundles.keys()):
        yield node, "several outputs that are not listed" if node in several else "slots of a node with one output"
    for node in several & graph.bundles.keys():
        kind = graph.types[node]
        if not isinstance(kind, BundleType):
            yield node, f"{kind} for several outputs"
        elif kind.views != graph.bundles[node]:
            yield node, f"slots of {kind} that are not those of the type"
    for node, (op, args) in enumerate(zip(graph.ops, graph.args, strict=True)):
        for arg in args:
            if (arg in graph.bundles) is not op.takes_bundle:
                yield node, f"{op.name} of %{arg}, which is {'a bundle' if arg in graph.bundles else 'no bundle'}"


def _results(graph: FrozenGraph) -> Iterator[Violation]:
    seen: dict[tuple[object, ...], str | None] = {}
    for node, (op, args, attrs, kind) in enumerate(zip(graph.ops, graph.args, graph.attrs, graph.types, strict=True)):
        if op.form is Form.LEAF:
            continue
        operands = [graph.types[arg] for arg in args]
        key = (op, attrs, kind, *operands)
        if key not in seen:
            seen[key] = _result_problem(graph, node)
        problem = seen[key]
        if problem is not None:
            yield node, problem


def _result_problem(graph: FrozenGraph, node: int) -> str | None:
    op, attrs, kind = graph.ops[node], graph.attrs[node], graph.types[node]
    operands = [graph.types[arg] for arg in graph.args[node]]
    try:
        given = kind.shape, operands[0].dtype
        shape, dtype = given if op.is_given else op.infer(operands, attrs)
        if op.check is not None:
            op.check(operands, attrs, kind.shape)
    except (UserError, LookupError) as error:
        return str(error)
    if (shape, dtype) != (kind.shape, kind.dtype):
        return f"{kind} where {dtype}{show(shape)} follows from the operands"
    return None if op.outputs is None else _bundle_problem(kind, op.outputs(operands, attrs))


def _bundle_problem(kind: TensorType, slots: Sequence[tuple[Shape, DType]]) -> str | None:
    """What is wrong with the type of a node that has outputs of the given shapes and dtypes."""
    assert isinstance(kind, BundleType)  # an earlier rule
    found = [(view.shape, view.dtype) for view in kind.views]
    if found != list(slots):
        return f"{kind} where {len(slots)} other slots follow from the operands"
    total, offsets = -1, [-1] * len(slots)
    if all(is_static(shape) for shape, _ in slots):
        total, views = compose_bundle([(dtype, shape) for shape, dtype in slots])
        offsets = [view.offset for view in views]
    if (kind.total_nbytes, [view.offset for view in kind.views]) != (total, offsets):
        return f"{kind} does not lie as its slots are packed: in {total} bytes, from {offsets} on"
    return None


def _sizes(graph: FrozenGraph) -> Iterator[Violation]:
    for node, kind in enumerate(graph.types):
        problem = _size_problem(kind)
        if problem is not None:
            yield node, problem


def _size_problem(kind: TensorType) -> str | None:
    nbytes = kind.dtype.nbytes
    for dim in kind.shape:
        if isinstance(dim, Symbolic):
            nbytes = -1
            break
        if dim < 0:
            return f"{kind} has a negative dimension"
        nbytes *= dim
    return None if kind.nbytes == nbytes else f"{kind} states {kind.nbytes} bytes, not {nbytes}"


def _constants(graph: FrozenGraph) -> Iterator[Violation]:
    arrays: Mapping[int, NDArray[Any] | None] = graph.constants
    for node, array in arrays.items():
        kind = graph.types[node]
        if array is None:  # of a graph without its constants' values
            continue
        if (array.shape, array.dtype) != (kind.shape, kind.dtype.np):
            yield node, f"an array {array.dtype}{show(array.shape)} for {kind}"
        elif array.flags.writeable or not array.flags.c_contiguous:
            yield node, "an array that is writable or not row-major"


def _outputs(graph: FrozenGraph) -> Iterator[Violation]:
    for name, node in graph.outputs.items():
        if not 0 <= node < len(graph):
            yield node, f"output {name!r}"
        elif node in graph.bundles:
            yield node, f"output {name!r} is a bundle"
    for name in graph.boolean:
        if name not in graph.outputs:
            yield -1, f"boolean output {name!r} is no output"
        elif graph.types[graph.outputs[name]].dtype is not DType.U8:
            yield graph.outputs[name], f"boolean output {name!r} is not uint8"


def _symbols(graph: FrozenGraph) -> Iterator[Violation]:
    known = set(graph.symbols)
    for node, (kind, attrs) in enumerate(zip(graph.types, graph.attrs, strict=True)):
        unknown = (_names(kind.shape) | _names(getattr(attrs, "starts", ()))) - known
        if unknown:
            yield node, f"unlisted symbols {sorted(unknown)}"


def _pins(graph: FrozenGraph) -> Iterator[Violation]:
    for node, device in graph.pins.items():
        if not 0 <= node < len(graph) or graph.ops[node].form is not Form.KERNEL:
            yield node, f"no kernel to run on {device}"


def _names(dims: Shape) -> set[str]:
    return {name for dim in dims if isinstance(dim, Symbolic) for name in dim.symbols}


RULES: tuple[Rule, ...] = (
    Rule("every column has one entry a node", _columns),
    Rule("operands precede their users", _operands),
    Rule("ops are those of the table", _ops),
    Rule("a node has as many operands as its op takes", _arity),
    Rule("parameters are of the op's own class", _attrs),
    Rule("inputs and constants are listed, each once", _leaves),
    Rule("bundles are listed, and read by the ops that take a slot alone", _bundles),
    Rule("types state their size in bytes", _sizes),
    Rule("result types follow from operands and parameters", _results),
    Rule("constants hold what their types say", _constants),
    Rule("outputs exist and truth values are uint8", _outputs),
    Rule("symbols are listed", _symbols),
    Rule("only kernels are pinned", _pins),
)

#: Rules after which a node can not be described yet.
_COLUMN_RULES = RULES[:2]
