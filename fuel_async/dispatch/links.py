"""What a link costs: its latency and bandwidth, and what is assumed of each kind of path until it is measured.

A copy of n bytes takes latency + n / bandwidth. Learning a link's figures from its copies is `cost.links`; which
links a copy goes over is `dispatch.routes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.dispatch.transfer import TransferPath
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_NS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """Latency, bandwidth and ports of one direction of a link. `UserError` for figures that no link can have."""

    #: Nanoseconds that a copy of any size takes, at least 0 and finite.
    latency_ns: float
    #: Above 0; infinite where bytes take no time of their own. 1 byte/ns is 1 GB/s.
    bytes_per_ns: float
    #: Names of what copies over it occupy and copies over other links do, too: of all that name one, one copies at a
    #: time. A link that shares nothing names nothing; its copies wait for each other only.
    ports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.latency_ns < math.inf and self.bytes_per_ns > 0):
            raise UserError(
                f"a link cannot have {self.latency_ns} ns of latency and {self.bytes_per_ns} bytes/ns; "
                "give a finite latency of at least 0 and a bandwidth above 0"
            )

    def copy_ns(self, nbytes: int) -> int:
        """Return the nanoseconds of a copy of `nbytes`, saturated at 64 bits; never falls as `nbytes` grows."""
        return int(min(self.latency_ns + min(nbytes, _MAX_NS) / self.bytes_per_ns, _MAX_NS))

    def then(self, other: LinkEstimate) -> LinkEstimate:
        """Return both links in series, the second starting when the first has ended.

        Latencies add up; of bandwidths b and c what is left is b·c / (b + c). It passes the ports of both.
        """
        per_byte = 1 / self.bytes_per_ns + 1 / other.bytes_per_ns
        ports = (*self.ports, *[port for port in other.ports if port not in self.ports])
        return LinkEstimate(self.latency_ns + other.latency_ns, 1 / per_byte if per_byte else math.inf, ports)


#: Figures of a link that was neither measured nor advertised, by the kind of its path.
DEFAULT_LINKS: Mapping[TransferPath, LinkEstimate] = MappingProxyType(
    {
        TransferPath.SameDevice: LinkEstimate(0.0, math.inf),
        TransferPath.SharedMemory: LinkEstimate(2_000.0, 20.0),
        TransferPath.Peer: LinkEstimate(15_000.0, 12.0),
        TransferPath.DeviceCopy: LinkEstimate(30_000.0, 8.0),
        TransferPath.HostStaging: LinkEstimate(60_000.0, 4.0),
    }
)
