"""Ops that lay elements out anew along axes: roll, pad and the gradient of pad."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.op import OpSpec, TensorType, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.ops.masks import fill_value
from fuel_async.ir.shape import check_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Shape

#: How pad finds the elements beyond an edge; a node holds the place in this tuple.
PAD_MODES = ("constant", "reflect", "replicate")
CONSTANT, REFLECT, REPLICATE = range(3)


class Roll(NamedTuple):
    """Element i along `axis` goes to i + shift, around the end; the shift may be any integer."""

    axis: int
    shift: int


class Pad(NamedTuple):
    """Elements to add before and after each axis, the place in `PAD_MODES`, and what "constant" fills with."""

    befores: tuple[int, ...]
    afters: tuple[int, ...]
    mode: int
    value: float


class PadBackward(NamedTuple):
    """The parameters of the pad whose gradient is taken; the number it fills with does not matter."""

    befores: tuple[int, ...]
    afters: tuple[int, ...]
    mode: int


AnyPad: TypeAlias = Pad | PadBackward


def _roll(operands: Sequence[TensorType], attrs: Roll) -> tuple[Shape, DType]:
    (operand,) = operands
    check_axes("roll", [attrs.axis], operand.ndim, operands)
    return operand.shape, operand.dtype


def _check_widths(name: str, operands: Sequence[TensorType], attrs: AnyPad) -> None:
    rank = operands[0].ndim
    widths = (*attrs.befores, *attrs.afters)
    if len(attrs.befores) != rank or len(attrs.afters) != rank or any(width < 0 for width in widths):
        got = f"got {attrs.befores} and {attrs.afters}"
        raise ShapeMismatch(name, f"wanted a number from 0 before and after each of {rank} axes, {got}", operands)
    if not 0 <= attrs.mode < len(PAD_MODES):
        raise GraphError(name, f"wanted a mode from 0 to {len(PAD_MODES) - 1}, got {attrs.mode}", operands)


def _check_edges(name: str, operands: Sequence[TensorType], attrs: AnyPad, unpadded: Shape) -> None:
    """Each mode has elements to take, as far as the sizes are known."""
    if attrs.mode == CONSTANT:
        return
    for axis, (dim, before, after) in enumerate(zip(unpadded, attrs.befores, attrs.afters, strict=True)):
        most = max(before, after)
        least = most + 1 if attrs.mode == REFLECT else 1
        if most and isinstance(dim, int) and dim < least:
            wanted = f"wanted at least {least} elements along axis {axis} to {PAD_MODES[attrs.mode]}"
            raise ShapeMismatch(name, f"{wanted} {before} before and {after} after, got {dim}", operands)


def _pad(operands: Sequence[TensorType], attrs: Pad) -> tuple[Shape, DType]:
    (operand,) = operands
    _check_widths("pad", operands, attrs)
    fill_value("pad", attrs.value, operand.dtype, operands)
    sides = zip(operand.shape, attrs.befores, attrs.afters, strict=True)
    return tuple([dim + (before + after) for dim, before, after in sides]), operand.dtype


def _pad_backward(operands: Sequence[TensorType], attrs: PadBackward) -> tuple[Shape, DType]:
    (upstream,) = operands
    _check_widths("pad_backward", operands, attrs)
    require_float("pad_backward", operands)
    sides = zip(upstream.shape, attrs.befores, attrs.afters, strict=True)
    return tuple([dim + -(before + after) for dim, before, after in sides]), upstream.dtype


ROLL = OpSpec(name="roll", arity=1, infer=_roll, kind=OpKind.Roll, attrs=Roll)

# More elements at the edges of each axis: a number, the elements mirrored at the edge without repeating it,
# or the edge repeated.
PAD = OpSpec(
    name="pad",
    arity=1,
    infer=_pad,
    check=lambda operands, attrs, result: _check_edges("pad", operands, attrs, operands[0].shape),
    kind=OpKind.Pad,
    attrs=Pad,
)

# The gradient of pad by its operand: each element gets the sum of all places that it was copied to.
PAD_BACKWARD = OpSpec(
    name="pad_backward",
    arity=1,
    infer=_pad_backward,
    check=lambda operands, attrs, result: _check_edges("pad_backward", operands, attrs, result),
    kind=OpKind.PadBackward,
    attrs=PadBackward,
)

BORDERS = (ROLL, PAD, PAD_BACKWARD)
