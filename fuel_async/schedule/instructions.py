"""What to do: commands of the scheduler, carried out by `runtime` alone. Imperative, a closed union."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule.record import record

if TYPE_CHECKING:
    from fuel_async.schedule.rolling import Question


@record
class Launch:
    """Submit a region to a lane, to start after the regions in `waits`, which that lane already holds.

    It starts after the arrival of every value it reads that is on its way to the lane's memory, too.
    """

    run: int
    region: int
    lane: int
    waits: tuple[int, ...] = ()


@record
class Bind:
    """Make the run's programs ready on a device, and tell: `Bound` or `BindFailed`."""

    run: int
    device: int


@record
class Copy:
    """Copy a value from one memory to another, once it is there; and tell: `CopyFinished` or `CopyFailed`."""

    run: int
    value: int
    source: int
    memory: int


@record
class Stop:
    """Tell the lanes to give the run up, and its caller the error; None when the caller itself gave up."""

    run: int
    error: BaseException | None


@record
class Replan:
    """Plan the run anew and admit it again: its plan is out of date, and nothing of it was issued."""

    run: int


@record
class Deliver:
    """Give the results to the caller: every region has finished, and the results are where they were wanted."""

    run: int


@record
class Release:
    """Take back the run's instance, buffers and admission: no lane works for it any more. The last word on a run."""

    run: int


@record
class Resweep:
    """Place what is left of the run anew, with `answer`, and tell: `Reswept`. Off the loop; nobody waits for it."""

    run: int
    question: Question


Instruction: TypeAlias = Launch | Bind | Copy | Stop | Replan | Resweep | Deliver | Release
