"""Random graphs strewn over a Vulkan device and the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.ir import DType
from tests.backends.grids.strewing import strew, tiny_regions  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice

pytestmark = pytest.mark.asyncio(loop_factories=["default"])


@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(3))
async def test_graphs_strewn_over_two_kinds_of_devices(
    make: Callable[..., VulkanDevice], staged: bool, seed: int
) -> None:
    await strew([make(staged=staged)], seed, 60, window=12)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(10, 22))
async def test_larger_graphs_of_several_dtypes(make: Callable[..., VulkanDevice], staged: bool, seed: int) -> None:
    await strew([make(staged=staged)], seed, 300, dtypes=(DType.F32, DType.F64, DType.BF16), window=24)
