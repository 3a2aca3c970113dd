"""Axes of candidates: digits, classes, domination, order."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.cost import AccuracyClass, CostVector, MemoryTiers, precision_digits
from fuel_async.ir import PrecisionGuarantee

A = AccuracyClass
MOST = 2**64 - 1
NOTHING = MemoryTiers()

tiers = st.none() | st.builds(MemoryTiers, st.integers(0, 3), st.integers(0, 3))
vectors = st.builds(CostVector, st.none() | st.integers(0, 3), tiers, st.integers(0, 3), st.sampled_from(A))


def bounded(**claims: float) -> PrecisionGuarantee:
    return PrecisionGuarantee(**claims)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("precision", "digits", "accuracy"),
    [
        (PrecisionGuarantee.REFERENCE, 18, A.CorrectlyRounded),
        (PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU, 9, A.Stable),
        (PrecisionGuarantee.UNAUDITED, 0, A.Unbounded),
        (bounded(max_relative=1e-3), 3, A.Unbounded),
        (bounded(max_relative=2e-3), 2, A.Unbounded),
        (bounded(max_relative=0.0), 18, A.Unbounded),
        (bounded(max_relative=1e-300), 18, A.Unbounded),
        (bounded(max_relative=7.0), 0, A.Unbounded),
        (bounded(max_ulp=0), 18, A.CorrectlyRounded),
        (bounded(max_ulp=1), 0, A.BoundedTight),
        (bounded(max_ulp=2), 0, A.BoundedTight),
        (bounded(max_ulp=3), 0, A.BoundedLoose),
        (bounded(max_ulp=4, bit_stable_on_same_hardware=True), 9, A.BoundedLoose),
        (bounded(max_ulp=0, max_relative=1e-5), 5, A.CorrectlyRounded),
    ],
)
def test_cc_8_digits_and_classes(precision: PrecisionGuarantee, digits: int, accuracy: AccuracyClass) -> None:
    assert (precision_digits(precision), AccuracyClass.of(precision)) == (digits, accuracy)


def test_cc_8_time_goes_first() -> None:
    worst = CostVector(100, MemoryTiers(MOST, MOST), 0, A.Unbounded)
    best = CostVector(101, NOTHING, 18, A.CorrectlyRounded)
    assert worst.total_order_key < best.total_order_key
    assert MemoryTiers(MOST, MOST).total == MOST


def test_after_time_come_precision_accuracy_and_memory() -> None:
    ordered = [
        CostVector(1, MemoryTiers(9), 5, A.Unbounded),
        CostVector(1, MemoryTiers(8), 4, A.Stable),
        CostVector(1, MemoryTiers(3, 4), 4, A.Unbounded),
        CostVector(1, MemoryTiers(8), 4, A.Unbounded),
        CostVector(1, None, 4, A.Unbounded),
        CostVector(None, None, 18, A.CorrectlyRounded),
    ]
    backwards = ordered[::-1]
    assert sorted(backwards, key=lambda vector: vector.total_order_key) == ordered


def test_equals_and_trades_dominate_nothing() -> None:
    one = CostVector(1, MemoryTiers(4, 0), 5, A.Stable)
    assert not one.dominates(one)
    assert not one.dominates(CostVector(1, MemoryTiers(0, 4), 5, A.Stable))  # less here, more there
    for better in (
        CostVector(0, MemoryTiers(4, 0), 5, A.Stable),
        CostVector(1, MemoryTiers(3, 0), 5, A.Stable),
        CostVector(1, MemoryTiers(4, 0), 6, A.Stable),
        CostVector(1, MemoryTiers(4, 0), 5, A.BoundedLoose),
    ):
        assert better.dominates(one)
        assert not one.dominates(better)


def test_what_has_no_price_is_neither_better_nor_worse() -> None:
    unpriced, slow = CostVector(None, None, 5, A.Stable), CostVector(MOST, MemoryTiers(MOST, MOST), 0, A.Unbounded)
    assert not unpriced.dominates(slow)
    assert not slow.dominates(unpriced)
    assert unpriced.dominates(CostVector(None, None, 4, A.Stable))
    assert unpriced.total_order_key > slow.total_order_key
    measured = CostVector(5, None, 5, A.Stable)  # a time, and nothing of bytes
    assert not measured.dominates(slow)


@given(vectors, vectors, vectors)
def test_domination_is_an_order_and_the_total_order_agrees_with_it(a: CostVector, b: CostVector, c: CostVector) -> None:
    for one, other in product((a, b, c), repeat=2):
        if one.dominates(other):
            assert not other.dominates(one)
            assert one.total_order_key < other.total_order_key
    if a.dominates(b) and b.dominates(c):
        assert a.dominates(c)
