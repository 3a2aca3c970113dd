"""The conformance suite on every driver: a sample that changes with the session, thousands among the slow tests.

Cases that a device has no kernels for are left out by planning them; what must not be left out is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import fuel_async as fa
from fuel_async.testing.conformance import Subject, cases
from fuel_async.testing.conformance.judging import check_case
from tests.backends.grids.conforming import ONLY_ON_HOST, judge, missing_for_f32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.schedule import Offer

pytestmark = pytest.mark.asyncio(loop_factories=["default"])

#: What writes or reads truth values: they are bytes, which a device without 8-bit storage cannot address.
NEED_BYTES = {"eq", "ne", "lt", "le", "gt", "ge", "where", "masked_fill"}


async def test_a_sample_of_cases(make: Callable[..., VulkanDevice], request: pytest.FixtureRequest) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(), seed, 150, least=15)


async def test_a_sample_through_staging_memory(
    make: Callable[..., VulkanDevice], request: pytest.FixtureRequest
) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(staged=True), seed + 1, 60, least=6)


@pytest.mark.slow
async def test_thousands_of_cases(make: Callable[..., VulkanDevice]) -> None:
    await judge(make(), 11, 4_000, least=400)


async def test_every_op_has_a_kernel_for_f32(device: VulkanDevice) -> None:
    """On every device, whatever features it lacks, but for truth values."""
    missing = missing_for_f32(device)
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
