"""Admission: how many runs may be under way, and how many bytes they may hold.

First come, first served within a priority; a cancelled waiter leaves at once; a run that can never fit is refused with
the arithmetic. Waiters may stand on different loops. What is held is the arenas of all instances, idle ones too, and
the outputs of runs under way; before a run waits for memory, idle instances are dropped (`reclaim`).
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.errors import ExecutorClosed, OutOfMemory
from fuel_async.streams import LoopShare

if TYPE_CHECKING:
    from collections.abc import Callable


class _State(Enum):
    IN_LINE = 0
    GRANTED = 1
    GONE = 2


@dataclass(order=True, slots=True)
class _Waiter:
    rank: tuple[int, int]
    nbytes: int = field(compare=False)
    share: LoopShare = field(compare=False)
    future: asyncio.Future[None] = field(compare=False)
    #: In line, then granted, then gone: what it was granted is given back once.
    state: _State = field(compare=False, default=_State.IN_LINE)


class Admission:
    """Two budgets, runs and bytes, and the line of those who wait for them. All methods take any thread."""

    def __init__(self, device: str, max_runs: int, budget_nbytes: int, reclaim: Callable[[int], int]) -> None:
        """`reclaim(nbytes)` drops idle instances, that much if it can, and returns how much; it calls `free`."""
        self.device, self.max_runs, self.budget_nbytes = device, max_runs, budget_nbytes
        self._reclaim = reclaim
        self._lock = threading.RLock()  # re-entrant: a collected plan gives its idle bytes back from anywhere
        self.runs = 0
        self.held_nbytes = 0
        self._line: list[_Waiter] = []
        self._arrivals = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Runs in line."""
        return len(self._line)

    def take_nowait(self, nbytes: int) -> bool:
        """Admit a run of `nbytes` at once, if there is room and nobody is in line."""
        with self._lock:
            room = self.runs < self.max_runs and self.held_nbytes + nbytes <= self.budget_nbytes
            if self._line or not room:
                return False
            self.runs += 1
            self.held_nbytes += nbytes
            return True

    async def take(self, nbytes: int, priority: int = 0) -> None:
        """Wait until a run of `nbytes` is admitted. `OutOfMemory` at once when it can never be.

        Raises CancelledError in those who wait when `close` is called, and `ExecutorClosed` from then on.
        """
        if self._closed:
            raise ExecutorClosed
        if nbytes > self.budget_nbytes:
            raise OutOfMemory(self.device, nbytes, self.budget_nbytes, " in all")
        if self.take_nowait(nbytes):
            return
        loop = asyncio.get_running_loop()
        with self._lock:
            self._arrivals += 1
            waiter = _Waiter((-priority, self._arrivals), nbytes, LoopShare.of(loop), loop.create_future())
            heapq.heappush(self._line, waiter)
        self.serve()
        try:
            await waiter.future
        except BaseException:  # GeneratorExit, too: of a coroutine whose loop was closed under it
            self._leave(waiter)
            raise

    def give(self, nbytes: int) -> None:
        """Take back what a run was admitted with, and admit who is next."""
        with self._lock:
            self.runs -= 1
            self.held_nbytes -= nbytes
            waiting = bool(self._line)
        if waiting:
            self.serve()

    def free(self, nbytes: int) -> None:
        """Take back bytes alone: an instance was dropped."""
        with self._lock:
            self.held_nbytes -= nbytes
            first = self._line[0] if self._line and nbytes > 0 else None
        if first is not None:
            first.share.waker.post(self.serve)  # not here: this may be the middle of a collection, or of `serve`

    def hold(self, nbytes: int) -> None:
        """Count bytes of an instance that is made beside a run's own admission."""
        self.free(-nbytes)

    def hold_nowait(self, nbytes: int) -> bool:
        """Count bytes of an instance that nobody has asked for yet, if they fit."""
        with self._lock:
            fits = self.held_nbytes + nbytes <= self.budget_nbytes
            self.held_nbytes += nbytes if fits else 0
            return fits

    def close(self) -> None:
        """Send away those in line and whoever comes."""
        with self._lock:
            self._closed, self.max_runs = True, 0
            line = list(self._line)
        for waiter in line:
            waiter.share.waker.post(lambda waiter=waiter: waiter.future.cancel() or None)  # type: ignore[misc]

    def serve(self) -> None:
        """Admit from the head of the line as many as there is room for, dropping idle instances to make some."""
        while True:
            with self._lock:
                if not self._line or self.runs >= self.max_runs:
                    return
                waiter = self._line[0]
                short = self.held_nbytes + waiter.nbytes - self.budget_nbytes
                if short <= 0:
                    heapq.heappop(self._line)
                    self.runs += 1
                    self.held_nbytes += waiter.nbytes
                    waiter.state = _State.GRANTED
            if short > 0:
                if not self._reclaim(short):
                    return
                continue
            waiter.share.waker.post(lambda waiter=waiter: self._grant(waiter))  # type: ignore[misc]

    def _grant(self, waiter: _Waiter) -> None:
        if waiter.future.done():
            return  # cancelled: it leaves by itself
        try:
            waiter.future.set_result(None)
        except RuntimeError:  # its loop is closed: it will never run
            self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            state, waiter.state = waiter.state, _State.GONE
            if state is _State.IN_LINE:
                self._line.remove(waiter)
                heapq.heapify(self._line)
        if state is _State.GRANTED:  # granted and cancelled in the same moment: it goes to the next one
            self.give(waiter.nbytes)
        elif state is _State.IN_LINE:
            self.serve()
