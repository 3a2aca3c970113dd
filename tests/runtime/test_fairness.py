"""Nobody starves: tasks that run graphs without end, timers, timeouts and lanes all make progress. In real time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest

import fuel_async as fa
from tests.runtime.support import chain, in_place, ones, settled

#: How long the tasks run against one another.
STRETCH_S = 0.2

#: The machine may be disturbed by others for so long. A loop that starves is late by the whole stretch.
LATE_S = 0.05

pytestmark = pytest.mark.asyncio(loop_factories=["default", "uvloop"])


class Watch:
    """A ticker, a timer and a timeout beside the work."""

    def __init__(self) -> None:
        self.ticks: list[float] = []
        self.timer_late_s = self.timeout_late_s = STRETCH_S

    async def tick(self) -> None:
        while True:
            self.ticks.append(perf_counter())
            await asyncio.sleep(0.001)

    def start_timer(self) -> None:
        due = perf_counter() + STRETCH_S / 2

        def fire() -> None:
            self.timer_late_s = perf_counter() - due

        asyncio.get_running_loop().call_later(STRETCH_S / 2, fire)

    async def time_out(self, ex: fa.Executor, g: fa.Graph) -> None:
        due = perf_counter() + STRETCH_S / 2

        async def endless() -> None:
            async with asyncio.timeout(STRETCH_S / 2):
                while True:
                    await ex.run(g, x=ones(16))

        with pytest.raises(TimeoutError):
            await endless()
        self.timeout_late_s = perf_counter() - due

    def check(self) -> None:
        gaps = sorted(after - before for before, after in pairwise(self.ticks))
        assert len(gaps) > STRETCH_S / LATE_S
        assert gaps[int(len(gaps) * 0.9)] < 0.02, gaps[-10:]
        assert gaps[-1] < LATE_S * 2, gaps[-10:]
        assert self.timer_late_s < LATE_S
        assert self.timeout_late_s < LATE_S


async def contend(ex: fa.Executor, graphs: list[fa.Graph], size: int = 16) -> list[int]:
    """Let tasks run their graphs without end for a while, beside a watch; how often each of them did."""
    done = [0] * len(graphs)

    async def endless(number: int) -> None:
        while True:
            await ex.run(graphs[number], x=ones(size))
            done[number] += 1

    watch = Watch()
    tasks = [asyncio.create_task(endless(number)) for number in range(len(graphs))]
    ticker = asyncio.create_task(watch.tick())
    watch.start_timer()
    timing_out = asyncio.create_task(watch.time_out(ex, chain(5)))
    await asyncio.sleep(STRETCH_S)
    for task in (*tasks, ticker):
        task.cancel()
    await asyncio.gather(*tasks, ticker, return_exceptions=True)
    await timing_out
    watch.check()
    await settled(ex)
    return done


async def test_64_endless_tasks_in_place(ex: fa.Executor) -> None:
    g = chain(10)
    await in_place(ex, g, x=ones(16))
    done = await contend(ex, [g] * 64)
    assert min(done) > 0
    assert max(done) <= 2 * min(done) + 2, done  # first come, first served


async def test_64_endless_tasks_on_lanes(ex: fa.Executor, on_lanes: None) -> None:
    g = chain(10)
    await ex.run(g, x=ones(16))
    done = await contend(ex, [g] * 64)
    assert min(done) > 0
    assert max(done) <= 2 * min(done) + 2, done


async def test_programs_of_different_lengths_share_the_loop(ex: fa.Executor) -> None:
    """Turns go by runs in line, not by who asks more often: a long program is not starved by short ones."""
    short, long = chain(1), chain(80)
    for g in (short, long):
        await in_place(ex, g, x=ones(16))
    done = await contend(ex, [short] * 32 + [long] * 4)
    assert min(done) > 0
    assert max(done) <= 3 * min(done) + 2, done


async def test_a_lane_is_not_starved_by_a_busy_loop(ex: fa.Executor) -> None:
    """Runs in place fill every turn; a lane beside them gets its share of the interpreter."""
    small, large = chain(10), chain(2_000)
    await in_place(ex, small, x=ones(16))
    await ex.run(large, x=ones(16))
    done = await contend(ex, [small] * 64 + [large])
    assert done[-1] >= 3, done  # about a millisecond of kernels each
    assert min(done) > 0


async def test_large_kernels_are_not_starved_by_a_busy_loop(ex: fa.Executor) -> None:
    small = chain(10)
    await in_place(ex, small, x=ones(16))
    g = fa.Graph("large")
    x = g.input("x", (16,)).broadcast_to((512, 512, 16))[:, :, 0]
    total = x
    for _ in range(4):
        total = total + x
    g.output("y", total.sum())
    assert (await ex.run(g, x=ones(16)))["y"] == 5 * 512 * 512
    done = await contend(ex, [small] * 64 + [g])
    assert done[-1] >= 3, done
    assert np.min(done) > 0
