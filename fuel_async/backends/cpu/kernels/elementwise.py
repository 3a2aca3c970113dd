"""Kernels that compute each element from those in its place: unary, binary, comparison, choice, clamp.

In float32 and float64 an op that is one ufunc is that ufunc; others are bodies of several passes, evaluated
in blocks. The half types are widened to float32 block by block, computed with the same body, and narrowed
once. Inputs broadcast as in numpy. Semantics where numpy leaves a choice: comparisons give 0 or 1 in uint8,
`round` is half-to-even, `sign(0) = 0`, `step` is 1 where x > 0 and 0 elsewhere, NaN included; relu, clamp,
maximum and minimum keep NaN; relu(-0.0) is -0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels import erf
from fuel_async.backends.cpu.kernels.base import (
    F32,
    HALVES,
    IN_PLACE,
    STRIDED,
    T4,
    HostKernel,
    check_broadcast,
    elementwise,
)
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Body,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    clip,
    constants,
    scratch_nbytes,
)
from fuel_async.dispatch import ClampParams, NoParams, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOOL, U8 = np.dtype(np.bool_), np.dtype(np.uint8)

_LOG2E, _TWO_ROOT_TWO_OVER_PI = 1.4426950408889634, 1.5957691216057308

#: Ops that are one ufunc in float32 and float64.
UNARY_UFUNCS: Mapping[OpKind, Body] = {
    OpKind.NegElementwise: np.negative,
    OpKind.AbsElementwise: np.absolute,
    OpKind.SqrElementwise: np.square,
    OpKind.SqrtElementwise: np.sqrt,
    OpKind.RecipElementwise: np.reciprocal,
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


def _maximum(a: Array, b: Array, out: Array) -> None:
    np.maximum(a, b, out=out)


def _minimum(a: Array, b: Array, out: Array) -> None:
    np.minimum(a, b, out=out)


BINARY_UFUNCS: Mapping[OpKind, Body] = {
    OpKind.AddElementwise: np.add,
    OpKind.SubElementwise: np.subtract,
    OpKind.MulElementwise: np.multiply,
    OpKind.DivElementwise: np.divide,
    OpKind.PowElementwise: np.power,
    OpKind.RemElementwise: np.remainder,
    OpKind.MaximumElementwise: _maximum,
    OpKind.MinimumElementwise: _minimum,
}

COMPARISON_UFUNCS: Mapping[OpKind, np.ufunc] = {
    OpKind.EqualElementwise: np.equal,
    OpKind.NotEqualElementwise: np.not_equal,
    OpKind.LessElementwise: np.less,
    OpKind.LessEqualElementwise: np.less_equal,
    OpKind.GreaterElementwise: np.greater,
    OpKind.GreaterEqualElementwise: np.greater_equal,
}


def _compute_type(dtype: DType) -> NumpyDType:
    return F32 if dtype in HALVES else dtype.require_np()


# --- bodies of several passes; a maker takes the compute dtype and returns the body and its planes --------

Made = tuple[Body, tuple[NumpyDType, ...]]


def _rsqrt(dtype: NumpyDType) -> Made:
    def body(x: Array, out: Array) -> None:
        np.sqrt(x, out)
        np.reciprocal(out, out)

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


# --- comparisons and choice -------------------------------------------------------------------------------


def _compare(ufunc: np.ufunc) -> Body:
    # The truth values are written as they are: numpy's bool is one byte holding 0 or 1.
    def body(a: Array, b: Array, out: Array) -> None:
        ufunc(a, b, out.view(BOOL))

    return body


def _compare_halves(ufunc: np.ufunc) -> Body:
    def body(a: Array, b: Array, out: Array, left: Array, right: Array) -> None:
        left[...] = a
        right[...] = b
        ufunc(left, right, out.view(BOOL))

    return body


_BITS: Mapping[int, NumpyDType] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
(_ZERO_U8,) = constants(U8, 0)


def _where(bits: NumpyDType) -> Body:
    # b ^ (condition · (a ^ b)) on the bits: every value, NaN included, comes through unchanged, the output
    # may be either value operand, and no branch depends on the data (a masked copy takes seven times as long
    # on random masks).
    def body(condition: Array, a: Array, b: Array, out: Array, true: Array, chosen: Array, differ: Array) -> None:
        right = b.view(bits)
        np.not_equal(condition, _ZERO_U8, true)
        chosen[...] = true
        np.bitwise_xor(a.view(bits), right, differ)
        np.multiply(chosen, differ, differ)
        np.bitwise_xor(differ, right, out.view(bits))

    return body


# --- clamp and relu: one ufunc with limits between the operands -------------------------------------------


#: The arrays between which a call of the kernel keeps its results.
Limits = Callable[[Any], tuple[Array, ...]]


def _clamped(op: OpKind, dtype: DType, takes: type[OpParams], limits: Limits) -> HostKernel:
    """Return the kernel that keeps each element within `limits(params)`; NaN stays."""
    half = dtype in HALVES
    planes = (F32,) if half else ()

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        low, high = limits(params)
        if not half:
            return clip, (inputs[0], low, high, output)

        def body(x: Array, out: Array, wide: Array) -> None:
            wide[...] = x
            clip(wide, low, high, wide)
            out[...] = wide

        return bind_body(body, inputs, output, planes, scratch)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, (dtype, dtype), rule, takes, IN_PLACE, working)


def _relu(dtype: DType) -> HostKernel:
    limits = constants(_compute_type(dtype), 0.0, np.inf)
    return _clamped(OpKind.ReluElementwise, dtype, NoParams, lambda _: limits)


def _clamp(dtype: DType) -> HostKernel:
    compute = _compute_type(dtype)

    def limits(params: ClampParams) -> tuple[Array, ...]:
        if params.min > params.max:
            raise KernelArgumentError(OpKind.ClampElementwise.value, "min", params.min, f"at most {params.max}")
        with np.errstate(all="ignore"):  # a limit beyond the type's range is its infinity
            return constants(compute, params.min, params.max)

    return _clamped(OpKind.ClampElementwise, dtype, ClampParams, limits)


# --- rows -------------------------------------------------------------------------------------------------


def _unary(op: OpKind, dtype: DType) -> HostKernel:
    compute = _compute_type(dtype)
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


def _choice(dtype: DType) -> HostKernel:
    bits = _BITS[dtype.nbytes]
    return elementwise(OpKind.Where, (DType.U8, dtype, dtype, dtype), _where(bits), (BOOL, bits, bits))


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_binary(op, dtype) for op in BINARY_UFUNCS for dtype in T4),
        *(_unary(op, dtype) for op in (*UNARY_UFUNCS, *UNARY_BODIES) for dtype in T4),
        *(_comparison(op, dtype) for op in COMPARISON_UFUNCS for dtype in T4),
        *(_choice(dtype) for dtype in T4),
        *(_relu(dtype) for dtype in T4),
        *(_clamp(dtype) for dtype in T4),
    )
