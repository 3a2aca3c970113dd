"""Many equal runs on devices of different speeds, which all say that they are equally fast: how well are they used?

Simulated machines in virtual time: the figures are the same each time. A flood starts everything at once; a stream
arrives at random, at 80 % of what the devices can do together. Beside them is what else one could put in front of
devices, and what could be done by who knows everything. At the end a flood in real time, on each loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.fleet import RATES, SPEEDS, WAYS, Fleet, Requests, make_requests, opened
from benchmarks.report import Figures, Report, Target
from benchmarks.timing import LoopFactory, loop_factories, quantile, run_on
from fuel_async.backends.sim import ScaledClock
from fuel_async.plan import region_ns
from fuel_async.testing import run_virtual

if TYPE_CHECKING:
    from fuel_async.backends.sim import SimClock

TARGETS = {
    "of_ideal": Target(min=0.95),
    "vs_equal_split": Target(min=2.2),
    "slowdown_of_hindsight": Target(min=0.90),
    "several_regions.of_ideal": Target(min=0.95),
    "several_regions.vs_equal_split": Target(min=2.2),
    "several_regions.slowdown_of_hindsight": Target(min=0.90),
}

#: Of the stream: the share of what the devices can do together.
LOAD = 0.8

#: Of the stream: relative spread of durations.
JITTER = 0.1

#: Simulated nanoseconds in a real one: the arithmetic and the scheduling hide behind simulated time.
SCALE = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: requests of a flood, of a stream, and of a flood in real time."""

    flood: int = 300
    stream: int = 1_000
    real: int = 100


QUICK = Scale(flood=20, stream=20, real=5)


def measure(quick: bool) -> Report:
    """Measure in virtual time; then on each loop."""
    scale = QUICK if quick else Scale()
    one, several = make_requests(scale.flood, layers=2), make_requests(scale.flood, layers=6)
    figures = {
        **_floods(one),
        **{f"several_regions.{name}": value for name, value in _floods(several).items()},
        **run_virtual(lambda clock: _learned(clock, one)),
        **_streams("", make_requests(scale.stream, layers=2)),
        **_streams("several_regions_", make_requests(scale.stream, layers=6)),
    }
    columns: dict[str, Figures] = {"virtual": figures}
    few = make_requests(scale.real, layers=2)
    for name, factory in loop_factories().items():
        columns[name] = {"of_ideal": _real(factory, few)}
    facts = {"speeds": "4:2:1, advertised 1:1:1", "graphs": scale.flood, "load": LOAD, "jitter": JITTER}
    return Report("balance", columns, TARGETS, {**facts, "real_graphs": scale.real, "real_scale": SCALE})


# --- floods -----------------------------------------------------------------------------------------------------------


def _floods(requests: Requests) -> Figures:
    """All at once: beside total work by total speed, an equal split, and hindsight when the fastest slows down."""
    took_ns, ideal_ns = run_virtual(lambda clock: _flood(clock, requests))
    split_ns, _ = run_virtual(lambda clock: _flood(clock, requests, "round_robin"))
    half_ns = int(ideal_ns / 2)
    slowed_ns, _ = run_virtual(lambda clock: _flood(clock, requests, slower_at_ns=half_ns))
    return {
        "makespan_ms": took_ns / 1e6,
        "of_ideal": ideal_ns / took_ns,
        "vs_equal_split": split_ns / took_ns,
        "slowdown_of_hindsight": hindsight_ns(len(requests.feeds), ideal_ns, half_ns) / slowed_ns,
    }


async def _flood(
    clock: SimClock, requests: Requests, way: str = "ours", *, slower_at_ns: int | None = None
) -> tuple[int, float]:
    """The makespan, and total work by total speed."""
    async with opened(clock, requests, way, slower_at_ns=slower_at_ns) as fleet:
        return await fleet.flood(), fleet.work_ns * len(requests.feeds) / sum(SPEEDS)


def hindsight_ns(count: int, ideal_ns: float, slower_at_ns: int) -> float:
    """The shortest makespan of `count` equal requests, each on one device, by who knows that the fastest slows down.

    A device that does nothing but requests ends its first at one moment, its second at another, and so on. Of equal
    requests none can be done better than at the first `count` of these moments.
    """
    work_ns = ideal_ns * sum(SPEEDS) / count
    ends_ns: list[float] = []
    for speed in SPEEDS:
        at_ns = 0.0
        for _ in range(count):
            at_ns += work_ns / speed
            late_ns = max(at_ns - slower_at_ns, 0.0) if speed == max(SPEEDS) else 0.0
            ends_ns.append(at_ns + 3 * late_ns)  # what is left at that moment takes four times as long
    return sorted(ends_ns)[count - 1]


async def _learned(clock: SimClock, requests: Requests) -> Figures:
    """What was predicted for a region beside what it took, on each device: at first, and for a second flood."""
    async with opened(clock, requests) as fleet:
        said_ns = sum(region_ns(region.program, RATES) for region in fleet.plan.regions)
        true_ns = [
            sum(region_ns(region.program, device.spec.true_rates) for region in fleet.plan.regions)
            for device in fleet.machine.devices
        ]
        await fleet.flood()
        before = _totals(fleet)
        await fleet.flood()
        after = _totals(fleet)
    names = [f"speed_{speed:g}" for speed in SPEEDS]
    first = {f"predicted_by_actual_first.{name}": said_ns / ns for name, ns in zip(names, true_ns, strict=True)}
    later = {
        f"predicted_by_actual_later.{name}": (predicted - earlier_predicted) / (actual - earlier_actual)
        for name, (predicted, actual), (earlier_predicted, earlier_actual) in zip(names, after, before, strict=True)
    }
    return {**first, **later}


def _totals(fleet: Fleet) -> list[tuple[float, float]]:
    """Predicted and actual time of all regions so far, by device."""
    devices = fleet.executors[0].statistics().devices
    found = [devices[device.location] for device in fleet.machine.devices]
    return [(did.predicted_s, did.actual_s) for did in found]


# --- streams ----------------------------------------------------------------------------------------------------------


def _streams(prefix: str, requests: Requests) -> Figures:
    """Arrivals at random: how long answers take, by what is in front of the devices."""
    taken_ms: dict[str, list[float]] = {}
    for way in WAYS:
        taken_ms[way] = [ns / 1e6 for ns in run_virtual(lambda clock, way=way: _stream(clock, requests, way))]  # type: ignore[misc]
    p95_ms = {way: quantile(taken, 0.95) for way, taken in taken_ms.items()}
    others_ms = min(p95_ms[way] for way in ("round_robin", "least_count", "equal_split"))
    return {
        **{f"{prefix}mean_ms.{way}": sum(taken) / len(taken) for way, taken in taken_ms.items()},
        **{f"{prefix}p50_ms.{way}": quantile(taken, 0.5) for way, taken in taken_ms.items()},
        **{f"{prefix}p95_ms.{way}": value for way, value in p95_ms.items()},
        f"{prefix}p95_of_next_best": p95_ms["ours"] / others_ms,
    }


async def _stream(clock: SimClock, requests: Requests, way: str) -> list[int]:
    async with opened(clock, requests, way, jitter=JITTER) as fleet:
        return await fleet.stream(LOAD)


# --- real time --------------------------------------------------------------------------------------------------------


def _real(factory: LoopFactory, requests: Requests) -> float:
    """A flood in real time, of total work by total speed: for sanity, no target."""
    clock = ScaledClock(SCALE)
    took_ns, ideal_ns = run_on(factory, _flood(clock, requests))
    clock.join(10)
    return ideal_ns / took_ns
