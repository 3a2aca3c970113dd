"""How elements are moved along axes, added at edges, or replaced: roll, pad, triu, tril, masked_fill.

Functions over one tensor, with the names of the Array API standard where it has them. Where it has none they
are numpy's or torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.ops.borders import PAD, PAD_BACKWARD, PAD_MODES, ROLL, Pad, PadBackward, Roll
from fuel_async.ir.ops.masks import MASKED_FILL, TRIL, TRIU, MaskedFill, Triangular, fill_value
from fuel_async.ir.shape import as_integer, integer, normal_axis
from fuel_async.ir.tensor import Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

#: One number for every side, (before, after) for every axis, or a pair for each axis.
Widths: TypeAlias = "int | Sequence[int] | Sequence[Sequence[int]]"
Mode: TypeAlias = Literal["constant", "reflect", "replicate"]


def roll(value: Tensor, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Move elements by `shift` places along `axis`, around the end; without an axis, in row-major order.

    Several axes take one shift for all of them or one for each.
    """
    value = _tensor("roll", value)
    if axis is None:
        flat = roll(value.reshape((-1,)) if value.ndim != 1 else value, shift, axis=0)
        return flat.reshape(value.shape)
    axes = [normal_axis("roll", place, value.ndim, [value.type]) for place in _listed("roll", "axis", axis)]
    shifts = _listed("roll", "shift", shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        reason = f"wanted one shift or one for each of {len(axes)} axes, got {len(shifts)}"
        raise GraphError("roll", reason, [value.type])
    for place, by in zip(axes, shifts, strict=True):
        value = value.graph.node(ROLL, (value,), Roll(place, by))
    return value


def pad(value: Tensor, widths: Widths, mode: Mode = "constant", fill: Scalar = 0) -> Tensor:
    """Add elements before and after each axis.

    `widths` is one number for all sides, a pair (before, after) for all axes, or such a pair for each axis. Mode
    "constant" puts the number `fill` there, "reflect" mirrors the elements at the edge without repeating it (so
    it needs more elements than it adds), "replicate" repeats the edge.
    """
    value = _tensor("pad", value)
    sides = _sides("pad", value, widths, mode)
    if mode != "constant" and fill != 0:
        raise GraphError("pad", f"wanted no number to fill with in mode {mode!r}, got {fill!r}", [value.type])
    number = fill_value("pad", fill, value.dtype, [value.type])
    return value.graph.node(PAD, (value,), Pad(*sides, number))


def pad_backward(upstream: Tensor, widths: Widths, mode: Mode = "constant") -> Tensor:
    """Return the gradient of `pad` by its operand, for `upstream`, the gradient by its result."""
    upstream = _tensor("pad_backward", upstream)
    return upstream.graph.node(PAD_BACKWARD, (upstream,), PadBackward(*_sides("pad_backward", upstream, widths, mode)))


def triu(value: Tensor, *, k: int = 0) -> Tensor:
    """Keep elements [i, j] of each matrix in the last two axes with j - i at least `k`; 0 elsewhere."""
    value = _tensor("triu", value)
    return value.graph.node(TRIU, (value,), Triangular(integer("triu", "k", k)))


def tril(value: Tensor, *, k: int = 0) -> Tensor:
    """Keep elements [i, j] of each matrix in the last two axes with j - i at most `k`; 0 elsewhere."""
    value = _tensor("tril", value)
    return value.graph.node(TRIL, (value,), Triangular(integer("tril", "k", k)))


def masked_fill(value: Tensor, mask: Tensor, fill: Scalar) -> Tensor:
    """Put the number `fill` where `mask` (uint8, as comparisons give it) is not 0; the two broadcast."""
    value = _tensor("masked_fill", value)
    value.graph.own("masked_fill", mask)
    number = fill_value("masked_fill", fill, value.dtype, [value.type, mask.type])
    return value.graph.node(MASKED_FILL, (value, mask), MaskedFill(number))


class _Sides(NamedTuple):
    """Elements before and after each axis, and the place of the mode."""

    befores: tuple[int, ...]
    afters: tuple[int, ...]
    mode: int


def _sides(op: str, value: Tensor, widths: Widths, mode: str) -> _Sides:
    if mode not in PAD_MODES:
        raise GraphError(op, f"wanted a mode of {', '.join(PAD_MODES)}, got {mode!r}", [value.type])
    pairs = _pairs(widths, value.ndim)
    if pairs is None or any(width < 0 for pair in pairs for width in pair):
        wanted = f"wanted a number from 0, a pair of them, or a pair for each of {value.ndim} axes"
        raise ShapeMismatch(op, f"{wanted}, got {widths!r}", [value.type])
    befores, afters = tuple([before for before, _ in pairs]), tuple([after for _, after in pairs])
    return _Sides(befores, afters, PAD_MODES.index(mode))


def _pairs(widths: object, rank: int) -> list[tuple[int, int]] | None:
    """(before, after) of each axis; None where `widths` are of no known form."""
    single = as_integer(widths)
    if single is not None:
        return [(single, single)] * rank
    if not isinstance(widths, tuple | list):
        return None
    plain = [as_integer(width) for width in widths]
    if len(plain) == 2 and None not in plain:
        return [(plain[0], plain[1])] * rank  # type: ignore[list-item]  # no None
    each = [_pairs(pair, 1) if isinstance(pair, tuple | list) and len(pair) == 2 else None for pair in widths]
    if len(each) != rank or None in each:
        return None
    return [pair for pairs in each if pairs is not None for pair in pairs]


def _listed(op: str, what: str, values: object) -> list[int]:
    single = as_integer(values)
    if single is not None:
        return [single]
    if not isinstance(values, tuple | list):
        raise GraphError(op, f"wanted an integer or several as {what}, got {values!r}")
    return [integer(op, what, value) for value in values]


def _tensor(op: str, value: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        raise GraphError(op, f"wanted a Tensor, got {type(value).__name__}; wrap arrays with Graph.constant()")
    return value
