"""Cutting a graph into regions. Each test draws its graph with predicted times in µs.

`rows` reads one row after the other: its name, its time, the rows it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.plan import HEAVY_NS, LONGEST_NS
from fuel_async.plan import regions as regions_module
from fuel_async.plan.regions import Cut, by_time, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

US = 1_000


@dataclass
class Drawn:
    """Named rows in an order in which each reads only rows before it."""

    names: list[str]
    costs_ns: list[int]
    preds: list[tuple[int, ...]]

    def cut(self, outputs: Iterable[str] = ()) -> Cut:
        return cut(self.costs_ns, self.preds, frozenset(self.names.index(name) for name in outputs))

    def regions(self, outputs: Iterable[str] = ()) -> list[str]:
        """The rows of each region, named in their order."""
        found = self.cut(outputs)
        named = [
            [name for name, at in zip(self.names, found.region_of, strict=True) if at == region]
            for region in range(found.count)
        ]
        return [" ".join(names) for names in named]

    def needs(self, outputs: Iterable[str] = ()) -> dict[str, set[str]]:
        """By region, named by its rows, the regions it needs."""
        regions = self.regions(outputs)
        return {
            name: {regions[need] for need in needs}
            for name, needs in zip(regions, self.cut(outputs).needs, strict=True)
        }


def rows(text: str) -> Drawn:
    drawn = Drawn([], [], [])
    for one in text.replace("\n", "|").split("|"):
        if not one.split():
            continue
        name, cost_us, *sources = one.split()
        drawn.names.append(name)
        drawn.costs_ns.append(round(float(cost_us) * US))
        drawn.preds.append(tuple(drawn.names.index(source) for source in sources))
    return drawn


# --- where nothing is gained by cutting ---


def test_a_light_graph_is_one_region_whatever_its_shape() -> None:
    """x 20 --> a 30, b 30 --> y 19: below 2 x 50 in all"""
    assert rows("x 20 | a 30 x | b 30 x | y 19 a b").regions() == ["x a b y"]
    assert rows("").regions() == []


def test_a_chain_is_one_region_up_to_two_milliseconds() -> None:
    """a 500 -> b 500 -> c 500 -> d 500 -> e 500"""
    assert rows("a 500 | b 500 a | c 500 b | d 500 c | e 500 d").regions() == ["a b c d", "e"]


def test_a_row_beyond_two_milliseconds_is_alone() -> None:
    """a 10 -> b 3000 -> c 10"""
    assert rows("a 10 | b 3000 a | c 10 b").regions() == ["a", "b", "c"]


def test_branches_are_cut_only_where_two_of_them_are_heavy() -> None:
    """x 500 --> a 500, b 49 --> y 5"""
    assert rows("x 500 | a 500 x | b 49 x | y 5 a b").regions() == ["x a b y"]
    assert rows("x 500 | a 500 x | b 50 x | y 5 a b").regions() == ["x", "a", "b", "y"]


def test_a_residual_connection_is_no_branch() -> None:
    """x -> f -> x2 = x + f -> g -> x3 = x2 + g: one side of each fork is empty"""
    assert rows("x 100 | f 200 x | x2 5 x f | g 200 x2 | x3 5 x2 g").regions() == ["x f x2 g x3"]


def test_a_light_diamond_inside_a_chain_is_part_of_it() -> None:
    """x 200 --> a 10, b 10 --> y 200"""
    assert rows("x 200 | a 10 x | b 10 x | y 200 a b").regions() == ["x a b y"]


def test_what_prepares_an_operand_is_put_where_it_is_read() -> None:
    """w1 20 -, w2 20 -: x 500 -> a 500 (reads w1) -> b 500 (reads w2)"""
    assert rows("w1 20 | w2 20 | x 500 | a 500 x w1 | b 500 a w2").regions() == ["w1 w2 x a b"]


def test_light_rows_that_nobody_reads_go_with_another_region() -> None:
    """x 100 -> y 100; a 10 -> b 10"""
    assert rows("x 100 | y 100 x | a 10 | b 10 a").regions() == ["x y a b"]


# --- where heavy branches part and meet ---


def test_branches_of_minutes_are_cut_as_others_are() -> None:
    hour_us = 3_600_000_000
    assert rows(f"a {hour_us} | b {hour_us} a | c {hour_us} a | d {hour_us} b c").regions() == ["a", "b", "c", "d"]


def test_three_heavy_branches_and_their_join_are_four_regions() -> None:
    """x 500 --> a 500, b 500, c 500 --> y 5"""
    drawn = rows("x 500 | a 500 x | b 500 x | c 500 x | y 5 a b c")
    assert drawn.regions() == ["x", "a", "b", "c", "y"]
    assert drawn.needs() == {"x": set(), "a": {"x"}, "b": {"x"}, "c": {"x"}, "y": {"a", "b", "c"}}


def test_a_light_trunk_is_ready_before_its_branches() -> None:
    """x 5 --> a 500, b 500, c 500 --> y 5"""
    assert rows("x 5 | a 500 x | b 500 x | c 500 x | y 5 a b c").regions() == ["x", "a", "b", "c", "y"]


def test_branches_of_many_light_rows_are_heavy_together() -> None:
    """x 5 --> a 20 -> a2 20 -> a3 20, b 20 -> b2 20 -> b3 20 --> y 5"""
    deep = "x 5 | a 20 x | a2 20 a | a3 20 a2 | b 20 x | b2 20 b | b3 20 b2 | y 5 a3 b3"
    wide = "x 5 | a 20 x | b 20 x | a2 20 a | b2 20 b | a3 20 a2 | b3 20 b2 | y 5 a3 b3"
    assert rows(deep).regions() == rows(wide).regions() == ["x", "a a2 a3", "b b2 b3", "y"]


def test_branches_may_start_at_feeds() -> None:
    """a 30 -> a2 30, b 500, c 30 -> c2 470 --> y 5"""
    drawn = rows("a 30 | b 500 | c 30 | a2 30 a | c2 470 c | y 5 a2 b c2")
    assert sorted(drawn.regions()) == ["a a2", "b", "c c2", "y"]


def test_unequal_branches_run_beside_each_other() -> None:
    """x 100 --> a 1900, b 900, c 60, d 10 --> y 5: d is too light for a region of its own"""
    drawn = rows("x 100 | a 1900 x | b 900 x | c 60 x | d 10 x | y 5 a b c d")
    assert drawn.regions() == ["x d", "a", "b", "c", "y"]


def test_one_heavy_branch_runs_beside_light_ones_that_are_heavy_together() -> None:
    """x 100 --> a 900, and s1 40, s2 40, ... s8 40"""
    sides = " | ".join(f"s{i} 40 x" for i in range(1, 9))
    drawn = rows(f"x 100 | a 900 x | {sides}")
    assert drawn.regions() == ["x s1", "a", "s2 s3 s4 s5 s6 s7 s8"]


def test_diamonds_inside_branches_stay_inside() -> None:
    """x 100 --> a 200 --> l 10, r 10 --> j 200; b likewise --> y 5"""
    drawn = rows(
        """
        x 100 | a 200 x | al 10 a | ar 10 a | aj 200 al ar
              | b 200 x | bl 10 b | br 10 b | bj 200 bl br
        y 5 aj bj
        """
    )
    assert drawn.regions() == ["x", "a al ar aj", "b bl br bj", "y"]


def test_a_branch_may_be_heavy_only_beyond_a_diamond() -> None:
    """x 100 --> a 5 --> l 10, r 10 --> j 40; b likewise --> y 5"""
    drawn = rows(
        """
        x 100 | a 5 x | al 10 a | ar 10 a | aj 40 al ar
              | b 5 x | bl 10 b | br 10 b | bj 40 bl br
        y 5 aj bj
        """
    )
    assert drawn.regions() == ["x", "a al ar aj", "b bl br bj", "y"]


def test_heavy_diamonds_inside_branches_are_cut_too() -> None:
    """x 100 --> a 100 --> l 100, r 100 --> j 100; b 400 --> y 5"""
    drawn = rows("x 100 | a 100 x | l 100 a | r 100 a | j 100 l r | b 400 x | y 5 j b")
    assert drawn.needs() == {
        "x": set(), "a": {"x"}, "l": {"a"}, "r": {"a"}, "j": {"l", "r"}, "b": {"x"}, "y": {"j", "b"},
    }  # fmt: skip


def test_branches_of_residual_blocks() -> None:
    """x --> a -> a2 = x + a -> a3 -> a4 = a2 + a3; b likewise --> y"""
    drawn = rows(
        """
        x 100 | a 100 x | a2 5 x a | a3 100 a2 | a4 5 a2 a3
              | b 100 x | b2 5 x b | b3 100 b2 | b4 5 b2 b3
        y 5 a4 b4
        """
    )
    assert drawn.regions() == ["x", "a a2 a3 a4", "b b2 b3 b4", "y"]


def test_a_sum_that_grows_while_branches_are_listed_waits_for_all_of_them() -> None:
    """x 100 --> a 500, b 500, c 500; s = a + b, then c is listed, t = s + c: t must not hold c back"""
    drawn = rows("x 100 | a 500 x | b 500 x | s 5 a b | c 500 x | t 5 s c")
    assert drawn.needs() == {"x": set(), "a": {"x"}, "b": {"x"}, "c": {"x"}, "s t": {"a", "b", "c"}}


def test_branches_may_start_with_a_row_of_two_trunk_rows() -> None:
    """x 100 -> g 20; each expert: e = select(x, g) 10 -> f 500; y joins them"""
    drawn = rows(
        """
        x 100 | g 20 x
        e1 10 x g | f1 500 e1
        e2 10 x g | f2 500 e2
        e3 10 x g | f3 500 e3
        y 5 f1 f2 f3
        """
    )
    assert drawn.regions() == ["x g", "e1 f1", "e2 f2", "e3 f3", "y"]


def test_a_light_row_that_heavy_branches_share_keeps_none_of_them_waiting() -> None:
    """a 500, b 500 from feeds, m 3: a2 = a + m -> a3 500, b2 = b + m -> b3 500, y joins them"""
    drawn = rows("m 3 | a 500 | a2 5 a m | a3 500 a2 | b 500 | b2 5 b m | b3 500 b2 | y 5 a3 b3")
    assert drawn.needs() == {
        "m": set(), "a a2 a3": {"m"}, "b b2 b3": {"m"}, "y": {"a a2 a3", "b b2 b3"},
    }  # fmt: skip


def test_a_light_row_that_is_read_again_further_down_makes_no_region() -> None:
    """m 3 is read by a1 and, after a2, by a3: everything waits for a1 as it is"""
    assert rows("m 3 | a 500 | a1 5 a m | a2 500 a1 | a3 5 a2 m").regions() == ["m a a1 a2 a3"]


def test_a_row_that_reads_only_a_guest_does_not_wait_for_its_host() -> None:
    """m 3; a 500 from a feed, a2 = a + m -> a3 500; b = f(m) 500"""
    drawn = rows("m 3 | a 500 | a2 5 a m | a3 500 a2 | b 500 m | y 5 a3 b")
    assert drawn.needs() == {"m": set(), "a a2 a3": {"m"}, "b": {"m"}, "y": {"a a2 a3", "b"}}


def test_queries_keys_and_values_run_beside_each_other() -> None:
    """n --> q, k, v; s = q k' -> p = softmax -> o = p v -> r: a v that takes longer does not keep s waiting"""
    equal = rows("n 20 | q 300 n | k 300 n | v 300 n | s 200 q k | p 50 s | o 200 p v | r 300 o").needs()
    assert equal == {"n": set(), "q": {"n"}, "k": {"n"}, "v": {"n"}, "s p o r": {"q", "k", "v"}}
    later = rows("n 20 | q 300 n | k 300 n | v 400 n | s 200 q k | p 50 s | o 200 p v | r 300 o").needs()
    assert later["s p"] == {"q", "k"}
    assert later["o r"] == {"s p", "v"}


