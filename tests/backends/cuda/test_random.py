"""Random graphs over all ops, cut small and strewn over CUDA devices and the host: within the reference's bounds.

Every value that crosses from one device to another is right, and so is every overlapping of arena bytes; freed memory
is filled, so nothing reads what is no longer its own.
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
from fuel_async.testing.cuda_double import DeviceModel
from fuel_async.testing.reference import check_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.cuda.support import Doubled

pytestmark = pytest.mark.asyncio(loop_factories=["default"])


@pytest.fixture
def tiny_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many regions of few kernels."""
    for module in (regions, branches):
        monkeypatch.setattr(module, "HEAVY_NS", 300)
    monkeypatch.setattr(regions, "LONGEST_NS", 3_000)
    monkeypatch.setattr(regions, "_SLACK_REGIONS", 10_000)


async def strew(several: Doubled, seed: int, nodes: int, runs: int = 3, **choices: Any) -> None:
    case, chance = random_graph(seed, nodes, **choices), random.Random(seed)
    async with fa.Executor(["cpu:0", *several.devices], placement=chance.choice) as executor:
        for _ in range(2):
            found = await asyncio.gather(*[executor.run(case.graph, dict(case.feeds)) for _ in range(runs)])
            for results in found:
                check_results(case.graph, case.feeds, results)
        assert all(one.regions for one in executor.statistics().devices.values())


@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(3))
async def test_graphs_strewn_over_devices_and_the_host(make: Callable[..., Doubled], seed: int) -> None:
    """Two devices that copy from one to the other, and with odd seeds two that do not."""
    await strew(make([DeviceModel(is_peer=not seed % 2)] * 2, poison=True), seed, 40, window=12)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(10, 20))
async def test_larger_graphs_of_several_dtypes(make: Callable[..., Doubled], seed: int) -> None:
    several = make([DeviceModel(latency_s=2e-5, is_peer=not seed % 2)] * 2, poison=True)
    await strew(several, seed, 200, dtypes=(DType.F32, DType.F64, DType.BF16), window=24)
