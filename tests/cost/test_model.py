"""From an estimate to nanoseconds."""

from __future__ import annotations

import math

import pytest

from fuel_async.cost import Rates, composite_ns
from fuel_async.ir import CostEstimate, OpKind


def test_the_larger_of_compute_and_traffic_counts() -> None:
    assert composite_ns(CostEstimate(1000, 400, 50), 1.0, 4.0) == 1050
    assert composite_ns(CostEstimate(1000, 40_000, 50), 1.0, 4.0) == 10_050
    assert composite_ns(CostEstimate(1000, 400, 50), 30.0, 40.0) == 33 + 50


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
