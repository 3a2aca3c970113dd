"""The conformance suite on the double: kernels in CUDA C that is compiled for the host, launched as on a device.

A sample that changes with the session, thousands of cases among the slow tests. Cases that have no kernels are left out
by planning them; what must not be left out is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.backends.grids.conforming import ONLY_ON_HOST, judge, missing_for_f32

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice
    from tests.backends.cuda.support import Doubled

pytestmark = pytest.mark.asyncio(loop_factories=["default"])


async def test_a_sample_of_cases(make: Callable[..., Doubled], request: pytest.FixtureRequest) -> None:
    seed = int(request.config.getoption("hypothesis_seed"))
    await judge(make(poison=True).devices[0], seed, 100, least=75)


@pytest.mark.slow
async def test_thousands_of_cases(make: Callable[..., Doubled]) -> None:
    await judge(make().devices[0], 11, 4_000, least=3_000)


async def test_every_op_has_a_kernel_for_f32(device: CudaDevice) -> None:
    assert missing_for_f32(device) == ONLY_ON_HOST
