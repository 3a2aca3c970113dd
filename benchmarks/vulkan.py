"""What a Vulkan device costs its host: repeated runs, recording, awaiting, and two devices at a time.

On each kind of device there is, software ones included: `VK_DRIVER_FILES` says which drivers the loader takes. Times of
the host are those that its own threads worked, the loop's and the lane's: the driver's threads are a software device.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fuel_async as fa
from benchmarks.device_works import FEW, MANY, WIDTH, Work, chain, heavy, one_group, own_us, warm
from benchmarks.own_time import OwnTime
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.timing import Quiet, loop_factories, median, now_ns, run_on, timed_ns
from fuel_async.backends.base import Absent
from fuel_async.backends.vulkan import VulkanOptions, open_devices
from fuel_async.backends.vulkan.discovery import physical_devices
from fuel_async.backends.vulkan.queue import Submission
from fuel_async.backends.vulkan.timeline import Timeline
from fuel_async.cost import Rates
from fuel_async.ir import CPU_DEVICE
from fuel_async.plan import Target as PlanTarget
from fuel_async.plan import make_plan
from fuel_async.registry import global_bindings
from fuel_async.streams import WaitStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.backends.vulkan.instance import VulkanInstance
    from fuel_async.backends.vulkan.memory import VulkanArray
    from fuel_async.dispatch import LaneProgram
    from fuel_async.streams import CompletionHandle

TARGETS = {
    "run_us": Target(max=150),
    "run_ratio": Target(max=1.3),
    "record_us_per_kernel": Target(max=8),
    "await_extra_us": Target(max=120),
    "own_cpu_percent": Target(max=2),
    "two_devices_speedup": Target(min=1.6),
}

#: Said of the devices, so that no plan is cut into several regions.
FAST = Rates(1e9, 1e9, 1e9, 1)

#: A driver for tests that packages keep where the loader does not look.
_SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    rounds: int = 7
    runs: int = 200
    awaits: int = 200
    recordings: int = 8
    long_s: float = 0.5
    #: Of the runs on two devices: how many at once, and the products of each.
    at_once: int = 8
    products: int = 16
    patience_s: float = 60


QUICK = Scale(rounds=1, runs=3, awaits=5, recordings=1, long_s=0.005, at_once=4, products=1, patience_s=0)


def measure(quick: bool) -> Report:
    """Measure on each loop and kind of device. Ends the program when there is no device."""
    scale = QUICK if quick else Scale()
    quiet = Quiet(scale.patience_s)
    _point_at_drivers()
    found = physical_devices(VulkanOptions.from_environment())
    if isinstance(found, Absent):
        raise SystemExit(f"no Vulkan device: {found.reason}")
    names = {one.name.split()[0].lower(): one.name for one in reversed(found)}
    columns: dict[str, Figures] = {}
    for loop, factory in loop_factories().items():
        figures: dict[str, float | None] = {}
        for name, full in names.items():
            figures |= run_on(factory, _figures(name, full, scale, quiet))
        columns[loop] = dict(sorted(figures.items(), key=lambda one: one[0].partition(".")[0] not in TARGETS))
    facts = {"devices": " and ".join(names.values()), **quiet.facts}
    return Report("vulkan", columns, TARGETS, facts)


def _point_at_drivers() -> None:
    """Have the loader find the second software driver, too."""
    if _SWIFTSHADER.exists():
        os.environ.setdefault("VK_ADD_DRIVER_FILES", str(_SWIFTSHADER))


async def _figures(name: str, full: str, scale: Scale, quiet: Quiet) -> Figures:
    with _opened(full, 2) as devices:
        speedup = await _speedup(devices, scale, quiet)
    with _opened(full, 1) as (device,):
        figures = {
            "two_devices_speedup": speedup,
            **await _repeated(device, scale, quiet),
            **await _recorded(device, scale, quiet),
            **await _awaited(device, scale, quiet),
        }
    parts = {figure: figure.partition(".") for figure in figures}
    return {f"{family}.{name}{'_' * bool(of)}{of}": figures[key] for key, (family, _, of) in parts.items()}


@contextmanager
def _opened(full: str, logical: int) -> Iterator[Sequence[VulkanDevice]]:
    """Logical devices on the physical one of that name, of which nothing is known but that they are fast."""
    devices = open_devices(VulkanOptions(devices=(full,), logical=logical))[:logical]
    for device in devices:
        device.rates = FAST
    try:
        yield devices
    finally:
        for device in devices:
            device.close()


# --- repeated runs ----------------------------------------------------------------------------------------------------


async def _repeated(device: VulkanDevice, scale: Scale, quiet: Quiet) -> dict[str, float | None]:
    """Runs of a region again and again, of few kernels, of many, and of few that take as long as the many."""
    few, many = chain(FEW), chain(MANY)
    async with fa.Executor([device]) as executor:
        await warm(executor, few, scale.runs)
        many_s = await warm(executor, many, 5)
        slow = await _lasting(executor, many_s)
        hog = await _lasting(executor, scale.long_s)
        runs = [(few, scale.runs), (many, 10), (slow, 10)]

        async def measured() -> tuple[list[float], float]:
            taken = [await own_us(executor, work, min(scale.runs, most)) for work, most in runs]
            own = OwnTime()
            await executor.run(hog.graph, x=hog.feed)
            return taken, own.percent()

        rounds = await quiet.rounds(scale.rounds, measured)
        for work in (few, many, slow, hog):
            await work.run(executor)
    small, large, long = (median(taken[place] for taken, _ in rounds) for place in range(3))
    return {
        f"run_us.{FEW}": small,
        f"run_us.{MANY}": large,
        "run_ratio": median(taken[1] / taken[2] for taken, _ in rounds),
        f"run_long_us.{FEW}": long,
        "run_many_ms": many_s * 1e3,
        "own_cpu_percent": median(percent for _, percent in rounds),
    }


async def _lasting(executor: fa.Executor, seconds: float) -> Work:
    """Few kernels that take at least so long."""
    size = 32
    while await warm(executor, work := heavy(size), 2) < seconds:
        size += size // 4
    return work


# --- one submission ---------------------------------------------------------------------------------------------------


class _Bound:
    """The program of a chain with its arrays on a device."""

    def __init__(self, device: VulkanDevice, kernels: int) -> None:
        self.device, self.work = device, chain(kernels)
        target = PlanTarget(global_bindings(), device.capabilities, FAST)
        (region,) = make_plan(self.work.graph.freeze(), target).regions
        self.program: LaneProgram = region.program
        self.instance = self.bind()
        self.x, self.y = self.array(), self.array()
        up = device.copy_lane(CPU_DEVICE, device.location)
        assert up is not None
        up.submit_copy(self.work.feed, self.x).wait(60)

    def bind(self) -> VulkanInstance:
        return self.device.instantiate(self.program, [])

    def array(self) -> VulkanArray:
        return self.device.memory.allocate_array((WIDTH,), fa.f32)

    def commands(self, target: VulkanArray) -> Any:
        """What the queue is given for a submission with that output."""
        return self.instance.commands([[self.x], [target], (), ()])

    def submit(self) -> CompletionHandle:
        return self.device.lanes[0].submit(self.instance, [self.x], [self.y])

    def check(self) -> None:
        """`WrongResult` unless the last submission gave what numpy gives."""
        self.work.check(self.y.read())


async def _recorded(device: VulkanDevice, scale: Scale, quiet: Quiet) -> Figures:
    """Many kernels: planning them with their pipelines there, and recording them for arrays that are new to it."""
    bound = _Bound(device, MANY)
    targets = [bound.array() for _ in range(scale.recordings + 5)]

    async def measured() -> tuple[float, float]:
        planned_ns = timed_ns(bound.bind)
        recorded_ns = [timed_ns(partial(bound.commands, target)) for target in targets]
        return planned_ns / MANY / 1e3, median(recorded_ns) / bound.instance.dispatches / 1e3

    rounds = await quiet.rounds(scale.rounds, measured)
    await bound.submit()
    bound.check()
    return {
        "record_us_per_kernel": median(recorded for _, recorded in rounds),
        "plan_us_per_kernel": median(planned for planned, _ in rounds),
    }


async def _awaited(device: VulkanDevice, scale: Scale, quiet: Quiet) -> Figures:
    """One submission, awaited through the lane, and put on the queue and waited for without anything between."""
    bound, timeline = _Bound(device, FEW), Timeline(device.context)
    submission = Submission(device.context, timeline, None, device.site.peers)
    waiter, value = timeline.waiter(), 0

    def block() -> None:
        nonlocal value
        value += 1
        device.site.queue.submit(submission, bound.commands(bound.y), value)
        if waiter.wait(value) is not WaitStatus.REACHED:
            raise WrongResult("a submission did not end")

    async def measured() -> tuple[float, float, float]:
        blocked, awaited = [], []
        for _ in range(scale.awaits):
            blocked.append(timed_ns(block) / 1e3)
            started_ns = now_ns()
            await bound.submit()
            awaited.append((now_ns() - started_ns) / 1e3)
        own = OwnTime()
        for _ in range(scale.awaits):
            await bound.submit()
        return median(blocked), median(awaited), own.us() / scale.awaits

    rounds = await quiet.rounds(scale.rounds, measured)
    bound.check()
    return {
        "await_extra_us": median(awaited - blocked for blocked, awaited, _ in rounds),
        "blocked_us": median(blocked for blocked, _, _ in rounds),
        "lane_us": median(own for _, _, own in rounds),
    }


# --- two devices ------------------------------------------------------------------------------------------------------


async def _speedup(devices: Sequence[VulkanDevice], scale: Scale, quiet: Quiet) -> float:
    """Runs at once on one logical device and on two of the same physical one."""
    work = one_group(scale.products)
    async with fa.Executor(devices[:1]) as alone, fa.Executor(devices, placement="spread") as both:

        async def took_ns(executor: fa.Executor) -> int:
            started_ns = now_ns()
            await asyncio.gather(*[work.run(executor) for _ in range(scale.at_once)])
            return now_ns() - started_ns

        async def measured() -> float:
            return await took_ns(alone) / await took_ns(both)

        for executor in (alone, both, alone, both):
            await took_ns(executor)
        rounds = await quiet.rounds(scale.rounds, measured)
        used = [one.regions for one in both.statistics().devices.values()]
    if min(used) * 4 < max(used):
        raise WrongResult(f"the runs were not spread: {used} regions")
    return median(rounds)
