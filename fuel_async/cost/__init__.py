"""What a kernel and a copy cost: Layer-1 counts, times from a device's speeds, and links as they are learned. Pure."""

from fuel_async.cost.fused_cost import composed_cost as composed_cost
from fuel_async.cost.fused_cost import cost_from_decompose as cost_from_decompose
from fuel_async.cost.fused_cost import fused_layer1_cost as fused_layer1_cost
from fuel_async.cost.fused_cost import is_fused_cost_sentinel as is_fused_cost_sentinel
from fuel_async.cost.layer1 import LAYER1 as LAYER1
from fuel_async.cost.layer1 import cost_argindex_cpu as cost_argindex_cpu
from fuel_async.cost.layer1 import cost_cast_cpu as cost_cast_cpu
from fuel_async.cost.layer1 import cost_comparison_cpu as cost_comparison_cpu
from fuel_async.cost.layer1 import cost_elementwise_binary_cpu as cost_elementwise_binary_cpu
from fuel_async.cost.layer1 import cost_elementwise_unary_cpu as cost_elementwise_unary_cpu
from fuel_async.cost.layer1 import (
    cost_elementwise_unary_transcendental_cpu as cost_elementwise_unary_transcendental_cpu,
)
from fuel_async.cost.layer1 import (
    cost_fused_softmax_cross_entropy_primitive_cpu as cost_fused_softmax_cross_entropy_primitive_cpu,
)
from fuel_async.cost.layer1 import cost_indexing_cpu as cost_indexing_cpu
from fuel_async.cost.layer1 import cost_masked_fill_cpu as cost_masked_fill_cpu
from fuel_async.cost.layer1 import cost_norm_last_dim_primitive_cpu as cost_norm_last_dim_primitive_cpu
from fuel_async.cost.layer1 import cost_powi_backward_cpu as cost_powi_backward_cpu
from fuel_async.cost.layer1 import (
    cost_reduce_max_to_backward_primitive_cpu as cost_reduce_max_to_backward_primitive_cpu,
)
from fuel_async.cost.layer1 import cost_reduction_cpu as cost_reduction_cpu
from fuel_async.cost.layer1 import cost_rope_primitive_cpu as cost_rope_primitive_cpu
from fuel_async.cost.layer1 import cost_scalar_op_cpu as cost_scalar_op_cpu
from fuel_async.cost.layer1 import cost_selective_scan_primitive_cpu as cost_selective_scan_primitive_cpu
from fuel_async.cost.layer1 import cost_shape_op_cpu as cost_shape_op_cpu
from fuel_async.cost.layer1 import cost_softmax_last_dim_primitive_cpu as cost_softmax_last_dim_primitive_cpu
from fuel_async.cost.layer1 import cost_where_cpu as cost_where_cpu
from fuel_async.cost.layer1 import cost_write_slice_cpu as cost_write_slice_cpu
from fuel_async.cost.layer1 import default_cost_for_op_kind as default_cost_for_op_kind
from fuel_async.cost.links import LinkModel as LinkModel
from fuel_async.cost.model import LAUNCH_NS as LAUNCH_NS
from fuel_async.cost.model import composite_ns as composite_ns
from fuel_async.cost.model import launch_overhead_ns as launch_overhead_ns
from fuel_async.cost.pricing import UNPRICED as UNPRICED
from fuel_async.cost.pricing import Price as Price
from fuel_async.cost.pricing import PriceSource as PriceSource
from fuel_async.cost.pricing import on_device as on_device
from fuel_async.cost.pricing import price_call as price_call
from fuel_async.cost.pricing import rates_of as rates_of
from fuel_async.cost.products import INFEASIBLE as INFEASIBLE
from fuel_async.cost.products import cost_causal_conv1d_primitive_cpu as cost_causal_conv1d_primitive_cpu
from fuel_async.cost.products import cost_conv2d_primitive_cpu as cost_conv2d_primitive_cpu
from fuel_async.cost.products import cost_conv_transpose2d_primitive_cpu as cost_conv_transpose2d_primitive_cpu
from fuel_async.cost.products import cost_flash_attn_primitive_cpu as cost_flash_attn_primitive_cpu
from fuel_async.cost.products import cost_flash_decoding_cuda as cost_flash_decoding_cuda
from fuel_async.cost.products import cost_fused_linear_primitive_cpu as cost_fused_linear_primitive_cpu
from fuel_async.cost.products import cost_matmul_cpu as cost_matmul_cpu
from fuel_async.cost.products import cost_nf4_matmul_primitive_cpu as cost_nf4_matmul_primitive_cpu
from fuel_async.cost.products import cost_paged_attn_primitive_cpu as cost_paged_attn_primitive_cpu
from fuel_async.cost.products import cost_qmatmul_primitive_cpu as cost_qmatmul_primitive_cpu
from fuel_async.cost.products import cost_ssd_chunk_scan_primitive_cpu as cost_ssd_chunk_scan_primitive_cpu
from fuel_async.cost.rates import Rates as Rates
from fuel_async.cost.vector import AccuracyClass as AccuracyClass
from fuel_async.cost.vector import CostVector as CostVector
from fuel_async.cost.vector import MemoryTiers as MemoryTiers
from fuel_async.cost.vector import precision_digits as precision_digits
from fuel_async.dispatch import DEFAULT_LINKS as DEFAULT_LINKS
from fuel_async.dispatch import LinkEstimate as LinkEstimate
from fuel_async.dispatch import default_backend_rates as default_backend_rates
