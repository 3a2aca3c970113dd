"""The parameters of fused ops: a closed set of frozen variants below `FusedOpParams`.

Where `OpParams` is what one kernel call is told, sizes included, these are what a fused op is told whatever the sizes:
the attrs of its node, under the names of the fused ops. Each variant is an attribute of the base class, as in
`FusedOpParams.RmsNormLastDim(eps=1e-5)`, and is spelled that way outside of this module.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from fuel_async.errors import UserError
from fuel_async.ir import REDUCTION_NAMES, Attrs

if TYPE_CHECKING:
    from fuel_async.ir import OpSpec


@dataclass(frozen=True, slots=True)
class FusedOpParams:
    """Base of all variants: immutable, hashable. Its fields are those of the op's attrs, in their order."""

    SoftmaxLastDim: ClassVar[type[SoftmaxLastDim]]
    SoftmaxLastDimBackward: ClassVar[type[SoftmaxLastDimBackward]]
    FusedLinear: ClassVar[type[FusedLinear]]
    Rope: ClassVar[type[Rope]]
    ReduceMaxToBackward: ClassVar[type[ReduceMaxToBackward]]
    RmsNormLastDim: ClassVar[type[RmsNormLastDim]]
    RmsNormLastDimBackward: ClassVar[type[RmsNormLastDimBackward]]
    LayerNormLastDim: ClassVar[type[LayerNormLastDim]]
    LayerNormLastDimBackward: ClassVar[type[LayerNormLastDimBackward]]
    PowIBackward: ClassVar[type[PowIBackward]]
    InplaceAffine: ClassVar[type[InplaceAffine]]
    FusedSoftmaxCrossEntropy: ClassVar[type[FusedSoftmaxCrossEntropy]]
    SelectiveScan: ClassVar[type[SelectiveScan]]

    def attrs(self, op: OpSpec) -> Attrs:
        """Return the attrs of a node of `op`, which is the op that this variant is for."""
        return None if op.attrs is None else op.attrs(*self._numbers())

    def _numbers(self) -> tuple[Any, ...]:
        return tuple([getattr(self, field.name) for field in fields(self)])


@dataclass(frozen=True, slots=True)
class SoftmaxLastDim(FusedOpParams):
    """Softmax along the last axis."""


@dataclass(frozen=True, slots=True)
class SoftmaxLastDimBackward(FusedOpParams):
    """Its gradient, of (result, upstream)."""


@dataclass(frozen=True, slots=True)
class FusedLinear(FusedOpParams):
    """Matrix product plus bias."""


@dataclass(frozen=True, slots=True)
class Rope(FusedOpParams):
    """Rotary position embedding, of (operand, cosines, sines)."""


@dataclass(frozen=True, slots=True)
class ReduceMaxToBackward(FusedOpParams):
    """The gradient of a maximum over broadcast dimensions, of (operand, upstream)."""


@dataclass(frozen=True, slots=True)
class RmsNormLastDim(FusedOpParams):
    """Each element over sqrt(mean(x²) + eps) of its row."""

    eps: float


@dataclass(frozen=True, slots=True)
class RmsNormLastDimBackward(FusedOpParams):
    """Its gradient, of (operand, upstream)."""

    eps: float


@dataclass(frozen=True, slots=True)
class LayerNormLastDim(FusedOpParams):
    """(x - mean) / sqrt(variance + eps) of each row."""

    eps: float


@dataclass(frozen=True, slots=True)
class LayerNormLastDimBackward(FusedOpParams):
    """Its gradient, of (operand, upstream)."""

    eps: float


@dataclass(frozen=True, slots=True)
class PowIBackward(FusedOpParams):
    """The gradient of an integer power, of (operand, upstream)."""

    exp: int


@dataclass(frozen=True, slots=True)
class InplaceAffine(FusedOpParams):
    """x · mul + add, over the operand."""

    mul: float
    add: float


@dataclass(frozen=True, slots=True)
class FusedSoftmaxCrossEntropy(FusedOpParams):
    """The loss of (scores, targets): `reduction` is "mean", "sum" or "none"; `UserError` for another."""

    reduction: str = "mean"
    ignore_index: int = -100

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTION_NAMES:
            raise UserError(f"reduction is {self.reduction!r}, wanted one of {REDUCTION_NAMES}")

    def _numbers(self) -> tuple[Any, ...]:
        return REDUCTION_NAMES.index(self.reduction), self.ignore_index


@dataclass(frozen=True, slots=True)
class SelectiveScan(FusedOpParams):
    """State-space recurrence, of (u, delta, a, b, c); with `delta_softplus` its steps are log(1 + exp(delta))."""

    delta_softplus: bool = False


FusedOpParams.SoftmaxLastDim = SoftmaxLastDim
FusedOpParams.SoftmaxLastDimBackward = SoftmaxLastDimBackward
FusedOpParams.FusedLinear = FusedLinear
FusedOpParams.Rope = Rope
FusedOpParams.ReduceMaxToBackward = ReduceMaxToBackward
FusedOpParams.RmsNormLastDim = RmsNormLastDim
FusedOpParams.RmsNormLastDimBackward = RmsNormLastDimBackward
FusedOpParams.LayerNormLastDim = LayerNormLastDim
FusedOpParams.LayerNormLastDimBackward = LayerNormLastDimBackward
FusedOpParams.PowIBackward = PowIBackward
FusedOpParams.InplaceAffine = InplaceAffine
FusedOpParams.FusedSoftmaxCrossEntropy = FusedSoftmaxCrossEntropy
FusedOpParams.SelectiveScan = SelectiveScan
