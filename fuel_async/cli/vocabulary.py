"""Which kernels a complete backend has: every kind with the operand dtypes that the vocabulary names.

A compact table, `VOCABULARY`, and what it spells out, `owed_keys`. It says what there should be, not what there is:
that is in the binding table. Each row names the step that owes its kernels; `CURRENT` is the one that is done first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fuel_async.dispatch import KernelDTypes

#: The steps that owe kernels, in order.
OWNERS = ("primitives", "attention", "convolution", "scan", "quantised", "dynamic")
CURRENT = OWNERS[0]

#: Kinds that have no keys of their own, and why.
WITHOUT_KEYS: Mapping[OpKind, str] = {
    OpKind.RuntimeFused: "its kernels are made while a program runs",
}

_T4 = "f32 f64 bf16 f16"
_T6 = f"{_T4} u32 u8"
_T9 = f"{_T6} i16 i32 i64"
_T11 = "f32 f64 f16 bf16 f8e4m3 u8 i8 u32 i16 i32 i64"


class Key(NamedTuple):
    """One kernel that is owed: its kind, the dtypes of its operands, inputs first, and the step that owes it."""

    kind: OpKind
    dtypes: KernelDTypes
    owner: str


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds that are owed for each dtype of `dtypes`, put in the place of each T of a pattern.

    `D` stands for each other dtype of the family in turn.
    """

    kinds: str
    dtypes: str
    patterns: tuple[str, ...]
    owner: str = CURRENT

    def spelled(self) -> Iterator[Key]:
        """Spell out the family, kind by kind."""
        for kind in map(OpKind, self.kinds.split()):
            for pattern in self.patterns:
                for dtypes in self._dtypes(pattern.split()):
                    yield Key(kind, tuple(map(DType.parse, dtypes)), self.owner)

    def _dtypes(self, pattern: list[str]) -> Iterator[list[str]]:
        served = self.dtypes.split()
        for one in served:
            others = [dtype for dtype in served if dtype != one] if "D" in pattern else [""]
            for other in others:
                meaning = {"T": one, "D": other}
                yield [meaning.get(operand, operand) for operand in pattern]


_UNARY = (
    "relu neg sqr sqrt recip abs tanh exp log sin cos sigmoid silu step gelu floor ceil round sign erf gelu_erf rsqrt"
)
_INPLACE = (
    "relu_inplace silu_inplace gelu_inplace tanh_inplace sigmoid_inplace neg_inplace abs_inplace sqr_inplace "
    "sqrt_inplace rsqrt_inplace recip_inplace exp_inplace log_inplace sin_inplace cos_inplace sign_inplace "
    "floor_inplace ceil_inplace round_inplace erf_inplace gelu_erf_inplace"
)
_NORMS = "softmax_last_dim log_softmax_last_dim rms_norm_last_dim layer_norm_last_dim"

VOCABULARY: tuple[Family, ...] = (
    Family("add sub mul div maximum minimum pow rem", _T4, ("T T T",)),
    Family("affine clamp powi", _T4, ("T T",)),
    Family("powi_backward", _T4, ("T T T",)),
    Family(_UNARY, _T4, ("T T",)),
    Family("eq ne lt le gt ge", _T4, ("T T u8",)),
    Family("where", _T4, ("u8 T T T",)),
    Family("sum_reduce mean_reduce max_reduce min_reduce", _T4, ("T T",)),
    Family("reduce_sum_to reduce_max_to", _T4, ("T T",)),
    Family("reduce_max_to_backward", _T4, ("T T T",)),
    Family(_NORMS, _T4, ("T T",)),
    Family(" ".join(f"{kind}_backward" for kind in _NORMS.split()), _T4, ("T T T",)),
    Family("rope", _T4, ("T T T T",)),
    Family("fused_softmax_cross_entropy", _T4, ("T i64 f32",)),
    Family("causal_conv1d", _T4, ("T T T T",), "convolution"),
    Family("selective_scan ssd_chunk_scan", _T4, ("T T T T T T",), "scan"),
    Family("nonzero_indices", "f32 u32", ("T u32",), "dynamic"),
    Family("conv2d conv_transpose2d", _T4, ("T T T", "T T T T"), "convolution"),
    Family("pad", _T6, ("T T",)),
    Family("pad_backward", _T4, ("T T",)),
    Family("flip roll write_slice write_slice_rotating write_slice_doff", _T6, ("T T",)),
    Family("masked_fill", _T6, ("T u8 T",)),
    Family("cumsum", _T4, ("T T",)),
    Family("concat", _T9, ("T T",)),
    Family("triu tril", _T6, ("T T",)),
    Family("matmul", f"{_T4} i8 u8", ("T T T",)),
    Family("fused_linear", _T4, ("T T T T",)),
    Family("flash_attn", _T4, ("T T T T", "T T T T T"), "attention"),
    Family(
        "flash_attn_backward_q flash_attn_backward_k flash_attn_backward_v",
        _T4,
        ("T T T T T", "T T T T T T"),
        "attention",
    ),
    Family("paged_attn", _T4, ("T T T u32 u32 T", "T T T u32 u32 T T"), "attention"),
    Family(_INPLACE, _T4, ("T T",)),
    Family("clamp_inplace powi_inplace inplace_affine", _T4, ("T T",)),
    Family("cast", _T11, ("T D",)),
    Family("index_select gather", _T9, ("T u32 T",)),
    Family("index_add scatter_add", _T4, ("T u32 T T",)),
    Family("nf4_matmul", "f32 f16 bf16", ("T u8 f32 T",), "quantised"),
    Family("qmatmul", "f32", ("T u32 T",), "quantised"),
    Family("argmax_dim argmin_dim", _T4, ("T u32",)),
    Family("copy", _T9, ("T T",)),
)


def owed_keys() -> tuple[Key, ...]:
    """Return every kernel that is owed, family by family."""
    return tuple(key for family in VOCABULARY for key in family.spelled())
