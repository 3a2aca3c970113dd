"""Layer-1 prices: flops and bytes of one kernel call, counted from shapes, dtypes and parameters. Pure.

Every function has the signature of `CostFn`: shapes and dtypes list the inputs, then the output; the
capabilities are not looked at, since the counts hold on any device. Overheads are those of a host call in
nanoseconds; a device that knows better (`cost.rates`) uses its own. A fused multiply-add counts as two flops.
Parameters of another variant than a function needs give an unpriced estimate, never an error.
`default_cost_for_op_kind` is the table from kind to function.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.cost.counting import CALL_NS, Shapes, counts, nbytes
from fuel_async.cost.products import (
    cost_causal_conv1d_primitive_cpu,
    cost_conv2d_primitive_cpu,
    cost_conv_transpose2d_primitive_cpu,
    cost_flash_attn_primitive_cpu,
    cost_fused_linear_primitive_cpu,
    cost_matmul_cpu,
    cost_nf4_matmul_primitive_cpu,
    cost_paged_attn_primitive_cpu,
    cost_qmatmul_primitive_cpu,
    cost_ssd_chunk_scan_primitive_cpu,
)
from fuel_async.dispatch import (
    BackendCapabilities,
    CostFn,
    KernelDTypes,
    OpParams,
    PowIParams,
    SelectiveScanParams,
    unknown_cost,
)
from fuel_async.ir import CostEstimate, OpKind

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Flops of one transcendental element; of one element of softmax and of a normalisation.
TRANSCENDENTAL_FLOPS, SOFTMAX_FLOPS, NORM_FLOPS = 10, 5, 7


def cost_elementwise_unary_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop an element; read once, written once."""
    _, n = counts(shapes)
    return CostEstimate(n, 2 * nbytes(n, dtypes, 0), CALL_NS)


def cost_elementwise_unary_transcendental_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Ten flops an element; read once, written once."""
    _, n = counts(shapes)
    return CostEstimate(TRANSCENDENTAL_FLOPS * n, 2 * nbytes(n, dtypes, 0), CALL_NS)


def cost_elementwise_binary_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop an element; three operands of the output's size."""
    _, n = counts(shapes)
    return CostEstimate(n, 3 * nbytes(n, dtypes, 0), CALL_NS)


def cost_comparison_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop an element; two operands read, one byte an element written."""
    _, n = counts(shapes)
    return CostEstimate(n, 2 * nbytes(n, dtypes, 0) + n, CALL_NS)


def cost_where_cpu(shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities) -> CostEstimate:
    """One flop an element; a byte of condition and three operands of the values' type."""
    _, n = counts(shapes)
    return CostEstimate(n, n + 3 * nbytes(n, dtypes, 1), CALL_NS)


def cost_scalar_op_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Two flops an element (affine, clamp, integer power); read once, written once."""
    _, n = counts(shapes)
    return CostEstimate(2 * n, 2 * nbytes(n, dtypes, 0), CALL_NS)


def cost_cast_cpu(shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities) -> CostEstimate:
    """No flops; read in one type, written in the other."""
    _, n = counts(shapes)
    return CostEstimate(0, nbytes(n, dtypes, 0) + nbytes(n, dtypes, 1), CALL_NS)


def cost_reduction_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop an input element; everything read, the result written."""
    n_in, n_out = counts(shapes)
    return CostEstimate(n_in, nbytes(n_in + n_out, dtypes, 0), CALL_NS)


def cost_shape_op_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """No flops; everything read, the result written (copy, concat and the like)."""
    n_in, n_out = counts(shapes)
    return CostEstimate(0, nbytes(n_in + n_out, dtypes, 0), CALL_NS)


def cost_masked_fill_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """No flops; read once, with a byte of mask an element, and written once."""
    _, n = counts(shapes)
    return CostEstimate(0, 2 * nbytes(n, dtypes, 0) + n, CALL_NS)


def cost_write_slice_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """No flops; what is written is read once and written once. What it is written into stays where it is."""
    return CostEstimate(0, 2 * nbytes(math.prod(shapes[1]), dtypes, 0), CALL_NS)


