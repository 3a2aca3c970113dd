"""Fixtures of the tests on Vulkan devices: each software driver in turn, mapped and staged memory, faults on demand."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

from tests.backends.vulkan.support import DRIVERS, FaultyLib, Opened, opened, point_at_drivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.vulkan.device import VulkanDevice

point_at_drivers()


@pytest.fixture(params=DRIVERS)
def driver_name(request: pytest.FixtureRequest) -> str:
    """Each software driver."""
    name: str = request.param
    return name


@pytest.fixture(params=["mapped", "staged"])
def staged(request: pytest.FixtureRequest) -> bool:
    """Whether copies go through staging slots, as if the host could not see the device's memory."""
    return bool(request.param == "staged")


@pytest.fixture
def make(driver_name: str) -> Iterator[Callable[..., VulkanDevice]]:
    """Open devices of a driver; they are closed after the test, and nothing of them may be left."""
    made: list[Opened] = []

    def open_one(lib: FaultyLib | None = None, memory_nbytes: int | None = None, **options: Any) -> VulkanDevice:
        made.append(opened(driver_name, lib, memory_nbytes, **options))
        return made[-1].device

    yield open_one
    while made:
        made.pop().close()
        gc.collect()


@pytest.fixture
def device(make: Callable[..., VulkanDevice]) -> VulkanDevice:
    """A device of each driver."""
    return make()
