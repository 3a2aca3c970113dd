"""`Executor.explain`: what a run would do, in facts and in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import Links, SimDeviceSpec, SimMachine
from fuel_async.errors import FeedError, GraphError, UserError
from fuel_async.testing import run_virtual, synthetic_op

if TYPE_CHECKING:
    from fuel_async.backends.sim import VirtualClock
    from fuel_async.runtime.explain import Explanation

MS = 1_000_000


def fork_join(nbytes: int = 1_000) -> fa.Graph:
    g = fa.Graph("fork and join")
    x = g.input("x", (nbytes,), fa.u8)
    branches = [synthetic_op(g, [x], cost_ns=8 * MS, nbytes=nbytes) for _ in range(3)]
    g.output("y", synthetic_op(g, branches, cost_ns=MS, nbytes=nbytes))
    return g


def explained(specs: list[SimDeviceSpec], graph: fa.Graph, **options: object) -> tuple[Explanation, float]:
    """What is said before the first run, and what that then takes."""

    async def main(clock: VirtualClock) -> tuple[Explanation, float]:
        machine = SimMachine(specs, links=Links.of(10_000, 12.0), clock=clock)
        async with fa.Executor(devices=machine.devices, **options) as executor:  # type: ignore[arg-type]
            said = executor.explain(graph)
            started_ns = clock.now_ns()
            await executor.run(graph, x=np.zeros(graph.inputs["x"].nbytes, np.uint8))
            took_s = (clock.now_ns() - started_ns) / 1e9
        machine.close()
        return said, took_s

    return run_virtual(main)


def test_what_is_said_is_what_happens_when_predictions_are_right() -> None:
    said, took_s = explained([SimDeviceSpec(), SimDeviceSpec(), SimDeviceSpec()], fork_join())
    assert len(said.regions) == 4
    assert len({region.device for region in said.regions}) == 3
    assert said.error is None
    assert said.makespan_s == pytest.approx(took_s, rel=1e-3)
    assert said.makespan_s >= 0.009


def test_every_region_has_its_candidates_and_the_first_to_finish_is_chosen() -> None:
    said, _ = explained([SimDeviceSpec(speed=4), SimDeviceSpec(speed=2), SimDeviceSpec()], fork_join())
    for region in said.regions:
        assert len(region.candidates) == 3
        finish_s = {one.device: one.finish_s for one in region.candidates}
        assert finish_s[region.device] == min(finish_s.values())
    assert said.regions[-1].needs == (0, 1, 2)
    assert any(one.copies and one.copied_nbytes for one in said.regions[-1].candidates)


def test_the_reason_names_what_makes_the_other_later() -> None:
    said, _ = explained([SimDeviceSpec(speed=4), SimDeviceSpec()], fork_join())
    assert "slower at it" in said.regions[0].reason
    text = str(said)
    assert "graph 'fork and join': 4 kernels in 4 regions" in text
    assert re.search(r"region 3 after 0, 1, 2: 1 \S+\n    on sim:\d+, [\d.]+ ms to [\d.]+ ms: ", text)


def test_a_pin_is_a_reason() -> None:
    async def main(clock: VirtualClock) -> Explanation:
        machine = SimMachine([SimDeviceSpec(speed=4), SimDeviceSpec()], clock=clock)
        g = fa.Graph()
        x = g.input("x", (8,), fa.u8)
        with g.on(machine.devices[1].location):
            g.output("y", synthetic_op(g, [x], cost_ns=MS, nbytes=8))
        async with fa.Executor(devices=machine.devices) as executor:
            said = executor.explain(g)
        assert said.regions[0].device == machine.devices[1].location
        machine.close()
        return said

    said = run_virtual(main)
    assert said.regions[0].reason.startswith("pinned to sim:")
    assert len(said.regions[0].candidates) == 1


def test_a_policy_that_does_otherwise_is_said_to() -> None:
    said, _ = explained([SimDeviceSpec(speed=4), SimDeviceSpec()], fork_join(), placement=lambda offers: offers[-1])
    assert {region.device for region in said.regions} == {said.regions[0].candidates[-1].device}
    assert "chosen by the given policy, though" in said.regions[0].reason


def test_what_would_fail_is_said() -> None:
    async def main(clock: VirtualClock) -> Explanation:
        machine = SimMachine([SimDeviceSpec(memory_nbytes=500)], clock=clock)
        async with fa.Executor(devices=machine.devices) as executor:
            said = executor.explain(fork_join())
        machine.close()
        return said

    said = run_virtual(main)
    assert said.error is not None
    assert said.error.startswith("OutOfMemory")
    assert "it would fail" in str(said)


def test_explaining_changes_nothing() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec(), SimDeviceSpec()], clock=clock)
        async with fa.Executor(devices=machine.devices) as executor:
            first = executor.explain(fork_join())
            assert str(executor.explain(fork_join())) == str(first)
            assert clock.now_ns() == 0
            seen = executor.statistics()
            assert (seen.runs, seen.used_nbytes, seen.links) == (0, 0, {})
            assert all(device.regions == 0 for device in seen.devices.values())
        machine.close()

    run_virtual(main)


# --- the host alone ---


@pytest.mark.asyncio(loop_factories=["default"])
async def test_the_host_alone_says_in_place_or_on_lanes() -> None:
    g = fa.Graph("small")
    x = g.input("x", ("n", 4))
    g.output("y", (x + 1.0).exp())
    async with fa.Executor(devices=["cpu:0"]) as executor:
        before = executor.explain(g)
        assert before.sizes == {"n": 1}
        assert before.way.startswith("on 1 lane(s) of cpu:0: predicted at ")
        for _ in range(4):
            await executor.run(g, x=np.ones((3, 4), np.float32))
        after = executor.explain(g)
        assert after.sizes == {"n": 3}  # as the last run had it
        assert after.way.startswith("in place on the event loop: measured at ")
        assert executor.explain(g, x=np.ones((7, 4), np.float32)).sizes == {"n": 7}
        assert after.regions[0].kernels == {"add": 1, "exp": 1}


@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_hint_is_the_size_until_there_is_a_run() -> None:
    g = fa.Graph("hinted")
    g.output("y", g.input("x", ("batch", "tokens"), hint={"batch": 8, "tokens": 64}) * 2.0)
    assert g.hints == {"batch": 8, "tokens": 64}
    executor = fa.Executor(devices=["cpu:0"])
    assert executor.explain(g).sizes == {"batch": 8, "tokens": 64}  # opens it
    await executor.aclose()


@pytest.mark.parametrize("hint", [{"other": 3}, {"n": -1}])
def test_a_hint_is_a_size_of_a_symbol_of_its_input(hint: dict[str, int]) -> None:
    g = fa.Graph()
    with pytest.raises(GraphError, match="hint"):
        g.input("x", ("n",), hint=hint)
    assert len(g) == 0


@pytest.mark.asyncio(loop_factories=["default"])
async def test_feeds_that_disagree_are_refused() -> None:
    g = fa.Graph()
    g.output("y", g.input("a", ("n",)) + g.input("b", ("n",)))
    async with fa.Executor(devices=["cpu:0"]) as executor:
        with pytest.raises(FeedError, match="n is"):
            executor.explain(g, a=np.ones(3, np.float32), b=np.ones(4, np.float32))


def test_a_placement_nobody_knows_is_refused() -> None:
    with pytest.raises(UserError, match="'earliest_finish', 'spread', or a function"):
        fa.Executor(placement="fastest")  # type: ignore[arg-type]
