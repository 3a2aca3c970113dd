"""The loop on virtual time: it jumps, it takes the same course each time, and it never hangs."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.sim import SimDeviceSpec, SimMachine, VirtualClock, VirtualDeadlock
from fuel_async.testing import run_virtual, virtual_loop
from tests.backends.sim.support import assert_quiet, run

if TYPE_CHECKING:
    from collections.abc import Coroutine

MS = 1_000_000


@pytest.mark.parametrize("debug", [False, True])
def test_hours_pass_at_once(debug: bool) -> None:
    async def main(clock: VirtualClock) -> float:
        await asyncio.sleep(7_200)
        assert asyncio.get_running_loop().get_debug() is debug
        return asyncio.get_running_loop().time()

    clock, began = VirtualClock(), perf_counter()
    assert run_virtual(main, clock=clock, debug=debug) == pytest.approx(7_200, abs=1e-6)
    assert abs(clock.now_ns() - 7_200 * 10**9) <= 1_000
    assert perf_counter() - began < 5


def test_timers_and_simulated_events_happen_in_order_of_time() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def note(name: str) -> None:
            seen.append((name, clock.now_ns()))

        loop = asyncio.get_running_loop()
        for at_ms in (30, 10):
            loop.call_later(at_ms / 1_000, note, f"timer {at_ms}")
            clock.call_at((at_ms + 5) * MS, lambda at_ms=at_ms: note(f"event {at_ms + 5}"))  # type: ignore[misc]
        await asyncio.sleep(0.1)
        return seen

    seen = run_virtual(main)
    assert [name for name, _ in seen] == ["timer 10", "event 15", "timer 30", "event 35"]
    assert seen[1][1] == 15 * MS
    assert all(0 <= now_ns - int(name.split()[1]) * MS <= 2 for name, now_ns in seen)


def test_time_stands_still_while_anything_is_ready() -> None:
    async def main(clock: VirtualClock) -> int:
        clock.call_at(5, lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        return clock.now_ns()

    assert run_virtual(main) == 0


def test_a_timeout_cuts_a_simulated_wait_short() -> None:
    async def main(clock: VirtualClock) -> int:
        machine = SimMachine([SimDeviceSpec()], clock=clock)
        handle = run(machine.devices[0], 100 * MS)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await handle
        cut_short_ns = clock.now_ns()
        await handle
        assert_quiet(machine)
        return cut_short_ns

    assert 30 * MS <= run_virtual(main) <= 30 * MS + 2


@pytest.mark.parametrize("debug", [False, True])
def test_the_same_program_takes_the_same_course(debug: bool) -> None:
    async def main(clock: VirtualClock) -> list[tuple[int, int, int]]:
        machine = SimMachine([SimDeviceSpec(jitter=0.5, lanes=2), SimDeviceSpec(speed=2.0)], clock=clock, seed=3)
        course: list[tuple[int, int, int]] = []

        async def client(number: int) -> None:
            for turn in range(10):
                device = machine.devices[(number + turn) % 2]
                timing = await run(device, 1_000 * (number + 1))
                course.append((number, timing.started_ns, timing.finished_ns))
                await asyncio.sleep(1e-6 * number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(client(number))
        assert_quiet(machine)
        return course

    first = run_virtual(main, debug=debug)
    assert first == run_virtual(main)
    assert len(first) == 50


# --- what never comes ---


async def _never(clock: VirtualClock) -> None:
    await asyncio.get_running_loop().create_future()


async def _stalled(clock: VirtualClock) -> None:
    machine = SimMachine([SimDeviceSpec(slowdowns=((0, float("inf")),))], clock=clock)
    handle = run(machine.devices[0])
    try:
        await handle
    finally:
        machine.lose(machine.devices[0])


async def _each_other(clock: VirtualClock) -> None:
    one, other = asyncio.Event(), asyncio.Event()

    async def after(first: asyncio.Event, then: asyncio.Event) -> None:
        await first.wait()
        then.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(after(one, other))
        group.create_task(after(other, one))


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("main", [_never, _stalled, _each_other])
def test_waiting_for_what_never_comes_is_an_error(main: Any, debug: bool) -> None:
    with pytest.raises(VirtualDeadlock, match="neither a timer nor a simulated event is to come"):
        run_virtual(main, debug=debug)


def test_a_deadlock_says_when() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.sleep(1)
        await _never(clock)

    with pytest.raises(VirtualDeadlock, match=r"waits at 1,000,000,00\d ns"):
        run_virtual(main)


# --- threads ---


def test_what_is_handed_to_threads_runs_in_place() -> None:
    async def main(clock: VirtualClock) -> tuple[int, str]:
        here = await asyncio.to_thread(threading.get_ident)
        with pytest.raises(ArithmeticError, match="as told"):
            await asyncio.to_thread(fail)
        return here, await asyncio.get_running_loop().run_in_executor(None, str.upper, "done")

    def fail() -> None:
        raise ArithmeticError("as told")

    assert run_virtual(main) == (threading.get_ident(), "DONE")


def test_a_real_thread_may_wake_the_loop() -> None:
    async def main(clock: VirtualClock) -> str:
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, "woken"))
        thread.start()
        thread.join()  # the loop finds its message before it lets time go on
        sleeping = asyncio.create_task(asyncio.sleep(1_000))
        result = str(await future)
        assert clock.now_ns() == 0
        sleeping.cancel()
        return result

    assert run_virtual(main) == "woken"


def test_a_runner_takes_it_as_a_factory() -> None:
    async def sleep() -> None:
        await asyncio.sleep(5)

    clock = VirtualClock()
    with asyncio.Runner(loop_factory=virtual_loop(clock)) as runner:
        for _ in range(2):
            coroutine: Coroutine[Any, Any, None] = sleep()
            runner.run(coroutine)
    assert abs(clock.now_ns() - 10 * 10**9) <= 10
