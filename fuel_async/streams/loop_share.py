"""What one event loop owes its lanes, and what work done in place may have of it.

Three duties, for each loop: it has the waker by which threads enter it; it rations work done inline on it to
`TURN_NS` between two returns to the loop; and it is courteous: a loop that never sleeps starves the host lanes, because
its polls give the interpreter away too briefly for a thread to wake up (a 35 µs kernel then takes 5 to 16 ms). So
lanes publish when they are due, and a loop that finds one overdue sleeps for a moment, which is when the lane gets in.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
import weakref
from collections import deque
from time import perf_counter_ns, thread_time_ns
from typing import ClassVar, Protocol

import numpy as np

from fuel_async.errors import WrongLoop
from fuel_async.streams.waker import Waker

#: Inline work between two returns to the loop.
TURN_NS = 200_000

#: The same while a lane is overdue.
TURN_BESIDE_OVERDUE_NS = 100_000

#: Work up to this is counted without marking the turn of the loop that it falls into: the mark costs 2 µs. It counts
#: against the next turn that is marked, as if it were all done there.
UNMARKED_NS = 50_000

#: How often a loop with work of its own looks after working lanes, and one without: a wake-up takes the interpreter
#: from the lane that it is for. uvloop counts delays in milliseconds.
LOOK_S = 0.001
IDLE_LOOK_S = 0.005


def _other_loop() -> str:
    """What runs here instead of asyncio, for the error that says so."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            pass
        else:
            return "trio"
    return "a thread without an event loop"


class Due(Protocol):
    """What a loop needs to know of a lane."""

    #: Later than this (`perf_counter_ns`) without a word, the lane lacks the interpreter.
    due_ns: int

    @property
    def pending_count(self) -> int:
        """Submissions that have not settled."""


class LoopShare:
    """One loop's waker, its ration of inline work, and its courtesy to lanes. Used on its loop's thread only."""

    __slots__ = (
        "__weakref__",
        "_armed",
        "_lanes",
        "_left_ns",
        "_looked_ns",
        "_waiters",
        "_worked_ns",
        "calm",
        "loop",
        "waker",
    )
    _of: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopShare]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waker = Waker(loop)
        #: The context of kernels that run inline: the caller's numpy error state must not reach them.
        self.calm = contextvars.Context()
        self.calm.run(np.seterr, all="ignore")
        #: Weak, since the loop is the key under which its share is found: it must be able to go.
        self.loop = weakref.ref(loop)
        self._left_ns = TURN_NS
        self._armed = False
        self._waiters: deque[tuple[asyncio.Future[None], int]] = deque()
        self._lanes: set[Due] = set()
        #: At the last look: the time, and the processor time of the loop's thread.
        self._looked_ns = self._worked_ns = 0

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopShare:
        """Return the one share of `loop`; it goes with the loop."""
        found = cls._of.get(loop)
        return found if found is not None else cls._of.setdefault(loop, cls(loop))

    @classmethod
    def running(cls) -> LoopShare:
        """Return the share of the running loop; `WrongLoop` where no asyncio loop runs."""
        try:
            return cls.of(asyncio.get_running_loop())
        except RuntimeError:
            raise WrongLoop(_other_loop()) from None

    # --- the ration of inline work ----------------------------------------------------------------

    def take(self, cost_ns: int) -> bool:
        """Take `cost_ns` of this turn's ration; False when others wait or it is used up, then `wait` for a turn.

        A piece larger than the whole ration is granted at the start of a turn.
        """
        if not self._armed and (self._lanes or TURN_NS - self._left_ns + cost_ns > UNMARKED_NS):
            self._armed = True
            asyncio.get_running_loop().call_soon(self._turn)
        if self._waiters or (self._left_ns < cost_ns and self._left_ns < TURN_NS):
            return False
        self._left_ns -= cost_ns
        return True

    def wait(self, cost_ns: int) -> asyncio.Future[None]:
        """Return a future that is set when `cost_ns` have been taken: first come, first served."""
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((future, cost_ns))
        return future

    def _turn(self) -> None:
        overdue = bool(self._lanes) and self._help()
        self._left_ns = TURN_BESIDE_OVERDUE_NS if overdue else TURN_NS
        waiters = self._waiters
        while waiters and self._left_ns > 0:
            future, cost_ns = waiters.popleft()
            if not future.done():
                self._left_ns -= cost_ns
                future.set_result(None)
        self._armed = bool(waiters) or self._left_ns < TURN_NS
        if self._armed:
            asyncio.get_running_loop().call_soon(self._turn)

    # --- courtesy ---------------------------------------------------------------------------------

    def watch(self, lane: Due) -> None:
        """Look after `lane` while it has work."""
        if not self._lanes:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)
        self._lanes.add(lane)

    def _look(self) -> None:
        helped = self._help()
        for lane in [lane for lane in self._lanes if not lane.pending_count]:
            self._lanes.discard(lane)
        if self._lanes and helped:  # a busy loop: look again at its next turn
            asyncio.get_running_loop().call_soon(self._look)
        elif self._lanes:
            wait_s = (min(lane.due_ns for lane in self._lanes) - perf_counter_ns()) / 1e9
            shortest_s = LOOK_S if self._is_busy() else IDLE_LOOK_S
            asyncio.get_running_loop().call_later(min(max(wait_s, shortest_s), IDLE_LOOK_S), self._look)

    def _is_busy(self) -> bool:
        """Whether the loop has worked for half of the time since it was asked last."""
        now_ns, worked_ns = perf_counter_ns(), thread_time_ns()
        busy = (worked_ns - self._worked_ns) * 2 > now_ns - self._looked_ns
        self._looked_ns, self._worked_ns = now_ns, worked_ns
        return busy

    def _help(self) -> bool:
        """Give the interpreter to a lane that is overdue; whether one then moved. About 60 µs, when needed."""
        now_ns = perf_counter_ns()
        overdue = [(lane, lane.due_ns) for lane in self._lanes if lane.due_ns < now_ns]
        if overdue:
            time.sleep(0)  # releases the interpreter for the timer slack of the kernel, about 55 µs
        return any(lane.due_ns != due_ns for lane, due_ns in overdue)
