"""Completions and the awaitable handles round them.

A `Completion` is a backend's waitable: an event, a timeline point, a host signal. A `CompletionHandle` wraps
one submission: it settles exactly once, from any thread, after the device is through with the work; settling
decrements the device's in-flight count, and dropping a handle changes nothing. Any number of tasks on any
number of loops may await one handle, and cancelling a waiter leaves the work alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fuel_async.errors import DeviceLost, UserError
from fuel_async.streams.errors import fresh, raisable
from fuel_async.streams.loop_share import LoopShare

if TYPE_CHECKING:
    from fuel_async.ir import DeviceLocation
    from fuel_async.registry import Inflight

_LOG = logging.getLogger("fuel_async")


class WaitStatus(Enum):
    """How a bounded wait on a completion ended."""

    REACHED = "reached"
    TIMEOUT = "timeout"
    LOST = "lost"


class Completion(Protocol):
    """A point that a device reaches: what a backend gives for a submission."""

    def wait(self, timeout_s: float | None) -> WaitStatus:
        """Block this thread until the point is reached, the time is over, or the device is lost.

        Raises the device's own error when the work failed. Callable from several threads.
        """


class HostSignal:
    """The completion of work done by a host thread, which sets it. Making one costs next to nothing."""

    __slots__ = ("_reached", "_waiters", "owner")

    def __init__(self, owner: object = None) -> None:
        """`owner` tells whose work it is: two completions of one owner are reached in the order they were made."""
        self.owner = owner
        self._reached = False
        self._waiters: list[threading.Event] = []

    def set(self) -> None:
        """Let every present and future waiter go. Called by the thread that did the work."""
        self._reached = True  # first, then look: a waiter appends, then looks
        for waiter in self._waiters:
            waiter.set()

    def wait(self, timeout_s: float | None) -> WaitStatus:
        """Block until the work is done; never LOST, since a lane outlives what its kernels raise."""
        if not self._reached:
            waiter = threading.Event()
            self._waiters.append(waiter)
            if not self._reached and not waiter.wait(timeout_s):
                self._waiters.remove(waiter)
                return WaitStatus.TIMEOUT
        return WaitStatus.REACHED


class _Reached:
    """The completion of work that was done before anybody could ask."""

    def wait(self, timeout_s: float | None) -> WaitStatus:
        return WaitStatus.REACHED


REACHED = _Reached()


class Timing(NamedTuple):
    """When and where a submission ran. Times are of `time.perf_counter_ns`."""

    device: DeviceLocation
    lane: str
    submitted_ns: int
    started_ns: int
    finished_ns: int
    #: Time of the work itself: on the host, without the waits of its thread for the interpreter.
    work_ns: int

    @property
    def elapsed_ns(self) -> int:
        """Time the device worked on it."""
        return self.finished_ns - self.started_ns

    @property
    def queued_ns(self) -> int:
        """Time it waited in its lane."""
        return self.started_ns - self.submitted_ns


Settled = Callable[["CompletionHandle"], None]


class CompletionHandle:
    """One submission. Awaitable: gives its `Timing`, or raises the device's error, a fresh copy each time.

    All methods take any thread.
    """

    __slots__ = (
        "_callbacks", "_claim", "_error", "_inflight", "_timing",
        "completion", "device", "lane", "node", "predicted_ns", "submitted_ns",
    )  # fmt: skip

    def __init__(
        self,
        completion: Completion,
        device: DeviceLocation,
        lane: str,
        submitted_ns: int,
        node: int | None = None,
        predicted_ns: int = 0,
        inflight: Inflight | None = None,
    ) -> None:
        """Lanes make these. `inflight` counts the handle until it settles."""
        self.completion, self.device, self.lane = completion, device, lane
        self.submitted_ns, self.node, self.predicted_ns = submitted_ns, node, predicted_ns
        self._claim: list[None] = [None]
        self._callbacks: list[Settled] = []
        self._timing: Timing | None = None
        self._error: BaseException | None = None
        self._inflight = inflight
        if inflight is not None:
            inflight.begin(predicted_ns)

    @classmethod
    def ready(cls, device: DeviceLocation, timing: Timing, *, node: int | None = None) -> CompletionHandle:
        """Return a settled handle for work that was done in place; it was never in flight."""
        handle = cls(REACHED, device, timing.lane, timing.submitted_ns, node=node)
        handle.settle(timing)
        return handle

    def settle(self, timing: Timing, error: BaseException | None = None) -> bool:
        """Record the outcome, once; whether this call was the one. The device is through with the work."""
        try:
            self._claim.pop()  # atomic: one caller wins
        except IndexError:
            return False
        if self._inflight is not None:
            self._inflight.end(self.predicted_ns)
        self._error = error
        self._timing = timing  # last: this is what makes it done
        self._fire()
        return True

    def done(self) -> bool:
        """Whether the device is through with the work."""
        return self._timing is not None

    def exception(self) -> BaseException | None:
        """Return a fresh copy of the device's error, or None after success. `UserError` before it is done."""
        self._settled()
        return None if self._error is None else fresh(self._error)

    def outcome(self) -> Timing | BaseException:
        """Return the timing, or a fresh copy of the device's error. `UserError` before it is done."""
        if self._error is not None:
            return fresh(self._error)
        return self._timing or self._settled()

    def result(self) -> Timing:
        """Return the timing or raise a fresh copy of the device's error. `UserError` before it is done.

        What would steer the caller (an exit, an interrupt, a cancellation) is the cause of a `KernelFailed`.
        """
        timing = self._settled()
        if self._error is not None:
            raise raisable(fresh(self._error), str(self.device))
        return timing

    def wait(self, timeout_s: float | None = None) -> Timing:
        """Block this thread until it is done, for code that does not run on a loop.

        `TimeoutError` after `timeout_s`; the work goes on.
        """
        if self._timing is None:
            status = self.completion.wait(timeout_s)
            if status is WaitStatus.TIMEOUT:
                raise TimeoutError(f"no completion from {self.lane} within {timeout_s} s")
            if status is WaitStatus.LOST:
                raise DeviceLost(str(self.device), "its completion will never come")
            # The point is reached; the thread that settles may be a moment behind.
            settled = threading.Event()
            self.add_done_callback(lambda _: settled.set())
            settled.wait()
        return self.result()

    def add_done_callback(self, call: Settled) -> None:
        """Call `call(self)` once when it is done: in the settling thread, or here and now.

        What it raises is logged: the thread that settles has other work to see to.
        """
        self._callbacks.append(call)  # append, then look; settle sets, then empties: each fires once
        if self._timing is not None:
            self._fire()

    def remove_done_callback(self, call: Settled) -> None:
        """Forget a callback that has not fired."""
        try:
            self._callbacks.remove(call)
        except ValueError:
            return

    def _settled(self) -> Timing:
        if self._timing is None:
            raise UserError("the submission has not completed; await the handle or wait()")
        return self._timing

    def _fire(self) -> None:
        while self._callbacks:
            try:
                call = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                call(self)
            except Exception:
                _LOG.exception("a callback of %r raised", self)

    async def settled(self) -> None:
        """Wait until it is done, whatever became of the work; raises only the caller's cancellation."""
        if self._timing is not None:
            return
        waker = LoopShare.running().waker
        future = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def post(_: CompletionHandle) -> None:
            waker.post(wake)

        self.add_done_callback(post)
        try:
            await future
        finally:
            self.remove_done_callback(post)

    def __await__(self) -> Generator[Any, None, Timing]:
        if self._timing is None:
            yield from self.settled().__await__()
        return self.result()

    def __repr__(self) -> str:
        state = "pending" if self._timing is None else "failed" if self._error is not None else "done"
        node = "" if self.node is None else f" node %{self.node}"
        return f"<CompletionHandle{node} on {self.lane}: {state}>"
