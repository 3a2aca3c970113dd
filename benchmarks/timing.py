"""Timing on a machine that is shared: medians, rounds that wait for a quiet moment, and the loops to run on.

What is compared is measured in the same round, one directly after the other, since a machine may change its speed by
half within minutes. A round in which others used the cores is repeated while the patience of its benchmark lasts.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from statistics import median as median
from time import perf_counter_ns as now_ns
from typing import Any, TypeVar

T = TypeVar("T")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

_CPU_TIMES = Path("/proc/stat")

#: Others may use this many cores before a moment no longer counts as quiet.
QUIET_CORES = 0.15

#: A look at the machine takes this long.
_LOOK_S = 0.1


def loop_factories() -> dict[str, LoopFactory]:
    """The event loops to measure on, by name; targets are judged on the first."""
    factories: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
    if sys.platform != "win32" and sys.implementation.name == "cpython":
        import uvloop

        factories["uvloop"] = uvloop.new_event_loop
    return factories


def run_on(factory: LoopFactory, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new loop."""
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that a `share` of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def timed_ns(call: Callable[[], object]) -> int:
    """How long one call takes."""
    started_ns = now_ns()
    call()
    return now_ns() - started_ns


class Quiet:
    """Looks after the machine's other users. `disturbed` counts the rounds that had to be taken as they were."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.disturbed = 0

    async def rounds(self, count: int, measure: Callable[[], Awaitable[T]]) -> list[T]:
        """Measure `count` times; each time wait for a quiet moment, and once more if it was none after all."""
        results = []
        for _ in range(count):
            self._wait()
            result, others = await self._watched(measure)
            while others > QUIET_CORES and self._patience_s > 0:
                self._wait()
                result, others = await self._watched(measure)
            self.disturbed += others > QUIET_CORES
            results.append(result)
        return results

    async def _watched(self, measure: Callable[[], Awaitable[T]]) -> tuple[T, float]:
        """What `measure` gives, and how many cores others used meanwhile."""
        before = time.monotonic(), _others_s()
        result = await measure()
        elapsed_s = time.monotonic() - before[0]
        others = (_others_s() - before[1]) / elapsed_s
        if others > QUIET_CORES:
            self._patience_s -= elapsed_s
        return result, others

    def _wait(self) -> None:
        while self._patience_s > 0:
            before_s = _others_s()
            time.sleep(_LOOK_S)
            if (_others_s() - before_s) / _LOOK_S <= QUIET_CORES:
                return
            self._patience_s -= _LOOK_S


def _others_s() -> float:
    """Time the machine's cores have worked for others, time the hypervisor kept them included; 0 where nobody tells."""
    try:
        with _CPU_TIMES.open(encoding="ascii") as lines:
            user, nice, system, _, _, irq, softirq, steal = map(int, lines.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    own = os.times()
    busy = user + nice + system + irq + softirq + steal
    return busy / os.sysconf("SC_CLK_TCK") - own.user - own.system
