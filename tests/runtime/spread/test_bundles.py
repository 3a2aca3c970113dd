"""Ops with several outputs over several devices: only outputs cross, each for itself, and any placement gives the bytes
of the host alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.backends.sim import Links
from fuel_async.errors import GraphError
from fuel_async.ir import BY_NAME, SelectiveScan, selective_scan
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.destroying import DESTROYING
from fuel_async.testing.scanning import SCANNING
from tests.runtime.spread.support import Stage, digests
from tests.runtime.spread.test_destructive import check, on_the_host

if TYPE_CHECKING:
    from tests.runtime.spread.support import World

OPS = (*SCANNING, *SCANNING, *DESTROYING, "add", "exp", "slice", "reshape", "concat", "matmul", "sum")

SHAPES = {"u": (2, 30, 4), "delta": (2, 30, 4), "a": (4, 5), "b": (2, 30, 5), "c": (2, 30, 5)}
STATE_NBYTES = 2 * 4 * 5 * 4


def feeds() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    rng = np.random.default_rng(5)
    made = {name: rng.uniform(0.1, 1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    made["a"] *= -1
    return made


@pytest.mark.parametrize("seed", range(4))
def test_placements_agree(stage: Stage, tiny_regions: None, seed: int) -> None:
    check(stage, random_graph(seed, 120, ops=OPS, shape=(1, 3, 4), window=8 + 4 * seed), seed)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=graphs(ops=OPS, max_steps=16), seed=st.integers(0, 1 << 16))
def test_drawn_graphs_agree_wherever_regions_run(virtual: Stage, tiny_regions: None, case: Case, seed: int) -> None:
    check(virtual, case, seed)


@pytest.mark.parametrize("copied", [False, True])
def test_an_output_crosses_without_the_others(virtual: Stage, copied: bool) -> None:
    """made on one device, one output of it read on another"""
    plain = fa.Graph()
    made = selective_scan(*[plain.input(name, shape) for name, shape in SHAPES.items()])
    plain.output("z", made.last_state.exp())
    expected = asyncio.run(on_the_host(Case(plain, feeds())))

    async def scenario(world: World) -> None:
        g = fa.Graph()
        operands = [g.input(name, shape) for name, shape in SHAPES.items()]
        with g.on(world.at(0)):
            made = g.bundle(BY_NAME["selective_scan"], operands, SelectiveScan(False))
            state = made.owned(1) if copied else made.slot(1)
        with g.on(world.at(1)):
            g.output("z", state.exp())
        results = await world.ex.run(g, feeds(), on_device=True)
        assert results["z"].device == world.at(1)
        link = next(
            link for link in world.machine.links if (link.source, link.destination) == (world.at(0), world.at(1))
        )
        assert (link.copies, link.copied_nbytes) == (1, STATE_NBYTES)
        assert digests({"z": results["z"].numpy()}) == expected

    virtual(scenario, 2, links=Links.of(500, 10, peers=True))


def test_outputs_go_to_different_devices(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph()
        operands = [g.input(name, shape) for name, shape in SHAPES.items()]
        with g.on(world.at(0)):
            y, state = selective_scan(*operands)
        with g.on(world.at(1)):
            first = y.exp()
        with g.on(world.at(2)):
            second = state.exp()
        g.output("y", first.sum())
        g.output("state", second.sum())
        again = await world.ex.run(g, feeds())
        assert digests(await world.ex.run(g, feeds())) == digests(again)
        assert np.isfinite(again["y"])
        assert np.isfinite(again["state"])

    virtual(scenario, 3)


def test_a_bundle_is_copied_nowhere_as_a_whole(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        g = fa.Graph()
        operands = [g.input(name, shape) for name, shape in SHAPES.items()]
        made = g.bundle(BY_NAME["selective_scan"], operands, SelectiveScan(False))
        for op in ("copy", "move"):
            with pytest.raises(GraphError, match="a bundle is no tensor"), g.on(world.at(1)):
                g.node(BY_NAME[op], (made,))

    virtual(scenario, 2)
