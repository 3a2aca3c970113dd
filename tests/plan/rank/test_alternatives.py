"""Ranking candidates and keeping the best of each device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.cost import AccuracyClass, CostVector, MemoryTiers, PriceSource
from fuel_async.errors import InvariantBroken, UserError
from fuel_async.ir import CostEstimate, DType, OpKind, PrecisionGuarantee, SizeClass
from fuel_async.plan import KEEP_PER_DEVICE, AlternativeSet, Candidate, CouplingAdjustment, DecisionContext
from fuel_async.plan.rank.frontier import crowding_distances, frontier
from tests.plan.rank.support import CPU, CUDA, CUDA0, HOST, MOST, REFERENCE, UNAUDITED, VK0, VULKAN, candidate, times

if TYPE_CHECKING:
    from collections.abc import Callable

CONTEXT = DecisionContext(OpKind.MatMul, DType.F32, SizeClass(3))


def ranked(*candidates: Candidate) -> AlternativeSet:
    found = AlternativeSet.from_candidates(candidates)
    found.rank_by_cost()
    return found


def digits(count: int) -> PrecisionGuarantee:
    return PrecisionGuarantee(max_relative=10.0**-count)


# --- one candidate ---


def test_cc_8_a_candidates_vector() -> None:
    one = candidate(static_cost=CostEstimate(1000, 4000, 50), inbound_transfer_ns=777)
    assert one.vector() == CostVector(1827, MemoryTiers(host_ram_bytes=4000), 18, AccuracyClass.CorrectlyRounded)
    away = candidate(device=CUDA0, static_cost=CostEstimate(3000, 4000, 50))
    assert away.vector().time == 150
    assert away.vector().memory == MemoryTiers(device_vram_bytes=4000)


def test_limitation_7_a_candidate_has_the_rates_of_its_device() -> None:
    """The original compares by default rates and places by registered ones: two prices for one candidate."""
    registered = candidate(static_cost=CostEstimate(3000, 4000, 50), rates=(3000.0, 4000.0))
    assert registered.effective_ns() == registered.vector().time == 51


def test_an_unpriced_candidate_has_no_time() -> None:
    assert candidate().effective_ns() is None
    assert candidate(inbound_transfer_ns=5).vector() == CostVector(None, None, 18, AccuracyClass.CorrectlyRounded)


def test_times_stay_within_64_bits_and_above_nothing() -> None:
    assert candidate(MOST, inbound_transfer_ns=MOST).effective_ns() == MOST
    saved = candidate(100, coupling=(CouplingAdjustment("fused", -500),))
    assert saved.effective_ns({"fused"}) == 0


def test_couplings_count_where_their_conditions_hold() -> None:
    one = candidate(100, coupling=(CouplingAdjustment("a", 10), CouplingAdjustment("b", -5), CouplingAdjustment()))
    held: list[set[str]] = [set(), {"a"}, {"a", "b"}, {"c"}]
    assert [one.effective_ns(conditions) for conditions in held] == [100, 110, 105, 100]


# --- sets ---


def test_a_set_is_filled_and_looked_at() -> None:
    found = AlternativeSet.empty()
    assert found.is_empty()
    assert found.winner() is None
    assert found.best_given(frozenset()) is None
    found.push(candidate(3))
    found.push(candidate(2, CUDA0))
    assert (len(found), found.devices()) == (2, (HOST, CUDA0))
    assert repr(found) == "<AlternativeSet of 2 on cpu:0, cuda:0>"
    assert found.winner() is found.alternatives()[0]
    found.set_static_cost(0, CostEstimate(7))
    found.set_inbound_transfer_ns(0, 9)
    assert times(found) == [16, 2]
    found.put(1, candidate(measured_ns=4))
    found.set_static_cost(1, CostEstimate(9))
    assert [one.price_source for one in found] == [PriceSource.COUNTED, PriceSource.MEASURED]
    found.set_static_cost(0, CostEstimate())
    assert found.alternatives()[0].price_source is PriceSource.UNPRICED
    assert times(found) == [None, 4]


def test_the_context_survives_every_change() -> None:
    found = ranked(candidate(2), candidate(1), candidate(3))
    found.set_context(CONTEXT)
    found.set_conditions({"a"})
    found.rank_by_composite_cost()
    found.retain_indices([0, 2])
    found.retain_per_device_frontier(1)
    for each in (found, found.copy(), found.of([])):
        assert each.context == CONTEXT
        assert each.conditions == {"a"}
    found.copy().push(candidate(1))
    assert len(found) == 1


def test_a_final_set_never_changes() -> None:
    found = ranked(candidate(1), candidate(2)).finalize()
    changes: list[Callable[[AlternativeSet], object]] = [
        lambda them: them.push(candidate(3)),
        lambda them: them.put(0, candidate(3)),
        lambda them: them.set_static_cost(0, CostEstimate(3)),
        lambda them: them.set_inbound_transfer_ns(0, 3),
        lambda them: them.set_context(CONTEXT),
        lambda them: them.set_conditions({"a"}),
        lambda them: them.retain_indices([]),
        AlternativeSet.rank_by_cost,
        AlternativeSet.retain_per_device_frontier,
    ]
    for change in changes:
        with pytest.raises(UserError, match=r"change a copy\(\)"):
            change(found)
        change(found.copy())
    assert times(found) == [1, 2]


@pytest.mark.parametrize("keep", [[1, 0], [0, 0], [3], [-1], [0, 3]])
def test_indices_to_keep_ascend_and_are_in_range(keep: list[int]) -> None:
    found = ranked(candidate(1), candidate(2), candidate(3))
    with pytest.raises(InvariantBroken, match="indices to keep"):
        found.retain_indices(keep)
    assert len(found) == 3
    found.retain_indices([])
    assert found.is_empty()


def test_cc_10_the_order_of_ranking() -> None:
    rows = [((300, 0, 0), 0), ((100, 0, 0), 50), ((200, 800, 0), 0), ((0, 4000, 10), 90), ((120, 0, 0), 0)]
    found = ranked(*[candidate(static_cost=CostEstimate(*cost), inbound_transfer_ns=ns) for cost, ns in rows])
    assert [one.static_cost.flops for one in found] == [120, 100, 200, 300, 0]


def test_equals_keep_their_order_and_unpriced_ones_come_last() -> None:
    first, second, never = candidate(5), candidate(5), candidate(precision=REFERENCE)
    found = AlternativeSet.from_candidates([never, first, second])
    found.rank_by_cost()
    assert [id(one) for one in found] == [id(first), id(second), id(never)]


def test_what_was_decided_beside_it_changes_the_best() -> None:
    """Limitation 1: couplings are made and asked for."""
    here = candidate(100, coupling=(CouplingAdjustment("operand 0 on cuda:0", 1000),))
    there = candidate(900, CUDA0, coupling=(CouplingAdjustment("operand 0 on cuda:0", -700),))
    found = ranked(here, there)
    assert found.winner() is found.best_given(frozenset()) is here
    assert found.best_given({"operand 0 on cuda:0"}) is there


# --- frontiers ---


def kept(keep: int, *candidates: Candidate) -> list[int | None]:
    found = ranked(*candidates)
    found.retain_per_device_frontier(keep)
    return times(found)


def test_cc_9_a_device_that_is_slow_for_now_stays() -> None:
    assert kept(32, *[candidate(ns) for ns in (100, 200, 300)], candidate(10_000, CUDA0)) == [100, 10_000]


def test_cc_9_what_is_beaten_on_every_axis_goes() -> None:
    assert kept(32, candidate(100), candidate(500, precision=UNAUDITED)) == [100]
    assert kept(32, *[candidate(ns) for ns in (5, 4, 3, 2, 1)]) == [1]


def test_cc_9_of_too_many_the_spread_is_kept() -> None:
    found = [candidate(100 * place, precision=digits(place + 1)) for place in range(1, 11)]
    assert kept(4, *found) == [100, 500, 700, 1000]


def test_cc_9_every_device_keeps_its_share() -> None:
    found = ranked(
        *[
            candidate(100 * place, device, precision=digits(place))
            for device in (HOST, CUDA0, VK0)
            for place in range(1, 7)
        ]
    )
    found.retain_per_device_frontier(3)
    assert {device: sum(one.device == device for one in found) for device in found.devices()} == {
        HOST: 3,
        CUDA0: 3,
        VK0: 3,
    }


def test_a_backend_keeps_one_however_beaten_it_is() -> None:
    found = ranked(candidate(1), candidate(9, backend=CUDA), candidate(8, backend=CUDA), candidate(7, backend=VULKAN))
    found.retain_per_device_frontier(1)
    # More backends than are to be kept: the original's own assertion fails here.
    assert [(one.backend, one.effective_ns()) for one in found] == [(CPU, 1), (VULKAN, 7), (CUDA, 8)]


def test_an_empty_set_has_no_frontier_and_nothing_is_too_little_to_keep() -> None:
    assert kept(0) == []
    assert kept(0, candidate(2), candidate(3, precision=UNAUDITED)) == [2]
    assert KEEP_PER_DEVICE == 32


def test_a_winner_stays_whatever_beats_it() -> None:
    vectors = [candidate(ns).vector() for ns in (1, 2, 3)]
    assert frontier(vectors, [CPU] * 3, 1, winner=2) == [2]
    assert frontier(vectors, [CPU] * 3, 2, winner=2) == [0, 2]
    assert frontier(vectors, [CPU] * 3, 1) == [0]


def test_an_axis_on_which_all_are_equal_pins_nobody() -> None:
    """In the original the first and the last of the list count as the ends of every axis, those included."""
    vectors = [CostVector(time, MemoryTiers(), 5, AccuracyClass.Stable) for time in (3, 1, 2, 4)]
    assert crowding_distances(vectors) == [pytest.approx(2 / 3), math.inf, pytest.approx(2 / 3), math.inf]
    assert crowding_distances(vectors[:2]) == [math.inf] * 2


def test_an_unpriced_candidate_is_as_far_out_as_the_slowest() -> None:
    vectors = [CostVector(time, None, 5, AccuracyClass.Stable) for time in (1, None, 5)]
    assert crowding_distances(vectors) == [math.inf, 0 + 1, math.inf]


guarantees = st.sampled_from([REFERENCE, UNAUDITED, digits(3), digits(6), PrecisionGuarantee(True, max_ulp=2)])
some: st.SearchStrategy[Candidate] = st.builds(
    candidate,
    st.integers(0, 6),
    st.sampled_from([HOST, CUDA0, VK0]),
    precision=guarantees,
    backend=st.sampled_from([CPU, CUDA, VULKAN]),
    inbound_transfer_ns=st.integers(0, 3),
    measured_ns=st.sampled_from([None, None, 1, 4]),
)
sets = st.lists(some, max_size=14)


def by_device(candidates: Any) -> dict[Any, list[Candidate]]:
    found: dict[Any, list[Candidate]] = {}
    for one in candidates:
        found.setdefault(one.device, []).append(one)
    return found


@given(sets, st.integers(1, 5))
def test_the_laws_of_frontiers(candidates: list[Candidate], keep: int) -> None:
    found = ranked(*candidates)
    winner = found.winner()
    found.retain_per_device_frontier(keep)
    assert found.winner() is winner
    before, after = by_device(candidates), by_device(found)
    assert before.keys() == after.keys()
    for device, members in after.items():
        backends = {one.backend for one in before[device]}
        assert {one.backend for one in members} == backends  # none is stranded
        assert len(members) <= max(keep, len(backends))
    again = found.copy()
    again.retain_per_device_frontier(keep)
    assert times(again) == times(found)


@given(sets)
def test_a_wide_frontier_drops_only_what_is_beaten(candidates: list[Candidate]) -> None:
    vectors = [one.vector() for one in candidates]
    members = frontier(vectors, [one.backend for one in candidates], max(len(candidates), 1))
    for index, mine in enumerate(vectors):
        beaten = any(other.dominates(mine) for other in vectors)
        assert beaten or index in members
        if index in members and beaten:  # the best of its backend
            others = [vectors[place] for place in members if candidates[place].backend == candidates[index].backend]
            assert others == [mine]


@given(sets)
def test_ranking_is_stable_and_puts_what_is_unpriced_last(candidates: list[Candidate]) -> None:
    found = ranked(*candidates)
    places = {id(one): place for place, one in enumerate(candidates)}
    keys = [(one.vector().total_order_key, places[id(one)]) for one in found]
    assert keys == sorted(keys)
    unpriced = [one.effective_ns() is None for one in found]
    assert unpriced == sorted(unpriced)
    assert all(one.effective_ns() is None or not one.static_cost.is_unpriced or one.measured_ns for one in found)
