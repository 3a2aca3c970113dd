"""Random graphs over all ops, cut small and strewn over devices and the host: within the reference's bounds.

Every value that crosses from one device to another is right, and so is every overlapping of arena bytes.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.plan import branches, regions
from fuel_async.testing import random_graph
from fuel_async.testing.reference import check_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.backends.grids.devices import Device


@pytest.fixture
def tiny_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many regions of few kernels."""
    for module in (regions, branches):
        monkeypatch.setattr(module, "HEAVY_NS", 300)
    monkeypatch.setattr(regions, "LONGEST_NS", 3_000)
    monkeypatch.setattr(regions, "_SLACK_REGIONS", 10_000)


async def strew(devices: Sequence[Device], seed: int, nodes: int, rounds: int = 1, **choices: Any) -> None:
    """Run a graph in some rounds, each of three runs at a time, and compare all results with the reference."""
    case, chance = random_graph(seed, nodes, **choices), random.Random(seed)
    async with fa.Executor(["cpu:0", *devices], placement=chance.choice) as executor:
        for _ in range(rounds):
            for results in await asyncio.gather(*[executor.run(case.graph, dict(case.feeds)) for _ in range(3)]):
                check_results(case.graph, case.feeds, results)
        assert all(one.regions for one in executor.statistics().devices.values())
