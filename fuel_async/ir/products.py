"""How matrix products are built from their ops, which take two operands of one rank: vectors, missing batch
dimensions and batch dimensions of size 1 are brought to that form by views. `Tensor.__matmul__` and `linear()`
of `ir.fused` call this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import ShapeMismatch
from fuel_async.ir.ops.matmul import FUSED_LINEAR, MATMUL

if TYPE_CHECKING:
    from fuel_async.ir.op import OpSpec
    from fuel_async.ir.tensor import Tensor


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product of operands of one dtype: lower ranks get leading dimensions of size 1, as numpy does.

    A vector on the left is one row, on the right one column; that dimension is dropped from the result.
    """
    if not left.ndim or not right.ndim:
        raise ShapeMismatch("matmul", "wanted at least one dimension on each side", [left.type, right.type])
    if right.ndim > 1:
        return _product(MATMUL, left, right)
    return _product(MATMUL, left, right.expand_dims(1)).squeeze(-1)


def linear(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Product plus bias, of operands of one dtype; ranks as for `matmul`, a bias of rank 1."""
    if not value.ndim or weight.ndim < 2:
        wanted = "wanted a vector or more, times a matrix or more"
        raise ShapeMismatch("fused_linear", wanted, [value.type, weight.type, bias.type])
    return _product(FUSED_LINEAR, value, weight, bias)


def _product(op: OpSpec, left: Tensor, right: Tensor, *more: Tensor) -> Tensor:
    """The node of `op` for operands brought to one rank; `right` has at least two dimensions."""
    row = left.ndim == 1
    left = left.expand_dims(0) if row else left
    rank = max(left.ndim, right.ndim)
    left = left.expand_dims(range(rank - left.ndim))
    right = right.expand_dims(range(rank - right.ndim))
    batch = [b if a == 1 else a for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)]
    left = left.broadcast_to((*batch, *left.shape[-2:]))
    result = left.graph.node(op, (left, right, *more))
    return result.squeeze(-2) if row else result
