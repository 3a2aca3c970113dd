"""Kernels that compute each element from those in its place: unary, binary, comparison.

In float32 and float64 an op that is one ufunc is that ufunc; others are bodies of several passes, evaluated
in blocks. The half types are widened to float32 block by block, computed with the same body, and narrowed
once. Inputs broadcast as in numpy. Semantics where numpy leaves a choice: comparisons give 0 or 1 in uint8,
`round` is half-to-even, `sign(0) = 0`, `step` is 1 where x > 0 and 0 elsewhere, NaN included; maximum and
minimum keep NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels import erf
from fuel_async.backends.cpu.kernels.base import F32, HALVES, STRIDED, T4, HostKernel, compute_type, elementwise
from fuel_async.backends.cpu.kernels.blocks import Array, Body, NumpyDType, constants
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BOOL, U16 = np.dtype(np.bool_), np.dtype(np.uint16)

_LOG2E, _TWO_ROOT_TWO_OVER_PI = 1.4426950408889634, 1.5957691216057308


def _reciprocal(x: Array, out: Array) -> None:
    # The same bits as `np.reciprocal`, which has no vector code, in half the time.
    np.divide(1.0, x, out)


#: Ops that are one ufunc in float32 and float64.
UNARY_UFUNCS: Mapping[OpKind, Body] = {
    OpKind.NegElementwise: np.negative,
    OpKind.AbsElementwise: np.absolute,
    OpKind.SqrElementwise: np.square,
    OpKind.SqrtElementwise: np.sqrt,
    OpKind.RecipElementwise: _reciprocal,
    OpKind.ExpElementwise: np.exp,
    OpKind.LogElementwise: np.log,
    OpKind.SinElementwise: np.sin,
    OpKind.CosElementwise: np.cos,
    OpKind.TanhElementwise: np.tanh,
    OpKind.FloorElementwise: np.floor,
    OpKind.CeilElementwise: np.ceil,
    OpKind.RoundElementwise: np.rint,
    OpKind.SignElementwise: np.sign,
}


def _by_name(ufunc: Callable[..., Any]) -> Body:
    """The body of a ufunc that takes its output by name only."""

    def body(a: Array, b: Array, out: Array) -> None:
        ufunc(a, b, out=out)

    return body


BINARY_UFUNCS: Mapping[OpKind, Body] = {
    OpKind.AddElementwise: np.add,
    OpKind.SubElementwise: np.subtract,
    OpKind.MulElementwise: np.multiply,
    OpKind.DivElementwise: np.divide,
    OpKind.PowElementwise: np.power,
    OpKind.RemElementwise: np.remainder,
    OpKind.MaximumElementwise: _by_name(np.maximum),
    OpKind.MinimumElementwise: _by_name(np.minimum),
}

COMPARISON_UFUNCS: Mapping[OpKind, np.ufunc] = {
    OpKind.EqualElementwise: np.equal,
    OpKind.NotEqualElementwise: np.not_equal,
    OpKind.LessElementwise: np.less,
    OpKind.LessEqualElementwise: np.less_equal,
    OpKind.GreaterElementwise: np.greater,
    OpKind.GreaterEqualElementwise: np.greater_equal,
}


# --- bodies of several passes; a maker takes the compute dtype and returns the body and its planes --------

Made = tuple[Body, tuple[NumpyDType, ...]]


def _rsqrt(dtype: NumpyDType) -> Made:
    (one,) = constants(dtype, 1.0)

    def body(x: Array, out: Array) -> None:
        np.sqrt(x, out)
        np.divide(one, out, out)

    return body, ()


def _sigmoid(dtype: NumpyDType) -> Made:
    (one,) = constants(dtype, 1.0)

    def body(x: Array, out: Array) -> None:
        np.negative(x, out)
        np.exp(out, out)
        np.add(out, one, out)
        np.divide(one, out, out)

    return body, ()


def _silu(dtype: NumpyDType) -> Made:
    (one,) = constants(dtype, 1.0)

    def body(x: Array, out: Array, p: Array) -> None:
        np.negative(x, p)
        np.exp(p, p)
        np.add(p, one, p)
        np.divide(x, p, out)

    return body, (dtype,)


def _gelu(dtype: NumpyDType) -> Made:
    # 0.5·x·(1 + tanh z) = x / (1 + exp(-2z)) with z = √(2/π)·(x + 0.044715·x³): the quotient keeps small
    # results exact.
    scale = -_TWO_ROOT_TWO_OVER_PI * _LOG2E
    one, linear, cubic = constants(dtype, 1.0, scale, 0.044715 * scale)

    def body(x: Array, out: Array, p: Array) -> None:
        np.square(x, p)
        np.multiply(p, cubic, p)
        np.add(p, linear, p)
        np.multiply(p, x, p)
        np.exp2(p, p)
        np.add(p, one, p)
        np.divide(x, p, out)

    return body, (dtype,)


def _step(dtype: NumpyDType) -> Made:
    (zero,) = constants(dtype, 0.0)

    def body(x: Array, out: Array, positive: Array) -> None:
        np.greater(x, zero, positive)
        out[...] = positive

    return body, (BOOL,)


def _erf(dtype: NumpyDType) -> Made:
    body, count = erf.ERF[dtype]
    return body, (dtype,) * count


def _gelu_erf(dtype: NumpyDType) -> Made:
    body, count = erf.GELU_ERF[dtype]
    return body, (dtype,) * count


UNARY_BODIES: Mapping[OpKind, Callable[[NumpyDType], Made]] = {
    OpKind.RsqrtElementwise: _rsqrt,
    OpKind.SigmoidElementwise: _sigmoid,
    OpKind.SiluElementwise: _silu,
    OpKind.GeluElementwise: _gelu,
    OpKind.GeluErfElementwise: _gelu_erf,
    OpKind.ErfElementwise: _erf,
    OpKind.StepElementwise: _step,
}


# --- half types: the same bodies over float32 planes ------------------------------------------------------


def lifted_unary(body: Body) -> Body:
    """Return `body` for operands of a half type; its first plane is float32."""

    def lifted(x: Array, out: Array, wide: Array, *planes: Array) -> None:
        wide[...] = x
        body(wide, wide, *planes)
        out[...] = wide

    return lifted


def lifted_binary(body: Body) -> Body:
    """Return `body` for operands of a half type; its first two planes are float32."""

    def lifted(a: Array, b: Array, out: Array, left: Array, right: Array, *planes: Array) -> None:
        left[...] = a
        right[...] = b
        body(left, right, left, *planes)
        out[...] = left

    return lifted


def _sign_of_half(dtype: NumpyDType) -> Made:
    def body(x: Array, out: Array, wide: Array, signs: Array) -> None:
        # From plane to plane: over its own operand `np.sign` takes six times as long.
        wide[...] = x
        np.sign(wide, signs)
        out[...] = signs

    return body, (F32, F32)


def _step_of_half(dtype: NumpyDType) -> Made:
    one, infinity = (number.view(U16) for number in constants(dtype, 1.0, np.inf))
    (lowest,) = constants(U16, 1)

    def body(x: Array, out: Array, work: Array, positive: Array) -> None:
        # Of what is above zero the bits, as an unsigned number, are from 1 to those of infinity; 0 - 1 is the highest.
        np.subtract(x.getfield(U16), lowest, work)
        np.less(work, infinity, positive)
        bits = out.getfield(U16)
        bits[...] = positive
        np.multiply(bits, one, bits)

    return body, (U16, BOOL)


#: Unary ops whose bodies for half types are others than those of float32; a maker takes the half type.
HALF_BODIES: Mapping[OpKind, Callable[[NumpyDType], Made]] = {
    OpKind.SignElementwise: _sign_of_half,
    OpKind.StepElementwise: _step_of_half,
}


# --- comparisons ------------------------------------------------------------------------------------------


def _compare(ufunc: np.ufunc) -> Body:
    # The truth values are written as they are: numpy's bool is one byte holding 0 or 1.
    def body(a: Array, b: Array, out: Array) -> None:
        ufunc(a, b, out.getfield(BOOL))

    return body


def _compare_halves(ufunc: np.ufunc) -> Body:
    def body(a: Array, b: Array, out: Array, left: Array, right: Array) -> None:
        left[...] = a
        right[...] = b
        ufunc(left, right, out.getfield(BOOL))

    return body


# --- rows -------------------------------------------------------------------------------------------------


def _unary(op: OpKind, dtype: DType) -> HostKernel:
    if dtype in HALVES and op in HALF_BODIES:
        return elementwise(op, (dtype, dtype), *HALF_BODIES[op](dtype.require_np()))
    compute = compute_type(dtype)
    body, planes = (UNARY_UFUNCS[op], ()) if op in UNARY_UFUNCS else UNARY_BODIES[op](compute)
    if dtype in HALVES:
        return elementwise(op, (dtype, dtype), lifted_unary(body), (F32, *planes))
    return elementwise(op, (dtype, dtype), body, planes, whole=op in UNARY_UFUNCS)


def _binary(op: OpKind, dtype: DType) -> HostKernel:
    body, dtypes = BINARY_UFUNCS[op], (dtype, dtype, dtype)
    if dtype in HALVES:
        return elementwise(op, dtypes, lifted_binary(body), (F32, F32))
    return elementwise(op, dtypes, body, whole=True)


def _comparison(op: OpKind, dtype: DType) -> HostKernel:
    ufunc, dtypes = COMPARISON_UFUNCS[op], (dtype, dtype, DType.U8)
    if dtype in HALVES:
        return elementwise(op, dtypes, _compare_halves(ufunc), (F32, F32), caps=STRIDED)
    return elementwise(op, dtypes, _compare(ufunc), caps=STRIDED, whole=True)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_binary(op, dtype) for op in BINARY_UFUNCS for dtype in T4),
        *(_unary(op, dtype) for op in (*UNARY_UFUNCS, *UNARY_BODIES) for dtype in T4),
        *(_comparison(op, dtype) for op in COMPARISON_UFUNCS for dtype in T4),
    )
