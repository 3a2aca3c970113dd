"""Fixtures of the runtime's tests: an executor of the test's own, and kernels that do as they are told."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

import fuel_async as fa
from fuel_async.runtime import engine as engine_module
from tests.runtime.support import Rig, in_flight, installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Many tests collect garbage; what was there before them need not be walked each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def ex() -> AsyncIterator[fa.Executor]:
    """An executor on the test's loop; at its end nothing may be in flight, and no wait may last."""
    assert in_flight() == (0, 0)
    async with fa.Executor() as executor:
        yield executor
    assert in_flight() == (0, 0)


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Kernels of int64 and int32 that wait, fail and count."""
    with installed(Rig()) as one:
        yield one
        # A test that failed leaves nobody standing in a gate.
        one.gate.open(1_000)
        one.other.open(1_000)


@pytest.fixture
def on_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is done in place."""
    monkeypatch.setattr(engine_module, "INLINE_NS", -1)
