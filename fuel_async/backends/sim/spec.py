"""A simulated machine as data: what its devices and links truly do, and what they say of themselves.

Nothing happens here. Places count the devices of one machine from 0; `HOST` stands for the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.cost import LinkEstimate, Rates
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a device of speed 1 does. Call overheads are those of the kernels' own estimates.
REFERENCE = Rates(flops_per_ns=1.0, dense_flops_per_ns=10.0, bytes_per_ns=10.0, call_ns=None)

#: The host's place in a matrix of links.
HOST = -1

#: (moment, factor) in order of time: from then on everything takes `factor` times as long as it would without. A factor
#: of infinity is a standstill.
Slowdowns: TypeAlias = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class SimDeviceSpec:
    """One simulated device. Times are nanoseconds of the machine's clock."""

    #: Factor over `rates`.
    speed: float = 1.0
    rates: Rates = REFERENCE
    #: What the device says its speeds are; None: the truth.
    advertised: Rates | None = None
    memory_nbytes: int = 1 << 30
    lanes: int = 1
    slot_capacity: int = 2
    #: Relative spread of durations: factors are log-normal with mean 1.
    jitter: float = 0.0
    slowdowns: Slowdowns = ()
    #: When the device is lost; None: never.
    lost_at_ns: int | None = None
    name: str = "simulated device"
    #: Works in the host's memory, as a processor does: nothing is copied to it or from it, and no link ends there.
    in_host_memory: bool = False

    def __post_init__(self) -> None:
        _check_slowdowns(self.slowdowns)
        if not (self.speed > 0 and math.isfinite(self.speed)):
            raise UserError(f"a simulated device cannot have speed {self.speed}; use a positive number")
        if self.lanes < 1 or self.slot_capacity < 1 or self.memory_nbytes < 0 or self.jitter < 0:
            raise UserError(f"{self} has no lane, no place in it, less than no memory, or a negative jitter")

    @property
    def true_rates(self) -> Rates:
        """What the device does in a nanosecond."""
        return scaled(self.rates, self.speed)

    @property
    def said_rates(self) -> Rates:
        """What it says that it does."""
        return self.true_rates if self.advertised is None else self.advertised


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of one link."""

    latency_ns: float = 10_000.0
    bytes_per_ns: float = 12.0
    #: What the link is said to do; None: the truth.
    advertised: LinkEstimate | None = None
    jitter: float = 0.0
    slowdowns: Slowdowns = ()
    #: When the link is cut; None: never.
    cut_at_ns: int | None = None

    def __post_init__(self) -> None:
        _check_slowdowns(self.slowdowns)
        if not self.bytes_per_ns > 0 or self.latency_ns < 0 or self.jitter < 0:
            raise UserError(f"{self} moves nothing, arrives before it leaves, or has a negative jitter")

    @property
    def true_estimate(self) -> LinkEstimate:
        """What it does."""
        return LinkEstimate(self.latency_ns, self.bytes_per_ns)

    @property
    def said_estimate(self) -> LinkEstimate:
        """What it is said to do."""
        return self.true_estimate if self.advertised is None else self.advertised


class Sharing(Enum):
    """What copies on different links have to do with each other."""

    #: Nothing: each link has its own way.
    NONE = "none"
    #: A memory sends one copy at a time and receives one at a time; the next waits.
    PORTS = "ports"


@dataclass(frozen=True, slots=True)
class Links:
    """All links of a machine: one kind for all pairs, and the pairs that differ."""

    every: LinkSpec | None = field(default_factory=LinkSpec)
    #: Pairs (source, destination) of places, `HOST` among them; None means that there is no such link.
    matrix: Mapping[tuple[int, int], LinkSpec | None] = field(default_factory=dict)
    #: Whether devices reach each other directly, where the matrix says nothing.
    peers: bool = True
    sharing: Sharing = Sharing.NONE

    @classmethod
    def of(
        cls, latency_ns: float, bytes_per_ns: float, *, peers: bool = True, sharing: Sharing = Sharing.NONE
    ) -> Links:
        """Return equal links between all pairs."""
        return cls(LinkSpec(latency_ns, bytes_per_ns), peers=peers, sharing=sharing)

    def between(self, source: int, destination: int) -> LinkSpec | None:
        """Return the link from one place to another; None when there is none."""
        if source == destination:
            return None
        if (source, destination) in self.matrix:
            return self.matrix[source, destination]
        return self.every if self.peers or HOST in (source, destination) else None


def scaled(rates: Rates, speed: float) -> Rates:
    """Return rates `speed` times as high."""
    return Rates(
        flops_per_ns=rates.flops_per_ns * speed,
        dense_flops_per_ns=rates.dense_flops_per_ns * speed,
        bytes_per_ns=rates.bytes_per_ns * speed,
        call_ns=None if rates.call_ns is None else round(rates.call_ns / speed),
    )


def _check_slowdowns(slowdowns: Slowdowns) -> None:
    moments = [at_ns for at_ns, _ in slowdowns]
    if moments != sorted(moments) or any(not factor > 0 for _, factor in slowdowns):
        raise UserError(f"slow-downs {slowdowns} are not in order of time, or have a factor that is not positive")
