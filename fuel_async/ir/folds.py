"""`Folds`: the methods of `Tensor` that fold axes or work along one: sums and extremes, where extremes are,
running sums, softmax, normalisation.

Their ops are in `ir.ops.reduce` and `ir.ops.normalise`. Ops along the last axis only are brought there by
views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import GraphError
from fuel_async.ir.ops.normalise import LAYER_NORM, LOG_SOFTMAX, RMS_NORM, SOFTMAX, LayerNorm, RmsNorm
from fuel_async.ir.ops.reduce import (
    ARG_EXTREMES,
    CUMSUM,
    REDUCTIONS,
    REDUCTIONS_TO,
    ArgExtreme,
    Cumulate,
    Reduce,
)
from fuel_async.ir.shape import normal_axes, normal_axis, normal_dims, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.graph import Graph
    from fuel_async.ir.op import OpSpec, TensorType
    from fuel_async.ir.symbol import Symbolic
    from fuel_async.ir.tensor import Axis, Tensor


class Folds:
    """A part of `Tensor`; it has no state of its own."""

    __slots__ = ()

    if TYPE_CHECKING:
        graph: Graph
        type: TensorType

    # --- folding axes ---------------------------------------------------------------------------------------

    def _reduce(self, name: str, axis: Axis, keepdims: bool) -> Tensor:
        axes = normal_axes(name, axis, self.type.ndim, [self.type])
        return self.graph.node(REDUCTIONS[name], (_tensor(self),), Reduce(axes, bool(keepdims)))

    def sum(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Sum over `axis` (all axes when None)."""
        return self._reduce("sum", axis, keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Mean over `axis` (all axes when None)."""
        return self._reduce("mean", axis, keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Maximum over `axis` (all axes when None); NaN wins."""
        return self._reduce("max", axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Minimum over `axis` (all axes when None); NaN wins."""
        return self._reduce("min", axis, keepdims)

    def _arg_extreme(self, name: str, axis: int | None, keepdims: bool) -> Tensor:
        this, op, rank = _tensor(self), ARG_EXTREMES[name], self.type.ndim
        if axis is not None:
            place = normal_axis(name, axis, rank, [self.type])
            return self.graph.node(op, (this,), ArgExtreme(place, bool(keepdims)))
        flat = self.graph.node(op, (this.reshape((this.size,)),), ArgExtreme(0, False))
        return flat.reshape((1,) * rank) if keepdims else flat

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """u32 index of the maximum along `axis`, of all elements in row-major order when None.

        The first of equal ones; the first NaN, where there is one.
        """
        return self._arg_extreme("argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """u32 index of the minimum; otherwise as `argmax`."""
        return self._arg_extreme("argmin", axis, keepdims)

    def sum_to(self, shape: Sequence[int | str | Symbolic]) -> Tensor:
        """Sum over the dimensions that broadcasting from `shape` would repeat: what `broadcast_to` undoes."""
        return self._reduce_to("reduce_sum_to", shape)

    def max_to(self, shape: Sequence[int | str | Symbolic]) -> Tensor:
        """Maximum over the dimensions that broadcasting from `shape` would repeat; NaN wins."""
        return self._reduce_to("reduce_max_to", shape)

    def _reduce_to(self, name: str, shape: Sequence[int | str | Symbolic]) -> Tensor:
        target = normal_dims(name, shape, [self.type])
        return self.graph.node(REDUCTIONS_TO[name], (_tensor(self),), shape=target)

    # --- along an axis --------------------------------------------------------------------------------------

    def cumulative_sum(self, axis: int | None = None) -> Tensor:
        """Sum of each element and all before it along `axis`, which may be left out for one dimension."""
        if axis is None and self.type.ndim != 1:
            raise GraphError("cumsum", "wanted an axis, since there is not one dimension only", [self.type])
        place = normal_axis("cumsum", 0 if axis is None else axis, self.type.ndim, [self.type])
        return self.graph.node(CUMSUM, (_tensor(self),), Cumulate(place))

    def _along_last(self, op: OpSpec, axis: int) -> Tensor:
        rank, this = self.type.ndim, _tensor(self)
        place = normal_axis(op.name, axis, rank, [self.type])
        if place == rank - 1:
            return self.graph.node(op, (this,))
        swapped = list(range(rank))
        swapped[place], swapped[-1] = swapped[-1], swapped[place]
        return self.graph.node(op, (this.permute_dims(swapped),)).permute_dims(swapped)

    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x - max) over its sum, along `axis`."""
        return self._along_last(SOFTMAX, axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """Logarithm of the softmax along `axis`, without its underflow."""
        return self._along_last(LOG_SOFTMAX, axis)

    def layer_norm(self, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
        """(x - mean) / sqrt(variance + eps) along the last axis, then times `weight`, plus `bias` where
        given.
        """
        normal = self.graph.node(LAYER_NORM, (_tensor(self),), LayerNorm(number("layer_norm", eps)))
        scaled = normal if weight is None else normal * weight
        return scaled if bias is None else scaled + bias

    def rms_norm(self, weight: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
        """Each element over sqrt(mean(x²) + eps) along the last axis, then times `weight` where given."""
        normal = self.graph.node(RMS_NORM, (_tensor(self),), RmsNorm(number("rms_norm", eps)))
        return normal if weight is None else normal * weight


def _tensor(part: Folds) -> Tensor:
    """The tensor that `part` is."""
    return part  # type: ignore[return-value]
