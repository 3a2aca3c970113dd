"""What a kernel and a copy cost: Layer-1 counts, times from a device's speeds, and links as they are learned. Pure."""

from fuel_async.cost.fused_cost import composed_cost as composed_cost
from fuel_async.cost.fused_cost import cost_from_decompose as cost_from_decompose
from fuel_async.cost.fused_cost import fused_layer1_cost as fused_layer1_cost
from fuel_async.cost.fused_cost import is_fused_cost_sentinel as is_fused_cost_sentinel
from fuel_async.cost.layer1 import LAYER1 as LAYER1
from fuel_async.cost.layer1 import cost_cast_cpu as cost_cast_cpu
from fuel_async.cost.layer1 import cost_comparison_cpu as cost_comparison_cpu
from fuel_async.cost.layer1 import cost_elementwise_binary_cpu as cost_elementwise_binary_cpu
from fuel_async.cost.layer1 import cost_elementwise_unary_cpu as cost_elementwise_unary_cpu
from fuel_async.cost.layer1 import (
    cost_elementwise_unary_transcendental_cpu as cost_elementwise_unary_transcendental_cpu,
)
from fuel_async.cost.layer1 import cost_indexing_cpu as cost_indexing_cpu
from fuel_async.cost.layer1 import cost_matmul_cpu as cost_matmul_cpu
from fuel_async.cost.layer1 import cost_norm_last_dim_primitive_cpu as cost_norm_last_dim_primitive_cpu
from fuel_async.cost.layer1 import cost_reduction_cpu as cost_reduction_cpu
from fuel_async.cost.layer1 import cost_scalar_op_cpu as cost_scalar_op_cpu
from fuel_async.cost.layer1 import cost_shape_op_cpu as cost_shape_op_cpu
from fuel_async.cost.layer1 import cost_softmax_last_dim_primitive_cpu as cost_softmax_last_dim_primitive_cpu
from fuel_async.cost.layer1 import cost_where_cpu as cost_where_cpu
from fuel_async.cost.layer1 import default_cost_for_op_kind as default_cost_for_op_kind
from fuel_async.cost.links import LinkModel as LinkModel
from fuel_async.cost.model import composite_ns as composite_ns
from fuel_async.cost.rates import Rates as Rates
from fuel_async.dispatch import DEFAULT_LINKS as DEFAULT_LINKS
from fuel_async.dispatch import LinkEstimate as LinkEstimate
