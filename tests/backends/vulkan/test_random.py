"""Random graphs over all ops, cut small and strewn over a Vulkan device and the host: within the reference's bounds.

Every value that crosses from one kind of device to the other is right, and so is every overlapping of arena bytes.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.ir import DType
from fuel_async.plan import branches, regions
from fuel_async.testing import random_graph
from fuel_async.testing.reference import check_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice

pytestmark = pytest.mark.asyncio(loop_factories=["default"])


@pytest.fixture
def tiny_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many regions of few kernels."""
    for module in (regions, branches):
        monkeypatch.setattr(module, "HEAVY_NS", 300)
    monkeypatch.setattr(regions, "LONGEST_NS", 3_000)
    monkeypatch.setattr(regions, "_SLACK_REGIONS", 10_000)


async def strew(device: VulkanDevice, seed: int, nodes: int, runs: int = 3, **choices: Any) -> None:
    case, chance = random_graph(seed, nodes, **choices), random.Random(seed)
    async with fa.Executor(["cpu:0", device], placement=chance.choice) as executor:
        found = await asyncio.gather(*[executor.run(case.graph, dict(case.feeds)) for _ in range(runs)])
        assert all(one.regions for one in executor.statistics().devices.values())
    for results in found:
        check_results(case.graph, case.feeds, results)


@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(3))
async def test_graphs_strewn_over_two_kinds_of_devices(
    make: Callable[..., VulkanDevice], staged: bool, seed: int
) -> None:
    await strew(make(staged=staged), seed, 60, window=12)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(10, 22))
async def test_larger_graphs_of_several_dtypes(make: Callable[..., VulkanDevice], staged: bool, seed: int) -> None:
    await strew(make(staged=staged), seed, 300, dtypes=(DType.F32, DType.F64, DType.BF16), window=24)
