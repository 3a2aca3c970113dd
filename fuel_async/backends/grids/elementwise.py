"""Kernels whose code is printed from trees: unary, binary, comparisons, where, clamp, affine, powers, casts.

Which kinds there are, and what each computes, is said by `ir.tree`; which dtypes a kind takes follows from its tree.
One module serves all shapes that are read alike; so that it also serves all parameters, the numbers of clamp and affine
are among the words that are pushed. Half types and 8-bit floats need no arithmetic of their own, only storage of their
width.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fuel_async.backends.grids import form
from fuel_async.backends.grids.form import ITEMS, LOCAL, MOST_WORDS, Access, ModuleForm, numbers_given, words_of
from fuel_async.backends.grids.grids import folded, grid, push, row_major
from fuel_async.backends.grids.kernel import (
    IN_PLACE,
    STRIDED,
    Dispatch,
    GridKernel,
    Limits,
    Operand,
    Shader,
)
from fuel_async.dispatch import AffineParams, CastParams, ClampParams, KernelDTypes, NoParams, OpParams, PowIParams
from fuel_async.errors import DTypeMismatch, KernelArgumentError
from fuel_async.ir import (
    OPS,
    TREES,
    Affine,
    Attrs,
    Clamp,
    DType,
    ErfFormula,
    OpKind,
    OpSpec,
    PowI,
    Prim,
    Step,
    bits_dtype,
    simplify,
    steps,
    tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Modules that say what is computed.
TAKES_FROM = (form.__name__, *[part.__module__ for part in (tree, simplify, ErfFormula)])

FLOATS = (DType.F32, DType.F64, DType.BF16, DType.F16)
INTEGERS = (DType.I32, DType.U32, DType.I64, DType.U8)
#: Dtypes between which there are casts, and whose bits `where` moves.
HELD = (*FLOATS, DType.F8E4M3, *INTEGERS, DType.I8, DType.I16)

#: Device features that elements of so many bytes need.
_STORAGE: Mapping[int, frozenset[str]] = {
    1: frozenset({"int8_storage"}),
    2: frozenset({"int16_storage"}),
    4: frozenset(),
    8: frozenset({"int64"}),
}
#: The feature of devices that have sine and cosine of float64, and the primitives that need it.
CIRCULAR_DOUBLE, CIRCULAR = "float64_circular", (Prim.SIN, Prim.COS)


class _Takes(NamedTuple):
    """The parameters that a kind takes: their class, what the tree calls them, and some by which to try it."""

    params: type[OpParams]
    attrs: Callable[[Any], Attrs]
    sample: Attrs


_NOTHING = _Takes(NoParams, lambda params: None, None)
_CAST = _Takes(CastParams, lambda params: None, None)
_CLAMP = _Takes(ClampParams, lambda params: Clamp(params.min, params.max), Clamp(0.0, 1.0))
_AFFINE = _Takes(AffineParams, lambda params: Affine(params.mul, params.add), Affine(2.0, 1.0))
_POWI = _Takes(PowIParams, lambda params: PowI(params.exp), PowI(3))
_TAKES: Mapping[OpKind, _Takes] = {
    OpKind.Cast: _CAST,
    OpKind.ClampElementwise: _CLAMP,
    OpKind.ClampInplace: _CLAMP,
    OpKind.Affine: _AFFINE,
    OpKind.InplaceAffine: _AFFINE,
    OpKind.PowIElementwise: _POWI,
    OpKind.PowIInplace: _POWI,
    OpKind.PowIElementwiseBackward: _POWI,
}
#: Kinds whose numbers are no part of their code.
_NUMBERS_GIVEN = (_CLAMP, _AFFINE)

#: Modules, and trees of different parameters, that one kernel remembers.
REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class _Rule:
    """What one kernel computes, and for which types."""

    op: OpKind
    dtypes: KernelDTypes

    @property
    def takes(self) -> _Takes:
        """Its parameters."""
        return _TAKES.get(self.op, _NOTHING)

    def formula(self, attrs: Attrs) -> tuple[tuple[Step, ...], tuple[int, ...]]:
        """The steps of its tree, and the words of the numbers that are given with each dispatch."""
        dtypes = tuple(map(bits_dtype, self.dtypes)) if self.op is OpKind.Where else self.dtypes
        found = steps(simplify(tree(self.op, dtypes, attrs)))
        return numbers_given(found) if self.takes in _NUMBERS_GIVEN else (found, ())

    def needs(self) -> frozenset[str] | None:
        """The features of a device that can run it; None where there is no tree for these types."""
        if self.dtypes[0].is_int and self.takes.sample is not None:
            return None
        try:
            root = tree(self.op, self.dtypes, self.takes.sample)
        except DTypeMismatch:
            return None
        found = frozenset[str]().union(*(_STORAGE[dtype.nbytes] for dtype in self.dtypes))
        if DType.F64 not in self.dtypes or self.op is OpKind.Where:
            return found
        circular = any(step.op in CIRCULAR and step.dtype is DType.F64 for step in steps(root))
        return found | {"float64", *([CIRCULAR_DOUBLE] if circular else [])}


def _access(row: tuple[int, ...], dense: tuple[int, ...]) -> Access:
    if row == dense:
        return Access.DENSE
    return Access.STRIDED if any(row) else Access.ONE


def _broadcast(op: OpKind, operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides by which an input is read as `shape`; `KernelArgumentError` when it does not broadcast to it."""
    missing = len(shape) - len(operand.shape)
    given = (*[1] * missing, *operand.shape)
    if missing < 0 or any(size not in (1, wanted) for size, wanted in zip(given, shape, strict=True)):
        raise KernelArgumentError(op.value, "the output's shape", shape, f"that of {operand.shape}, broadcast")
    strides = (*[0] * missing, *operand.strides)
    return tuple([0 if size == 1 else stride for size, stride in zip(given, strides, strict=True)])