def cost_indexing_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop a result element; each is read, written, and looked up through an index."""
    _, n = counts(shapes)
    return CostEstimate(n, 2 * nbytes(n, dtypes, 0) + nbytes(n, dtypes, 1), CALL_NS)


def cost_softmax_last_dim_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Five flops an element, three passes; softmax and log-softmax alike, counted from the shapes alone."""
    _, n = counts(shapes)
    return CostEstimate(SOFTMAX_FLOPS * n, 3 * nbytes(n, dtypes, 0), CALL_NS)


def cost_norm_last_dim_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Seven flops an element, three passes."""
    _, n = counts(shapes)
    return CostEstimate(NORM_FLOPS * n, 3 * nbytes(n, dtypes, 0), CALL_NS)


def cost_powi_backward_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Two flops an element and one for each bit of the exponent; three operands."""
    _, n = counts(shapes)
    bits = abs(params.exp).bit_length() if isinstance(params, PowIParams) else 0
    return CostEstimate(n * (bits + 2), 3 * nbytes(n, dtypes, 0), CALL_NS)


def cost_argindex_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """One flop an input element; everything read, four bytes a result written."""
    n_in, n_out = counts(shapes)
    return CostEstimate(n_in, nbytes(n_in, dtypes, 0) + 4 * n_out, CALL_NS)


def cost_rope_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Four flops an element; read once, written once, with cosines and sines of one head."""
    _, n = counts(shapes)
    return CostEstimate(4 * n, nbytes(2 * n + 2 * math.prod(shapes[-1][-2:]), dtypes, 0), CALL_NS)


def cost_reduce_max_to_backward_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Five flops and five visits an element, two flops and three visits an element of the gradient."""
    source, upstream = math.prod(shapes[0]), math.prod(shapes[1])
    return CostEstimate(5 * source + 2 * upstream, nbytes(5 * source + 3 * upstream, dtypes, 0), 80)


def cost_fused_softmax_cross_entropy_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Three flops a score and ten a row; scores and targets read once, the losses written."""
    scores, rows = math.prod(shapes[0]), math.prod(shapes[0][:-1])
    moved = nbytes(scores, dtypes, 0) + 8 * rows + 4 * math.prod(shapes[-1])
    return CostEstimate(3 * scores + 10 * rows, moved, CALL_NS)


def cost_selective_scan_primitive_cpu(
    shapes: Shapes, dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
) -> CostEstimate:
    """Sixteen flops a step, channel and state; the three operands of a step's channels, its states, and `a`."""
    match params:
        case SelectiveScanParams(batch, steps, channels, states):
            rows = batch * steps
            moved = nbytes(3 * rows * channels + 2 * rows * states + channels * states, dtypes, 0)
            return CostEstimate(16 * rows * channels * states, moved, CALL_NS)
        case _:
            return CostEstimate()


_CHEAP = """Relu Neg Sqr Sqrt Recip Abs Step Floor Ceil Round Sign"""
_TRANSCENDENTAL = """Tanh Exp Log Sin Cos Sigmoid Silu Gelu GeluErf Erf Rsqrt"""
_BINARY = """Add Sub Mul Div Maximum Minimum Pow Rem"""
_COMPARISON = """Equal NotEqual Less LessEqual Greater GreaterEqual"""


def _elementwise(stems: str, cost: CostFn) -> dict[OpKind, CostFn]:
    kinds = [f"{stem}{form}" for stem in stems.split() for form in ("Elementwise", "Inplace")]
    return {OpKind[kind]: cost for kind in kinds if kind in OpKind.__members__}


