"""Ops that move or rename elements without computing any: views over the operand's bytes, and concat and
copy.

A view costs nothing: it is a layout (shape, strides, offset) over the bytes of its operand. `reshape` of a
layout that allows no view, and `contiguize` of a strided one, are lowered to a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch, InternalError, ShapeMismatch
from fuel_async.ir.op import Attrs, OpSpec, TensorType, given
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import broadcast, check_axes, show
from fuel_async.ir.symbol import Dim, Shape, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.layout import Layout


class Permute(NamedTuple):
    """Result axis i is operand axis `axes[i]`."""

    axes: tuple[int, ...]


class Slice(NamedTuple):
    """First index and step of each axis; the lengths are the result's shape. Starts may be symbolic."""

    starts: tuple[Dim, ...]
    steps: tuple[int, ...]


class Axes(NamedTuple):
    """Axes counted from the front, sorted. For `expand_dims` they are axes of the result."""

    axes: tuple[int, ...]


class Concat(NamedTuple):
    """The axis along which operands follow each other."""

    axis: int


def _permute(operands: Sequence[TensorType], attrs: Permute) -> tuple[Shape, DType]:
    (operand,) = operands
    if sorted(attrs.axes) != list(range(operand.ndim)):
        raise ShapeMismatch("permute", f"axes {attrs.axes} are no permutation", operands)
    return tuple(operand.shape[axis] for axis in attrs.axes), operand.dtype


def _expand_dims(operands: Sequence[TensorType], attrs: Axes) -> tuple[Shape, DType]:
    (operand,) = operands
    dims = iter(operand.shape)
    rank = operand.ndim + len(attrs.axes)
    check_axes("expand_dims", attrs.axes, rank, operands)
    return tuple(1 if axis in attrs.axes else next(dims) for axis in range(rank)), operand.dtype


def _squeeze(operands: Sequence[TensorType], attrs: Axes) -> tuple[Shape, DType]:
    (operand,) = operands
    check_axes("squeeze", attrs.axes, operand.ndim, operands)
    for axis in attrs.axes:
        if operand.shape[axis] != 1:
            raise ShapeMismatch("squeeze", f"axis {axis} has size {operand.shape[axis]}, not 1", operands)
    return tuple(dim for axis, dim in enumerate(operand.shape) if axis not in attrs.axes), operand.dtype


def _same(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    return operands[0].shape, operands[0].dtype


def _flip(operands: Sequence[TensorType], attrs: Axes) -> tuple[Shape, DType]:
    check_axes("flip", attrs.axes, operands[0].ndim, operands)
    return _same(operands, attrs)


def _concat(operands: Sequence[TensorType], attrs: Concat) -> tuple[Shape, DType]:
    first, axis = operands[0], attrs.axis
    check_axes("concat", [axis], first.ndim, operands)
    total: Dim = 0
    for operand in operands:
        if operand.dtype is not first.dtype:
            raise DTypeMismatch("concat", "operands differ in dtype; cast them with astype()", operands)
        rest = (*operand.shape[:axis], *operand.shape[axis + 1 :])
        if operand.ndim != first.ndim or rest != (*first.shape[:axis], *first.shape[axis + 1 :]):
            raise ShapeMismatch("concat", f"shapes differ in another axis than {axis}", operands)
        total = total + operand.shape[axis]
    return (*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype


def _check_slice(operands: Sequence[TensorType], attrs: Slice, result: Shape) -> None:
    """Every element lies inside the operand, as far as the numbers are known."""
    shape = operands[0].shape
    if not len(shape) == len(attrs.starts) == len(attrs.steps) == len(result):
        raise ShapeMismatch("slice", f"{attrs} does not fit {show(result)}", operands)
    for axis, (dim, start, step, length) in enumerate(zip(shape, attrs.starts, attrs.steps, result, strict=True)):
        if not (isinstance(dim, int) and isinstance(start, int) and isinstance(length, int)):
            continue
        last = start + max(length - 1, 0) * step
        inside = 0 <= start < dim and 0 <= last < dim if length > 0 else length == 0 and 0 <= start <= dim
        if not inside or not step:
            taken = f"{length} entries from {start} by {step} are not inside axis {axis} of size {dim}"
            raise ShapeMismatch("slice", taken, operands)


def _check_broadcast(operands: Sequence[TensorType], attrs: Attrs, result: Shape) -> None:
    shape = operands[0].shape
    if len(result) < len(shape) or broadcast("broadcast", (shape, result), [*operands, show(result)]) != result:
        raise ShapeMismatch("broadcast", f"does not broadcast to {show(result)}", operands)


def _check_reshape(operands: Sequence[TensorType], attrs: Attrs, result: Shape) -> None:
    if count(operands[0].shape) != count(result):
        raise ShapeMismatch("reshape", f"{show(result)} has another number of elements", operands)


def _slice_layout(layout: Layout, attrs: Slice, shape: tuple[int, ...]) -> Layout:
    for axis, (start, step, length) in enumerate(zip(attrs.starts, attrs.steps, shape, strict=True)):
        if not isinstance(start, int):
            raise InternalError(f"slice start {start} is not bound")
        layout = layout.narrow(axis, start, length, step)
    return layout


def _expand_layout(layout: Layout, attrs: Axes, shape: tuple[int, ...]) -> Layout:
    for axis in attrs.axes:
        layout = layout.expand_dims(axis)
    return layout


PERMUTE = OpSpec(
    name="permute",
    arity=1,
    infer=_permute,
    attrs=Permute,
    view=lambda at, attrs, shape: at.permute(attrs.axes),
)

SLICE = OpSpec(name="slice", arity=1, infer=given, check=_check_slice, attrs=Slice, view=_slice_layout)

BROADCAST = OpSpec(
    name="broadcast",
    arity=1,
    infer=given,
    check=_check_broadcast,
    view=lambda at, attrs, shape: at.broadcast_to(shape),
)

EXPAND_DIMS = OpSpec(name="expand_dims", arity=1, infer=_expand_dims, attrs=Axes, view=_expand_layout)

SQUEEZE = OpSpec(
    name="squeeze", arity=1, infer=_squeeze, attrs=Axes, view=lambda at, attrs, shape: at.squeeze(attrs.axes)
)

FLIP = OpSpec(name="flip", arity=1, infer=_flip, attrs=Axes, view=lambda at, attrs, shape: at.flip(attrs.axes))

RESHAPE = OpSpec(
    name="reshape",
    arity=1,
    infer=given,
    check=_check_reshape,
    view=lambda at, attrs, shape: at.reshape(shape),
)

# The same values in row-major order from offset 0; free when they are already.
CONTIGUIZE = OpSpec(
    name="contiguize",
    arity=1,
    infer=_same,
    view=lambda at, attrs, shape: at if at.is_contiguous and not at.offset else None,
)

VIEWS = (PERMUTE, SLICE, BROADCAST, EXPAND_DIMS, SQUEEZE, FLIP, RESHAPE, CONTIGUIZE)

CONCAT = OpSpec(name="concat", arity=-1, infer=_concat, kind=OpKind.Concat, attrs=Concat)

# Fresh bytes with the operand's values: what a strided `reshape` or `contiguize` and a copied output become.
COPY = OpSpec(name="copy", arity=1, infer=_same, kind=OpKind.Copy)

MOVEMENT = (*VIEWS, CONCAT, COPY)
