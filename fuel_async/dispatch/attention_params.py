"""The parameters of attention and of causal convolution: variants of `OpParams` that prices are counted from."""

from __future__ import annotations

from dataclasses import dataclass

from fuel_async.dispatch.params import OpParams


@dataclass(frozen=True, slots=True)
class FlashAttnParams(OpParams):
    """Attend from [b, hq, sq, d] to the first `k_len` of [b, hkv, sk, d]; None means all `sk`."""

    b: int
    hq: int
    hkv: int
    sq: int
    sk: int
    d: int
    k_len: int | None
    softmax_scale: float
    causal: bool = False
    window_size_left: int | None = None
    window_size_right: int | None = None
    softcap: float | None = None


@dataclass(frozen=True, slots=True)
class PagedAttnParams(OpParams):
    """Attend from [b, hq, sq, d] to a pool of `num_blocks` blocks of keys, of which a sequence has at most
    `max_blocks_per_seq`.
    """

    b: int
    hq: int
    hkv: int
    sq: int
    d: int
    block_size: int
    max_blocks_per_seq: int
    num_blocks: int
    softmax_scale: float
    softcap: float | None = None


@dataclass(frozen=True, slots=True)
class CausalConv1dParams(OpParams):
    """Convolve `channels` of `batch` sequences with `kernel` taps each, `seq_in` elements to `seq_out`."""

    batch: int
    channels: int
    seq_in: int
    seq_out: int
    kernel: int
    use_silu: bool


OpParams.FlashAttn = FlashAttnParams
OpParams.PagedAttn = PagedAttnParams
OpParams.CausalConv1d = CausalConv1dParams
