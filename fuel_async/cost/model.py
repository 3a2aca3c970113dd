"""From an estimate to a time on a device of given speeds, by the roofline. Pure.

The integer form that candidates are ranked by and that is persisted; `cost.rates` has the finer one that schedules by
measured speeds. An estimate that is unpriced has no time: ask `is_unpriced` first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.dispatch import HOST_RATES

if TYPE_CHECKING:
    from fuel_async.ir import BackendId, CostEstimate

#: What is assumed of a device that advertises no usable speed: the host's priors.
PRIOR_FLOPS_PER_NS, PRIOR_BYTES_PER_NS = HOST_RATES

#: What starting a kernel is assumed to take on a device that is not the host and does not say, in ns.
LAUNCH_NS = 5_000

_MAX_NS = 2**64 - 1


def composite_ns(estimate: CostEstimate, flops_per_ns: float, bytes_per_ns: float) -> int:
    """Return max(⌊flops / rate⌋, ⌊bytes / bandwidth⌋) + overhead in nanoseconds, saturated at 64 bits.

    Rates that are not finite or not positive are replaced by the host's priors.
    """
    work_ns = max(
        _quotient(estimate.flops, flops_per_ns, PRIOR_FLOPS_PER_NS),
        _quotient(estimate.bytes_moved, bytes_per_ns, PRIOR_BYTES_PER_NS),
    )
    return min(work_ns + estimate.kernel_overhead_ns, _MAX_NS)


def launch_overhead_ns(backend: BackendId, advertised: int | None, counted: int) -> int:
    """Return what starting a kernel takes: as advertised, else on the host as `counted`, else `LAUNCH_NS`."""
    if advertised is not None:
        return advertised
    return counted if backend.is_host else max(LAUNCH_NS, counted)


def _quotient(amount: int, rate: float, prior: float) -> int:
    usable = rate if math.isfinite(rate) and rate > 0 else prior
    return int(min(min(amount, _MAX_NS) / usable, float(_MAX_NS)))
