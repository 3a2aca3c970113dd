"""Demands and preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.errors import FilterRejected, UserError
from fuel_async.ir import DType, Layout, OpKind, PrecisionGuarantee
from fuel_async.plan import (
    AlternativeFilter,
    AlternativeSet,
    BitStablePreferenceFilter,
    Candidate,
    FilterClass,
    FilterContext,
    PrecisionFloorFilter,
    PrecisionRequirement,
    StridedInputPreferenceFilter,
    apply_filter_chain,
    default_chain,
)
from tests.plan.rank.support import CUDA0, HOST, REFERENCE, UNAUDITED, VK0, candidate, stable

if TYPE_CHECKING:
    from collections.abc import Sequence

F32 = DType.F32
PLAIN = FilterContext(OpKind.NegElementwise, (F32, F32), (Layout.contiguous((4, 4)),))
STRIDED = FilterContext(OpKind.NegElementwise, (F32, F32), (Layout.contiguous((4, 4)).permute((1, 0)),))


class Keep:
    """A filter that keeps what it is told, and notes how many it was asked about."""

    def __init__(self, keep: Sequence[int], wanted: FilterClass = FilterClass.Hard) -> None:
        self.keep, self.wanted = keep, wanted
        self.asked: list[int] = []

    def filter(self, alternatives: Sequence[Candidate], context: FilterContext) -> Sequence[int]:
        self.asked.append(len(alternatives))
        return self.keep

    def classification(self) -> FilterClass:
        return self.wanted

    def name(self) -> str:
        return "keep"


def three() -> AlternativeSet:
    return AlternativeSet.from_candidates(candidate(ns) for ns in (1, 2, 3))


def left(alternatives: AlternativeSet) -> list[int]:
    return [one.static_cost.kernel_overhead_ns for one in alternatives]


# --- single filters ---


@pytest.mark.parametrize(
    ("requirement", "claims", "kept"),
    [
        (PrecisionRequirement(max_ulp=2), [{"max_ulp": 0}, {"max_ulp": 2}, {"max_ulp": 3}], [0, 1]),
        (PrecisionRequirement(max_ulp=5), [{}], []),
        (PrecisionRequirement(max_relative=1e-3), [{"max_relative": 1e-4}, {"max_relative": 1e-2}], [0]),
        (PrecisionRequirement(max_absolute=0.5), [{"max_absolute": 0.5}, {"max_relative": 0.0}], [0]),
        (
            PrecisionRequirement(require_bit_stable=True, max_ulp=1),
            [
                {"bit_stable_on_same_hardware": True, "max_ulp": 0},
                {"bit_stable_on_same_hardware": True, "max_ulp": 5},
                {"max_ulp": 0},
            ],
            [0],
        ),
        (PrecisionRequirement(), [{}, {"max_ulp": 3}], [0, 1]),
        (PrecisionRequirement.BIT_STABLE, [{}, {"bit_stable_on_same_hardware": True}], [1]),
    ],
)
def test_cc_2_the_floor_admits_what_is_proven(
    requirement: PrecisionRequirement, claims: list[dict[str, float]], kept: list[int]
) -> None:
    candidates = [candidate(1, precision=PrecisionGuarantee(**each)) for each in claims]  # type: ignore[arg-type]
    floor = PrecisionFloorFilter(requirement)
    assert floor.filter(candidates, PLAIN) == kept
    assert floor.classification() == FilterClass.Hard
    assert floor.classification().is_hard
    assert requirement.is_unconstrained is (requirement == PrecisionRequirement())


def test_the_floor_of_a_run_is_a_requirement() -> None:
    assert PrecisionRequirement.from_floor(None).is_unconstrained
    found = PrecisionRequirement.from_floor(PrecisionGuarantee(True, max_relative=1e-5))
    assert found == PrecisionRequirement(require_bit_stable=True, max_relative=1e-5)


def test_cc_3_strides_are_for_kernels_that_read_them() -> None:
    candidates = [candidate(1, strided=flag) for flag in (False, True, False, True)]
    preference = StridedInputPreferenceFilter()
    assert preference.filter(candidates, STRIDED) == [1, 3]
    assert preference.filter(candidates, PLAIN) == [0, 1, 2, 3]
    shifted = FilterContext(OpKind.NegElementwise, (F32, F32), (Layout.contiguous((4,), offset=2),))
    assert preference.filter(candidates, shifted) == [1, 3]  # others are given a copy, as of strides

    dense = AlternativeSet.from_candidates([candidate(1), candidate(2)])
    assert preference.filter(dense.alternatives(), STRIDED) == []
    apply_filter_chain(dense, [preference], STRIDED)
    assert left(dense) == [1, 2]


def test_cc_4_bit_stable_kernels_are_preferred() -> None:
    flags = [stable(flag) for flag in (False, True, False, True)]
    assert BitStablePreferenceFilter().filter(flags, PLAIN) == [1, 3]

    few = AlternativeSet.from_candidates(stable(flag, ns=ns) for ns, flag in enumerate((False, True, False), 1))
    apply_filter_chain(few, [BitStablePreferenceFilter(min_remaining=2)], PLAIN)
    assert left(few) == [1, 2, 3]
    apply_filter_chain(few, default_chain(PrecisionRequirement()), PLAIN)
    assert left(few) == [2]


def test_the_chain_of_planning() -> None:
    chain: tuple[AlternativeFilter, ...] = default_chain(PrecisionRequirement(max_ulp=1))
    assert [each.name() for each in chain] == [
        "precision-floor",
        "strided-input-preference",
        "bit-stable-preference",
    ]
    assert [each.classification() for each in chain] == [FilterClass.Hard, FilterClass.Soft(1), FilterClass.Soft(1)]


# --- chains ---


def test_each_filter_sees_what_the_ones_before_have_left() -> None:
    found, last = three(), Keep([0, 1])
    apply_filter_chain(found, [], PLAIN)
    assert left(found) == [1, 2, 3]
    apply_filter_chain(found, [Keep([0, 2]), last], PLAIN)
    assert left(found) == [1, 3]
    assert last.asked == [2]


def test_a_demand_that_nothing_meets_is_an_error_and_ends_the_chain() -> None:
    found, never = three(), Keep([0])
    with pytest.raises(FilterRejected, match="keep admits none of 2 candidates for op=neg") as caught:
        apply_filter_chain(found, [Keep([1, 2]), Keep([]), never], PLAIN.with_tag("attention"))
    error = caught.value
    assert (error.filter_name, error.available_alternatives) == ("keep", 2)
    assert error.context == "op=neg dtypes=[f32, f32] input_layouts=1 tag=attention"
    assert left(found) == [2, 3]
    assert never.asked == []


def test_nothing_meets_no_demand() -> None:
    with pytest.raises(FilterRejected) as caught:
        apply_filter_chain(AlternativeSet.empty(), [Keep([])], PLAIN)
    assert caught.value.available_alternatives == 0


def test_a_preference_that_leaves_too_few_is_passed_over() -> None:
    found = three()
    apply_filter_chain(found, [Keep([0], FilterClass.Soft(2)), Keep([0, 1])], PLAIN)
    assert left(found) == [1, 2]  # the demand behind it is applied
    apply_filter_chain(found, [Keep([1], FilterClass.Soft(1))], PLAIN)
    assert left(found) == [2]


def test_a_preference_cannot_ask_for_nothing() -> None:
    """The original's `Soft{min_remaining: 0}` empties a set without an error; here it cannot be made."""
    with pytest.raises(UserError, match="cannot leave 0 candidates"):
        FilterClass.Soft(0)


