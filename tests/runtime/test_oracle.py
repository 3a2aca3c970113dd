"""The oracle: a graph gives the same bits kernel by kernel, on lanes and in place, and a plain reference's values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.plan import regions
from fuel_async.runtime import engine as engine_module
from fuel_async.storage import as_array
from fuel_async.testing.destroying import DESTROYING
from fuel_async.testing.graphs import Case, graphs, random_graph
from fuel_async.testing.reference import check_results
from fuel_async.testing.scanning import SCANNING
from tests.conftest import loop_factories
from tests.runtime.support import in_flight, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

ALL_LOOPS = pytest.mark.parametrize("new_loop", loop_factories().values(), ids=loop_factories())

#: A third of them give several outputs, some of the others write over those.
SEVERAL = (*[*SCANNING] * 6, *DESTROYING, "add", "matmul", "slice", "reshape", "sum", "exp", "permute")

COMMON = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


class Rigged:
    """One executor on one loop, for all examples of a test."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop], **options: Any) -> None:
        self.runner = asyncio.Runner(loop_factory=new_loop)
        self.executor = fa.Executor(**options)
        self.walker = fa.PipelinedExecutor(self.executor)

    def close(self) -> None:
        self.runner.run(self.executor.aclose())
        self.runner.close()
        assert in_flight() == (0, 0)

    def check(self, case: Case, times: int = 4) -> None:
        """Compare all ways of running a case."""
        self.runner.run(self._check(case, times))

    async def _check(self, case: Case, times: int) -> None:
        feeds = {name: value.copy() for name, value in case.feeds.items()}
        walked = await self.walked(case)
        check_results(case.graph, case.feeds, walked)
        for _ in range(times):  # on lanes twice, then in place
            same_bits(await self.executor.run(case.graph, case.feeds), walked)
        at_once = await asyncio.gather(*[self.executor.run(case.graph, case.feeds) for _ in range(3)])
        for found in at_once:
            same_bits(found, walked)
        for name, value in feeds.items():
            assert case.feeds[name].tobytes() == value.tobytes(), f"feed {name} was written"
        await settled(self.executor)

    async def walked(self, case: Case) -> dict[str, NDArray[Any]]:
        names = list(case.graph.outputs)
        realized = await self.walker.realize_many(case.graph, names, case.feeds)
        boolean = case.graph.freeze().boolean
        found = {}
        for name, (storage, layout) in zip(names, realized, strict=True):
            array = np.array(as_array(storage, layout), order="C")
            found[name] = array.view(np.bool_) if name in boolean else array
        return found


def same_bits(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        got = found[name]
        assert (got.shape, got.dtype) == (value.shape, value.dtype), name
        assert got.tobytes() == value.tobytes(), f"output {name}: {got} is not {value} to the bit"


@pytest.fixture
def rigged(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[Rigged]:
    one = Rigged(new_loop)
    yield one
    one.close()


@ALL_LOOPS
@COMMON
@given(case=graphs())
def test_all_ways_agree(rigged: Rigged, case: Case) -> None:
    rigged.check(case)


@ALL_LOOPS
@COMMON
@given(case=graphs(ops=SEVERAL))
def test_graphs_with_several_outputs_agree(rigged: Rigged, case: Case) -> None:
    rigged.check(case, times=3)


@pytest.fixture
def shattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of a handful of kernels, so that a small graph becomes many of them."""
    monkeypatch.setattr(regions, "HEAVY_NS", 400)
    monkeypatch.setattr(regions, "LONGEST_NS", 1_200)
    monkeypatch.setattr(engine_module, "INLINE_NS", -1)


@pytest.fixture
def over_two_lanes(new_loop: Callable[[], asyncio.AbstractEventLoop], shattered: None) -> Iterator[Rigged]:
    one = Rigged(new_loop, host_lanes=2)
    yield one
    one.close()


@ALL_LOOPS
@COMMON
@given(case=graphs(ops=SEVERAL, max_steps=16))
def test_so_do_outputs_that_cross_regions(over_two_lanes: Rigged, case: Case) -> None:
    over_two_lanes.check(case, times=2)


@ALL_LOOPS
@COMMON
@given(case=graphs(max_steps=25))
def test_small_regions_over_two_lanes_agree(over_two_lanes: Rigged, case: Case) -> None:
    over_two_lanes.check(case, times=2)


@pytest.mark.parametrize("new_loop", [loop_factories()["default"]])
def test_regions_are_spread_over_lanes(over_two_lanes: Rigged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above is worth something: both lanes work for one run."""
    monkeypatch.setattr("fuel_async.schedule.shape.FINE_KERNEL_NS", 0)
    case = random_graph(7, 400, window=64)
    over_two_lanes.check(case)
    lanes = over_two_lanes.executor.devices[0].lanes
    assert all(lane.busy_ns > 0 for lane in lanes)  # type: ignore[attr-defined]


@pytest.mark.parametrize("new_loop", [loop_factories()["default"]])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), nodes=st.integers(10, 400), window=st.sampled_from([2, 8, 64]), fine=st.booleans())
def test_larger_graphs_over_two_lanes_agree(
    over_two_lanes: Rigged, seed: int, nodes: int, window: int, fine: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not fine:
            patch.setattr("fuel_async.schedule.shape.FINE_KERNEL_NS", 0)
        over_two_lanes.check(random_graph(seed, nodes, window=window), times=2)


@ALL_LOOPS
def test_a_graph_of_thousands_agrees(rigged: Rigged) -> None:
    rigged.check(random_graph(3, 3_000), times=2)


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", [loop_factories()["default"]])
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=graphs(max_steps=30))
def test_all_ways_agree_at_length(over_two_lanes: Rigged, case: Case) -> None:
    over_two_lanes.check(case, times=2)


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", [loop_factories()["default"]])
@pytest.mark.parametrize("seed", range(8))
def test_large_random_graphs_agree(rigged: Rigged, seed: int) -> None:
    rigged.check(random_graph(seed, 10_000, dtypes=(fa.f32, fa.f64, fa.bf16)), times=2)