def test_towers_that_exchange_run_beside_each_other() -> None:
    """u, v 300; then twice: u' = f(u, v), v' = g(u, v), 300 each"""
    drawn = rows("u 300 | v 300 | u1 300 u v | v1 300 u v | u2 300 u1 v1 | v2 300 u1 v1")
    needs = drawn.needs()
    assert sorted(needs) == ["u", "u1", "u2", "v", "v1", "v2"]
    assert needs["u1"] == needs["v1"] == {"u", "v"}
    assert needs["u2"] == needs["v2"] == {"u1", "v1"}


def test_every_level_of_a_grid_runs_at_once() -> None:
    """four columns; each row of a level reads two of the level before"""
    drawn = rows("a 60 | b 60 | c 60 | d 60 | e 60 a b | f 60 b c | g 60 c d | h 60 d a | z 5 e f g h")
    assert drawn.cut().count == 9
    assert _makespan_ns(drawn.costs_ns, drawn.cut()) == 125 * US


def test_a_requested_output_is_ready_before_a_heavy_branch_that_follows() -> None:
    """x 500 (an output) -> y 500: nobody waits longer for x than it takes"""
    text = "x 500 | y 500 x"
    assert rows(text).regions() == ["x y"]
    assert rows(text).regions(outputs=["x"]) == ["x", "y"]
    assert rows("x 500 | y 49 x").regions(outputs=["x"]) == ["x y"]
    assert rows("x 49 | y 500 x").regions(outputs=["x"]) == ["x y"]


