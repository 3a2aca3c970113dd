"""A feed that is written while a lane reads it: on a loop in debug mode the write raises where it is made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from tests.runtime.support import Rig, settled, turns

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gated_graph() -> fa.Graph:
    g = fa.Graph("gated")
    g.output("y", -g.input("x", (1024,), fa.i64))
    return g


def large() -> NDArray[np.int64]:
    """More than what is copied when a run goes to lanes."""
    return np.ones(1024, np.int64)


@pytest.mark.asyncio(loop_factories=["debug"])
async def test_a_feed_is_read_only_until_the_last_run_fed_with_it_has_ended(ex: fa.Executor, rig: Rig) -> None:
    feed, g = large(), gated_graph()
    first = asyncio.create_task(ex.run(g, x=feed))
    second = asyncio.create_task(ex.run(g, x=feed))
    await rig.gate.entered()
    await turns(3)
    assert ex.statistics().runs_active == 2
    with pytest.raises(ValueError, match="read-only"):
        feed[0] = 7
    rig.gate.open()
    await first
    assert not feed.flags.writeable
    rig.gate.open()
    await second
    feed[0] = 7
    await settled(ex)


@pytest.mark.asyncio(loop_factories=["debug"])
async def test_a_cancelled_run_gives_its_feed_back_once_the_lane_is_through(ex: fa.Executor, rig: Rig) -> None:
    feed = large()
    task = asyncio.create_task(ex.run(gated_graph(), x=feed))
    await rig.gate.entered()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not feed.flags.writeable
    rig.gate.open()
    await settled(ex)
    assert feed.flags.writeable


@pytest.mark.asyncio(loop_factories=["debug"])
async def test_an_array_that_was_read_only_stays_so(ex: fa.Executor, rig: Rig) -> None:
    feed = large()
    feed.flags.writeable = False
    rig.gate.open()
    await ex.run(gated_graph(), x=feed)
    await settled(ex)
    assert not feed.flags.writeable


@pytest.mark.asyncio(loop_factories=["default"])
async def test_without_debug_mode_nothing_is_guarded(ex: fa.Executor, rig: Rig) -> None:
    feed = large()
    task = asyncio.create_task(ex.run(gated_graph(), x=feed))
    await rig.gate.entered()
    assert feed.flags.writeable
    rig.gate.open()
    await task
