"""Reductions over axes, where extremes are, and running sums.

Normalisation along the last axis is in `ir.ops.normalise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir.dtype import DType
from fuel_async.ir.op import Attrs, Check, OpSpec, TensorType, given, require_float
from fuel_async.ir.opkind import OpKind
from fuel_async.ir.shape import broadcast, check_axes, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.symbol import Shape


class Reduce(NamedTuple):
    """Axes to fold, counted from the front and sorted; kept with size 1 when `keepdims`."""

    axes: tuple[int, ...]
    keepdims: bool


class ArgExtreme(NamedTuple):
    """The axis along which the place of the extreme is looked for; kept with size 1 when `keepdims`."""

    axis: int
    keepdims: bool


class Cumulate(NamedTuple):
    """The axis along which elements are added up."""

    axis: int


def _not_of_nothing(name: str) -> Check:
    def check(operands: Sequence[TensorType], attrs: Reduce, result: Shape) -> None:
        shape = operands[0].shape
        # A symbolic dimension is not equal to 0; a result without elements has no value to ask for.
        if 0 not in result and any(shape[axis] == 0 for axis in attrs.axes):
            raise ShapeMismatch(name, f"there is no {name} of nothing: a dimension of {attrs.axes} is 0", operands)

    return check


def _without(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _reduce(name: str, kind: OpKind, *, floating: bool = False, check: Check | None = None) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: Reduce) -> tuple[Shape, DType]:
        (operand,) = operands
        check_axes(name, attrs.axes, operand.ndim, operands)
        if floating:
            require_float(name, operands)
        return _without(operand.shape, attrs.axes, attrs.keepdims), operand.dtype

    return OpSpec(name=name, arity=1, infer=infer, check=check, kind=kind, attrs=Reduce)


def _arg_extreme(name: str, kind: OpKind) -> OpSpec:
    def infer(operands: Sequence[TensorType], attrs: ArgExtreme) -> tuple[Shape, DType]:
        (operand,) = operands
        check_axes(name, [attrs.axis], operand.ndim, operands)
        size = operand.shape[attrs.axis]
        if isinstance(size, int) and size > 2**32:
            raise ShapeMismatch(name, f"axis {attrs.axis} has more elements than u32 can count", operands)
        return _without(operand.shape, [attrs.axis], attrs.keepdims), DType.U32

    def check(operands: Sequence[TensorType], attrs: ArgExtreme, result: Shape) -> None:
        if 0 not in result and operands[0].shape[attrs.axis] == 0:
            raise ShapeMismatch(name, f"there is no {name} of nothing: axis {attrs.axis} has size 0", operands)

    return OpSpec(name=name, arity=1, infer=infer, check=check, kind=kind, attrs=ArgExtreme)


def _check_to(name: str, source: TensorType, result: Shape, operands: Sequence[TensorType]) -> None:
    """`result` is a shape that broadcasts to the source's."""
    shape = source.shape
    if len(result) > len(shape) or broadcast(name, (shape, result), [*operands, show(result)]) != shape:
        raise ShapeMismatch(name, f"{show(result)} does not broadcast to {show(shape)}", operands)


def _reduce_to(name: str, kind: OpKind, *, of_nothing: bool) -> OpSpec:
    def check(operands: Sequence[TensorType], attrs: Attrs, result: Shape) -> None:
        _check_to(name, operands[0], result, operands)
        if not of_nothing and 0 in operands[0].shape and 0 not in result:
            raise ShapeMismatch(name, f"there is no maximum of nothing for {show(result)}", operands)

    return OpSpec(name=name, arity=1, infer=given, check=check, kind=kind)


def _max_to_backward(operands: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, DType]:
    name = "reduce_max_to_backward"
    source, upstream = operands
    if source.dtype is not upstream.dtype:
        raise DTypeMismatch(name, "operands differ in dtype; cast one with astype()", operands)
    require_float(name, operands)
    _check_to(name, source, upstream.shape, operands)
    return source.shape, source.dtype


def _cumsum(operands: Sequence[TensorType], attrs: Cumulate) -> tuple[Shape, DType]:
    (operand,) = operands
    if not operand.shape:
        raise GraphError("cumsum", "wanted at least one dimension", operands)
    check_axes("cumsum", [attrs.axis], operand.ndim, operands)
    return operand.shape, operand.dtype


# Sum, mean, maximum, minimum. NaN anywhere in a fold gives NaN. The sum of nothing is 0, its mean NaN; the
# maximum and minimum of nothing are refused when the shapes are known.
REDUCTIONS = {
    "sum": _reduce("sum", OpKind.SumReduce),
    "mean": _reduce("mean", OpKind.MeanReduce, floating=True),
    "max": _reduce("max", OpKind.MaxReduce, check=_not_of_nothing("max")),
    "min": _reduce("min", OpKind.MinReduce, check=_not_of_nothing("min")),
}

# The place of the maximum or minimum along an axis in u32: the first of equal ones, the first NaN if there is one.
ARG_EXTREMES = {
    "argmax": _arg_extreme("argmax", OpKind.ArgMaxDim),
    "argmin": _arg_extreme("argmin", OpKind.ArgMinDim),
}

# What undoes broadcasting: sum or maximum over the dimensions that broadcasting from the result's shape to the
# operand's repeats. The dimensions in front are dropped, those of size 1 are kept.
REDUCTIONS_TO = {
    "reduce_sum_to": _reduce_to("reduce_sum_to", OpKind.ReduceSumTo, of_nothing=True),
    "reduce_max_to": _reduce_to("reduce_max_to", OpKind.ReduceMaxTo, of_nothing=False),
}

# Of (operand, upstream) of `reduce_max_to` the gradient: upstream goes to the maxima, in equal parts where there
# are several; where the maximum is NaN all of its elements get NaN.
REDUCE_MAX_TO_BACKWARD = OpSpec(
    name="reduce_max_to_backward", arity=2, infer=_max_to_backward, kind=OpKind.ReduceMaxToBackward
)

# The sum of each element and all before it along an axis, added one after the other.
CUMSUM = OpSpec(name="cumsum", arity=1, infer=_cumsum, kind=OpKind.CumSum, attrs=Cumulate)

REDUCE = (*REDUCTIONS.values(), *ARG_EXTREMES.values(), *REDUCTIONS_TO.values(), REDUCE_MAX_TO_BACKWARD, CUMSUM)
