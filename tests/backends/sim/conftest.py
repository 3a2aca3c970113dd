"""Fixtures: machines that are closed and found quiet when their test ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.sim import SimDeviceSpec, SimMachine
from tests.backends.sim.support import PATIENCE_S, assert_quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.sim import SimDevice


@pytest.fixture
def make() -> Iterator[Callable[..., SimMachine]]:
    """Make a machine of the given devices, in virtual time unless told otherwise."""
    made: list[SimMachine] = []

    def machine(*specs: SimDeviceSpec, **options: Any) -> SimMachine:
        made.append(SimMachine(specs, **options))
        return made[-1]

    yield machine
    for one in made:
        one.close()
        one.join(PATIENCE_S)
        assert_quiet(one)


@pytest.fixture
def device(make: Callable[..., SimMachine]) -> SimDevice:
    """A device of speed 1 with two lanes, alone on its machine."""
    return make(SimDeviceSpec(lanes=2)).devices[0]
