"""The seeds' module `fused_cost`: what a call of a fused op costs, declared or counted from its parts."""

from fuel_async.cost import cost_from_decompose as cost_from_decompose
from fuel_async.cost import fused_layer1_cost as fused_layer1_cost
from fuel_async.cost import is_fused_cost_sentinel as is_fused_cost_sentinel
