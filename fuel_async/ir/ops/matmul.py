"""Matrix products over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DTypeMismatch, ShapeMismatch
from fuel_async.ir.op import Attrs, OpSpec, TensorType
from fuel_async.ir.opkind import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Dim, Shape


def _grouped(left: Dim, right: Dim) -> bool:
    """Whether a batch dimension of the left serves one of the right: equal, or a positive multiple."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right or right == 1 or (left > 0 and right > 0 and left % right == 0)
    return left == right or right == 1


def _matmul(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    left, right = operands
    if left.dtype is not right.dtype:
        raise DTypeMismatch("matmul", "operands differ in dtype; cast one with astype()", operands)
    if left.ndim < 2 or left.ndim != right.ndim:
        raise ShapeMismatch("matmul", "wanted two operands of one rank, at least 2", operands)
    if left.shape[-1] != right.shape[-2]:
        inner = f"inner dimensions {left.shape[-1]} and {right.shape[-2]} differ"
        raise ShapeMismatch("matmul", inner, operands)
    if not all(_grouped(a, b) for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)):
        batch = "a batch dimension of the left is no multiple of the right's"
        raise ShapeMismatch("matmul", batch, operands)
    return (*left.shape[:-1], right.shape[-1]), left.dtype


# [.., m, k] x [.., k, n] -> [.., m, n]. Each batch dimension of the left equals the right's or is a multiple
# of it (grouped-query attention); then consecutive batches of the left share one of the right: right index =
# left index // (left / right).
MATMUL = OpSpec(name="matmul", arity=2, infer=_matmul, kind=OpKind.MatMul)

MATMULS = (MATMUL,)
