"""The parameters of one kernel call: a closed set of frozen variants below `OpParams`.

A kernel names the variant that it takes and refuses the others with a typed error. Everything a kernel needs
beyond its operands and their layouts is here, as plain numbers: no symbols, no nodes. Each variant is also an
attribute of the base class, so `OpParams.Reduce(dims=(1,))` and `ReduceParams(dims=(1,))` are one thing;
patterns use the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from fuel_async.dispatch.attention_params import CausalConv1dParams, FlashAttnParams, PagedAttnParams


@dataclass(frozen=True, slots=True)
class OpParams:
    """Base of all parameter variants: immutable, hashable. `NONE` is the variant without fields."""

    NONE: ClassVar[NoParams]
    Reduce: ClassVar[type[ReduceParams]]
    Matmul: ClassVar[type[MatmulParams]]
    Clamp: ClassVar[type[ClampParams]]
    Concat: ClassVar[type[ConcatParams]]
    SoftmaxLastDim: ClassVar[type[SoftmaxLastDimParams]]
    NormLastDim: ClassVar[type[NormLastDimParams]]
    LogSoftmaxLastDim: ClassVar[type[LogSoftmaxLastDimParams]]
    ReduceSumTo: ClassVar[type[ReduceSumToParams]]
    ReduceMaxTo: ClassVar[type[ReduceMaxToParams]]
    ReduceMaxToBackward: ClassVar[type[ReduceMaxToBackwardParams]]
    CumSum: ClassVar[type[CumSumParams]]
    Rope: ClassVar[type[RopeParams]]
    FusedSoftmaxCrossEntropy: ClassVar[type[FusedSoftmaxCrossEntropyParams]]
    SelectiveScan: ClassVar[type[SelectiveScanParams]]
    IndexSelect: ClassVar[type[IndexSelectParams]]
    Cast: ClassVar[type[CastParams]]
    Affine: ClassVar[type[AffineParams]]
    PowI: ClassVar[type[PowIParams]]
    Given: ClassVar[type[GivenParams]]
    Flip: ClassVar[type[FlipParams]]
    Roll: ClassVar[type[RollParams]]
    Pad: ClassVar[type[PadParams]]
    PadBackward: ClassVar[type[PadBackwardParams]]
    Triangular: ClassVar[type[TriangularParams]]
    MaskedFill: ClassVar[type[MaskedFillParams]]
    Gather: ClassVar[type[GatherParams]]
    IndexAdd: ClassVar[type[IndexAddParams]]
    ScatterAdd: ClassVar[type[ScatterAddParams]]
    WriteSlice: ClassVar[type[WriteSliceParams]]
    WriteSliceDoff: ClassVar[type[WriteSliceDoffParams]]
    WriteSliceRotating: ClassVar[type[WriteSliceRotatingParams]]
    FlashAttn: ClassVar[type[FlashAttnParams]]
    PagedAttn: ClassVar[type[PagedAttnParams]]
    CausalConv1d: ClassVar[type[CausalConv1dParams]]


@dataclass(frozen=True, slots=True)
class NoParams(OpParams):
    """The kernel takes no parameters."""


@dataclass(frozen=True, slots=True)
class ReduceParams(OpParams):
    """Reduce over the axes `dims` (sorted, counted from the front); keep them with size 1 if `keepdim`."""

    dims: tuple[int, ...]
    keepdim: bool = False


@dataclass(frozen=True, slots=True)
class MatmulParams(OpParams):
    """Multiply [..., m, k] by [..., k, n].

    The batch dims are equal, or each lhs dim is a multiple of the rhs dim: then rhs batch `i // (lhs // rhs)`
    serves lhs batch `i` (grouped query heads).
    """

    lhs_batch_dims: tuple[int, ...]
    rhs_batch_dims: tuple[int, ...]
    m: int
    n: int
    k: int
    #: Number of leading rows of the result that are wanted; None means all `m`.
    m_compute: int | None = None


@dataclass(frozen=True, slots=True)
class ClampParams(OpParams):
    """Limit each element to [min, max]; infinities leave a side open. NaN stays NaN."""

    min: float
    max: float


@dataclass(frozen=True, slots=True)
class ConcatParams(OpParams):
    """Join along `axis`; `outer_count`, `inner_count` are the products of the dimensions before, after it."""

    outer_count: int
    input_dim_sizes: tuple[int, ...]
    inner_count: int
    axis: int


@dataclass(frozen=True, slots=True)
class SoftmaxLastDimParams(OpParams):
    """Softmax of `outer_count` rows of `last_dim` elements."""

    outer_count: int
    last_dim: int


@dataclass(frozen=True, slots=True)
class NormLastDimParams(OpParams):
    """Normalise `outer_count` rows of `last_dim` elements; `eps` is added to the variance."""

    outer_count: int
    last_dim: int
    eps: float


@dataclass(frozen=True, slots=True)
class LogSoftmaxLastDimParams(OpParams):
    """Logarithm of the softmax of `outer_count` rows of `last_dim` elements."""

    outer_count: int
    last_dim: int


@dataclass(frozen=True, slots=True)
class ReduceSumToParams(OpParams):
    """Sum over the dimensions that broadcasting from `output_shape` to `input_shape` repeats."""

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReduceMaxToParams(OpParams):
    """Maximum over the dimensions that broadcasting from `output_shape` to `input_shape` repeats."""

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReduceMaxToBackwardParams(OpParams):
    """The shapes of operand and result of the reduction whose gradient is taken."""

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CumSumParams(OpParams):
    """Add up along `axis`, which has `dim_size` elements; counts as for `ConcatParams`."""

    outer_count: int
    dim_size: int
    inner_count: int
    axis: int


@dataclass(frozen=True, slots=True)
class RopeParams(OpParams):
    """Turn `outer_count` times `seq` positions of `head_dim` elements, an even number."""

    outer_count: int
    seq: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class FusedSoftmaxCrossEntropyParams(OpParams):
    """The loss of `n_rows` rows of `vocab` scores; `reduction` is "mean", "sum" or "none"."""

    n_rows: int
    vocab: int
    reduction: str
    ignore_index: int


@dataclass(frozen=True, slots=True)
class SelectiveScanParams(OpParams):
    """Scan `batch` sequences of `seqlen` steps in `dim` channels of `dstate` states each."""

    batch: int
    seqlen: int
    dim: int
    dstate: int
    #: The steps are log(1 + exp(delta)).
    delta_softplus: bool


@dataclass(frozen=True, slots=True)
class IndexSelectParams(OpParams):
    """Take `n_indices` slices along `axis` of size `source_dim_size`; counts as for `ConcatParams`."""

    outer_count: int
    source_dim_size: int
    n_indices: int
    inner_count: int
    axis: int


@dataclass(frozen=True, slots=True)
class CastParams(OpParams):
    """Convert to the output's dtype, which the kernel was registered for."""


