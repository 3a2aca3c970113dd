"""Layer-1 prices of products, convolutions and attention: what is made of multiply-adds. Pure.

Signatures and rules are those of `cost.layer1`, whose table these are in. Extents are the live ones: the rows that are
wanted, the keys that are there. An operand that serves several batches or heads is counted once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.cost.counting import ATTENTION_NS, CALL_NS, MATMUL_NS, Shapes, all_nbytes, counts, nbytes
from fuel_async.dispatch import CausalConv1dParams, FlashAttnParams, MatmulParams, PagedAttnParams
from fuel_async.ir import CostEstimate

if TYPE_CHECKING:
    from fuel_async.dispatch import BackendCapabilities, KernelDTypes, OpParams

#: What no decoding kernel can do costs this in every field: it loses against anything that can be done.
INFEASIBLE = CostEstimate(2**64 - 1, 2**64 - 1, 2**32 - 1)

#: The most features of a head that a decoding kernel takes.
MOST_DECODED_FEATURES = 128


def cost_matmul_cpu(shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities) -> CostEstimate:
    """2·B·m·n·k flops over the left's B batches and the rows that are computed; each operand read once.

    Batches of the right that serve several of the left (grouped query heads) are read once, not once a group.
    """
    match params:
        case MatmulParams(left_batch, right_batch, rows, n, k, wanted):
            left, right = math.prod(left_batch), math.prod(right_batch)
            m = rows if wanted is None else min(wanted, rows)
            moved = nbytes(left * m * k + right * k * n + left * m * n, dtypes, 0)
            return CostEstimate(2 * left * m * n * k, moved, MATMUL_NS)
        case _:
            return CostEstimate()


def cost_fused_linear_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """A matrix product, one more flop a result element, and the bias read once."""
    product = cost_matmul_cpu(shapes, dtypes, params, caps)
    match params:
        case MatmulParams(n=n):
            _, count = counts(shapes)
            return CostEstimate(product.flops + count, product.bytes_moved + nbytes(n, dtypes, 0), MATMUL_NS)
        case _:
            return CostEstimate()


def cost_qmatmul_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """2·B·m·n·k flops; the weights are read as they are packed."""
    _, n = counts(shapes)
    return CostEstimate(2 * n * shapes[0][-1], all_nbytes(shapes, dtypes), MATMUL_NS)


def cost_nf4_matmul_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """3·B·m·n·k flops, one of them to unpack a weight; packed weights and the scale of each block are read once."""
    _, n = counts(shapes)
    return CostEstimate(3 * n * shapes[0][-1], all_nbytes(shapes, dtypes), CALL_NS)


def cost_conv2d_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Two flops a result element and weight of its group [Cout, Cin/groups, Kh, Kw], one more where there is a bias."""
    _, n = counts(shapes)
    flops = 2 * n * math.prod(shapes[1][1:]) + n * (len(shapes) - 3)
    return CostEstimate(flops, all_nbytes(shapes, dtypes), MATMUL_NS)


def cost_conv_transpose2d_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """The same of weights [Cin, Cout/groups, Kh, Kw]: 2·N·Cout·Ho·Wo·(Cin/groups)·Kh·Kw."""
    _, n = counts(shapes)
    weights, channels = shapes[1], shapes[-1][1]
    groups = max(channels // max(weights[1], 1), 1)
    flops = 2 * n * (weights[0] // groups) * math.prod(weights[2:]) + n * (len(shapes) - 3)
    return CostEstimate(flops, all_nbytes(shapes, dtypes), MATMUL_NS)


def cost_causal_conv1d_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Two flops a result element and tap, ten more where silu follows."""
    match params:
        case CausalConv1dParams(kernel=taps, use_silu=silu):
            _, n = counts(shapes)
            return CostEstimate(n * (2 * taps + 10 * silu), all_nbytes(shapes, dtypes), CALL_NS)
        case _:
            return CostEstimate()


def cost_ssd_chunk_scan_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Eight flops an element of x [B, S, heads, features] and state of b [B, S, heads, states], operand 3."""
    return CostEstimate(8 * math.prod(shapes[0]) * shapes[3][-1], all_nbytes(shapes, dtypes), CALL_NS)


def cost_flash_attn_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """4·d + 5 flops for each query, head and key that is there; queries, live keys and values, results moved once."""
    match params:
        case FlashAttnParams(b, hq, hkv, sq, sk, d, k_len):
            keys = sk if k_len is None else min(k_len, sk)
            moved = nbytes(2 * b * hq * sq * d + 2 * b * hkv * keys * d, dtypes, 0)
            return CostEstimate(b * hq * sq * keys * (4 * d + 5), moved, ATTENTION_NS)
        case _:
            return CostEstimate()


def cost_flash_decoding_cuda(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """The same for a kernel that takes one query a head of at most 128 features; `INFEASIBLE` for others."""
    match params:
        case FlashAttnParams(sq=sq, d=d) if sq != 1 or not 1 <= d <= MOST_DECODED_FEATURES:
            return INFEASIBLE
        case _:
            return cost_flash_attn_primitive_cpu(shapes, dtypes, params, caps)


def cost_paged_attn_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """4·d flops for each query, head and key of its sequence; of the pool at most all blocks of all heads are read.

    A sequence has as many keys as fit its blocks, whatever else is in the pool.
    """
    match params:
        case PagedAttnParams(b, hq, hkv, sq, d, block_size, most_blocks, blocks):
            keys = block_size * min(most_blocks, blocks)
            read = min(b * keys, block_size * blocks) * hkv
            return CostEstimate(
                4 * b * hq * sq * keys * d, nbytes(2 * (b * hq * sq + read) * d, dtypes, 0), ATTENTION_NS
            )
        case _:
            return CostEstimate()
