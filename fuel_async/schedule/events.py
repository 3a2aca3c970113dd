"""What happened: facts that the scheduler is told, each about one run or about a device. Past tense, a closed union."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule.record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.machine import DeviceShape
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.shape import LaneShape, RunShape

#: The `run` of an event that is about no run.
NO_RUN = -1


@record
class RunAdmitted:
    """A run may use memory and lanes from now on. Values in `resident` lie elsewhere than in the host's memory."""

    run: int
    shape: RunShape
    priority: int = 0
    resident: Sequence[tuple[int, int]] = ()


@record
class RegionFinished:
    """A lane is through with a region, and its results are there. 0 for `took_ns`, its work, where nobody measured."""

    run: int
    region: int
    took_ns: int = 0


@record
class RegionFailed:
    """A lane is through with a region that failed, or that gave up because its run was stopped."""

    run: int
    region: int
    error: BaseException


@record
class CancelRequested:
    """Nobody wants the run's results any more. Told once or more; after the end of the run it says nothing."""

    run: int


@record
class Bound:
    """The run's programs are ready on a device: what was held back for that may be launched."""

    run: int
    device: int


@record
class BindFailed:
    """They are not, and will not be."""

    run: int
    device: int
    error: BaseException


@record
class CopyFinished:
    """A value of the run has arrived in a memory."""

    run: int
    value: int
    memory: int


@record
class CopyFailed:
    """It has not, and will not."""

    run: int
    value: int
    memory: int
    error: BaseException


@record
class Reswept:
    """What was left of a run has been placed anew: it goes by another plan, if it is still there."""

    run: int
    prior: Prior


@record
class AloneEnded:
    """Everything of a run on the short way has settled, well or not: nothing works for it any more."""

    run: int


@record
class DeviceAdded:
    """There is one more device. Its number is the count of those before it."""

    device: DeviceShape
    lanes: Sequence[LaneShape]
    run: int = NO_RUN


@record
class DeviceGone:
    """A device does nothing any more. Work in flight there settles with errors of its own."""

    device: int
    error: BaseException
    run: int = NO_RUN


@record
class TopologyChanged:
    """Plans made before are out of date: runs of which nothing was issued are to be planned anew."""

    run: int = NO_RUN


Event: TypeAlias = (
    RunAdmitted
    | RegionFinished
    | RegionFailed
    | CancelRequested
    | Bound
    | BindFailed
    | CopyFinished
    | CopyFailed
    | Reswept
    | AloneEnded
    | DeviceAdded
    | DeviceGone
    | TopologyChanged
)
