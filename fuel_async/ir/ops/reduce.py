"""Reductions over any axes, and the ops that normalise along the last axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import ShapeMismatch
from fuel_async.ir.op import Attrs, Check, OpSpec, TensorType, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import check_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.dtype import DType
    from fuel_async.ir.symbol import Shape


class Reduce(NamedTuple):
    """Axes to fold, counted from the front and sorted; kept with size 1 when `keepdims`."""

    axes: tuple[int, ...]
    keepdims: bool


class LayerNorm(NamedTuple):
    """`eps` is added to the biased variance."""

    eps: float


def _not_of_nothing(name: str) -> Check:
    def check(operands: Sequence[TensorType], attrs: Reduce, result: Shape) -> None:
        shape = operands[0].shape
        # A symbolic dimension is not equal to 0; a result without elements has no value to ask for.
        if 0 not in result and any(shape[axis] == 0 for axis in attrs.axes):
            raise ShapeMismatch(name, f"there is no {name} of nothing: a dimension of {attrs.axes} is 0", operands)

    return check


def _reduce(name: str, kind: OpKind, *, floating: bool = False, check: Check | None = None) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Reduce) -> tuple[Shape, DType]:
        (operand,) = operands
        check_axes(name, attrs.axes, operand.ndim, operands)
        if floating:
            require_float(name, operands)
        kept = enumerate(operand.shape)
        if attrs.keepdims:
            return tuple(1 if axis in attrs.axes else dim for axis, dim in kept), operand.dtype
        return tuple(dim for axis, dim in kept if axis not in attrs.axes), operand.dtype

    return OpSpec(name=name, arity=1, infer=infer, check=check, kind=kind, attrs=Reduce)


def _last_axis(name: str, kind: OpKind, attrs_class: type[tuple[object, ...]] | None = None) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
        (operand,) = operands
        if not operand.shape:
            raise ShapeMismatch(name, "wanted at least one dimension", operands)
        require_float(name, operands)
        return operand.shape, operand.dtype

    return OpSpec(name=name, arity=1, infer=infer, kind=kind, attrs=attrs_class)


# Sum, mean, maximum, minimum. NaN anywhere in a fold gives NaN. The sum of nothing is 0, its mean NaN; the
# maximum and minimum of nothing are refused when the shapes are known.
REDUCTIONS = {
    "sum": _reduce("sum", OpKind.SumReduce),
    "mean": _reduce("mean", OpKind.MeanReduce, floating=True),
    "max": _reduce("max", OpKind.MaxReduce, check=_not_of_nothing("max")),
    "min": _reduce("min", OpKind.MinReduce, check=_not_of_nothing("min")),
}

# exp(x - max) / sum(exp(x - max)) along the last axis.
SOFTMAX = _last_axis("softmax", OpKind.SoftmaxLastDim)

# (x - mean) / sqrt(variance + eps) along the last axis, biased variance; scale and shift are mul and add.
LAYER_NORM = _last_axis("layer_norm", OpKind.LayerNormLastDim, LayerNorm)

REDUCE = (*REDUCTIONS.values(), SOFTMAX, LAYER_NORM)
