"""Functions over several tensors, named as the Python Array API standard names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fuel_async.errors import GraphError
from fuel_async.ir.ops.elementwise import BINARIES, WHERE
from fuel_async.ir.ops.movement import CONCAT, Concat
from fuel_async.ir.shape import normal_axis
from fuel_async.ir.tensor import Scalar, Tensor, binary, promoted, weak

if TYPE_CHECKING:
    from collections.abc import Sequence


def maximum(left: Tensor | Scalar, right: Tensor | Scalar) -> Tensor:
    """Elementwise maximum; NaN wins."""
    return binary(BINARIES["maximum"], left, right)


def minimum(left: Tensor | Scalar, right: Tensor | Scalar) -> Tensor:
    """Elementwise minimum; NaN wins."""
    return binary(BINARIES["minimum"], left, right)


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product; `left @ right`."""
    return _tensor("matmul", left) @ right


def where(condition: Tensor, left: Tensor | Scalar, right: Tensor | Scalar) -> Tensor:
    """Elements of `left` where `condition` (uint8, as comparisons give it) is not 0, else of `right`."""
    _tensor("where", condition)
    tensors = [value for value in (left, right) if isinstance(value, Tensor)]
    if not tensors:
        raise GraphError("where", "wanted a Tensor for at least one of the two values", [condition.type])
    both = [value if isinstance(value, Tensor) else weak("where", value, tensors[0]) for value in (left, right)]
    return condition.graph.node(WHERE, (condition, *promoted("where", *both)))


def concat(tensors: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    """Join tensors along `axis`; their other dimensions must agree, and mixed dtypes are cast."""
    if not isinstance(tensors, Iterable):
        raise GraphError("concat", f"wanted several Tensors, got {type(tensors).__name__}")
    operands = [_tensor("concat", value) for value in tensors]
    if not operands:
        raise GraphError("concat", "wanted at least one Tensor")
    place = normal_axis("concat", axis, operands[0].ndim, [value.type for value in operands])
    return operands[0].graph.node(CONCAT, promoted("concat", *operands), Concat(place))


def permute_dims(value: Tensor, axes: Sequence[int]) -> Tensor:
    """Reorder the axes; `value.permute_dims(axes)`."""
    return _tensor("permute", value).permute_dims(axes)


def take(value: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Pick entries along `axis`; `value.take(indices, axis=axis)`."""
    return _tensor("take", value).take(indices, axis=axis)


def _tensor(op: str, value: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        raise GraphError(op, f"wanted a Tensor, got {type(value).__name__}; wrap arrays with Graph.constant()")
    return value
