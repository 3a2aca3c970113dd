"""Shape rules shared by the op families: dimensions, broadcasting, axes, and the errors they raise.

All of them take shapes whose dimensions may be symbolic; two different symbols never broadcast against each
other. What users pass (numpy integers, strings that name symbols, negative axes) is made plain here, so that
nodes hold nothing but `int` and `Symbolic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.symbol import Dim, Shape, Symbolic, symbol


def broadcast(op: str, shapes: Sequence[Shape], operands: Sequence[object] = ()) -> Shape:
    """Return the shape that `shapes` broadcast to after numpy's rule.

    `ShapeMismatch` names the operands, or all shapes where none are given.
    """
    rank = max(len(shape) for shape in shapes)
    result: list[Dim] = []
    for position in range(-rank, 0):
        dims = {shape[position] for shape in shapes if len(shape) >= -position} - {1}
        if len(dims) > 1:
            raise ShapeMismatch(op, "shapes do not broadcast", operands or [show(shape) for shape in shapes])
        result.append(dims.pop() if dims else 1)
    return tuple(result)


def show(shape: Shape) -> str:
    """Return `shape` as a reader expects it: `(batch, 784)`."""
    return f"({', '.join(str(dim) for dim in shape)}{',' if len(shape) == 1 else ''})"


def as_integer(value: object) -> int | None:
    """Return `value` as a Python integer, or None when it is none."""
    try:
        return int(index(value))  # type: ignore[arg-type]
    except TypeError:
        return None


def integer(op: str, what: str, value: object) -> int:
    """Return `value` as a Python integer; `GraphError` when it is none."""
    plain = as_integer(value)
    if plain is None:
        raise GraphError(op, f"wanted an integer as {what}, got {value!r}")
    return plain


def number(op: str, value: object) -> float:
    """Return `value` as a Python float; `GraphError` when it is no Python number."""
    if isinstance(value, bool | int | float):
        return float(value)
    raise GraphError(op, f"wanted a number, got {type(value).__name__}")


def normal_dims(op: str, shape: object, operands: Sequence[object] = ()) -> Shape:
    """Return `shape` with each dimension an `int` or a `Symbolic`; a string names a symbol.

    `GraphError` for anything else. Signs are the caller's business.
    """
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise GraphError(op, f"wanted a sequence of dimensions, got {shape!r}", operands)
    return tuple([_normal_dim(op, dim, operands) for dim in shape])


def _normal_dim(op: str, dim: object, operands: Sequence[object]) -> Dim:
    if isinstance(dim, Symbolic):
        return dim
    if not isinstance(dim, str):
        return integer(op, "dimension", dim)
    if not dim.isidentifier():
        raise GraphError(op, f"wanted an identifier to name a dimension, got {dim!r}", operands)
    return symbol(dim)


def normal_axis(op: str, axis: int, rank: int, operands: Sequence[object] = ()) -> int:
    """Return `axis` counted from the front; `ShapeMismatch` when a tensor of that rank has no such axis."""
    plain = integer(op, "axis", axis)
    if not -rank <= plain < rank:
        raise ShapeMismatch(op, f"axis {plain} is out of range for {rank} dimensions", operands)
    return plain % rank


def normal_axes(
    op: str, axes: int | Sequence[int] | None, rank: int, operands: Sequence[object] = ()
) -> tuple[int, ...]:
    """Return the axes counted from the front, sorted and without repeats; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, Iterable) else [axes]
    normal = sorted(normal_axis(op, axis, rank, operands) for axis in given)
    if len(set(normal)) != len(normal):
        raise ShapeMismatch(op, f"axes {axes} name one axis twice", operands)
    return tuple(normal)


def check_axes(op: str, axes: Sequence[int], rank: int, operands: Sequence[object]) -> None:
    """Refuse parameters that are not axes counted from the front, sorted and without repeats."""
    if list(axes) != sorted(set(axes)) or not all(0 <= axis < rank for axis in axes):
        raise ShapeMismatch(op, f"{tuple(axes)} are no sorted axes of {rank} dimensions", operands)