@dataclass(frozen=True, slots=True)
class AffineParams(OpParams):
    """Compute x · mul + add."""

    mul: float
    add: float


@dataclass(frozen=True, slots=True)
class PowIParams(OpParams):
    """Raise to an integer power."""

    exp: int


@dataclass(frozen=True, slots=True)
class GivenParams(OpParams):
    """The node's own parameters as they are: for a kernel that was made for one op, outside the table of ops."""

    attrs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class FlipParams(OpParams):
    """Reverse `axis`, of size `dim_size`; counts as for `ConcatParams`."""

    outer_count: int
    dim_size: int
    inner_count: int
    axis: int


@dataclass(frozen=True, slots=True)
class RollParams(OpParams):
    """Move along `axis` by `shift`, any integer, around the end; the rest as for `FlipParams`."""

    outer_count: int
    dim_size: int
    inner_count: int
    axis: int
    shift: int


@dataclass(frozen=True, slots=True)
class PadParams(OpParams):
    """Add (before, after) elements to each axis: 0 puts the number of `fill_bytes` there, 1 reflects, 2 replicates."""

    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    mode_tag: int
    #: One element of the operand's type.
    fill_bytes: bytes


@dataclass(frozen=True, slots=True)
class PadBackwardParams(OpParams):
    """The gradient of a pad from `in_shape` to `out_shape`; padding and mode as for `PadParams`."""

    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    mode_tag: int


