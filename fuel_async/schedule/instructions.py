"""What to do: commands of the scheduler, carried out by `runtime.perform` alone. Imperative, frozen, a closed union."""

from __future__ import annotations

from typing import TypeAlias

from fuel_async.schedule.record import record


@record
class Launch:
    """Submit a region to a lane, to start after the regions in `waits`, which that lane already holds."""

    run: int
    region: int
    lane: int
    waits: tuple[int, ...] = ()


@record
class Stop:
    """Tell the lanes to give the run up, and its caller the error; None when the caller itself gave up."""

    run: int
    error: BaseException | None


@record
class Deliver:
    """Give the results to the caller: every region has finished."""

    run: int


@record
class Release:
    """Take back the run's instance, buffers and admission: no lane works for it any more. The last word on a run."""

    run: int


Instruction: TypeAlias = Launch | Stop | Deliver | Release
