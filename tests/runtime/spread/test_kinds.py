"""Devices of several kinds in one executor: a region goes only where all of its kernels are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import SimDevice, SimDeviceSpec
from fuel_async.errors import NoBackendForOp, UserError
from fuel_async.ir import DType
from fuel_async.testing import synthetic_op
from fuel_async.testing.synthetic import SyntheticKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import BackendCapabilities
    from tests.runtime.spread.support import Stage, World

MAGIC = frozenset({"magic"})
COST_NS = 1_000_000


@pytest.fixture(autouse=True)
def magic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic ops need magic, which devices of the name `wizard` have."""
    plain = SimDevice.capabilities.fget  # type: ignore[attr-defined]

    def capabilities(self: SimDevice) -> BackendCapabilities:
        found: BackendCapabilities = plain(self)
        return replace(found, features=MAGIC if self.info.name == "wizard" else frozenset())

    monkeypatch.setattr(SimDevice, "capabilities", property(capabilities))
    monkeypatch.setattr(SyntheticKernel, "needs", MAGIC, raising=False)


def named(*names: str) -> list[SimDeviceSpec]:
    return [SimDeviceSpec(name=name) for name in names]


def mixed() -> fa.Graph:
    """Plain work, magic, plain work."""
    g = fa.Graph("mixed")
    x = g.input("x", (64,), DType.U8)
    made = synthetic_op(g, [x.astype(fa.f32)], cost_ns=COST_NS, nbytes=64)
    g.output("y", made.astype(fa.f32))
    return g


FEED = np.arange(64, dtype=np.uint8)


@pytest.mark.parametrize(
    "names", [("muggle", "wizard", "muggle"), ("wizard", "muggle"), ("muggle", "muggle", "wizard")]
)
@pytest.mark.parametrize("placement", ["spread", "earliest_finish"])
def test_magic_is_done_by_wizards(virtual: Stage, names: Sequence[str], placement: str) -> None:
    async def scenario(world: World) -> None:
        wizard = names.index("wizard")
        found = await asyncio.gather(*[world.ex.run(mixed(), x=FEED) for _ in range(6)])
        async with fa.Executor([world.devices[wizard]]) as alone:
            wanted = await alone.run(mixed(), x=FEED)
        for one in found:
            np.testing.assert_array_equal(one["y"], wanted["y"])
        (magical,) = [one for one in world.ex.explain(mixed()).regions if "runtime_fused" in one.kernels]
        assert [one.device for one in magical.candidates] == [world.at(wizard)]

    virtual(scenario, named(*names), placement=placement)


def test_whoever_lacks_it_says_so(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        said = world.ex.explain(mixed())
        (magical,) = [one for one in said.regions if "runtime_fused" in one.kernels]
        assert [(one.device, one.why) for one in magical.refusals] == [(world.at(0), "no kernel for runtime_fused")]
        (call,) = [one for one in magical.calls if one.kind == "runtime_fused"]
        assert [(one.device, one.fate, one.taken) for one in call.alternatives] == [
            (world.at(1), "first", True),
            (world.at(0), "lacks features", False),
        ]
        assert call.alternatives[1].why == "the device lacks magic"
        assert [one.alone_s is None for one in said.devices] == [True, False]

    virtual(scenario, named("muggle", "wizard"))


def test_magic_pinned_to_a_muggle_is_refused(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph("pinned")
        x = g.input("x", (64,), DType.U8)
        with g.on(world.at(0)):
            g.output("y", synthetic_op(g, [x], cost_ns=COST_NS, nbytes=64))
        with pytest.raises(UserError, match="which has no kernel for it"):
            await world.ex.run(g, x=FEED)

    virtual(scenario, named("muggle", "wizard"))


def test_the_first_wizard_that_comes_makes_magic_possible(virtual: Stage) -> None:
    """Plans made before know nothing of its kind."""

    async def scenario(world: World) -> None:
        with pytest.raises(NoBackendForOp):
            await world.ex.run(mixed(), x=FEED)
        plain = fa.Graph("plain")
        plain.output("y", plain.input("x", (64,), DType.U8).astype(fa.f32))
        await world.ex.run(plain, x=FEED)
        world.ex.add_device(world.machine.add(SimDeviceSpec(name="wizard", speed=8)))
        await world.ex.run(mixed(), x=FEED)
        await world.ex.run(plain, x=FEED)
        assert world.scheduler.machine.devices[-1].given

    virtual(scenario, named("muggle", "muggle"))