@dataclass(frozen=True, slots=True)
class TriangularParams(OpParams):
    """Keep a triangle of each of `batch_count` matrices; `diagonal` counts upwards from the main one."""

    batch_count: int
    rows: int
    cols: int
    diagonal: int


@dataclass(frozen=True, slots=True)
class MaskedFillParams(OpParams):
    """Put the element of these bytes, of the operand's type, where the mask is not 0."""

    fill_bytes: bytes


@dataclass(frozen=True, slots=True)
class GatherParams(OpParams):
    """Pick elements of `source_shape` along `dim`; the index has `output_shape`."""

    source_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dim: int


@dataclass(frozen=True, slots=True)
class IndexAddParams(OpParams):
    """Add `n_indices` slices to those of a base along `axis`, of size `base_dim_size`; counts as for `ConcatParams`."""

    outer_count: int
    base_dim_size: int
    n_indices: int
    inner_count: int
    axis: int


@dataclass(frozen=True, slots=True)
class ScatterAddParams(OpParams):
    """Add elements of `src_shape` to a base of `base_shape`, along `dim`."""

    base_shape: tuple[int, ...]
    src_shape: tuple[int, ...]
    dim: int


@dataclass(frozen=True, slots=True)
class WriteSliceParams(OpParams):
    """Write into `ranges`, first place and the one behind the last of each axis, of a value of `dest_shape`."""

    dest_shape: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WriteSliceDoffParams(OpParams):
    """The same, but the range of `axis` begins at the value of an operand; it is given as if that were 0."""

    dest_shape: tuple[int, ...]
    axis: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WriteSliceRotatingParams(OpParams):
    """The same in a ring: place p along `axis` is place p % `modulus`."""

    dest_shape: tuple[int, ...]
    axis: int
    modulus: int
    ranges: tuple[tuple[int, int], ...]


OpParams.NONE = NoParams()
OpParams.Reduce = ReduceParams
OpParams.Matmul = MatmulParams
OpParams.Clamp = ClampParams
OpParams.Concat = ConcatParams
OpParams.SoftmaxLastDim = SoftmaxLastDimParams
OpParams.NormLastDim = NormLastDimParams
OpParams.LogSoftmaxLastDim = LogSoftmaxLastDimParams
OpParams.ReduceSumTo = ReduceSumToParams
OpParams.ReduceMaxTo = ReduceMaxToParams
OpParams.ReduceMaxToBackward = ReduceMaxToBackwardParams
OpParams.CumSum = CumSumParams
OpParams.Rope = RopeParams
OpParams.FusedSoftmaxCrossEntropy = FusedSoftmaxCrossEntropyParams
OpParams.SelectiveScan = SelectiveScanParams
OpParams.IndexSelect = IndexSelectParams
OpParams.Cast = CastParams
OpParams.Affine = AffineParams
OpParams.PowI = PowIParams
OpParams.Given = GivenParams
OpParams.Flip = FlipParams
OpParams.Roll = RollParams
OpParams.Pad = PadParams
OpParams.PadBackward = PadBackwardParams
OpParams.Triangular = TriangularParams
OpParams.MaskedFill = MaskedFillParams
OpParams.Gather = GatherParams
OpParams.IndexAdd = IndexAddParams
OpParams.ScatterAdd = ScatterAddParams
OpParams.WriteSlice = WriteSliceParams
OpParams.WriteSliceDoff = WriteSliceDoffParams
OpParams.WriteSliceRotating = WriteSliceRotatingParams
