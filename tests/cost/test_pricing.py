"""Who is asked what a call costs, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fuel_async.cost import UNPRICED, Price, PriceSource, default_cost_for_op_kind, on_device, price_call
from fuel_async.dispatch import BackendCapabilities, BindingEntry, OpParams, RuntimeFused
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DeviceLocation, DType, OpKind, SubstrateClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import KernelDTypes

F32 = DType.F32
CAPS = BackendCapabilities(BackendId.CPU, CPU_DEVICE, frozenset(), 64, 8, (), SubstrateClass.HostBytes, 1.0, 4.0)
CUDA = replace(CAPS, backend_id=BackendId.CUDA, device_location=DeviceLocation(BackendId.CUDA))
MINE, COUNTED = CostEstimate(777, 42, 9), CostEstimate(10, 80, 50)


def kernel(*_: object) -> None:
    """A kernel nobody calls."""


class Says:
    """A declared price and a cost function in one."""

    def __init__(self, answer: CostEstimate | None) -> None:
        self.answer = answer

    def evaluate(
        self, shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate | None:
        return self.answer

    def cost(
        self, shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate:
        return self.answer or CostEstimate()


def price(entry: BindingEntry, op: OpKind | RuntimeFused = OpKind.ReluElementwise) -> Price:
    return price_call(op, entry, [(10,), (10,)], (F32, F32), OpParams.NONE, CAPS)


def test_the_most_trusted_source_that_says_something_is_believed() -> None:
    own = BindingEntry(kernel, cost=Says(MINE).cost)
    declared = replace(own, cost_expr=Says(CostEstimate(8)))
    assert price(declared) == (CostEstimate(8), PriceSource.DECLARED)
    assert price(own) == (MINE, PriceSource.COUNTED)
    assert price(BindingEntry(kernel)) == (COUNTED, PriceSource.LAYER1)
    layer1 = BindingEntry(kernel, cost=default_cost_for_op_kind(OpKind.ReluElementwise))
    assert price(layer1) == (COUNTED, PriceSource.LAYER1)


@pytest.mark.parametrize("nothing", [None, CostEstimate()])
def test_who_says_nothing_is_passed_over(nothing: CostEstimate | None) -> None:
    silent = BindingEntry(kernel, cost=Says(nothing).cost, cost_expr=Says(nothing))
    assert price(silent) == (COUNTED, PriceSource.LAYER1)
    assert price(replace(silent, cost=Says(MINE).cost)) == (MINE, PriceSource.COUNTED)


def test_a_call_of_which_nobody_says_anything_is_unpriced() -> None:
    for op in (OpKind.RuntimeFused, RuntimeFused(0x8000), OpKind.MatMul):  # a product without its parameters
        assert price(BindingEntry(kernel), op) == UNPRICED
    assert price(BindingEntry(kernel, cost=Says(MINE).cost), RuntimeFused(0x8000)).source is PriceSource.COUNTED


def test_a_device_has_its_own_overhead_where_layer_1_counted() -> None:
    """Defect (e): 50 ns is a call on the host, not a launch."""
    counted = price(BindingEntry(kernel))
    assert on_device(counted, BackendId.CPU, CAPS) == counted
    assert on_device(counted, BackendId.CUDA, CUDA).estimate == CostEstimate(10, 80, 5_000)
    assert (
        on_device(counted, BackendId.CUDA, replace(CUDA, launch_overhead_ns=8_000)).estimate.kernel_overhead_ns == 8_000
    )
    own = price(BindingEntry(kernel, cost=Says(MINE).cost))
    assert on_device(own, BackendId.CUDA, CUDA) == own
    assert on_device(UNPRICED, BackendId.CUDA, CUDA) == UNPRICED
