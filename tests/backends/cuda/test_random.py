"""Random graphs strewn over CUDA devices and the host; freed memory is filled, so nothing reads what is not its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.ir import DType
from fuel_async.testing.cuda_double import DeviceModel
from tests.backends.grids.strewing import strew, tiny_regions  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.cuda.support import Doubled

pytestmark = pytest.mark.asyncio(loop_factories=["default"])


@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(3))
async def test_graphs_strewn_over_devices_and_the_host(make: Callable[..., Doubled], seed: int) -> None:
    """Two devices that copy from one to the other, and with odd seeds two that do not."""
    several = make([DeviceModel(is_peer=not seed % 2)] * 2, poison=True)
    await strew(several.devices, seed, 40, rounds=2, window=12)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_regions")
@pytest.mark.parametrize("seed", range(10, 20))
async def test_larger_graphs_of_several_dtypes(make: Callable[..., Doubled], seed: int) -> None:
    several = make([DeviceModel(latency_s=2e-5, is_peer=not seed % 2)] * 2, poison=True)
    await strew(several.devices, seed, 200, rounds=2, dtypes=(DType.F32, DType.F64, DType.BF16), window=24)
