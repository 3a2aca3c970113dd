"""Clocks of simulated machines, without any loop."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from fuel_async.backends.sim import ScaledClock, VirtualClock, VirtualDeadlock
from fuel_async.errors import DeviceLost, UserError
from fuel_async.streams import WaitStatus
from tests.backends.sim.support import PATIENCE_S


def never(timeout_s: float | None) -> WaitStatus:
    raise AssertionError("virtual time is not waited for")


class Watcher:
    """Who works by a clock."""

    def __init__(self) -> None:
        self.died = threading.Event()
        self.reasons: list[str] = []

    def clock_died(self, reason: str) -> None:
        self.reasons.append(reason)
        self.died.set()


# --- virtual ---


def test_virtual_time_stands_still() -> None:
    clock = VirtualClock()
    assert (clock.now_ns(), clock.now_ns(), clock.next_ns()) == (0, 0, None)
    assert clock.is_virtual


def test_events_happen_at_their_moments_in_the_order_they_were_asked_for() -> None:
    clock, seen = VirtualClock(), list[tuple[str, int]]()

    def note(name: str) -> None:
        seen.append((name, clock.now_ns()))

    for name, at_ns in (("c", 30), ("a", 10), ("b", 20), ("b2", 20)):
        clock.call_at(at_ns, lambda name=name: note(name))  # type: ignore[misc]
    assert clock.next_ns() == 10
    clock.advance_to(20)
    assert seen == [("a", 10), ("b", 20), ("b2", 20)]
    clock.advance_to(99)
    assert seen[-1] == ("c", 30)
    assert clock.now_ns() == 99


def test_what_an_event_asks_for_happens_on_the_way() -> None:
    clock, seen = VirtualClock(), list[int]()

    def ask() -> None:
        clock.call_at(15, lambda: seen.append(clock.now_ns()))

    clock.call_at(10, ask)
    clock.advance_to(20)
    assert seen == [15]


def test_time_never_goes_back() -> None:
    clock, seen = VirtualClock(), list[int]()
    clock.advance_to(50)
    clock.advance_to(20)
    assert clock.now_ns() == 50
    clock.call_at(10, lambda: seen.append(clock.now_ns()))
    assert seen == []  # never inside the call
    clock.advance_to(50)
    assert seen == [50]


def test_a_cancelled_event_is_nothing_to_wait_for() -> None:
    clock, seen = VirtualClock(), list[int]()
    event = clock.call_at(10, lambda: seen.append(1))
    clock.call_at(40, lambda: seen.append(2))
    event.cancel()
    event.cancel()
    assert clock.next_ns() == 40
    clock.advance_to(40)
    assert seen == [2]


def test_a_cancelled_event_does_not_set_the_time() -> None:
    clock, seen = VirtualClock(), list[int]()
    clock.call_at(10, lambda: None).cancel()
    clock.call_at(15, lambda: seen.append(clock.now_ns()))
    clock.advance_to(5)
    assert clock.now_ns() == 5
    clock.advance_to(20)
    assert (seen, clock.now_ns()) == ([15], 20)


def test_waiting_advances_no_further_than_needed() -> None:
    clock, seen = VirtualClock(), list[int]()
    for at_ns in (10, 20, 30):
        clock.call_at(at_ns, lambda at_ns=at_ns: seen.append(at_ns))  # type: ignore[misc]
    assert clock.wait(lambda: 20 in seen, never, 0.0) is WaitStatus.REACHED
    assert clock.now_ns() == 20


def test_waiting_for_what_never_comes_is_an_error() -> None:
    clock = VirtualClock()
    clock.call_at(1_000, lambda: None)
    with pytest.raises(VirtualDeadlock, match="at 1,000 ns, and nothing is to come"):
        clock.wait(lambda: False, never, None)


# --- scaled ---


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_time_must_pass(scale: float) -> None:
    with pytest.raises(UserError, match="positive"):
        ScaledClock(scale)


def test_scaled_time_passes_by_itself_and_fires_in_order() -> None:
    clock, watcher = ScaledClock(scale=1_000.0), Watcher()
    clock.attach(watcher)
    seen, done = list[tuple[int, int]](), threading.Event()

    def note(at_ns: int) -> None:
        seen.append((at_ns, clock.now_ns()))
        if len(seen) == 3:
            done.set()

    for at_ns in (3_000_000, 1_000_000, 2_000_000):
        clock.call_at(at_ns, lambda at_ns=at_ns: note(at_ns))  # type: ignore[misc]
    assert done.wait(PATIENCE_S)
    assert [at_ns for at_ns, _ in seen] == [1_000_000, 2_000_000, 3_000_000]
    assert all(now_ns >= at_ns for at_ns, now_ns in seen)
    clock.detach(watcher)
    clock.join(PATIENCE_S)
    assert clock._thread is not None
    assert not clock._thread.is_alive()


def test_an_earlier_event_is_not_kept_waiting_by_a_later_one() -> None:
    clock, watcher, done = ScaledClock(), Watcher(), threading.Event()
    clock.attach(watcher)
    clock.call_at(10**18, lambda: None)
    clock.call_at(0, done.set)
    assert done.wait(PATIENCE_S)
    clock.detach(watcher)
    clock.join(PATIENCE_S)


def test_the_thread_serves_as_long_as_anybody_is_attached_and_again() -> None:
    clock, one, other = ScaledClock(), Watcher(), Watcher()
    clock.attach(one)
    clock.attach(other)
    clock.detach(one)
    for _ in range(2):
        done = threading.Event()
        clock.call_at(0, done.set)
        assert done.wait(PATIENCE_S)
        clock.detach(other)
        clock.join(PATIENCE_S)
        clock.attach(other)
    clock.detach(other)
    clock.join(PATIENCE_S)


def test_a_clock_that_nobody_knows_lets_its_thread_end() -> None:
    clock, watcher = ScaledClock(), Watcher()
    clock.attach(watcher)
    thread, gone = clock._thread, weakref.ref(clock)
    assert thread is not None
    del clock
    gc.collect()
    assert gone() is None
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_thread_that_dies_tells_who_works_by_it_and_refuses_from_then_on() -> None:
    clock, watcher = ScaledClock(), Watcher()
    clock.attach(watcher)

    def die() -> None:
        raise MemoryError("as told")

    clock.call_at(0, die)
    assert watcher.died.wait(PATIENCE_S)
    assert watcher.reasons == ["its thread died of MemoryError: as told"]
    with pytest.raises(DeviceLost, match="the simulated clock is lost: its thread died"):
        clock.call_at(0, lambda: None)
    with pytest.raises(DeviceLost):
        clock.attach(Watcher())
    clock.detach(watcher)
    clock.join(PATIENCE_S)
