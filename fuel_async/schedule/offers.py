"""What devices promise for a region, and the policies that choose among them.

An offer is one device's promise for one region: earliest finish = max(inputs there, lane free) + predicted time
(Topcuoglu et al., HEFT, 2002, applied late and one region at a time). The scheduler carries a choice out when the
chosen lane has a slot, and waits for it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fuel_async.schedule.record import record

if TYPE_CHECKING:
    from fuel_async.schedule.machine import Hop


@record
class Offer:
    """What one device promises for one region. Times are of the executor's clock, in ns."""

    device: int
    lane: int
    #: When what it reads would be there, constants included, and when the lane would be free.
    ready_ns: int
    free_ns: int
    predicted_ns: int
    #: The copies it takes: (value, hop), in order.
    copies: Sequence[tuple[int, Hop]] = ()
    #: Whether taking it would leave the device's memory nearly full.
    tight: bool = False
    #: Regions given to the device so far, and held by the lane now.
    given: int = 0
    held: int = 0

    @property
    def start_ns(self) -> int:
        """When it would start."""
        return max(self.ready_ns, self.free_ns)

    @property
    def finish_ns(self) -> int:
        """When it would be done."""
        return max(self.ready_ns, self.free_ns) + self.predicted_ns


class Decision(NamedTuple):
    """Why a region went where it did."""

    run: int
    region: int
    offers: Sequence[Offer]
    chosen: Offer


#: Chooses among the offers of a region; there is at least one, in the order of devices.
Policy: TypeAlias = Callable[[Sequence[Offer]], Offer]


def earliest_finish(offers: Sequence[Offer]) -> Offer:
    """The device that would be done first; one whose memory would be nearly full only if all would be."""
    return min(offers, key=lambda offer: (offer.tight, offer.finish_ns, offer.held))


def spread_evenly(offers: Sequence[Offer]) -> Offer:
    """The device that was given the fewest regions, of equals the one that would be done first."""
    return min(offers, key=lambda offer: (offer.tight, offer.given, offer.finish_ns))


#: The placement policies that have a name.
POLICIES: dict[str, Policy] = {"earliest_finish": earliest_finish, "spread": spread_evenly}
