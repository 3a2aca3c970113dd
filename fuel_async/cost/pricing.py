"""What one call of a kernel costs, from the most trusted source that says something, and which source that was. Pure.

What the kernel's contract declares goes before what its own cost function counts, and that before Layer 1. Where nobody
says anything the call is unpriced, which is not the same as free. What was measured goes before all of these; that is
for who ranks to ask, since it is a time and no count.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.cost.layer1 import default_cost_for_op_kind
from fuel_async.cost.model import launch_overhead_ns
from fuel_async.cost.rates import DENSE_KINDS
from fuel_async.dispatch import RuntimeFused
from fuel_async.ir import CostEstimate

if TYPE_CHECKING:
    from fuel_async.cost.counting import Shapes
    from fuel_async.dispatch import BackendCapabilities, BindingEntry, BindingKey, KernelDTypes, OpParams
    from fuel_async.ir import BackendId


class PriceSource(Enum):
    """Who says what something costs, the most trusted first."""

    MEASURED = "measured"
    #: By the contract of the kernel.
    DECLARED = "declared"
    #: By the kernel's own cost function.
    COUNTED = "counted"
    LAYER1 = "layer 1"
    UNPRICED = "unpriced"


class Price(NamedTuple):
    """An estimate and who made it; all zero when unpriced."""

    estimate: CostEstimate
    source: PriceSource


UNPRICED = Price(CostEstimate(), PriceSource.UNPRICED)


def price_call(
    op: BindingKey,
    entry: BindingEntry,
    shapes: Shapes,
    dtypes: KernelDTypes,
    params: OpParams,
    caps: BackendCapabilities,
) -> Price:
    """Return the price of one call; `shapes` and `dtypes` list the inputs, then the output."""
    if entry.cost_expr is not None:
        declared = entry.cost_expr.evaluate(shapes, dtypes, params, caps)
        if declared is not None and not declared.is_unpriced:
            return Price(declared, PriceSource.DECLARED)
    layer1 = None if isinstance(op, RuntimeFused) else default_cost_for_op_kind(op)
    if entry.cost is not layer1:
        own = entry.cost(shapes, dtypes, params, caps)
        if not own.is_unpriced:
            return Price(own, PriceSource.COUNTED)
    counted = CostEstimate() if layer1 is None else layer1(shapes, dtypes, params, caps)
    return UNPRICED if counted.is_unpriced else Price(counted, PriceSource.LAYER1)


def rates_of(op: BindingKey, caps: BackendCapabilities) -> tuple[float, float]:
    """Return the (flop/ns, byte/ns) at which a device computes kernels of `op`, as it advertises them."""
    dense = caps.dense_throughput_flops_per_ns if op in DENSE_KINDS else None
    return caps.compute_throughput_flops_per_ns if dense is None else dense, caps.mem_bandwidth_bytes_per_ns


def on_device(price: Price, backend: BackendId, caps: BackendCapabilities) -> Price:
    """Return the price with the overhead of a call on that device, where Layer 1 counted that of the host."""
    if price.source is not PriceSource.LAYER1:
        return price
    counted = price.estimate.kernel_overhead_ns
    overhead = launch_overhead_ns(backend, caps.launch_overhead_ns, counted)
    return price._replace(estimate=replace(price.estimate, kernel_overhead_ns=overhead))
