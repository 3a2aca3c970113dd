"""The cases, made of the table of ops: op, dtype, layout, class of shapes and class of values.

What an op takes is said by its recipe for random graphs, what it gives by the reference, and for which dtypes there
should be a kernel by the keys of the host's kernels. A case is a function of its id: it is the same graph with the same
feeds each time, so a failure is repeated by its id alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from fuel_async.errors import DTypeMismatch, InternalError
from fuel_async.ir import BY_NAME, OPS, BackendId, DType, Form, Graph, OpKind, OpSpec
from fuel_async.registry import global_bindings
from fuel_async.testing.conformance.gradients import PAIRS, gradient_graph
from fuel_async.testing.conformance.posed import Posed
from fuel_async.testing.conformance.poses import LAYOUTS, SCALAR_LAYOUTS, SHAPES, VALUES, specials
from fuel_async.testing.graphs import Rolled
from fuel_async.testing.recipes import RECIPES
from fuel_async.testing.reference import Expectation, expectations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuel_async.testing.conformance.subject import Subject
    from fuel_async.testing.estimates.bounds import Array

#: Drawn anew until the recipe's choices fit the case: the first operand has its dtype and one of its shapes.
_TRIES = 64
#: As many tries tell whether an op takes a class of shapes at all.
_PROBES = 12

#: Dtypes of leaves and views, which have no kernels of their own.
_KERNELLESS = (DType.F32, DType.BF16, DType.U8, DType.I64)

#: Ops that square, multiply or sum: extremes of half the exponent leave what they give determined.
_MODEST = frozenset({
    "matmul", "fused_linear", "sum", "mean", "reduce_sum_to", "cumsum", "layer_norm", "rms_norm", "rope",
    "softmax_backward", "log_softmax_backward", "layer_norm_backward", "rms_norm_backward", "powi_backward",
    "reduce_max_to_backward", "pad_backward", "index_add", "scatter_add", "fused_softmax_cross_entropy", "log_softmax",
    "selective_scan", "view_slot", "view_owned",
})  # fmt: skip

#: Ops that move bits, or change the sign alone: the sign of a zero is theirs to keep.
MOVING = frozenset({
    "input", "constant", "neg", "abs", "where", "permute", "slice", "broadcast", "expand_dims", "squeeze", "flip",
    "reshape", "contiguize", "concat", "copy", "index_select", "gather", "roll", "pad", "masked_fill", "triu", "tril",
    "neg_inplace", "abs_inplace", "write_slice", "write_slice_doff", "write_slice_rotating", "move",
})  # fmt: skip


class Built(NamedTuple):
    """A case's graph, what it is fed, and what its outputs must be."""

    graph: Graph
    feeds: Mapping[str, Array]
    expected: Mapping[str, Expectation]


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One op over operands of one kind. `dtype` is that of the first operand, for `cast` of operand and result."""

    op: str
    dtype: str
    layout: str
    shape: str
    values: str

    @property
    def id(self) -> str:
        """What names the case, stable across versions: add/f32/strided/odd/nan."""
        return f"{self.op}/{self.dtype}/{self.layout}/{self.shape}/{self.values}"

    def build(self) -> Built:
        """Make the graph. Takes milliseconds for large operands."""
        if self.values == "gradient":
            feeds = dict[str, Any]()
            graph, expected = gradient_graph(self.op, feeds)
            return Built(graph, feeds, expected)
        posed = _posed(self)
        if posed is None:
            raise InternalError(f"the recipe of {self.op} has nothing for {self.id}")
        return Built(posed.graph, posed.feeds, expectations(posed.graph, posed.feeds))


def cases(subject: Subject, seed: int | None = None, budget: int | None = None) -> Iterator[ConformanceCase]:
    """Yield the cases of a subject, those that it does not support left out.

    In the order of the table of ops; with a `budget`, so many in the order of `seed` (0 when None), each op's turn
    coming once before another's comes again. The first call builds the process's binding table.
    """
    found = (case for op in OPS for case in _of(op) if subject.why_unsupported(case) is None)
    return found if seed is None and budget is None else islice(_shuffled(list(found), seed or 0), budget)


def _shuffled(found: Sequence[ConformanceCase], seed: int) -> Iterator[ConformanceCase]:
    chance = random.Random(seed)
    by_op: dict[str, list[ConformanceCase]] = {}
    for case in chance.sample(found, len(found)):
        by_op.setdefault(case.op, []).append(case)
    return (case for turn in zip_longest(*by_op.values()) for case in turn if case is not None)


def _of(op: OpSpec) -> Iterator[ConformanceCase]:
    dtypes = _dtypes(op)
    shapes = [shape for shape in SHAPES if _takes(op, dtypes[0], shape)]
    for dtype in dtypes:
        for shape in shapes:
            for layout in SCALAR_LAYOUTS if shape == "scalar" else LAYOUTS:
                yield ConformanceCase(op.name, dtype, layout, shape, "plain")
        classes = specials(DType.parse(dtype.partition("-")[0])) if "odd" in shapes else {}
        for values in VALUES:
            if values in classes:
                for layout in ("contiguous", "strided"):
                    yield ConformanceCase(op.name, dtype, layout, "odd", values)
    if op.name in PAIRS:
        yield ConformanceCase(op.name, DType.F64.value, "contiguous", "odd", "gradient")


def _dtypes(op: OpSpec) -> Sequence[str]:
    if op.takes_bundle:  # as there are bundles of
        return list(dict.fromkeys([dtype for made in OPS if made.slots for dtype in _dtypes(made)]))
    if op.form is not Form.KERNEL:
        return [dtype.value for dtype in _KERNELLESS]
    keys = [
        dtypes
        for kind, dtypes, backend in global_bindings().iter_keys()
        if kind is op.kind and backend is BackendId.CPU
    ]
    if op.kind is OpKind.Cast:
        return [f"{source.value}-{target.value}" for source, target in keys if source is not target]
    place = 1 if op.kind is OpKind.Where else 0  # the condition is first
    return list(dict.fromkeys(dtypes[place].value for dtypes in keys))


def _takes(op: OpSpec, dtype: str, shape: str) -> bool:
    """Whether the op can be given operands of such a shape."""
    probe = ConformanceCase(op.name, dtype, "contiguous", shape, "plain")
    return shape == "large" or _posed(probe, _PROBES) is not None


def _posed(case: ConformanceCase, tries: int = _TRIES) -> Posed | None:
    op, (source, _, target) = BY_NAME[case.op], case.dtype.partition("-")
    dtype = DType.parse(source)
    for attempt in range(tries):
        choices = Rolled(random.Random(crc32(f"{case.id}#{attempt}".encode())))
        shape = choices.pick(SHAPES[case.shape])
        posed = Posed(
            choices,
            case.id,
            dtype,
            shape,
            case.layout,
            case.values,
            modest=case.op in _MODEST,
            overwritten=op.destroys is not None,
        )
        try:
            made = posed.fresh().astype(DType.parse(target)) if target else RECIPES[case.op](posed)
        except DTypeMismatch:  # a number that the dtype does not have: f8e8m0 has no 0
            continue
        if made is not None and any((operand.dtype, operand.shape) == (dtype, shape) for operand in posed.operands[:2]):
            posed.graph.output("y", made)
            if op.destroys is not None:
                posed.graph.output("before", posed.operands[0])
            return posed
    return None
