"""The conformance suite on the double: kernels in CUDA C that is compiled for the host, launched as on a device.

A sample that changes with the session, thousands of cases among the slow tests. Cases that have no kernels are left out
by planning them; what must not be left out is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import NoBackendForOp
from fuel_async.ir import BY_NAME
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.testing.conformance import ConformanceCase, Subject, cases, run_cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice
    from tests.backends.cuda.support import Doubled

pytestmark = pytest.mark.asyncio(loop_factories=["default"])

#: What has no kernel for these devices: it runs on the host beside them.
ONLY_ON_HOST = {"selective_scan"}


def target_of(device: CudaDevice) -> Target:
    return Target(global_bindings(), device.capabilities, device.rates, spread=True)


def has_kernels(case: ConformanceCase, target: Target) -> bool:
    try:
        make_plan(case.build().graph.freeze(), target)
    except NoBackendForOp:
        return False
    return True


async def judge(one: Doubled, seed: int, budget: int) -> None:
    (device,) = one.devices
    subject, target = Subject("CUDA", devices=[device]), target_of(device)
    report = await run_cases(
        subject, [case for case in cases(subject, seed=seed, budget=budget) if has_kernels(case, target)]
    )
    assert len(report.verdicts) > budget * 3 // 4
    assert report.is_good, str(report)


async def test_a_sample_of_cases(make: Callable[..., Doubled], request: pytest.FixtureRequest) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(poison=True), seed, 100)


@pytest.mark.slow
async def test_thousands_of_cases(make: Callable[..., Doubled]) -> None:
    await judge(make(), 11, 4_000)


async def test_every_op_has_a_kernel_for_f32(one: Doubled) -> None:
    target, missing = target_of(one.devices[0]), set[str]()
    for case in cases(Subject("all")):
        if (case.dtype, case.layout, case.shape, case.values) != ("f32", "contiguous", "odd", "plain"):
            continue
        op = BY_NAME[case.op]
        if op.kind is None:
            continue
        try:
            make_plan(case.build().graph.freeze(), target)
        except NoBackendForOp as error:
            if error.op == op.kind.value:  # not what prepares its operands
                missing.add(case.op)
    assert missing == ONLY_ON_HOST
