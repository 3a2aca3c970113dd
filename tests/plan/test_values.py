"""Values that cross regions: what plans say of them, and that copying them is enough to spread a run over memories."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.backends.cpu.instance import HostInstance
from fuel_async.dispatch import SlotClass
from fuel_async.ir import FrozenGraph, no_breath
from fuel_async.plan import Plan, Value, make_plan
from fuel_async.storage import HostArena
from fuel_async.streams import History
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.destroying import DESTROYING
from tests.plan.support import US, target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

HEAVY = target(call_ns=60 * US)
SPREAD = target(call_ns=60 * US, spread=True)
#: Rows that share regions: values are made, read and written over inside.
COARSE = target(call_ns=20 * US, spread=True)


def diamond() -> FrozenGraph:
    """x --> t --> a (requested), b --> y = a - b.T, read through a view; c is a constant"""
    g = fa.Graph("diamond")
    t = g.input("x", (4, 4)).tanh()
    g.input("unread", (3,))
    a, b = t @ g.constant(np.eye(4, dtype=np.float32)), t.exp()
    g.output("a", a)
    g.output("y", a - b.T)
    return g.freeze()


def test_feeds_come_first_then_values_by_the_region_that_makes_them() -> None:
    plan = make_plan(diamond(), SPREAD)
    regions = {region.program.graph.ops[region.program.nodes[0]].name: n for n, region in enumerate(plan.regions)}
    assert list(regions) == ["tanh", "matmul", "exp", "sub"]
    temporary = SlotClass.TEMPORARY
    assert [(value.kind, value.nbytes, value.producer) for value in plan.values] == [
        (SlotClass.FEED, 64, -1), (temporary, 64, 0), (SlotClass.OUTPUT, 64, 1), (temporary, 64, 2),
        (SlotClass.OUTPUT, 64, 3),
    ]  # fmt: skip
    assert [value.place for value in plan.values if value.kind is not temporary] == [0, 0, 1]
    assert [region.reads for region in plan.regions] == [(0,), (1,), (1,), (2, 3)]
    assert [region.writes for region in plan.regions] == [(1,), (2,), (3,), (4,)]
    assert [region.constants for region in plan.regions] == [(), (0,), (), ()]


def test_a_plan_for_one_device_lists_none_and_is_the_same_otherwise() -> None:
    plain, spread = make_plan(diamond(), HEAVY), make_plan(diamond(), SPREAD)
    assert plain.values == ()
    assert {(region.reads, region.writes, region.constants) for region in plain.regions} == {((), (), ())}
    for one, other in zip(plain.regions, spread.regions, strict=True):
        assert (one.needs, one.dependents, one.program.rows) == (other.needs, other.dependents, other.program.rows)
        assert list(one.program.slots.places) == list(other.program.slots.places)


def test_a_value_inside_one_region_crosses_nothing() -> None:
    g = fa.Graph()
    x = g.input("x", (4,))
    g.output("y", x.exp().sin() + x)
    (region,) = (plan := make_plan(g.freeze(), target(spread=True))).regions
    assert plan.values == (Value(SlotClass.FEED, 0, 16, -1), Value(SlotClass.OUTPUT, 0, 16, 0))
    assert (region.reads, region.writes) == ((0,), (1,))


def test_a_graph_without_kernels_has_no_values() -> None:
    g = fa.Graph()
    g.input("x", (2,))
    assert make_plan(g.freeze(), SPREAD).values == ()


def test_it_breathes_at_least_every_64_rows() -> None:
    graph = random_graph(4, 2_000, shape=(4,)).graph.freeze()
    breaths: list[int] = []
    for kind in (HEAVY, SPREAD):
        breaths.append(0)

        def breathe() -> None:
            breaths[-1] += 1

        kernels = make_plan(graph, kind, breathe).kernels
    assert breaths[1] - breaths[0] >= kernels // 64


# --- laws ---


def check_values(plan: Plan) -> None:
    """Needs are the producers of what is read, and readers of what is written over; each value is made once, and only
    listed when it crosses.
    """
    for region in plan.regions:
        producers = {plan.values[place].producer for place in region.reads} - {-1}
        assert producers == region.needs or (plan.graph.destructive and producers < region.needs)
        assert list(region.reads) == sorted(set(region.reads))
        assert list(region.constants) == sorted(set(region.constants))
        assert set(region.program.feeds) == {
            plan.values[place].place for place in region.reads if plan.values[place].kind is SlotClass.FEED
        }
    made = [place for region in plan.regions for place in region.writes]
    first = sum(value.kind is SlotClass.FEED for value in plan.values)
    assert made == list(range(first, len(plan.values)))
    read = {place for region in plan.regions for place in region.reads}
    for place, value in enumerate(plan.values):
        assert place in read or value.kind is SlotClass.OUTPUT
    delivered = [value.place for value in plan.values if value.kind is SlotClass.OUTPUT]
    assert sorted(delivered) == list(range(len(plan.outputs)))


class Memory:
    """The arena, feeds, outputs and constants of one device, full of nonsense until something is copied there."""

    def __init__(self, plan: Plan, constants: Sequence[Any]) -> None:
        self.plan, self.constants = plan, constants
        self.arena = HostArena(plan.arena_nbytes)
        self.arena._buffer.fill(0xFF)
        self.feeds = [_nonsense(port.type) for port in plan.feeds]
        self.outputs = [_nonsense(port.type) for port in plan.outputs]

    def array(self, place: int) -> Array:
        """The bytes of a value here."""
        value = self.plan.values[place]
        match value.kind:
            case SlotClass.FEED:
                return self.feeds[value.place]
            case SlotClass.OUTPUT:
                return self.outputs[value.place]
            case _:
                return self.arena.array(self.plan.regions[0].program.slots, value.place)


def _nonsense(kind: Any) -> Array:
    return np.full(kind.shape, 77, kind.dtype.require_np())


class Spread:
    """A plan whose regions are divided among memories. Feeds lie in memory 0."""

    def __init__(self, plan: Plan, graph: FrozenGraph, homes: Sequence[int]) -> None:
        self.plan, self.homes = plan, homes
        read: dict[int, set[int]] = defaultdict(set)
        for home, region in zip(homes, plan.regions, strict=True):
            read[home].update(region.constants)
        # A constant that no region of a memory reads is not there.
        self.memories = [
            Memory(plan, [graph.constants[node] if i in read[m] else None for i, node in enumerate(plan.constants)])
            for m in range(max(homes, default=0) + 1)
        ]
        self.instances = [
            HostInstance(region.program, memory.constants, memory.arena, History(1), no_breath)
            for region, memory in zip(plan.regions, [self.memories[home] for home in homes], strict=True)
        ]

    def run(self, feeds: Mapping[str, Array], choice: random.Random) -> dict[str, bytes]:
        """Run the regions in a random order that their needs allow; each copy is made at a random moment before."""
        self.memories[0].feeds = [feeds[port.name] for port in self.plan.feeds]
        done, left = {-1}, set(range(len(self.plan.regions)))
        copied: set[tuple[int, int]] = set()
        while left:
            for region in sorted(left):  # some copies are made long before they are needed
                self._copy(region, done, copied, choice, often=0.3)
            region = choice.choice([r for r in sorted(left) if self.plan.regions[r].needs <= done])
            self._copy(region, done, copied, choice, often=1.0)
            program, memory = self.plan.regions[region].program, self.memories[self.homes[region]]
            given = [memory.feeds[place] for place in program.feeds]
            results = [memory.outputs[place] for place in program.outputs]
            with np.errstate(all="ignore"):
                self.instances[region].execute(given, results, (), (), None, None)
            left.discard(region)
            done.add(region)
        return {
            self.plan.outputs[value.place].name: self.memories[self.homes[value.producer]].array(place).tobytes()
            for place, value in enumerate(self.plan.values)
            if value.kind is SlotClass.OUTPUT
        }

    def _copy(
        self, region: int, done: set[int], copied: set[tuple[int, int]], choice: random.Random, often: float
    ) -> None:
        home = self.homes[region]
        for place in self.plan.regions[region].reads:
            producer = self.plan.values[place].producer
            source = 0 if producer < 0 else self.homes[producer]
            if source != home and producer in done and (place, region) not in copied and choice.random() < often:
                self.memories[home].array(place)[...] = self.memories[source].array(place)
                copied.add((place, region))


def _dense(feeds: Mapping[str, Any]) -> dict[str, Array]:
    """Feeds as a run hands them over: row-major, truth values as uint8."""
    arrays = {name: np.array(value, order="C", copy=True) for name, value in feeds.items()}
    return {name: array.view(np.uint8) if array.dtype == np.bool_ else array for name, array in arrays.items()}


def check(case: Case, plan: Plan, graph: FrozenGraph, choice: random.Random, memories: int, orders: int) -> None:
    """Any division of the regions among memories, in any order, gives the bytes of one memory."""
    check_values(plan)
    feeds, count = _dense(case.feeds), len(plan.regions)
    wanted = Spread(plan, graph, [0] * count).run(feeds, random.Random(0))
    spread = Spread(plan, graph, [choice.randrange(memories) for _ in range(count)])
    for _ in range(orders):  # what a run leaves behind in the memories does no harm to the next
        assert spread.run(feeds, choice) == wanted


@given(graphs(max_steps=16), st.randoms(use_true_random=False), st.integers(2, 4), st.sampled_from([SPREAD, COARSE]))
@settings(max_examples=40)
def test_regions_in_any_memories_give_the_bytes_of_one(
    case: Case, choice: random.Random, memories: int, made_for: Any
) -> None:
    graph = case.graph.freeze().bind(case.sizes)
    check(case, make_plan(graph, made_for), graph, choice, memories, orders=2)


@pytest.mark.parametrize("seed", range(8))
def test_a_value_that_is_written_over_in_one_memory_is_another_value(seed: int) -> None:
    """the version before and the one after have one place and may be wanted in different memories at one time"""
    case = random_graph(seed, 150, ops=(*DESTROYING, "add", "exp", "reshape"), shape=(3, 5), window=6 + 6 * seed)
    graph = case.graph.freeze()
    plan = make_plan(graph, SPREAD if seed % 2 else COARSE)
    places: dict[int, set[int]] = defaultdict(set)
    slots = plan.regions[0].program.slots
    for value in plan.values:
        if value.kind is SlotClass.TEMPORARY:
            places[slots.places[value.place]].add(value.producer)
    assert max(map(len, places.values())) > 1  # versions of one place cross
    check(case, plan, graph, random.Random(seed), memories=3, orders=3)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_for_larger_graphs_of_one_shape(seed: int) -> None:
    """equal sizes make values share bytes and be written over where they lie as often as can be"""
    case = random_graph(seed, 150, shape=(3, 5), window=10 + 10 * seed)
    graph = case.graph.freeze()
    plan = make_plan(graph, SPREAD if seed % 2 else COARSE)
    assert len(plan.regions) > 5
    check(case, plan, graph, random.Random(seed), memories=3, orders=3)