@pytest.mark.parametrize("cost_us", [1, 30, 49])
def test_many_light_rows_make_few_regions(cost_us: int) -> None:
    """a mesh: row i reads rows i-1 and i-3"""
    count = 4_000
    preds = [tuple({i - 1, i - 3} & set(range(i))) for i in range(count)]
    found = cut([cost_us * US] * count, preds)
    assert found.count <= 2 * count * cost_us * US // LONGEST_NS + 1


def test_a_graph_that_would_be_shattered_is_cut_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """too many regions for what there is to do: then none of them runs beside another"""
    drawn = rows("x 900 | a 900 x | b 900 x | c 900 x | y 5 a b c")
    assert drawn.cut().count == 5
    monkeypatch.setattr(regions_module, "_SLACK_REGIONS", -10_000)
    assert drawn.regions() == ["x a", "b c y"]


def test_a_join_of_very_many_light_rows_keeps_to_the_bound() -> None:
    """a_1 ... a_100, 45 each --> y 5"""
    names = [f"a{i}" for i in range(100)]
    drawn = rows(" | ".join(f"{name} 45" for name in names) + f" | y 5 {' '.join(names)}")
    found = drawn.cut()
    _check(drawn.costs_ns, drawn.preds, found)
    assert 3 <= found.count <= 4


