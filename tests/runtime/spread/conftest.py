"""Fixtures of the tests over several devices: stages, and plans cut into tiny regions."""

from __future__ import annotations

import pytest

from fuel_async.plan import branches, regions
from tests.runtime.spread.support import Stage


@pytest.fixture
def virtual() -> Stage:
    """A stage on the virtual clock."""
    return Stage("virtual")


@pytest.fixture(params=["virtual", "asyncio", "uvloop"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each stage in turn, for scenarios that do not depend on time."""
    return Stage(request.param)


@pytest.fixture(params=["asyncio", "uvloop"])
def real(request: pytest.FixtureRequest) -> Stage:
    """Each stage in real time."""
    return Stage(request.param)


@pytest.fixture
def tiny_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are cut where 300 ns of work could run beside each other, and after 3 µs: many regions of few kernels."""
    for module in (regions, branches):
        monkeypatch.setattr(module, "HEAVY_NS", 300)
    monkeypatch.setattr(regions, "LONGEST_NS", 3_000)
    monkeypatch.setattr(regions, "_SLACK_REGIONS", 10_000)
