"""Equal graphs that arrive at random on devices of speeds 4:2:1, each for one device: what different rules make of it.

Time in units of one graph on the fastest device. Graphs take 20 % more or less than that at random.
"""

from __future__ import annotations

import math
import random
from collections import deque
from typing import TYPE_CHECKING

from benchmarks.timing import quantile
from fuel_async.plan.placement.stream import Arriving, destination

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: By device: the time of one graph.
WHOLE = (1.0, 2.0, 4.0)
CAPACITY = sum(1 / whole for whole in WHOLE)
LOADS = (0.6, 0.7, 0.8)
JITTER = 0.2

#: Never worth spreading: one task.
_GRAPH = Arriving(WHOLE, spread_ns=math.inf, busy=1 / CAPACITY / WHOLE[0])


class _Devices:
    """What each device has."""

    def __init__(self) -> None:
        #: (start, end) of graphs that have not ended.
        self.held: list[deque[tuple[float, float]]] = [deque() for _ in WHOLE]

    def pass_to(self, now: float) -> None:
        for graphs in self.held:
            while graphs and graphs[0][1] <= now:
                graphs.popleft()

    def free(self, now: float) -> list[float]:
        """When each is expected to be through: nobody knows how long a graph will really take."""
        ends = []
        for graphs, whole in zip(self.held, WHOLE, strict=True):
            first = max(whole - (now - graphs[0][0]), 0.0) if graphs else 0.0
            ends.append(now + first + max(len(graphs) - 1, 0) * whole)
        return ends


Rule = "Callable[[_Devices, float, float], int]"


def _earliest_end(devices: _Devices, now: float, load: float) -> int:
    device = destination(_GRAPH, devices.free(now), now, load)
    return 0 if device is None else device


def _least_count(devices: _Devices, now: float, load: float) -> int:
    return min(range(len(WHOLE)), key=lambda device: (len(devices.held[device]), device))


RULES: Mapping[str, Callable[[_Devices, float, float], int]] = {"ours": _earliest_end, "count": _least_count}


def _stream(rule: Callable[[_Devices, float, float], int], load: float, count: int, seed: int) -> tuple[float, float]:
    """(throughput as a share of what the devices can do together, 95th percentile of the time in the system)."""
    chance, devices = random.Random(f"{seed}/{load}"), _Devices()
    now, last, took = 0.0, 0.0, list[float]()
    for _ in range(count):
        now += chance.expovariate(load * CAPACITY)
        devices.pass_to(now)
        device = rule(devices, now, load)
        graphs = devices.held[device]
        start = graphs[-1][1] if graphs else now
        end = start + WHOLE[device] * math.exp(chance.gauss(-JITTER * JITTER / 2, JITTER))
        graphs.append((start, end))
        took.append(end - now)
        last = max(last, end)
    return count / last / CAPACITY, quantile(took[count // 10 :], 0.95)


def figures(count: int, seed: int) -> dict[str, float]:
    """Throughput when more comes than can be done, and waiting beside the rule of the least count at moderate loads."""
    late: dict[str, Sequence[float]] = {
        name: [_stream(rule, load, count, seed)[1] for load in LOADS] for name, rule in RULES.items()
    }
    ratios = [ours / other for ours, other in zip(late["ours"], late["count"], strict=True)]
    return {
        "stream_of_capacity": _stream(_earliest_end, 1.2, count, seed)[0],
        "stream_vs_count": sum(ratios) / len(ratios),
        **{f"stream_p95.{load:g}": ours for load, ours in zip(LOADS, late["ours"], strict=True)},
    }
