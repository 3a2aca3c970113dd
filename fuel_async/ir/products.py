"""How matrix products are built from the op, which takes two operands of one rank: vectors, missing batch
dimensions and batch dimensions of size 1 are brought to that form by views. `Tensor.__matmul__` calls this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import ShapeMismatch
from fuel_async.ir.ops.matmul import MATMUL

if TYPE_CHECKING:
    from fuel_async.ir.tensor import Tensor


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product of operands of one dtype: lower ranks get leading dimensions of size 1, as numpy does.

    A vector on the left is one row, on the right one column; that dimension is dropped from the result.
    """
    if not left.ndim or not right.ndim:
        raise ShapeMismatch("matmul", "wanted at least one dimension on each side", [left.type, right.type])
    rows, columns = left.ndim == 1, right.ndim == 1
    left = left.expand_dims(0) if rows else left
    right = right.expand_dims(1) if columns else right
    rank = max(left.ndim, right.ndim)
    left = left.expand_dims(range(rank - left.ndim))
    right = right.expand_dims(range(rank - right.ndim))
    batch = [b if a == 1 else a for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)]
    left = left.broadcast_to((*batch, *left.shape[-2:]))
    result = left.graph.node(MATMUL, (left, right))
    dropped = [-2] * rows + [-1] * columns
    return result.squeeze(dropped) if dropped else result
