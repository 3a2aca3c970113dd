"""Whether a run had better follow a plan of the whole: both ways are played on idle devices, as predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.errors import DeviceLost
from fuel_async.ir import Breathe, no_breath
from fuel_async.schedule.dry_run import DryRun, dry_run
from fuel_async.schedule.offers import earliest_finish
from fuel_async.schedule.prior import Prior, prior_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.schedule.machine import DeviceShape, Links, Prices
    from fuel_async.schedule.shape import LaneShape, RunShape

#: A plan whose run takes so many times longer than it promises is also played with devices that keep to its order.
NOT_KEPT = 1.02

_NOBODY: Mapping[int, BaseException] = MappingProxyType({})


class _ConstantsThere:
    """The prices of a run whose constants are wherever they are read."""

    def __init__(self, prices: Prices) -> None:
        self.region_ns = prices.region_ns

    def upload_ns(self, region: int, device: int) -> int:
        """See `Prices`."""
        return 0


def with_constants_there(shape: RunShape) -> RunShape:
    """Return the same run over devices that have its constants already."""
    if shape.spread is None:
        return shape
    return replace(shape, spread=replace(shape.spread, prices=_ConstantsThere(shape.spread.prices)))


def alone_on_each(
    shape: RunShape,
    devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
    links: Links,
    gone: Mapping[int, BaseException] = _NOBODY,
) -> dict[int, DryRun]:
    """Play a run on each device that is there, as if all others were gone. Those where it cannot run are left out."""
    bare, found = replace(shape, prior=None), dict[int, DryRun]()
    for device in range(len(devices)):
        others = {other: DeviceLost(one.name, "left out") for other, (one, _) in enumerate(devices) if other != device}
        if device not in gone:
            run = dry_run(devices, links, earliest_finish, bare, {**others, **gone})
            if run.error is None:
                found[device] = run
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """A run without a plan and, where there is one, with it."""

    live: DryRun
    prior: Prior | None = None
    planned: DryRun | None = None
    #: Whether the plan is followed.
    follows: bool = False

    @property
    def best(self) -> DryRun:
        """The run as it would be."""
        return self.planned if self.planned is not None and self.follows else self.live


def judge_plan(
    shape: RunShape,
    devices: Sequence[tuple[DeviceShape, Sequence[LaneShape]]],
    links: Links,
    gone: Mapping[int, BaseException] = _NOBODY,
    breathe: Breathe = no_breath,
) -> Judged:
    """Play a run by the policy of earliest finish, with a plan of the whole and without. Pure.

    With a plan it is played as it would go: whole to one device where that ends sooner, and placed anew as it goes. The
    plan that `shape` has is followed. Where it has none, one is made, about 100 µs a region, and followed if the
    run takes no longer with it; strictly, if it is not kept otherwise.
    """
    bare = replace(shape, prior=None)
    live = dry_run(devices, links, earliest_finish, bare, gone, breathe)
    prior = shape.prior or prior_of(bare, devices, links, gone.keys(), breathe)
    if prior is None:
        return Judged(live)
    planned = dry_run(devices, links, earliest_finish, replace(bare, prior=prior), gone, breathe)
    if shape.prior is not None:
        return Judged(live, prior, planned, follows=True)
    if planned.makespan_ns > NOT_KEPT * prior.makespan_ns:
        strict = replace(prior, is_strict=True)
        found = dry_run(devices, links, earliest_finish, replace(bare, prior=strict), gone, breathe)
        if found.makespan_ns < planned.makespan_ns:
            prior, planned = strict, found
    return Judged(live, prior, planned, follows=planned.makespan_ns <= live.makespan_ns)
