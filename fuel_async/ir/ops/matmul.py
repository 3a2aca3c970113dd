"""Matrix products over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DTypeMismatch, ShapeMismatch
from fuel_async.ir.op import Attrs, OpSpec, TensorType, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Dim, Shape


def _grouped(left: Dim, right: Dim) -> bool:
    """Whether a batch dimension of the left serves one of the right: equal, or a positive multiple."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right or right == 1 or (left > 0 and right > 0 and left % right == 0)
    return left == right or right == 1


def _product(name: str, operands: Sequence[TensorType]) -> Shape:
    """The shape of the product of the first two operands; refuses what cannot be multiplied."""
    left, right = operands[:2]
    if left.dtype is not right.dtype:
        raise DTypeMismatch(name, "operands differ in dtype; cast one with astype()", operands)
    if left.ndim < 2 or left.ndim != right.ndim:
        raise ShapeMismatch(name, "wanted two operands of one rank, at least 2", operands)
    if left.shape[-1] != right.shape[-2]:
        inner = f"inner dimensions {left.shape[-1]} and {right.shape[-2]} differ"
        raise ShapeMismatch(name, inner, operands)
    if not all(_grouped(a, b) for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True)):
        batch = "a batch dimension of the left is no multiple of the right's"
        raise ShapeMismatch(name, batch, operands)
    return (*left.shape[:-1], right.shape[-1])


def _matmul(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    return _product("matmul", operands), operands[0].dtype


# [.., m, k] x [.., k, n] -> [.., m, n]. Each batch dimension of the left equals the right's or is a multiple
# of it (grouped-query attention); then consecutive batches of the left share one of the right: right index =
# left index // (left / right). i8 and u8 are summed exactly and limited to their range.
MATMUL = OpSpec(name="matmul", arity=2, infer=_matmul, kind=OpKind.MatMul)


def _fused_linear(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    left, right, bias = operands
    if bias.dtype is not left.dtype:
        raise DTypeMismatch("fused_linear", "operands differ in dtype; cast one with astype()", operands)
    require_float("fused_linear", operands)
    result = _product("fused_linear", operands)
    if bias.shape != right.shape[-1:]:
        raise ShapeMismatch("fused_linear", f"wanted a bias of shape {show(right.shape[-1:])}", operands)
    return result, left.dtype


# [.., m, k] x [.., k, n] + [n], batches as for matmul; half types are narrowed once, after the sum.
FUSED_LINEAR = OpSpec(name="fused_linear", arity=3, infer=_fused_linear, kind=OpKind.FusedLinear)

MATMULS = (MATMUL, FUSED_LINEAR)
