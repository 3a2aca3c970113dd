"""From an estimate to nanoseconds."""

from __future__ import annotations

import math

import pytest

from fuel_async.cost import LAUNCH_NS, Rates, composite_ns, default_backend_rates, launch_overhead_ns
from fuel_async.ir import BackendId, CostEstimate, OpKind

MOST = 2**64 - 1


def test_the_larger_of_compute_and_traffic_counts() -> None:
    assert composite_ns(CostEstimate(1000, 400, 50), 1.0, 4.0) == 1050
    assert composite_ns(CostEstimate(1000, 40_000, 50), 1.0, 4.0) == 10_050
    assert composite_ns(CostEstimate(1000, 400, 50), 30.0, 40.0) == 33 + 50


def test_cc_5_the_roofline_of_the_host() -> None:
    rows = [(1000, 0, 0), (0, 4000, 0), (500, 4000, 0), (500, 3200, 200)]
    host = default_backend_rates(BackendId.CPU)
    assert host == (1.0, 4.0)
    assert [composite_ns(CostEstimate(*row), *host) for row in rows] == [1000] * 4
    # Nothing at all is 0 here, and unpriced: whoever ranks asks for that first.
    assert composite_ns(CostEstimate(), *host) == 0
    assert CostEstimate().is_unpriced
    assert composite_ns(CostEstimate(MOST, MOST, 2**32 - 1), *host) == MOST


def test_other_backends_are_assumed_to_be_faster() -> None:
    assert {default_backend_rates(BackendId(name)) for name in ("cuda", "vulkan", "metal", "npu")} == {(30.0, 40.0)}


def test_starting_a_kernel_takes_what_the_device_says() -> None:
    """Defect (e): the overhead of a call on the host is nobody else's."""
    assert launch_overhead_ns(BackendId.CPU, None, 50) == 50
    assert launch_overhead_ns(BackendId.CUDA, None, 50) == LAUNCH_NS
    assert launch_overhead_ns(BackendId.CUDA, None, 2 * LAUNCH_NS) == 2 * LAUNCH_NS
    assert launch_overhead_ns(BackendId.CUDA, 0, 50) == 0
    assert launch_overhead_ns(BackendId.CPU, 700, 50) == 700


def test_quotients_are_rounded_down() -> None:
    assert composite_ns(CostEstimate(999, 0, 0), 1000.0, 4.0) == 0


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_unusable_rates_fall_back_to_the_priors(rate: float) -> None:
    estimate = CostEstimate(1000, 8000, 0)
    assert composite_ns(estimate, rate, rate) == 2000
    assert composite_ns(estimate, rate, 1e9) == 1000


def test_times_saturate_at_64_bits() -> None:
    assert composite_ns(CostEstimate(2**70, 0, 5), 1e-9, 4.0) == 2**64 - 1
    assert composite_ns(CostEstimate(10**400, 0, 5), 1.0, 4.0) == 2**64 - 1


def test_measured_rates_price_products_apart_and_nothing_is_free() -> None:
    rates = Rates(flops_per_ns=10, dense_flops_per_ns=100, bytes_per_ns=1e9, call_ns=200)
    estimate = CostEstimate(1000, 0, 50)
    assert rates.predict_ns(OpKind.MatMul, estimate) == 210
    assert rates.predict_ns(OpKind.ExpElementwise, estimate) == 300
    assert Rates().predict_ns(OpKind.ExpElementwise, estimate) == 1050
    assert Rates(call_ns=0).predict_ns(OpKind.Copy, CostEstimate()) == 1
