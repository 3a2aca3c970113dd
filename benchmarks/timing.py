"""Timing on a machine that is shared: medians, rounds that wait for a quiet moment, and the loops to run on.

What is compared is measured in the same round, one directly after the other, since a machine may change its speed by
half within minutes. Rounds in which others used the cores are replaced while the patience of their benchmark lasts.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, TypeVar

__all__ = ["LoopFactory", "Quiet", "loop_factories", "median", "now_ns", "quantile", "run_on", "timed_ns"]

T = TypeVar("T")

now_ns = perf_counter_ns

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

_CPU_TIMES = Path("/proc/stat")

#: Others may use this many cores before a moment no longer counts as quiet.
QUIET_CORES = 0.15

#: A look at the machine takes this long; what it tells is exact to one tick of its clock.
_LOOK_S = 0.1
_TICK_S = 0.01


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
    """Picks moments in which nobody else uses the machine, for as long as the benchmark's patience lasts.

    Of `taken` rounds, `disturbed` had to be taken although others used the cores.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.taken = self.disturbed = 0

    @property
    def facts(self) -> dict[str, int]:
        """For the report: how far the figures can be trusted."""
        return {"rounds": self.taken, "disturbed_rounds": self.disturbed}

    async def rounds(self, count: int, measure: Callable[[], Awaitable[T]]) -> list[T]:
        """Measure until there are `count` undisturbed rounds; what patience does not give, the least disturbed are."""
        measured: list[tuple[float, T]] = []
        while len(measured) < count or (self._patience_s > 0 and _disturbed(measured) > len(measured) - count):
            self._wait()
            before_s, started_s = _others_s(), time.monotonic()
            result = await measure()
            elapsed_s = time.monotonic() - started_s
            measured.append((max(0.0, _others_s() - before_s - _TICK_S) / elapsed_s, result))
            if len(measured) > count:
                self._patience_s -= elapsed_s
        best = sorted(measured, key=lambda one: one[0])[:count]
        self.taken += count
        self.disturbed += _disturbed(best)
        return [result for _, result in best]

    def _wait(self) -> None:
        while self._patience_s > 0:
            before_s = _others_s()
            time.sleep(_LOOK_S)
            if (_others_s() - before_s) / _LOOK_S <= QUIET_CORES:
                return
            self._patience_s -= _LOOK_S


def _disturbed(measured: Sequence[tuple[float, Any]]) -> int:
    return sum(others > QUIET_CORES for others, _ in measured)


def _others_s() -> float:
    """Time the machine's cores have worked for others, time the hypervisor kept them included; 0 where nobody tells."""
    try:
        with _CPU_TIMES.open(encoding="ascii") as lines:
            user, nice, system, _, _, irq, softirq, steal = map(int, lines.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    busy = user + nice + system + irq + softirq + steal
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()
