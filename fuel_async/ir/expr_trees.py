"""The tree of each elementwise kind of kernel, and the erf and GELU formulas as trees.

A tree does what the host's kernels do, step by step: the half types and 8-bit floats are widened to float32, computed,
and narrowed once. `tree` builds one; `TREES` says which kinds there are. Ops that move elements, or that depend on an
element's place, have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.errors import GraphError
from fuel_async.ir.dtype import DType
from fuel_async.ir.erf import ERF_F32, ERF_F64, GELU_F32, ErfFormula
from fuel_async.ir.expr import COMPUTED, Const, Expr, Input, Prim, apply, cast
from fuel_async.ir.opkind import OpKind

if TYPE_CHECKING:
    from fuel_async.ir.op import Attrs

#: (operands in the dtype of computing, attributes of the op) -> result, in that dtype or U8.
Maker: TypeAlias = Callable[[Sequence[Expr], Any], Expr]

_LOG2E, _TWO_ROOT_TWO_OVER_PI = 1.4426950408889634, 1.5957691216057308
#: 0.5·x·(1 + tanh z) = x / (1 + exp(-2z)) with z = √(2/π)·(x + 0.044715·x³): the quotient keeps small results exact.
_GELU_SCALE = -_TWO_ROOT_TWO_OVER_PI * _LOG2E

_BITS = {1: DType.U8, 2: DType.I16, 4: DType.U32, 8: DType.I64}


def bits_dtype(dtype: DType) -> DType:
    """Return the integer dtype in whose place elements of `dtype` are moved, bit by bit."""
    return _BITS[dtype.nbytes]


def tree(kind: OpKind, dtypes: Sequence[DType], attrs: Attrs = None) -> Expr:
    """Return the tree of an elementwise kind for operands of these dtypes, the result's last.

    `attrs` are those of the op: `Clamp`, `Affine`, `PowI`, `MaskedFill`. To move floats bit by bit `where` and
    `masked_fill` are asked for with the integer dtype of their width (`bits_dtype`). `GraphError` for a kind without a
    tree, `DTypeMismatch` for dtypes that it does not take.
    """
    make = TREES.get(kind)
    if make is None:
        raise GraphError(kind.value, "is not computed element by element")
    operands = [Input(index, dtype) for index, dtype in enumerate(dtypes[:-1])]
    if kind in _CHOICES:
        return make(operands, attrs)
    widened = [x if x.dtype in COMPUTED else cast(x, DType.F32) for x in operands]
    return cast(make(widened, attrs), dtypes[-1])


def _number(x: Expr, value: float) -> Const:
    return Const(value, x.dtype)


def _one(op: Prim) -> Maker:
    return lambda args, attrs: apply(op, *args)


def _unary(rule: Callable[[Expr], Expr]) -> Maker:
    return lambda args, attrs: rule(args[0])


def _whole(op: Prim) -> Maker:
    """An integer is rounded as it is."""
    return _unary(lambda x: x if x.dtype.is_int else apply(op, x))


# --- unaries ------------------------------------------------------------------------------------------------


def _sqr(x: Expr) -> Expr:
    return apply(Prim.MUL, x, x)


def _recip(x: Expr) -> Expr:
    return apply(Prim.DIV, _number(x, 1.0), x)


def _relu(x: Expr) -> Expr:
    # Of two zeros the operand's is kept, and NaN.
    return apply(Prim.SELECT, apply(Prim.LT, x, _number(x, 0)), _number(x, 0), x)


def _step(x: Expr) -> Expr:
    return cast(apply(Prim.GT, x, _number(x, 0)), x.dtype)


def _sign(x: Expr) -> Expr:
    zero, one = _number(x, 0), _number(x, 1)
    above = apply(Prim.SELECT, apply(Prim.GT, x, zero), one, x)
    if x.dtype.is_int and not x.dtype.is_signed_int:
        return above
    # A zero becomes +0, NaN stays.
    equal = apply(Prim.SELECT, apply(Prim.EQ, x, zero), zero, above)
    return apply(Prim.SELECT, apply(Prim.LT, x, zero), _number(x, -1), equal)


def _logistic_of(numerator: Expr, exponential: Expr) -> Expr:
    return apply(Prim.DIV, numerator, apply(Prim.ADD, exponential, _number(numerator, 1.0)))


def _sigmoid(x: Expr) -> Expr:
    return _logistic_of(_number(x, 1.0), apply(Prim.EXP, apply(Prim.NEG, x)))


def _silu(x: Expr) -> Expr:
    return _logistic_of(x, apply(Prim.EXP, apply(Prim.NEG, x)))


def _gelu(x: Expr) -> Expr:
    cubic, linear = _number(x, 0.044715 * _GELU_SCALE), _number(x, _GELU_SCALE)
    slope = apply(Prim.ADD, apply(Prim.MUL, _sqr(x), cubic), linear)
    return _logistic_of(x, apply(Prim.EXP2, apply(Prim.MUL, slope, x)))


def _erf_factor(t: Expr, formula: ErfFormula) -> Expr:
    """c₀ + t·F(t)."""
    p: Expr | None = None
    for numerator, shift in formula.levels:
        inner = t if p is None else apply(Prim.ADD, p, t)
        p = apply(Prim.DIV, _number(t, numerator), apply(Prim.ADD, inner, _number(t, shift)))
    assert p is not None
    if formula.a:
        p = apply(Prim.ADD, p, _number(t, formula.a))
    return apply(Prim.ADD, apply(Prim.MUL, p, t), _number(t, formula.c0))


def _erf(x: Expr) -> Expr:
    formula = ERF_F64 if x.dtype is DType.F64 else ERF_F32
    u = _between(x, -formula.limit, formula.limit)
    return apply(Prim.TANH, apply(Prim.MUL, _erf_factor(_sqr(u), formula), u))


def _gelu_erf(x: Expr) -> Expr:
    if x.dtype is DType.F64:
        erf = _erf(apply(Prim.MUL, x, _number(x, 0.7071067811865476)))
        return apply(Prim.MUL, apply(Prim.MUL, apply(Prim.ADD, erf, _number(x, 1.0)), x), _number(x, 0.5))
    return _logistic_of(x, apply(Prim.EXP2, apply(Prim.MUL, _erf_factor(_sqr(x), GELU_F32), x)))


# --- with numbers -------------------------------------------------------------------------------------------


def _between(x: Expr, low: float, high: float) -> Expr:
    return apply(Prim.MIN, apply(Prim.MAX, x, _number(x, low)), _number(x, high))


def _clamp(args: Sequence[Expr], attrs: Any) -> Expr:
    return _between(args[0], attrs.low, attrs.high)


def _affine(args: Sequence[Expr], attrs: Any) -> Expr:
    (x,) = args
    return apply(Prim.ADD, apply(Prim.MUL, x, _number(x, attrs.mul)), _number(x, attrs.add))


def _power(x: Expr, exp: int) -> Expr:
    """The power `exp` of x by squarings and products, from the exponent's highest bit down."""
    if exp == 0:
        return _number(x, 1.0)
    result = x
    for bit in f"{abs(exp):b}"[1:]:
        result = apply(Prim.MUL, result, result)
        if bit == "1":
            result = apply(Prim.MUL, result, x)
    return result if exp > 0 else _recip(result)


