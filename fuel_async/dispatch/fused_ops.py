"""The fused ops: their numbers, and what is known of each whatever the device.

A fused op is a composite op of the graph under a number of its own, by which kernels, prices and precision are asked
for. The numbers are fixed for good, since they are persisted; those from `RUNTIME_FUSED_BASE` on belong to regions that
are fused at run time. An op that the graph does not have yet has a number and no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fuel_async.dispatch.fused_params import FusedOpParams
from fuel_async.dispatch.kernel import RUNTIME_FUSED_BASE
from fuel_async.errors import UserError
from fuel_async.ir import BY_NAME, OpKind, OpSpec, decompose, decompose_slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import Attrs, Tensor


@dataclass(frozen=True, slots=True, order=True)
class FusedOpId:
    """The number of a fused op. An open value: equal numbers are one op."""

    number: int

    UNASSIGNED: ClassVar[FusedOpId]
    SOFTMAX_LAST_DIM: ClassVar[FusedOpId]
    FUSED_LINEAR: ClassVar[FusedOpId]
    RMS_NORM_LAST_DIM: ClassVar[FusedOpId]
    LAYER_NORM_LAST_DIM: ClassVar[FusedOpId]
    ROPE: ClassVar[FusedOpId]
    CONV2D: ClassVar[FusedOpId]
    SOFTMAX_LAST_DIM_BACKWARD: ClassVar[FusedOpId]
    LAYER_NORM_LAST_DIM_BACKWARD: ClassVar[FusedOpId]
    RMS_NORM_LAST_DIM_BACKWARD: ClassVar[FusedOpId]
    REDUCE_MAX_TO_BACKWARD: ClassVar[FusedOpId]
    CONV_TRANSPOSE2D: ClassVar[FusedOpId]
    FLASH_ATTN: ClassVar[FusedOpId]
    PAGED_ATTN: ClassVar[FusedOpId]
    QMATMUL: ClassVar[FusedOpId]
    POWI_BACKWARD: ClassVar[FusedOpId]
    INPLACE_AFFINE: ClassVar[FusedOpId]
    FUSED_SOFTMAX_CROSS_ENTROPY: ClassVar[FusedOpId]
    CAUSAL_CONV1D: ClassVar[FusedOpId]
    SELECTIVE_SCAN: ClassVar[FusedOpId]
    SSD_CHUNK_SCAN: ClassVar[FusedOpId]
    NF4_MATMUL: ClassVar[FusedOpId]
    FLASH_ATTN_BACKWARD_Q: ClassVar[FusedOpId]
    FLASH_ATTN_BACKWARD_K: ClassVar[FusedOpId]
    FLASH_ATTN_BACKWARD_V: ClassVar[FusedOpId]

    #: All of these by name, in order of their numbers.
    FIXED: ClassVar[Mapping[str, FusedOpId]]

    def __post_init__(self) -> None:
        if self.number < 0:
            raise UserError(f"fused op {self.number} is negative; fused ops are counted from 0")

    @property
    def is_runtime(self) -> bool:
        """Whether it is the number of a region that was fused at run time."""
        return self.number >= RUNTIME_FUSED_BASE

    def __str__(self) -> str:
        return next((name for name, fixed in FusedOpId.FIXED.items() if fixed == self), f"fused op {self.number}")


FusedOpId.UNASSIGNED = FusedOpId(0)
FusedOpId.SOFTMAX_LAST_DIM = FusedOpId(1)
FusedOpId.FUSED_LINEAR = FusedOpId(2)
FusedOpId.RMS_NORM_LAST_DIM = FusedOpId(3)
FusedOpId.LAYER_NORM_LAST_DIM = FusedOpId(4)
FusedOpId.ROPE = FusedOpId(5)
FusedOpId.CONV2D = FusedOpId(6)
FusedOpId.SOFTMAX_LAST_DIM_BACKWARD = FusedOpId(7)
FusedOpId.LAYER_NORM_LAST_DIM_BACKWARD = FusedOpId(8)
FusedOpId.RMS_NORM_LAST_DIM_BACKWARD = FusedOpId(9)
FusedOpId.REDUCE_MAX_TO_BACKWARD = FusedOpId(10)
FusedOpId.CONV_TRANSPOSE2D = FusedOpId(11)
FusedOpId.FLASH_ATTN = FusedOpId(12)
FusedOpId.PAGED_ATTN = FusedOpId(13)
FusedOpId.QMATMUL = FusedOpId(14)
FusedOpId.POWI_BACKWARD = FusedOpId(15)
FusedOpId.INPLACE_AFFINE = FusedOpId(16)
FusedOpId.FUSED_SOFTMAX_CROSS_ENTROPY = FusedOpId(17)
FusedOpId.CAUSAL_CONV1D = FusedOpId(18)
FusedOpId.SELECTIVE_SCAN = FusedOpId(19)
FusedOpId.SSD_CHUNK_SCAN = FusedOpId(20)
FusedOpId.NF4_MATMUL = FusedOpId(21)
FusedOpId.FLASH_ATTN_BACKWARD_Q = FusedOpId(22)
FusedOpId.FLASH_ATTN_BACKWARD_K = FusedOpId(23)
FusedOpId.FLASH_ATTN_BACKWARD_V = FusedOpId(24)
FusedOpId.FIXED = MappingProxyType(
    {name: made for name, made in vars(FusedOpId).items() if isinstance(made, FusedOpId)}
)


class FusedFamily(Enum):
    """What a fused op is for."""

    FORWARD = "forward"
    BACKWARD = "backward"
    NORM = "norm"
    QUANTIZED = "quantized"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class FusedOpEntry:
    """One fused op: the op of the graph that it is, and the parameters it takes."""

    id: FusedOpId
    op: OpSpec
    family: FusedFamily
    takes: type[FusedOpParams]
    #: The fused op that is its gradient, where that is one op.
    backward: FusedOpId | None = None

    @property
    def name(self) -> str:
        """The name of the op of the graph."""
        return self.op.name

    @property
    def kind(self) -> OpKind:
        """What its kernels are registered under in the binding table."""
        assert self.op.kind is not None
        return self.op.kind

    @property
    def destructive_input(self) -> int | None:
        """The operand whose bytes the op may write over."""
        return self.op.destroys

    @property
    def slot_names(self) -> tuple[str, ...]:
        """What the outputs of an op that has several are called, in order; () for an op of one output."""
        return self.op.slots

    def decompose(self, operands: Sequence[Tensor], params: FusedOpParams) -> Tensor:
        """Append what an op of one output is made of to the graph of `operands`, or its own node if there is no more.

        `GraphError` when the op refuses the operands; `UserError` for the parameters of another fused op.
        """
        return decompose(self.op, operands, self._attrs(params))

    def decompose_slots(self, operands: Sequence[Tensor], params: FusedOpParams) -> tuple[Tensor, ...]:
        """The same for any op: all outputs in order, one where it has one."""
        return decompose_slots(self.op, operands, self._attrs(params))

    def _attrs(self, params: FusedOpParams) -> Attrs:
        if not isinstance(params, self.takes):
            raise UserError(f"{self.id} takes {self.takes.__name__}, got {params}")
        return params.attrs(self.op)


def _entry(
    id: FusedOpId,  # noqa: A002 - as the field is called
    op: str,
    family: FusedFamily,
    takes: type[FusedOpParams],
    backward: FusedOpId | None = None,
) -> FusedOpEntry:
    return FusedOpEntry(id, BY_NAME[op], family, takes, backward)


_ID, _P, _F = FusedOpId, FusedOpParams, FusedFamily

#: The fused ops that the graph has, in order of their numbers.
FUSED_OPS: Mapping[FusedOpId, FusedOpEntry] = MappingProxyType(
    {
        entry.id: entry
        for entry in (
            _entry(_ID.SOFTMAX_LAST_DIM, "softmax", _F.FORWARD, _P.SoftmaxLastDim, _ID.SOFTMAX_LAST_DIM_BACKWARD),
            _entry(_ID.FUSED_LINEAR, "fused_linear", _F.FORWARD, _P.FusedLinear),
            _entry(_ID.RMS_NORM_LAST_DIM, "rms_norm", _F.NORM, _P.RmsNormLastDim, _ID.RMS_NORM_LAST_DIM_BACKWARD),
            _entry(
                _ID.LAYER_NORM_LAST_DIM, "layer_norm", _F.NORM, _P.LayerNormLastDim, _ID.LAYER_NORM_LAST_DIM_BACKWARD
            ),
            _entry(_ID.ROPE, "rope", _F.FORWARD, _P.Rope),
            _entry(_ID.SOFTMAX_LAST_DIM_BACKWARD, "softmax_backward", _F.BACKWARD, _P.SoftmaxLastDimBackward),
            _entry(_ID.LAYER_NORM_LAST_DIM_BACKWARD, "layer_norm_backward", _F.BACKWARD, _P.LayerNormLastDimBackward),
            _entry(_ID.RMS_NORM_LAST_DIM_BACKWARD, "rms_norm_backward", _F.BACKWARD, _P.RmsNormLastDimBackward),
            _entry(_ID.REDUCE_MAX_TO_BACKWARD, "reduce_max_to_backward", _F.BACKWARD, _P.ReduceMaxToBackward),
            _entry(_ID.POWI_BACKWARD, "powi_backward", _F.BACKWARD, _P.PowIBackward),
            _entry(_ID.INPLACE_AFFINE, "inplace_affine", _F.FORWARD, _P.InplaceAffine),
            _entry(
                _ID.FUSED_SOFTMAX_CROSS_ENTROPY,
                "fused_softmax_cross_entropy",
                _F.FORWARD,
                _P.FusedSoftmaxCrossEntropy,
            ),
            _entry(_ID.SELECTIVE_SCAN, "selective_scan", _F.FORWARD, _P.SelectiveScan),
        )
    }
)

#: The same, by what their kernels are registered under.
FUSED_OPS_BY_KIND: Mapping[OpKind, FusedOpEntry] = MappingProxyType({entry.kind: entry for entry in FUSED_OPS.values()})
