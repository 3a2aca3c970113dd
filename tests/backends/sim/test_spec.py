"""Machines as data."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fuel_async.backends.sim import HOST, REFERENCE, Links, LinkSpec, SimDeviceSpec
from fuel_async.backends.sim.spec import scaled
from fuel_async.cost import LinkEstimate, Rates
from fuel_async.errors import UserError


def test_a_speed_scales_every_rate() -> None:
    spec = SimDeviceSpec(speed=4.0, rates=Rates(1.0, 10.0, 5.0, call_ns=400))
    assert spec.true_rates == Rates(4.0, 40.0, 20.0, call_ns=100)
    assert scaled(REFERENCE, 2.0).call_ns is None


def test_what_is_advertised_is_the_truth_unless_said() -> None:
    assert SimDeviceSpec(speed=3.0).said_rates == scaled(REFERENCE, 3.0)
    assert SimDeviceSpec(speed=3.0, advertised=REFERENCE).said_rates == REFERENCE
    assert LinkSpec(5.0, 2.0).said_estimate == LinkEstimate(5.0, 2.0)
    assert LinkSpec(5.0, 2.0, advertised=LinkEstimate(1.0, 9.0)).said_estimate == LinkEstimate(1.0, 9.0)
    assert LinkSpec(5.0, 2.0, advertised=LinkEstimate(1.0, 9.0)).true_estimate == LinkEstimate(5.0, 2.0)


def test_the_matrix_goes_before_what_holds_for_all() -> None:
    fast, slow = LinkSpec(1.0, 100.0), LinkSpec(9.0, 1.0)
    links = Links(slow, {(0, 1): fast, (HOST, 0): None})
    assert (links.between(0, 1), links.between(1, 0), links.between(HOST, 0)) == (fast, slow, None)
    assert links.between(0, 0) is None


def test_without_peers_there_are_links_with_the_host_alone() -> None:
    links = Links.of(1.0, 2.0, peers=False)
    assert links.between(HOST, 3) == links.between(3, HOST) == LinkSpec(1.0, 2.0)
    assert links.between(0, 1) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"speed": 0.0}, {"speed": -1.0}, {"speed": math.inf}, {"lanes": 0}, {"slot_capacity": 0},
        {"memory_nbytes": -1}, {"jitter": -0.1}, {"slowdowns": ((5, 2.0), (1, 1.0))}, {"slowdowns": ((5, 0.0),)},
    ],
)  # fmt: skip
def test_devices_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        SimDeviceSpec(**wrong)


@pytest.mark.parametrize("wrong", [{"bytes_per_ns": 0.0}, {"latency_ns": -1.0}, {"slowdowns": ((5, -2.0),)}])
def test_links_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        LinkSpec(**wrong)