def _powi(args: Sequence[Expr], attrs: Any) -> Expr:
    return _power(args[0], attrs.exp)


def _powi_backward(args: Sequence[Expr], attrs: Any) -> Expr:
    x, upstream = args
    if attrs.exp == 0:
        return _number(x, 0.0)
    return apply(Prim.MUL, apply(Prim.MUL, _power(x, attrs.exp - 1), _number(x, attrs.exp)), upstream)


def _masked_fill(args: Sequence[Expr], attrs: Any) -> Expr:
    x, mask = args
    return apply(Prim.SELECT, mask, _number(x, attrs.value), x)


#: Kinds that move bits: their operands are not widened.
_CHOICES = frozenset({OpKind.Where, OpKind.MaskedFill})

_PLAIN: Mapping[OpKind, Maker] = {
    OpKind.AddElementwise: _one(Prim.ADD),
    OpKind.SubElementwise: _one(Prim.SUB),
    OpKind.MulElementwise: _one(Prim.MUL),
    OpKind.DivElementwise: _one(Prim.DIV),
    OpKind.PowElementwise: _one(Prim.POW),
    OpKind.RemElementwise: _one(Prim.REM),
    OpKind.MaximumElementwise: _one(Prim.MAX),
    OpKind.MinimumElementwise: _one(Prim.MIN),
    OpKind.EqualElementwise: _one(Prim.EQ),
    OpKind.NotEqualElementwise: _one(Prim.NE),
    OpKind.LessElementwise: _one(Prim.LT),
    OpKind.LessEqualElementwise: _one(Prim.LE),
    OpKind.GreaterElementwise: _one(Prim.GT),
    OpKind.GreaterEqualElementwise: _one(Prim.GE),
    OpKind.NegElementwise: _one(Prim.NEG),
    OpKind.AbsElementwise: _one(Prim.ABS),
    OpKind.SqrtElementwise: _one(Prim.SQRT),
    OpKind.ExpElementwise: _one(Prim.EXP),
    OpKind.LogElementwise: _one(Prim.LOG),
    OpKind.SinElementwise: _one(Prim.SIN),
    OpKind.CosElementwise: _one(Prim.COS),
    OpKind.TanhElementwise: _one(Prim.TANH),
    OpKind.FloorElementwise: _whole(Prim.FLOOR),
    OpKind.CeilElementwise: _whole(Prim.CEIL),
    OpKind.RoundElementwise: _whole(Prim.ROUND),
    OpKind.SqrElementwise: _unary(_sqr),
    OpKind.RecipElementwise: _unary(_recip),
    OpKind.RsqrtElementwise: _unary(lambda x: _recip(apply(Prim.SQRT, x))),
    OpKind.ReluElementwise: _unary(_relu),
    OpKind.StepElementwise: _unary(_step),
    OpKind.SignElementwise: _unary(_sign),
    OpKind.SigmoidElementwise: _unary(_sigmoid),
    OpKind.SiluElementwise: _unary(_silu),
    OpKind.GeluElementwise: _unary(_gelu),
    OpKind.ErfElementwise: _unary(_erf),
    OpKind.GeluErfElementwise: _unary(_gelu_erf),
    OpKind.ClampElementwise: _clamp,
    OpKind.Affine: _affine,
    OpKind.PowIElementwise: _powi,
    OpKind.PowIElementwiseBackward: _powi_backward,
    OpKind.Cast: _unary(lambda x: x),
    OpKind.Where: _one(Prim.SELECT),
    OpKind.MaskedFill: _masked_fill,
}

#: The kind in place of each kind that has one: the same tree.
_IN_PLACE: Mapping[OpKind, Maker] = {
    OpKind[f"{kind.name.removesuffix('Elementwise')}Inplace"]: make
    for kind, make in _PLAIN.items()
    if f"{kind.name.removesuffix('Elementwise')}Inplace" in OpKind.__members__
} | {OpKind.InplaceAffine: _affine}

TREES: Mapping[OpKind, Maker] = {**_PLAIN, **_IN_PLACE}
