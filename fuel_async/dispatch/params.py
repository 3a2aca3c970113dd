"""The parameters of one kernel call: a closed set of frozen variants below `OpParams`.

A kernel names the variant that it takes and refuses the others with a typed error. Everything a kernel needs
beyond its operands and their layouts is here, as plain numbers: no symbols, no nodes. Each variant is also an
attribute of the base class, so `OpParams.Reduce(dims=(1,))` and `ReduceParams(dims=(1,))` are one thing;
patterns use the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


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
    IndexSelect: ClassVar[type[IndexSelectParams]]
    Cast: ClassVar[type[CastParams]]
    Affine: ClassVar[type[AffineParams]]
    PowI: ClassVar[type[PowIParams]]
    Given: ClassVar[type[GivenParams]]


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


OpParams.NONE = NoParams()
OpParams.Reduce = ReduceParams
OpParams.Matmul = MatmulParams
OpParams.Clamp = ClampParams
OpParams.Concat = ConcatParams
OpParams.SoftmaxLastDim = SoftmaxLastDimParams
OpParams.NormLastDim = NormLastDimParams
OpParams.IndexSelect = IndexSelectParams
OpParams.Cast = CastParams
OpParams.Affine = AffineParams
OpParams.PowI = PowIParams
OpParams.Given = GivenParams
