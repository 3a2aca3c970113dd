"""The conformance suite on every driver: a sample that changes with the session, thousands among the slow tests.

Cases that a device has no kernels for are left out by planning them; what must not be left out is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import fuel_async as fa
from fuel_async.errors import NoBackendForOp
from fuel_async.ir import BY_NAME
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.testing.conformance import ConformanceCase, Subject, cases, run_cases
from fuel_async.testing.conformance.judging import check_case

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.schedule import Offer

pytestmark = pytest.mark.asyncio(loop_factories=["default"])

#: What has no kernel for these devices: it runs on the host beside them.
ONLY_ON_HOST = {"selective_scan"}

#: What writes or reads truth values: they are bytes, which a device without 8-bit storage cannot address.
NEED_BYTES = {"eq", "ne", "lt", "le", "gt", "ge", "where", "masked_fill"}


def target_of(device: VulkanDevice) -> Target:
    return Target(global_bindings(), device.capabilities, device.rates, spread=True)


def has_kernels(case: ConformanceCase, target: Target) -> bool:
    try:
        make_plan(case.build().graph.freeze(), target)
    except NoBackendForOp:
        return False
    return True


async def judge(device: VulkanDevice, seed: int, budget: int) -> None:
    subject, target = Subject(device.info.name, devices=[device]), target_of(device)
    report = await run_cases(
        subject, [case for case in cases(subject, seed=seed, budget=budget) if has_kernels(case, target)]
    )
    assert len(report.verdicts) > budget // 10
    assert report.is_good, str(report)


async def test_a_sample_of_cases(make: Callable[..., VulkanDevice], request: pytest.FixtureRequest) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(), seed, 150)


async def test_a_sample_through_staging_memory(
    make: Callable[..., VulkanDevice], request: pytest.FixtureRequest
) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(staged=True), seed + 1, 60)


@pytest.mark.slow
async def test_thousands_of_cases(make: Callable[..., VulkanDevice]) -> None:
    await judge(make(), 11, 4_000)


async def test_every_op_has_a_kernel_for_f32(device: VulkanDevice) -> None:
    """On every device, whatever features it lacks, but for truth values."""
    target, missing = target_of(device), set[str]()
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
    assert missing - ONLY_ON_HOST == (set() if "int8_storage" in device.site.limits.features else NEED_BYTES)
    assert missing >= ONLY_ON_HOST


async def test_rotations_whose_angles_the_host_prepares(make: Callable[..., VulkanDevice]) -> None:
    """Their cosines are taken in f64, which no device does: the suite alone would leave them out."""
    device = make()
    number = str(device.location)

    def there(offers: Sequence[Offer]) -> Offer:
        return next((offer for offer in offers if offer.device == 0), offers[0])

    rotations = [case for case in cases(Subject("all")) if case.op == "rope" and case.dtype in ("f32", "f16")]
    assert rotations
    async with fa.Executor([device, "cpu:0"], placement=there) as executor:
        for case in rotations:
            await check_case(executor, case)
        (turned,) = [
            region for region in executor.explain(rotations[0].build().graph).regions if "rope" in region.kernels
        ]
        assert str(turned.device) == number