#: Kinds that are priced. A kind without a row is `unknown_cost`: a kernel of it must bring its own price.
LAYER1: Mapping[OpKind, CostFn] = MappingProxyType(
    {
        **_elementwise(_CHEAP, cost_elementwise_unary_cpu),
        **_elementwise(_TRANSCENDENTAL, cost_elementwise_unary_transcendental_cpu),
        **_elementwise(_BINARY, cost_elementwise_binary_cpu),
        **_elementwise(_COMPARISON, cost_comparison_cpu),
        OpKind.Where: cost_where_cpu,
        OpKind.Affine: cost_scalar_op_cpu,
        OpKind.InplaceAffine: cost_scalar_op_cpu,
        **_elementwise("Clamp PowI", cost_scalar_op_cpu),
        OpKind.PowIElementwiseBackward: cost_powi_backward_cpu,
        OpKind.Cast: cost_cast_cpu,
        OpKind.SumReduce: cost_reduction_cpu,
        OpKind.MaxReduce: cost_reduction_cpu,
        OpKind.MinReduce: cost_reduction_cpu,
        OpKind.MeanReduce: cost_reduction_cpu,
        OpKind.ReduceSumTo: cost_reduction_cpu,
        OpKind.ReduceMaxTo: cost_reduction_cpu,
        OpKind.ReduceMaxToBackward: cost_reduce_max_to_backward_primitive_cpu,
        OpKind.ArgMaxDim: cost_argindex_cpu,
        OpKind.ArgMinDim: cost_argindex_cpu,
        OpKind.CumSum: cost_shape_op_cpu,
        OpKind.Rope: cost_rope_primitive_cpu,
        OpKind.FusedLinear: cost_fused_linear_primitive_cpu,
        OpKind.SelectiveScan: cost_selective_scan_primitive_cpu,
        OpKind.FusedSoftmaxCrossEntropy: cost_fused_softmax_cross_entropy_primitive_cpu,
        OpKind.Copy: cost_shape_op_cpu,
        OpKind.Concat: cost_shape_op_cpu,
        OpKind.IndexSelect: cost_indexing_cpu,
        OpKind.Gather: cost_indexing_cpu,
        OpKind.IndexAdd: cost_indexing_cpu,
        OpKind.ScatterAdd: cost_indexing_cpu,
        OpKind.MaskedFill: cost_masked_fill_cpu,
        OpKind.Flip: cost_shape_op_cpu,
        OpKind.Roll: cost_shape_op_cpu,
        OpKind.Triu: cost_shape_op_cpu,
        OpKind.Tril: cost_shape_op_cpu,
        OpKind.Pad: cost_shape_op_cpu,
        OpKind.PadBackward: cost_shape_op_cpu,
        OpKind.WriteSlice: cost_write_slice_cpu,
        OpKind.WriteSliceDoff: cost_write_slice_cpu,
        OpKind.WriteSliceRotating: cost_write_slice_cpu,
        OpKind.NonZeroIndices: cost_reduction_cpu,
        OpKind.MatMul: cost_matmul_cpu,
        OpKind.QMatMul: cost_qmatmul_primitive_cpu,
        OpKind.Nf4Matmul: cost_nf4_matmul_primitive_cpu,
        OpKind.Conv2D: cost_conv2d_primitive_cpu,
        OpKind.ConvTranspose2D: cost_conv_transpose2d_primitive_cpu,
        OpKind.CausalConv1d: cost_causal_conv1d_primitive_cpu,
        OpKind.SsdChunkScan: cost_ssd_chunk_scan_primitive_cpu,
        OpKind.FlashAttn: cost_flash_attn_primitive_cpu,
        OpKind.FlashAttnBackwardQ: cost_flash_attn_primitive_cpu,
        OpKind.FlashAttnBackwardK: cost_flash_attn_primitive_cpu,
        OpKind.FlashAttnBackwardV: cost_flash_attn_primitive_cpu,
        OpKind.PagedAttn: cost_paged_attn_primitive_cpu,
        OpKind.SoftmaxLastDim: cost_softmax_last_dim_primitive_cpu,
        OpKind.SoftmaxLastDimBackward: cost_softmax_last_dim_primitive_cpu,
        OpKind.LogSoftmaxLastDim: cost_softmax_last_dim_primitive_cpu,
        OpKind.LogSoftmaxLastDimBackward: cost_softmax_last_dim_primitive_cpu,
        OpKind.LayerNormLastDim: cost_norm_last_dim_primitive_cpu,
        OpKind.LayerNormLastDimBackward: cost_norm_last_dim_primitive_cpu,
        OpKind.RmsNormLastDim: cost_norm_last_dim_primitive_cpu,
        OpKind.RmsNormLastDimBackward: cost_norm_last_dim_primitive_cpu,
    }
)


def default_cost_for_op_kind(op: OpKind) -> CostFn:
    """Return the Layer-1 price of a kind; `unknown_cost` for kinds that have none."""
    return LAYER1.get(op, unknown_cost)
