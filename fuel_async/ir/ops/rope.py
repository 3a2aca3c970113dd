"""Rotary position embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DTypeMismatch, ShapeMismatch
from fuel_async.ir.op import Attrs, OpSpec, TensorType, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Shape


def _rope(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    source, cos, sin = operands
    if not source.dtype is cos.dtype is sin.dtype:
        raise DTypeMismatch("rope", "operands differ in dtype; cast one with astype()", operands)
    require_float("rope", operands)
    if source.ndim < 2:
        raise ShapeMismatch("rope", "wanted at least two dimensions: positions and the elements of a head", operands)
    if isinstance(source.shape[-1], int) and source.shape[-1] % 2:
        raise ShapeMismatch("rope", f"wanted an even last dimension, got {source.shape[-1]}", operands)
    wanted = source.shape[-2:]
    if cos.shape != wanted or sin.shape != wanted:
        raise ShapeMismatch("rope", f"wanted cosines and sines of shape {show(wanted)}", operands)
    return source.shape, source.dtype


# Of (x, cos, sin), with x of [.., positions, d] and cos and sin of [positions, d]: elements j and j + d/2 of a head
# are turned together, x · cos + [-x2, x1] · sin where x = [x1, x2].
ROPE = OpSpec(name="rope", arity=3, infer=_rope, kind=OpKind.Rope)

ROTATIONS = (ROPE,)