def test_the_order_of_rows_does_not_decide_what_is_parallel() -> None:
    """x 200 --> a 100 -> a2 100, b 100 -> b2 100, c 200 --> y 5, listed in any order that the reads allow"""
    text = {"x": [], "a": ["x"], "a2": ["a"], "b": ["x"], "b2": ["b"], "c": ["x"], "y": ["a2", "b2", "c"]}
    costs = dict.fromkeys(text, 100) | {"x": 200, "c": 200, "y": 5}
    orders = list(_orders(text))
    assert len(orders) == 30
    for order in orders:
        drawn = rows(" | ".join(f"{name} {costs[name]} {' '.join(text[name])}" for name in order))
        assert sorted(drawn.regions()) == ["a a2", "b b2", "c", "x", "y"]


def _orders(reads: Mapping[str, Sequence[str]], done: tuple[str, ...] = ()) -> Iterable[tuple[str, ...]]:
    if len(done) == len(reads):
        yield done
    for name, sources in reads.items():
        if name not in done and set(sources) <= set(done):
            yield from _orders(reads, (*done, name))


# --- laws ---


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, ...]]]:
    """Random rows: times from nothing to beyond the bound, reads near and far, some rows without any."""
    count = draw(st.integers(1, 60))
    unit = draw(st.sampled_from([0, 1, 10 * US, 40 * US, HEAVY_NS, 400 * US]))
    near = draw(st.integers(1, 20))
    costs = draw(st.lists(st.integers(0, 6 * unit), min_size=count, max_size=count))
    preds = [
        tuple(draw(st.sets(st.integers(max(0, i - near), i - 1), max_size=min(i, 4)))) if i else ()
        for i in range(count)
    ]
    return costs, preds


