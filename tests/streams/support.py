"""What the tests of lanes and loops share: calls that do as they are told, and gates instead of sleeps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fuel_async.ir import BackendId, DeviceLocation
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.streams import HostLane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.streams import StopFlag

#: What has not happened by then never will: the test fails instead of hanging.
PATIENCE_S = 20.0

#: A device of these tests' own, so that its counters are nobody else's.
HERE = DeviceLocation(BackendId("host_of_tests"))

Pace = Callable[[bool, int], None]


class Call:
    """What a host lane runs: whatever `work` does. Remembers what it was given."""

    measures = False

    def __init__(self, work: Callable[[], object] = lambda: None, predicted_ns: int = 1_000) -> None:
        self._work, self.predicted_ns = work, predicted_ns
        self.given: list[tuple[Sequence[Any], ...]] = []
        self.paces: list[Pace | None] = []

    def execute(
        self,
        feeds: Sequence[Any],
        outputs: Sequence[Any],
        sessions: Sequence[Any],
        scalars: Sequence[Any],
        stop: StopFlag | None,
        pace: Pace | None,
    ) -> None:
        self.given.append((feeds, outputs, sessions, scalars))
        self.paces.append(pace)
        self._work()

    @property
    def ran(self) -> int:
        """How often it has been begun."""
        return len(self.given)


class Gate:
    """A piece of work that waits to be let through."""

    def __init__(self) -> None:
        self._entered, self._opened = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self) -> None:
        self._entered.release()
        if not self._opened.acquire(timeout=PATIENCE_S):
            raise TimeoutError("nobody opened the gate")

    def entered(self) -> None:
        """Wait until a thread stands in the gate."""
        assert self._entered.acquire(timeout=PATIENCE_S)

    def open(self) -> None:
        """Let one through."""
        self._opened.release()


@contextmanager
def lanes(count: int = 1) -> Iterator[list[HostLane]]:
    """Lanes of one device; at the end their threads have gone, and nothing is in flight."""
    before = in_flight()
    made = [HostLane(f"lane {number}", HERE) for number in range(count)]
    yield made
    for lane in made:
        lane.close()
    for lane in made:
        ended(lane)
        assert (lane.pending_count, lane.pending_ns) == (0, 0)
    assert in_flight() == before


async def turns(until: Callable[[], bool]) -> None:
    """Let the loop go round until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not until():  # noqa: ASYNC110 - turns of the loop are what is waited for
            await asyncio.sleep(0)


def ended(lane: HostLane) -> None:
    """Wait until the lane's thread has gone."""
    lane.join(PATIENCE_S)
    assert lane._thread is None or not lane._thread.is_alive()


def in_flight() -> tuple[int, int]:
    """Submissions to the device that have not settled, and their predicted time."""
    return inflight_count(HERE), pending_ns(HERE)
