"""Elementwise computations as trees of scalar primitives: the one form that every generator of code prints.

A tree says how one element of the result follows from the elements in its place. `Input`, `Const` and `Apply` are its
nodes; which op of the graph has which tree is in `ir.expr_trees`. `steps` puts a tree in order, each distinct value
once, and is what generators walk; `evaluate` is the meaning, in numpy; `ir.expr_laws` has `simplify`. Truth values are
U8 with 0 or 1, as everywhere. The half types and 8-bit floats are formats of storage: such a value is selected or cast
and nothing else, so a tree over them computes in float32.

    >>> x = Input(0, DType.F32)
    >>> evaluate(apply(Prim.MAX, x, Const(0.0, DType.F32)), [np.array([-1.0, 2.0], np.float32)])
    array([0., 2.], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from fuel_async.errors import DTypeMismatch
from fuel_async.ir.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Array: TypeAlias = NDArray[Any]


class Prim(Enum):
    """The closed set of primitives; the value is the text of each."""

    ADD, SUB, MUL, DIV = "add", "sub", "mul", "div"
    #: With the sign of the divisor, as Python's %.
    REM = "rem"
    #: NaN if either is; MAX of zeros may be either zero.
    MAX, MIN = "max", "min"
    POW, COPYSIGN = "pow", "copysign"
    NEG, ABS = "neg", "abs"
    #: ROUND is half-to-even.
    FLOOR, CEIL, ROUND = "floor", "ceil", "round"
    SQRT, EXP, EXP2, LOG, SIN, COS, TANH = "sqrt", "exp", "exp2", "log", "sin", "cos", "tanh"
    #: False where either is NaN, but for NE.
    EQ, NE, LT, LE, GT, GE = "eq", "ne", "lt", "le", "gt", "ge"
    #: SELECT(condition, a, b): a where the condition, a U8, is not 0. Every bit comes through.
    SELECT = "select"
    #: To another dtype, as numpy's astype; a float beyond the range of an integer dtype gives any number.
    CAST = "cast"

    __hash__ = object.__hash__


FLOATS = frozenset({DType.F32, DType.F64})
INTEGERS = frozenset({DType.U8, DType.I8, DType.U32, DType.I16, DType.I32, DType.I64})
#: Dtypes that primitives other than SELECT and CAST take.
COMPUTED = FLOATS | INTEGERS
#: Dtypes that a tree may hold.
HELD = COMPUTED | {DType.F16, DType.BF16, DType.F8E4M3}


class Meaning(NamedTuple):
    """Of one primitive: what it takes, and its function on arrays."""

    arity: int
    takes: frozenset[DType]
    function: Callable[..., Any]
    truth: bool = False


def _select(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


#: One row for each primitive. CAST needs the dtype besides, and is evaluated by `_cast`.
MEANINGS: Mapping[Prim, Meaning] = {
    Prim.ADD: Meaning(2, COMPUTED, np.add),
    Prim.SUB: Meaning(2, COMPUTED, np.subtract),
    Prim.MUL: Meaning(2, COMPUTED, np.multiply),
    Prim.DIV: Meaning(2, FLOATS, np.divide),
    Prim.REM: Meaning(2, FLOATS, np.remainder),
    Prim.MAX: Meaning(2, COMPUTED, np.maximum),
    Prim.MIN: Meaning(2, COMPUTED, np.minimum),
    Prim.POW: Meaning(2, FLOATS, np.power),
    Prim.COPYSIGN: Meaning(2, FLOATS, np.copysign),
    Prim.NEG: Meaning(1, COMPUTED, np.negative),
    Prim.ABS: Meaning(1, COMPUTED, np.absolute),
    Prim.FLOOR: Meaning(1, FLOATS, np.floor),
    Prim.CEIL: Meaning(1, FLOATS, np.ceil),
    Prim.ROUND: Meaning(1, FLOATS, np.rint),
    Prim.SQRT: Meaning(1, FLOATS, np.sqrt),
    Prim.EXP: Meaning(1, FLOATS, np.exp),
    Prim.EXP2: Meaning(1, FLOATS, np.exp2),
    Prim.LOG: Meaning(1, FLOATS, np.log),
    Prim.SIN: Meaning(1, FLOATS, np.sin),
    Prim.COS: Meaning(1, FLOATS, np.cos),
    Prim.TANH: Meaning(1, FLOATS, np.tanh),
    Prim.EQ: Meaning(2, COMPUTED, np.equal, truth=True),
    Prim.NE: Meaning(2, COMPUTED, np.not_equal, truth=True),
    Prim.LT: Meaning(2, COMPUTED, np.less, truth=True),
    Prim.LE: Meaning(2, COMPUTED, np.less_equal, truth=True),
    Prim.GT: Meaning(2, COMPUTED, np.greater, truth=True),
    Prim.GE: Meaning(2, COMPUTED, np.greater_equal, truth=True),
    Prim.SELECT: Meaning(3, HELD, _select),
    Prim.CAST: Meaning(1, HELD, np.asarray),
}


# Nodes are equal only to themselves: two trees are compared by their steps, in linear time whatever they share.
@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """The element of operand `index`."""

    index: int
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number; in its dtype it is what numpy's conversion makes of it, an infinity where it is too large."""

    value: float
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A primitive applied to values; `DTypeMismatch` when it does not take them."""

    op: Prim
    args: tuple[Expr, ...]
    dtype: DType

    def __post_init__(self) -> None:
        dtypes = tuple(arg.dtype for arg in self.args)
        meaning, last = MEANINGS[self.op], dtypes[-1]
        wanted = {Prim.CAST: (last,), Prim.SELECT: (DType.U8, last, last)}.get(self.op, (last,) * meaning.arity)
        result = self.dtype if self.op is Prim.CAST else DType.U8 if meaning.truth else last
        if dtypes != wanted or last not in meaning.takes or self.dtype is not result or result not in HELD:
            given = ", ".join(map(str, dtypes))
            raise DTypeMismatch(self.op.value, f"no such primitive of ({given}) that gives {self.dtype}")


Expr: TypeAlias = Input | Const | Apply


def apply(op: Prim, *args: Expr) -> Apply:
    """Return the node of a primitive other than CAST; its dtype follows from those of `args`."""
    return Apply(op, args, DType.U8 if MEANINGS[op].truth else args[-1].dtype)


def cast(x: Expr, dtype: DType) -> Expr:
    """Return `x` in another dtype, `x` itself where it has it."""
    return x if x.dtype is dtype else Apply(Prim.CAST, (x,), dtype)


class Step(NamedTuple):
    """One value of an ordered tree. Leaves have no `op`; an input's `key` is its index, a constant's are its bytes."""

    op: Prim | None
    #: Numbers of earlier steps.
    args: tuple[int, ...]
    dtype: DType
    key: int | bytes | None = None


def steps(root: Expr) -> tuple[Step, ...]:
    """Return the values of a tree, operands before what reads them, equal ones once, the result last.

    Equal tuples mean equal computations; they are hashable, and serve as keys of what was generated. O(nodes).
    """
    numbers, ordered = dict[Step, int](), list[Step]()
    of_node = dict[int, int]()
    pending: list[Expr] = [root]
    while pending:
        node = pending[-1]
        waiting = [arg for arg in node.args if id(arg) not in of_node] if isinstance(node, Apply) else []
        if waiting:
            pending.extend(reversed(waiting))
            continue
        pending.pop()
        if id(node) in of_node:
            continue
        step = _step(node, of_node)
        number = numbers.setdefault(step, len(ordered))
        if number == len(ordered):
            ordered.append(step)
        of_node[id(node)] = number
    return tuple(ordered)


def _step(node: Expr, numbers: Mapping[int, int]) -> Step:
    match node:
        case Input():
            return Step(None, (), node.dtype, node.index)
        case Const():
            return Step(None, (), node.dtype, constant(node.value, node.dtype).tobytes())
        case Apply():
            return Step(node.op, tuple([numbers[id(arg)] for arg in node.args]), node.dtype)


def constant(value: float, dtype: DType) -> Array:
    """Return a number as a 0-d array of `dtype`, infinite where it is beyond its range."""
    with np.errstate(over="ignore"):
        return np.array(value, dtype.require_np())


def evaluate(root: Expr, inputs: Sequence[Array]) -> Array:
    """Compute a tree over arrays, which broadcast as in numpy; the result has the tree's dtype.

    Numpy's floating-point warnings are off. Usable from any thread.
    """
    values: list[Array] = []
    with np.errstate(all="ignore"):
        for step in steps(root):
            values.append(_value(step, [values[arg] for arg in step.args], inputs))
    return values[-1]


def _value(step: Step, args: Sequence[Array], inputs: Sequence[Array]) -> Array:
    kind = step.dtype.require_np()
    match step:
        case Step(None, key=bytes(number)):
            return np.frombuffer(number, kind).reshape(())
        case Step(None, key=int(index)):
            return np.asarray(inputs[index], kind)
        case Step(Prim.CAST):
            return np.asarray(args[0].astype(kind))
        case Step(Prim() as op):
            # `asarray`: ufuncs give scalars for arrays without axes. Truth becomes 0 or 1.
            return np.asarray(MEANINGS[op].function(*args)).astype(kind, copy=False)
        case _:
            raise AssertionError(step)


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is one of `target`."""
    if source is target:
        return True
    if source not in HELD or target not in HELD:
        return False
    if source.is_int and target.is_int:
        a, b = np.iinfo(source.require_np()), np.iinfo(target.require_np())
        return bool(b.min <= a.min and a.max <= b.max)
    if target.is_int:
        return False
    wide = _float_limits(target)
    if source.is_int:
        return source.bits - source.is_signed_int <= wide.nmant + 1 and int(wide.maxexp) > source.bits
    narrow = _float_limits(source)
    return bool(
        narrow.nmant <= wide.nmant
        and narrow.maxexp <= wide.maxexp
        and narrow.minexp - narrow.nmant >= wide.minexp - wide.nmant
    )


def _float_limits(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.require_np())  # type: ignore[no-untyped-call]