def _places(
    op: OpKind, sources: Sequence[Operand], output: Operand
) -> tuple[tuple[Access, ...], tuple[int, ...], list[int]]:
    """How each input is read; for strided ones the sizes of the axes, and their strides one after the other."""
    if all(source.shape == output.shape and source.strides == output.strides for source in sources):
        return (Access.DENSE,) * len(sources), (), []
    rows = [_broadcast(op, source, output.shape) for source in sources]
    axes = folded(output.shape, *rows, row_major(output.shape))
    *rows, dense = axes.strides
    accesses = tuple([_access(row, dense) for row in rows])
    strides = [step for row, access in zip(rows, accesses, strict=True) if access is Access.STRIDED for step in row]
    return accesses, axes.sizes if strides else (), strides


class _Planner:
    """The plan of one kernel; it remembers its forms, so that equal ones are one object. Any thread."""

    __slots__ = ("_formula", "_needs", "_rule", "_shader")

    def __init__(self, rule: _Rule, needs: frozenset[str]) -> None:
        self._rule, self._needs = rule, needs
        # Hundreds of kernels are made in each process, and few of them are ever planned.
        self._formula: Callable[..., tuple[tuple[Step, ...], tuple[int, ...]]] | None = None
        self._shader: Callable[..., Shader] | None = None

    def __call__(self, operands: Sequence[Operand], params: OpParams, limits: Limits) -> Sequence[Dispatch]:
        """See `kernel.Plan`."""
        if self._formula is None or self._shader is None:
            # Zeros of both signs are equal, their texts are not.
            self._formula = functools.lru_cache(REMEMBERED)(lambda text, params: self._formula_of(params))
            self._shader = functools.lru_cache(REMEMBERED)(self._shader_of)
        *sources, output = operands
        count = math.prod(output.shape)
        if not count:
            return ()
        accesses, sizes, strides = _places(self._rule.op, sources, output)
        found, numbers = self._formula(repr(params), params)
        offsets = [source.offset for source in sources]
        words = (count, output.offset, *offsets, *sizes[:-1], *strides, *numbers)
        baked = words if len(words) > MOST_WORDS else ()
        written = self._shader(found, accesses, len(sizes), baked)
        places = tuple(range(len(operands)))
        groups = grid(-(-count // (LOCAL * ITEMS)), limits)
        return (Dispatch(written, places, b"" if baked else push(*words), groups, places[:-1], places[-1:]),)

    def _formula_of(self, params: OpParams) -> tuple[tuple[Step, ...], tuple[int, ...]]:
        return self._rule.formula(self._rule.takes.attrs(params))

    def _shader_of(
        self, found: tuple[Step, ...], accesses: tuple[Access, ...], rank: int, baked: tuple[int, ...]
    ) -> Shader:
        op, dtypes = self._rule.op, self._rule.dtypes
        inputs = tuple([bits_dtype(dtype) if op is OpKind.Where else dtype for dtype in dtypes[:-1]])
        made = ModuleForm(found, tuple(zip(inputs, accesses, strict=True)), rank, baked)
        push_nbytes = 0 if baked else 4 * words_of(made)
        name = f"{op.value}_{'_'.join(map(str, dtypes))}"
        return Shader(name, made, len(inputs) + 1, push_nbytes, threads=LOCAL, needs=self._needs)


def _kernels(rule: _Rule) -> Iterator[GridKernel]:
    """The kernel of a rule, if there can be one."""
    needs = rule.needs()
    if needs is not None:
        caps = IN_PLACE if rule.dtypes[-1] in rule.dtypes[:-1] and rule.op is not OpKind.Cast else STRIDED
        yield GridKernel(rule.op, rule.dtypes, _Planner(rule, needs), rule.takes.params, caps, needs)


def _rules(op: OpSpec) -> Iterator[_Rule]:
    assert op.kind is not None
    if op.kind is OpKind.Cast:
        yield from (_Rule(op.kind, (source, to)) for source in HELD for to in HELD if to is not source)
    elif op.kind is OpKind.Where:
        yield from (_Rule(op.kind, (DType.U8, dtype, dtype, dtype)) for dtype in (*FLOATS, *INTEGERS, DType.I16))
    else:
        for dtype in (*FLOATS, *INTEGERS):
            yield _Rule(op.kind, (*[dtype] * op.arity, DType.U8 if op.boolean else dtype))


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtypes. `masked_fill` is among the kernels of borders."""
    computed = {op.kind: op for op in OPS if op.kind in TREES and op.kind is not OpKind.MaskedFill}
    return tuple([kernel for op in computed.values() for rule in _rules(op) for kernel in _kernels(rule)])