def _check(costs: Sequence[int], preds: Sequence[tuple[int, ...]], found: Cut) -> None:
    """Every row in exactly one region; needs exact and upwards only; the bound kept; not too many regions."""
    assert len(found.region_of) == len(costs)
    members: list[list[int]] = [[] for _ in range(found.count)]
    for row, region in enumerate(found.region_of):
        members[region].append(row)
    assert all(members)
    for region, inside in enumerate(members):
        read = {found.region_of[source] for row in inside for source in preds[row]} - {region}
        assert found.needs[region] == read
        assert all(need < region for need in read)
        assert len(inside) == 1 or sum(costs[row] for row in inside) <= LONGEST_NS
    assert found.count <= max(1, 2 * sum(costs) // HEAVY_NS + 8)


def _makespan_ns(costs: Sequence[int], found: Cut) -> int:
    """When the last region ends on as many lanes as it takes."""
    taken = [0] * found.count
    for row, region in enumerate(found.region_of):
        taken[region] += costs[row]
    ends: list[int] = []
    for region, needs in enumerate(found.needs):
        ends.append(taken[region] + max((ends[need] for need in needs), default=0))
    return max(ends)


OUTPUTS = st.frozensets(st.integers(0, 59), max_size=3)


def _cut_soundly(graph: tuple[list[int], list[tuple[int, ...]]], outputs: frozenset[int]) -> None:
    costs, preds = graph
    requested = frozenset(row for row in outputs if row < len(costs))
    found = cut(costs, preds, requested)
    _check(costs, preds, found)
    assert cut(costs, preds, requested) == found  # the same each time
    assert _makespan_ns(costs, found) <= sum(costs)


@given(graphs(), OUTPUTS)
@settings(max_examples=40)
def test_any_graph_is_cut_soundly(graph: tuple[list[int], list[tuple[int, ...]]], outputs: frozenset[int]) -> None:
    _cut_soundly(graph, outputs)


@pytest.mark.slow
@given(graphs(), OUTPUTS)
@settings(max_examples=1_500)
def test_any_of_many_graphs_is_cut_soundly(
    graph: tuple[list[int], list[tuple[int, ...]]], outputs: frozenset[int]
) -> None:
    _cut_soundly(graph, outputs)


@given(st.lists(st.integers(0, 3 * LONGEST_NS)))
def test_cutting_by_time_keeps_the_order_and_the_bound(costs: list[int]) -> None:
    preds = [(row - 1,) if row else () for row in range(len(costs))]
    regions = by_time(costs)
    assert regions == sorted(regions)
    for region in set(regions):
        inside = [cost for cost, at in zip(costs, regions, strict=True) if at == region]
        assert sum(inside) <= LONGEST_NS or [cost for cost in inside if cost] == [sum(inside)]
    assert len(preds) == len(regions)


class Nested:
    """A graph of series and parallel parts, drawn at random; every branch of a fork is heavy."""

    def __init__(self) -> None:
        self.costs: list[int] = []
        self.preds: list[tuple[int, ...]] = []

    def row(self, cost_us: int, *sources: int) -> int:
        self.costs.append(cost_us * US)
        self.preds.append(sources)
        return len(self.costs) - 1

    def part(self, draw: st.DrawFn, depth: int, source: int) -> int:
        match draw(st.sampled_from(["row", "series", "fork"] if depth else ["row"])):
            case "series":
                return self.part(draw, depth - 1, self.part(draw, depth - 1, source))
            case "fork":
                ends = [self.part(draw, depth - 1, source) for _ in range(draw(st.integers(2, 4)))]
                return self.row(draw(st.integers(1, 20)), *ends)
            case _:
                return self.row(draw(st.integers(100, 900)), source)


@st.composite
def nested(draw: st.DrawFn) -> Nested:
    made = Nested()
    source = made.row(draw(st.integers(1, 300)))
    made.part(draw, 4, source)
    return made


@given(nested())
@settings(max_examples=50)
def test_forks_of_heavy_branches_lose_little_against_perfect_parallelism(graph: Nested) -> None:
    ends: list[int] = []
    for cost, sources in zip(graph.costs, graph.preds, strict=True):
        ends.append(cost + max((ends[source] for source in sources), default=0))
    found = cut(graph.costs, graph.preds)
    _check(graph.costs, graph.preds, found)
    assert _makespan_ns(graph.costs, found) <= 1.25 * max(ends)


def test_it_breathes_at_least_every_64_rows() -> None:
    count, breaths = 10_000, list[None]()
    preds = [(row - 1,) if row else () for row in range(count)]
    cut([20 * US] * count, preds, breathe=lambda: breaths.append(None))
    assert len(breaths) >= 3 * count // 64
