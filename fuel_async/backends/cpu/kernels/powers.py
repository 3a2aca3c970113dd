"""Elementwise kernels with numbers as parameters: x · mul + add, integer powers and their gradient.

A power up to 64 is made of squarings and products, from the exponent's highest bit down; higher ones by numpy's
`power` of the magnitude, with the sign put back. A negative one is the reciprocal of the positive power, so a
result below the least normal number may come out as 0. Anything to the power 0 is 1, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, IN_PLACE, T4, HostKernel, check_broadcast
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Body,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    constants,
    scratch_nbytes,
)
from fuel_async.backends.cpu.kernels.elementwise import lifted_binary, lifted_unary
from fuel_async.dispatch import AffineParams, OpParams, PowIParams
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exponents up to this are made of products: at most ten of them.
MOST_SQUARED = 64

#: Up to so many elements everything is in the first-level cache.
_FEW = 2_048

#: (params, compute dtype) -> body over planes of that dtype.
Make = Callable[[Any, NumpyDType], Body]


def _affine(params: AffineParams, dtype: NumpyDType) -> Body:
    mul, add = constants(dtype, params.mul, params.add)

    def body(x: Array, out: Array) -> None:
        np.multiply(x, mul, out)
        np.add(out, add, out)

    return body


def _squarings(exp: int) -> Body:
    """The positive power `exp` of x, at least 1, in `out`, which is not x."""
    bits = [bit == "1" for bit in f"{exp:b}"[1:]]

    def body(x: Array, out: Array) -> None:
        base = x
        for multiplied in bits:
            np.multiply(base, base, out)
            base = out
            if multiplied:
                np.multiply(out, x, out)
        if not bits:
            out[...] = x

    return body


def _magnitudes(exp: int, dtype: NumpyDType) -> Body:
    """The power `exp` of x by its magnitude, in `out`, which is not x."""
    (power,) = constants(dtype, exp)

    def body(x: Array, out: Array) -> None:
        np.absolute(x, out)
        np.power(out, power, out)
        if exp % 2:
            np.copysign(out, x, out)

    return body


def _power(exp: int, dtype: NumpyDType) -> Body:
    """The power `exp` of x in `out`, which is not x."""
    (one,) = constants(dtype, 1.0)
    if exp == 0:
        return lambda x, out: np.copyto(out, one)
    if abs(exp) > MOST_SQUARED:
        return _magnitudes(exp, dtype)
    positive = _squarings(abs(exp))
    if exp > 0:
        return positive

    def inverse(x: Array, out: Array) -> None:
        positive(x, out)
        np.divide(one, out, out)

    return inverse


def _powi(params: PowIParams, dtype: NumpyDType) -> Body:
    power = _power(params.exp, dtype)

    def body(x: Array, out: Array, work: Array) -> None:
        power(x, work)
        out[...] = work

    return body


def _powi_backward(params: PowIParams, dtype: NumpyDType) -> Body:
    exp, zero = constants(dtype, params.exp, 0.0)
    if params.exp == 0:
        return lambda x, g, out, work: np.copyto(out, zero)
    power = _power(params.exp - 1, dtype)

    def body(x: Array, g: Array, out: Array, work: Array) -> None:
        # The output's own memory is one stream less, unless it is an operand's.
        if out.size > _FEW and not np.may_share_memory(out, g) and not np.may_share_memory(out, x):
            work = out
        power(x, work)
        np.multiply(work, exp, work)
        np.multiply(work, g, out)

    return body


def _kernel(op: OpKind, dtype: DType, takes: type[OpParams], make: Make, arity: int, planes: int) -> HostKernel:
    half = dtype in HALVES
    compute = F32 if half else dtype.require_np()
    lift = lifted_unary if arity == 1 else lifted_binary
    all_planes = (compute,) * (planes + arity * half)

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        with np.errstate(all="ignore"):  # a number beyond the compute dtype's range is its infinity
            body = make(params, compute)
        return bind_body(lift(body) if half else body, inputs, output, all_planes, scratch)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(all_planes, output)

    return HostKernel(op, (dtype,) * (arity + 1), rule, takes, IN_PLACE, working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_kernel(OpKind.Affine, dtype, AffineParams, _affine, 1, 0) for dtype in T4),
        *(_kernel(OpKind.PowIElementwise, dtype, PowIParams, _powi, 1, 1) for dtype in T4),
        *(_kernel(OpKind.PowIElementwiseBackward, dtype, PowIParams, _powi_backward, 2, 1) for dtype in T4),
    )
