"""Ops that keep some elements and put one number in place of the others: masked_fill, triu, tril."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import OpSpec, TensorType, require_array_dtype
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import broadcast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class MaskedFill(NamedTuple):
    """What replaces the masked elements: an integer for integer dtypes, else a float."""

    value: float


class Triangular(NamedTuple):
    """The diagonal that ends the triangle: 0 is the main one, positive numbers are above it."""

    diagonal: int


def fill_value(op: str, value: object, dtype: DType, operands: Sequence[object] = ()) -> float:
    """Return `value` as a number that an array of `dtype` can hold: an int for integer dtypes, else a float.

    Infinities and NaN are numbers of every floating dtype. `GraphError` for what is no number, `DTypeMismatch`
    for a float among integers and for a finite number beyond the dtype's range.
    """
    if not isinstance(value, bool | int | float):
        raise GraphError(op, f"wanted a number to fill with, got {type(value).__name__}", operands)
    require_array_dtype(op, dtype)
    if dtype.is_int:
        limits = np.iinfo(dtype.require_np())
        if isinstance(value, float):
            raise DTypeMismatch(op, f"wanted an integer to fill {dtype} with, got {value!r}", operands)
        if not limits.min <= value <= limits.max:
            wanted = f"wanted a number from {limits.min} to {limits.max} to fill {dtype} with"
            raise DTypeMismatch(op, f"{wanted}, got {value!r}", operands)
        return int(value)
    try:
        plain = float(value)
        with np.errstate(over="ignore"):
            held = float(np.asarray(plain).astype(dtype.require_np()))
    except OverflowError:
        plain, held = 0.0, math.inf
    if math.isfinite(plain) and not math.isfinite(held):
        raise DTypeMismatch(op, f"wanted a number to fill {dtype} with, got {value!r}, beyond its range", operands)
    return plain


def _masked_fill(operands: Sequence[TensorType], attrs: MaskedFill) -> tuple[Shape, DType]:
    source, mask = operands
    if mask.dtype is not DType.U8:
        raise DTypeMismatch("masked_fill", "wanted a uint8 (or bool) mask", operands)
    fill_value("masked_fill", attrs.value, source.dtype, operands)
    return broadcast("masked_fill", (source.shape, mask.shape), operands), source.dtype


def _triangular(name: str, kind: OpKind) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Triangular) -> tuple[Shape, DType]:
        (operand,) = operands
        if operand.ndim < 2:
            raise ShapeMismatch(name, "wanted at least two dimensions", operands)
        return operand.shape, operand.dtype

    return OpSpec(name=name, arity=1, infer=infer, kind=kind, attrs=Triangular)


# `value` where the mask is not 0, else the element. The two operands broadcast.
MASKED_FILL = OpSpec(name="masked_fill", arity=2, infer=_masked_fill, kind=OpKind.MaskedFill, attrs=MaskedFill)

# Of each matrix in the last two axes, the elements [i, j] with j - i at least (triu) or at most (tril) the
# diagonal; 0 elsewhere.
TRIU = _triangular("triu", OpKind.Triu)
TRIL = _triangular("tril", OpKind.Tril)

MASKS = (MASKED_FILL, TRIU, TRIL)
