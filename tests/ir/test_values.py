"""Costs, size classes and precision guarantees as plain values."""

from __future__ import annotations

import pytest

from fuel_async.ir import CostEstimate, OpKind, PrecisionGuarantee, SizeClass
from fuel_async.ir.values import Provenance

UNAUDITED = PrecisionGuarantee.UNAUDITED
REFERENCE = PrecisionGuarantee.REFERENCE
FILLED = PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU


def test_costs_add_up_and_all_zero_means_unpriced() -> None:
    assert CostEstimate(1, 2, 3) + CostEstimate(10, 20, 30) == CostEstimate(11, 22, 33)
    assert CostEstimate().is_unpriced
    assert not CostEstimate(kernel_overhead_ns=50).is_unpriced


def test_an_element_count_is_bucketed_by_its_logarithm() -> None:
    found = {count: SizeClass.from_elem_count(count).key for count in (0, 1, 2, 3, 1024, 2**80)}
    assert found == {0: 0, 1: 0, 2: 1, 3: 1, 1024: 10, 2**80: 63}


def test_a_product_is_bucketed_by_its_trailing_dimensions() -> None:
    by_shapes = SizeClass.for_op(OpKind.MatMul, [(1, 2048), (2048, 5632)])
    assert by_shapes == SizeClass.matmul(1, 5632, 2048)


def test_batch_dimensions_of_a_product_do_not_count() -> None:
    batched = SizeClass.for_op(OpKind.MatMul, [(32, 1, 64), (32, 64, 128)])
    assert batched == SizeClass.matmul(1, 128, 64)


def test_products_of_different_form_fall_into_different_buckets() -> None:
    assert SizeClass.matmul(1, 4096, 2048) != SizeClass.matmul(64, 64, 64)


def test_a_product_key_packs_three_logarithms() -> None:
    assert SizeClass.matmul(4, 8, 16).key == (5 << 16) | (2 << 8) | 4


def test_other_ops_are_bucketed_by_their_first_operand() -> None:
    assert SizeClass.for_op(OpKind.AddElementwise, [(1024,), (1,)]) == SizeClass(10)
    assert SizeClass.for_op(OpKind.MatMul, [(8,), (8, 2)]) == SizeClass(3)
    assert SizeClass.for_op(OpKind.AddElementwise, []) == SizeClass(0)


def test_attention_buckets_tell_key_lengths_apart() -> None:
    assert SizeClass.attention(32, 128, 64) != SizeClass.attention(32, 4096, 64)


def test_attention_buckets_ignore_batch_and_key_heads() -> None:
    one = SizeClass.for_op(OpKind.FlashAttn, [(1, 32, 1, 64), (1, 8, 128, 64)])
    other = SizeClass.for_op(OpKind.FlashAttn, [(7, 32, 5, 64), (7, 32, 128, 64)])
    assert one == other == SizeClass.attention(32, 128, 64)


def test_unaudited_and_audited_without_bound_differ_by_provenance_not_by_text() -> None:
    examined = PrecisionGuarantee.none(UNAUDITED.notes)
    assert examined.makes_no_static_claim()
    assert UNAUDITED.makes_no_static_claim()
    assert examined.is_audited_no_bound()
    assert not UNAUDITED.is_audited_no_bound()


def test_the_reference_is_exact_and_audited() -> None:
    assert REFERENCE.bit_stable_on_same_hardware
    assert (REFERENCE.max_ulp, REFERENCE.max_relative, REFERENCE.max_absolute) == (0, 0.0, 0.0)
    assert REFERENCE.provenance is Provenance.AUDITED


def test_the_class_wide_claim_of_the_host_is_marked_as_unaudited() -> None:
    assert FILLED.bit_stable_on_same_hardware
    assert not FILLED.makes_no_static_claim()
    assert FILLED.provenance is Provenance.UNAUDITED
    floor = PrecisionGuarantee(bit_stable_on_same_hardware=True)
    assert FILLED.satisfies(floor)
    assert not FILLED.satisfies(floor, audited_only=True)
    assert REFERENCE.satisfies(floor, audited_only=True)


def test_a_floor_without_demands_is_met_by_everything() -> None:
    floor = PrecisionGuarantee()
    assert all(p.satisfies(floor, audited_only=True) for p in (UNAUDITED, FILLED, REFERENCE))


@pytest.mark.parametrize(
    ("floor", "claim", "met"),
    [
        (PrecisionGuarantee(max_ulp=2), PrecisionGuarantee(max_ulp=0), True),
        (PrecisionGuarantee(max_ulp=2), PrecisionGuarantee(max_ulp=2), True),
        (PrecisionGuarantee(max_ulp=2), PrecisionGuarantee(max_ulp=3), False),
        (PrecisionGuarantee(max_ulp=5), UNAUDITED, False),
        (PrecisionGuarantee(max_relative=1e-3), PrecisionGuarantee(max_relative=1e-4), True),
        (PrecisionGuarantee(max_relative=1e-3), PrecisionGuarantee(max_relative=1e-2), False),
        (PrecisionGuarantee(max_absolute=1e-3), PrecisionGuarantee(max_relative=1e-9), False),
        (PrecisionGuarantee(True, 1), PrecisionGuarantee(True, 0), True),
        (PrecisionGuarantee(True, 1), PrecisionGuarantee(True, 5), False),
        (PrecisionGuarantee(True, 1), PrecisionGuarantee(False, 0), False),
    ],
)
def test_a_missing_claim_never_meets_a_demand(floor: PrecisionGuarantee, claim: PrecisionGuarantee, met: bool) -> None:
    assert claim.satisfies(floor) is met
