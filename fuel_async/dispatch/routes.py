"""Over which links bytes go from one memory to another: directly, or staged in the host's memory.

Which way is cheaper depends on how many bytes there are, so a route is chosen for a size. What a link costs comes
from the caller: figures that were advertised (`LinkEstimate`) or learned from copies serve alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fuel_async.ir import CPU_DEVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.ir import DeviceLocation

_MAX_NS = 2**64 - 1


class PricedLink(Protocol):
    """Whatever can say what a copy over one direction of a link takes."""

    def copy_ns(self, nbytes: int) -> int:
        """Return nanoseconds, never less for more bytes."""


#: (source, destination), the locations of two memories. The way back is another pair.
Pair: TypeAlias = "tuple[DeviceLocation, DeviceLocation]"


@dataclass(frozen=True, slots=True)
class Hop:
    """One copy over one link."""

    source: DeviceLocation
    destination: DeviceLocation
    #: Predicted nanoseconds.
    copy_ns: int


@dataclass(frozen=True, slots=True)
class Route:
    """The copies that bring some bytes where they are wanted, in order; none when they are there."""

    hops: tuple[Hop, ...] = ()

    @property
    def copy_ns(self) -> int:
        """Predicted nanoseconds of all copies, one after the other, saturated at 64 bits."""
        return min(sum(hop.copy_ns for hop in self.hops), _MAX_NS)


def route_over(links: Mapping[Pair, PricedLink], stops: tuple[DeviceLocation, ...], nbytes: int) -> Route | None:
    """Return the route through `stops` in order; None when two neighbours have no link."""
    hops = []
    for source, destination in pairwise(stops):
        link = links.get((source, destination))
        if link is None:
            return None
        hops.append(Hop(source, destination, link.copy_ns(nbytes)))
    return Route(tuple(hops))


def cheapest_route(
    links: Mapping[Pair, PricedLink],
    source: DeviceLocation,
    destination: DeviceLocation,
    nbytes: int,
    staging: DeviceLocation = CPU_DEVICE,
) -> Route | None:
    """Return the cheaper of the direct link and the two over `staging` for `nbytes`; None when there is neither.

    Of equals the direct one. From a memory to itself there is nothing to copy.
    """
    if source == destination:
        return Route()
    direct = route_over(links, (source, destination), nbytes)
    staged = route_over(links, (source, staging, destination), nbytes)
    if direct is None or staged is None:
        return direct or staged
    return staged if staged.copy_ns < direct.copy_ns else direct
