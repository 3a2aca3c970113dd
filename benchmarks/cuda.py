"""What CUDA devices cost their host, and how well unequal ones are used: on doubles, whose times are made up.

Four devices whose speeds are as 8 to 1, which nobody is told: a flood of equal runs, beside total work by total speed.
One device that runs captured graphs: what a run takes of the own threads' time, with few kernels and with many, and
while one takes long. The threads of the doubles are the devices, and do not count.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import fuel_async as fa
from benchmarks.device_works import FEW, MANY, Work, chain, own_us, warm
from benchmarks.own_time import OwnTime
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.timing import Quiet, loop_factories, median, now_ns, run_on
from fuel_async.backends.cuda import CudaOptions, open_devices
from fuel_async.cost import Rates
from fuel_async.testing.cuda_double import DeviceModel, doubled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.testing.cuda_double import Machine

TARGETS = {
    "balance_of_ideal": Target(min=0.85),
    "run_ratio": Target(max=1.3),
    "own_cpu_percent": Target(max=2),
}

#: Said of the devices, so that no plan is cut into several regions.
FAST = Rates(1e9, 1e9, 1e9, 1)

SPEEDS = (8, 4, 2, 1)
#: Of a device of speed 1: what a kernel takes.
KERNEL_S = 0.01
#: Of the device that runs many kernels.
SHORT_KERNEL_S = 5e-5


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    rounds: int = 5
    flood: int = 150
    runs: int = 200
    long_runs: int = 10
    kernel_s: float = KERNEL_S
    #: What one of the few kernels takes in the run that takes long.
    long_kernel_s: float = 0.1
    patience_s: float = 60


QUICK = Scale(rounds=1, flood=8, runs=3, long_runs=3, kernel_s=0.001, long_kernel_s=0.005, patience_s=0)


def measure(quick: bool) -> Report:
    """Measure on each loop."""
    scale = QUICK if quick else Scale()
    quiet = Quiet(scale.patience_s)
    columns: dict[str, Figures] = {}
    for loop, factory in loop_factories().items():
        columns[loop] = {**run_on(factory, _balance(scale, quiet)), **run_on(factory, _repeated(scale, quiet))}
    facts = {"devices": "doubles", "speeds": ":".join(map(str, SPEEDS)), "flood": scale.flood, **quiet.facts}
    return Report("cuda", columns, TARGETS, facts)


@contextmanager
def _opened(models: Sequence[DeviceModel]) -> Iterator[tuple[Machine, Sequence[CudaDevice]]]:
    """Devices on doubles."""
    with doubled(models) as machine:
        devices = open_devices(CudaOptions())
        for device in devices:
            device.rates = FAST
        try:
            yield machine, devices
        finally:
            for device in devices:
                device.close()
            for device in devices:
                device.join(60)


# --- balance ----------------------------------------------------------------------------------------------------------


async def _balance(scale: Scale, quiet: Quiet) -> Figures:
    """Floods in real time. At the first nothing is known of the devices, and the kernels are compiled."""
    work = chain(FEW)
    ideal_s = scale.flood * FEW * scale.kernel_s / sum(SPEEDS)
    with _opened([DeviceModel(kernel_s=scale.kernel_s / speed) for speed in SPEEDS]) as (_, devices):
        async with fa.Executor(devices) as executor:
            first_s = await _flood(executor, work, scale.flood)
            await _flood(executor, work, scale.flood)
            rounds = await quiet.rounds(scale.rounds, lambda: _flood(executor, work, scale.flood))
            regions = [one.regions for one in executor.statistics().devices.values()]
    shares = {f"regions_at_speed_{speed}": count / sum(regions) for speed, count in zip(SPEEDS, regions, strict=True)}
    return {
        "balance_of_ideal": median(ideal_s / took_s for took_s in rounds),
        "first_of_ideal": ideal_s / first_s,
        **shares,
    }


async def _flood(executor: fa.Executor, work: Work, runs: int) -> float:
    """Start all runs at once; the seconds until the last has ended."""
    started_ns = now_ns()
    await asyncio.gather(*[work.run(executor) for _ in range(runs)])
    return (now_ns() - started_ns) / 1e9


# --- repeated runs ----------------------------------------------------------------------------------------------------


async def _repeated(scale: Scale, quiet: Quiet) -> Figures:
    """Runs again and again: of few kernels, of many, of few that take as long as those, and of few that take long."""
    few, many, long = chain(FEW), chain(MANY), chain(FEW)
    models = [
        DeviceModel(kernel_s=seconds) for seconds in (SHORT_KERNEL_S, SHORT_KERNEL_S * MANY / FEW, scale.long_kernel_s)
    ]
    with _opened(models) as (machine, devices):
        executors = [fa.Executor([device]) for device in devices]
        quick, slow, hog = executors
        for executor, work in ((quick, few), (quick, many), (slow, few), (hog, long)):
            await warm(executor, work, 3)
        launches = machine.counts().launches

        async def measured() -> tuple[list[float], float]:
            taken = [
                await own_us(quick, few, scale.runs),
                await own_us(quick, many, scale.long_runs),
                await own_us(slow, few, scale.long_runs),
            ]
            own = OwnTime()
            await hog.run(long.graph, x=long.feed)
            return taken, own.percent()

        rounds = await quiet.rounds(scale.rounds, measured)
        if machine.counts().launches != launches:
            raise WrongResult("runs were not captured")
        for executor, work in ((quick, few), (quick, many), (slow, few), (hog, long)):
            await work.run(executor)
        for executor in executors:
            await executor.aclose()
    small, large, as_long = (median(taken[place] for taken, _ in rounds) for place in range(3))
    return {
        f"run_us.{FEW}": small,
        f"run_us.{MANY}": large,
        f"run_long_us.{FEW}": as_long,
        "run_ratio": median(taken[1] / taken[2] for taken, _ in rounds),
        "own_cpu_percent": median(percent for _, percent in rounds),
    }
