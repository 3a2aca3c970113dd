"""Elementwise ops: each result element depends on the elements at its own place.

Operands of one op share one dtype (the builder casts) and broadcast after numpy's rule. Comparisons give 0 or
1 in uint8 and follow IEEE 754: NaN compares false, but for `ne`. Ops whose result is no integer for integer
operands (`div`, `exp`, `sqrt` and their like) take floating dtypes only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fuel_async.errors import DTypeMismatch, GraphError
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import Attrs, OpSpec, TensorType, require_alike, require_array_dtype, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import broadcast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class Clamp(NamedTuple):
    """Bounds of `clamp`, low at most high; an infinite bound leaves that side open."""

    low: float
    high: float


class Affine(NamedTuple):
    """Factor and summand of `affine`, in the precision in which the op is computed."""

    mul: float
    add: float


class PowI(NamedTuple):
    """The exponent of `powi`, a signed integer of 32 bits."""

    exp: int


def _same(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    return operands[0].shape, operands[0].dtype


def _floating(name: str, kind: OpKind) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        require_float(name, operands)
        return operands[0].shape, operands[0].dtype

    return OpSpec(name=name, arity=1, infer=infer, kind=kind)


def _binary(name: str, kind: OpKind, *, floating: bool = False) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        left, right = operands
        if left.dtype is not right.dtype:
            raise DTypeMismatch(name, "operands differ in dtype; cast one with astype()", operands)
        if floating:
            require_float(name, operands)
        return broadcast(name, (left.shape, right.shape), operands), left.dtype

    return OpSpec(name=name, arity=2, infer=infer, kind=kind)


def _compare(name: str, kind: OpKind) -> OpSpec:
    arithmetic = _binary(name, kind).infer

    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        return arithmetic(operands, attrs)[0], DType.U8

    return OpSpec(name=name, arity=2, infer=infer, kind=kind, boolean=True)


def _where(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    condition, left, right = operands
    if condition.dtype is not DType.U8 or left.dtype is not right.dtype:
        wanted = "wanted a uint8 (or bool) condition and two operands of one dtype"
        raise DTypeMismatch("where", wanted, operands)
    return broadcast("where", (condition.shape, left.shape, right.shape), operands), left.dtype


class Cast(NamedTuple):
    """The dtype wanted, as `DType.code`."""

    code: int

    def __repr__(self) -> str:
        return f"Cast({DType.ALL[self.code]})"


def _cast(operands: Sequence[TensorType], attrs: Cast) -> tuple[Shape, DType]:
    if attrs.code not in range(len(DType.ALL)):
        raise DTypeMismatch("cast", f"wanted the code of a dtype, got {attrs.code!r}", operands)
    dtype = DType.ALL[attrs.code]
    require_array_dtype("cast", dtype)
    return operands[0].shape, dtype


BINARIES = {
    name: _binary(name, kind)
    for name, kind in {
        "add": OpKind.AddElementwise,
        "sub": OpKind.SubElementwise,
        "mul": OpKind.MulElementwise,
        "maximum": OpKind.MaximumElementwise,
        "minimum": OpKind.MinimumElementwise,
        "pow": OpKind.PowElementwise,
        "rem": OpKind.RemElementwise,
    }.items()
} | {"div": _binary("div", OpKind.DivElementwise, floating=True)}

UNARIES = {
    name: OpSpec(name=name, arity=1, infer=_same, kind=kind)
    for name, kind in {
        "neg": OpKind.NegElementwise,
        "abs": OpKind.AbsElementwise,
        "sqr": OpKind.SqrElementwise,
        "relu": OpKind.ReluElementwise,
        "step": OpKind.StepElementwise,
        "floor": OpKind.FloorElementwise,
        "ceil": OpKind.CeilElementwise,
        "round": OpKind.RoundElementwise,
        "sign": OpKind.SignElementwise,
    }.items()
} | {
    name: _floating(name, kind)
    for name, kind in {
        "sqrt": OpKind.SqrtElementwise,
        "rsqrt": OpKind.RsqrtElementwise,
        "recip": OpKind.RecipElementwise,
        "exp": OpKind.ExpElementwise,
        "log": OpKind.LogElementwise,
        "sin": OpKind.SinElementwise,
        "cos": OpKind.CosElementwise,
        "tanh": OpKind.TanhElementwise,
        "sigmoid": OpKind.SigmoidElementwise,
        "gelu": OpKind.GeluElementwise,
        "gelu_erf": OpKind.GeluErfElementwise,
        "silu": OpKind.SiluElementwise,
        "erf": OpKind.ErfElementwise,
    }.items()
}

COMPARISONS = {
    name: _compare(name, kind)
    for name, kind in {
        "eq": OpKind.EqualElementwise,
        "ne": OpKind.NotEqualElementwise,
        "lt": OpKind.LessElementwise,
        "le": OpKind.LessEqualElementwise,
        "gt": OpKind.GreaterElementwise,
        "ge": OpKind.GreaterEqualElementwise,
    }.items()
}


def _clamp(operands: Sequence[TensorType], attrs: Clamp) -> tuple[Shape, DType]:
    if not attrs.low <= attrs.high:
        raise GraphError("clamp", f"min {attrs.low} is not at most max {attrs.high}", operands)
    return _same(operands, attrs)


def _affine(operands: Sequence[TensorType], attrs: Affine) -> tuple[Shape, DType]:
    require_float("affine", operands)
    widest = np.finfo(np.float64 if operands[0].dtype is DType.F64 else np.float32)
    for name, value in attrs._asdict().items():
        if math.isfinite(value) and abs(value) > float(widest.max):
            raise GraphError("affine", f"{name} {value} is beyond {widest.dtype}, in which it is computed", operands)
    return _same(operands, attrs)


def _check_power(name: str, operands: Sequence[TensorType], attrs: PowI) -> None:
    require_float(name, operands)
    if not -(2**31) <= attrs.exp < 2**31:
        raise GraphError(name, f"exp {attrs.exp} is no signed integer of 32 bits", operands)


def _powi(operands: Sequence[TensorType], attrs: PowI) -> tuple[Shape, DType]:
    _check_power("powi", operands, attrs)
    return _same(operands, attrs)


def _powi_backward(operands: Sequence[TensorType], attrs: PowI) -> tuple[Shape, DType]:
    require_alike("powi_backward", operands)
    _check_power("powi_backward", operands, attrs)
    return _same(operands, attrs)


WHERE = OpSpec(name="where", arity=3, infer=_where, kind=OpKind.Where)

CLAMP = OpSpec(name="clamp", arity=1, infer=_clamp, kind=OpKind.ClampElementwise, attrs=Clamp)

CAST = OpSpec(name="cast", arity=1, infer=_cast, kind=OpKind.Cast, attrs=Cast)

# x · mul + add, two roundings.
AFFINE = OpSpec(name="affine", arity=1, infer=_affine, kind=OpKind.Affine, attrs=Affine)

# x to an integer power; of (x, upstream) the gradient upstream · exp · x^(exp - 1), 0 where exp is 0.
POWI = OpSpec(name="powi", arity=1, infer=_powi, kind=OpKind.PowIElementwise, attrs=PowI)
POWI_BACKWARD = OpSpec(
    name="powi_backward", arity=2, infer=_powi_backward, kind=OpKind.PowIElementwiseBackward, attrs=PowI
)

ELEMENTWISE = (
    *BINARIES.values(),
    *UNARIES.values(),
    *COMPARISONS.values(),
    WHERE,
    CLAMP,
    CAST,
    AFFINE,
    POWI,
    POWI_BACKWARD,
)
