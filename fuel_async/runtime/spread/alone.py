"""The short way of a run of one region on the only device: all of it is submitted as soon as it can be, told once.

Its feeds are copied, its region goes behind them, and whoever settles that has the outputs copied home; the last of
them to settle ends the run. The scheduler hears of the beginning and the end, and of failures when they happen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fuel_async.schedule import HOST, CopyFailed, RegionFailed

if TYPE_CHECKING:
    from fuel_async.runtime.spread.driver import SpreadDriver
    from fuel_async.runtime.spread.run import SpreadRun
    from fuel_async.runtime.spread.submitting import Submitter
    from fuel_async.streams import Lane


class ShortWay:
    """One run from its submission to its end. Its parts settle in any thread."""

    __slots__ = ("_down", "_driver", "_failed", "_left", "_memory", "_owed", "_run", "_submitter", "_up")

    def __init__(
        self, driver: SpreadDriver, submitter: Submitter, run: SpreadRun, memory: int, up: Lane, down: Lane
    ) -> None:
        """`memory` is that of the device, of which the run has its share; `up` and `down` copy to and from there."""
        self._driver, self._submitter, self._run, self._memory = driver, submitter, run, memory
        self._up, self._down = up, down
        #: Outputs that are to be copied to the host once they are made.
        self._owed = () if run.keep else run.spread.outputs_made
        #: One for each part under way but the last.
        self._left: list[None] = []
        self._failed = False

    def launch(self, lane: int) -> None:
        """Submit the feeds and, unless that fails, the region."""
        run, memory = self._run, self._memory
        for value in run.spread.plan.regions[0].reads:
            if not run.lies_in(value, memory):
                self._copy(self._up, value, HOST, memory)
        if not self._failed:
            self._left.append(None)
            try:
                self._submitter.region(run, 0, lane, (), self._ran)
            except Exception as error:
                self._ran(error)
        self._settled()  # the submitting itself

    def _copy(self, lane: Lane, value: int, source: int, memory: int) -> None:
        self._left.append(None)
        ended = partial(self._copied, value, memory)
        try:
            self._submitter.copy_over(lane, self._run, value, source, memory, ended)
        except Exception as error:
            ended(error)

    def _copied(self, value: int, memory: int, error: BaseException | None, took_ns: int = 0) -> None:
        if error is not None:
            self._fail(CopyFailed(self._run.number, value, memory, error))
        self._settled()

    def _ran(self, error: BaseException | None, took_ns: int = 0) -> None:
        if error is not None:
            self._fail(RegionFailed(self._run.number, 0, error))
        self._settled()

    def _fail(self, event: CopyFailed | RegionFailed) -> None:
        self._failed = True
        self._driver.post(event)

    def _settled(self) -> None:
        """Go on when this was the last part under way."""
        try:
            self._left.pop()  # atomic: one thread finds none
        except IndexError:
            is_last = True
        else:
            is_last = False
        if is_last:  # not above: what goes wrong then has no part in that error
            self._go_on()

    def _go_on(self) -> None:
        owed, self._owed = self._owed, ()
        if not owed or self._failed or self._run.stopped:
            self._driver.end_alone(self._run, failed=self._failed)
            return
        for value in owed:
            self._copy(self._down, value, self._memory, HOST)
        self._settled()
