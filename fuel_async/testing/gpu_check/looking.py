"""The first sections: which devices there are, whether they compute right, and many runs at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.errors import NoBackendForOp
from fuel_async.ir import DType, Graph
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.runtime import Executor
from fuel_async.testing.conformance import Subject, cases, run_cases
from fuel_async.testing.gpu_check.finding import opened

if TYPE_CHECKING:
    from fuel_async.testing.conformance import ConformanceCase
    from fuel_async.testing.gpu_check.budget import Budget
    from fuel_async.testing.gpu_check.check import Setting
    from fuel_async.testing.gpu_check.report import Section

#: Cases that are judged before the clock is looked at again.
_AT_A_TIME = 20


async def look(setting: Setting, section: Section, budget: Budget) -> None:
    """Tell the devices, and open them once."""
    for found in setting.found:
        section.figures[str(found.info.location)] = f"{found.info.name}, {found.info.detail}"
    with opened(setting.found) as devices:
        for device in devices:
            rates = device.rates
            section.figures[f"{device.location} prior Tflop/s"] = rates.dense_flops_per_ns / 1e3
            section.figures[f"{device.location} prior GB/s"] = rates.bytes_per_ns
            reached = [str(other.location) for other in devices if device.copy_lane(other.location, device.location)]
            section.figures[f"{device.location} copies straight from"] = ", ".join(reached) or "none"
            section.figures[f"{device.location} has cuBLAS"] = "cublas" in device.capabilities.features


def _is_served(case: ConformanceCase, target: Target) -> bool:
    try:
        make_plan(case.build().graph.freeze(), target)
    except NoBackendForOp:
        return False
    return True


async def judge(setting: Setting, section: Section, budget: Budget) -> None:
    """Judge the first device by as many cases of the conformance suite as there is time for."""
    with opened(setting.found[:1]) as (device,):
        subject = Subject(str(device.location), devices=[device])
        target = Target(global_bindings(), device.capabilities, device.rates, spread=True)
        every = list(cases(subject, seed=setting.seed))
        judged = unserved = 0
        while every and (not judged or not budget.is_over):
            some, every = every[:_AT_A_TIME], every[_AT_A_TIME:]
            served = [case for case in some if _is_served(case, target)]
            unserved += len(some) - len(served)
            report = await run_cases(subject, served)
            judged += len(report.verdicts)
            section.faults += [str(verdict) for verdict in report.faults]
            if device.lost is not None:
                section.faults.append(f"the device was lost: {device.lost}")
                break
        section.figures |= {"cases": judged, "cases without a kernel": unserved, "seed": setting.seed}
        section.demand(judged > 0, "no case was judged")
        if every:
            section.left_out.append(f"{len(every):,} cases: the time was over")


def _chain() -> tuple[Graph, Any]:
    graph, weight = Graph("chain"), np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32) / 8
    x = graph.input("x", ("rows", 64), DType.F32)
    graph.output("y", ((x @ graph.constant(weight)).relu() @ graph.constant(weight)).sum(1))
    return graph, lambda feed: (np.maximum(feed @ weight, 0) @ weight).sum(1)


async def crowd(setting: Setting, section: Section, budget: Budget) -> None:
    """Have many runs under way at once, over all devices, some of them cancelled; each result is looked at."""
    graph, wanted = _chain()
    feeds = [np.random.default_rng(seed).standard_normal((16 + seed % 5, 64)).astype(np.float32) for seed in range(32)]
    done = cancelled = 0
    with opened(setting.found) as devices:
        async with Executor(devices, placement="spread") as executor:
            while not done or (done < setting.scale.runs and not budget.is_over):
                tasks = [asyncio.ensure_future(executor.run(graph, x=feed)) for feed in feeds]
                await asyncio.sleep(0)
                for task in tasks[::8]:
                    task.cancel()
                for feed, found in zip(feeds, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
                    if isinstance(found, asyncio.CancelledError):
                        cancelled += 1
                    elif isinstance(found, BaseException):
                        section.faults.append(f"{type(found).__name__}: {found}")
                    else:
                        done += 1
                        close = np.allclose(found["y"], wanted(feed), rtol=1e-3, atol=1e-3)
                        section.demand(close, "a run gave wrong numbers")
                if section.faults:
                    break
            told = executor.statistics()
        section.figures |= {"runs": done, "cancelled": cancelled}
        for location, one in told.devices.items():
            section.figures[f"regions on {location}"] = one.regions
            section.figures |= {f"note on {location}": note for note in one.notes[:1]}
        section.demand(all(not device.pending_work_count() for device in devices), "work is still counted in flight")
