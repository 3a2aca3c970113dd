"""What is assumed of a device's speed until its programs and copies were measured, by kind.

Round figures for a device of its kind of some years ago: what matters is their order of magnitude, until the measured
times of programs and copies take their place.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.cost import LinkEstimate, Rates

if TYPE_CHECKING:
    from collections.abc import Mapping

#: By kind: elementwise and dense flops, traffic, and the time of one dispatch with its barrier.
RATES: Mapping[str, Rates] = MappingProxyType({
    "discrete": Rates(2_000.0, 4_000.0, 300.0, 4_000),
    "integrated": Rates(400.0, 600.0, 40.0, 5_000),
    "virtual": Rates(1_000.0, 2_000.0, 200.0, 6_000),
    "other": Rates(100.0, 100.0, 20.0, 10_000),
    "software": Rates(1.0, 0.5, 2.0, 50_000),
})  # fmt: skip

#: By kind: the way between the host's memory and the device's.
LINKS: Mapping[str, LinkEstimate] = MappingProxyType({
    "discrete": LinkEstimate(40_000.0, 8.0),
    "integrated": LinkEstimate(5_000.0, 8.0),
    "virtual": LinkEstimate(60_000.0, 4.0),
    "other": LinkEstimate(60_000.0, 4.0),
    "software": LinkEstimate(5_000.0, 4.0),
})  # fmt: skip