def test_limitation_8_the_bit_stable_preference_does_not_take_devices_away() -> None:
    """The original drops every GPU as soon as the host has a bit-stable kernel, before a price is looked at."""
    found = AlternativeSet.from_candidates(
        [stable(True, ns=1), stable(False, ns=2), stable(False, CUDA0, 3), stable(False, VK0, 4), stable(True, VK0, 5)]
    )
    apply_filter_chain(found, default_chain(PrecisionRequirement()), PLAIN)
    assert left(found) == [1, 3, 5]


def test_strides_do_not_take_devices_away_either() -> None:
    found = AlternativeSet.from_candidates([candidate(1), candidate(2, strided=True), candidate(3, CUDA0)])
    apply_filter_chain(found, [StridedInputPreferenceFilter()], STRIDED)
    assert left(found) == [2, 3]


candidates = st.builds(
    candidate,
    st.integers(1, 5),
    st.sampled_from([HOST, CUDA0, VK0]),
    precision=st.sampled_from([REFERENCE, UNAUDITED]),
    strided=st.booleans(),
)


@given(st.lists(candidates, min_size=1, max_size=12), st.booleans())
def test_preferences_never_empty_a_device_and_keep_the_order(given_: list[Candidate], strided: bool) -> None:
    found = AlternativeSet.from_candidates(given_)
    apply_filter_chain(found, default_chain(PrecisionRequirement()), STRIDED if strided else PLAIN)
    assert found.devices() == tuple(dict.fromkeys(one.device for one in found))
    assert set(found.devices()) == {one.device for one in given_}
    places = [[id(one) for one in given_].index(id(one)) for one in found]
    assert places == sorted(places)
