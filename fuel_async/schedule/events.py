"""What happened: facts that the scheduler is told, each about one run. Past tense, frozen, a closed union."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule.record import record

if TYPE_CHECKING:
    from fuel_async.schedule.shape import RunShape


@record
class RunAdmitted:
    """A run may use memory and lanes from now on."""

    run: int
    shape: RunShape
    priority: int = 0


@record
class RegionFinished:
    """A lane is through with a region, and its results are there."""

    run: int
    region: int


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


Event: TypeAlias = RunAdmitted | RegionFinished | RegionFailed | CancelRequested
