"""Symbolic dimensions: arithmetic, binding, exact division and text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.errors import UserError
from fuel_async.ir import Dim, Symbolic, UnboundSymbol, bind, symbol
from fuel_async.ir.symbol import count, divide, is_static, parse_dim

N, M = symbol("n"), symbol("m")
SIZES = {"n": 3, "m": 5, "k": 7}


def polynomials() -> st.SearchStrategy[Dim]:
    """Small dimensions over n, m, k, plain integers among them."""
    leaves = st.one_of(st.integers(-4, 9), st.sampled_from(["n", "m", "k"]).map(symbol))
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner).map(
            lambda parts: (
                parts[1] + parts[2]
                if parts[0] == "+"
                else parts[1] - parts[2]
                if parts[0] == "-"
                else parts[1] * parts[2]
            )
        ),
        max_leaves=6,
    )


def test_equal_polynomials_are_equal() -> None:
    assert N * M == M * N
    assert hash(N * M) == hash(M * N)
    assert (N + 1) * (N - 1) == N * N - 1
    assert N + N == 2 * N
    assert N != M


def test_what_has_no_symbol_left_is_an_int() -> None:
    for dim in (N - N, (N + 4) - N, N * 0, 0 * N, 2 - (N - N)):
        assert type(dim) is int


@settings(max_examples=60)
@given(polynomials(), polynomials())
def test_arithmetic_commutes_with_binding(a: Dim, b: Dim) -> None:
    x, y = bind(a, SIZES), bind(b, SIZES)
    assert bind(a + b, SIZES) == x + y
    assert bind(a - b, SIZES) == x - y
    assert bind(a * b, SIZES) == x * y
    assert bind(-a, SIZES) == -x


def test_an_unbound_symbol_is_named() -> None:
    with pytest.raises(UnboundSymbol, match="'m' has no value") as caught:
        bind(N * M, {"n": 1})
    assert caught.value.name == "m"
    assert bind(4, {}) == 4


@given(polynomials(), polynomials())
def test_a_product_divides_by_its_factors(a: Dim, b: Dim) -> None:
    if b == 0:
        assert divide(a * b, b) is None
    else:
        assert divide(a * b, b) == a


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        (12, 4, 3),
        (12, 5, None),
        (12, 0, None),
        (0, 0, None),
        (0, 5, 0),
        (0 * N, N, 0),
        (3 * N, 0, None),
        (6 * N * M, 2 * M, 3 * N),
        (6 * N, 4, None),
        (N, M, None),
        (N, 2 * N, None),
        (N * N - 1, N + 1, N - 1),
        (N * N + 1, N + 1, None),
        (M * (N + 4), N + 4, M),
    ],
)
def test_division_is_exact_or_none(dividend: Dim, divisor: Dim, quotient: Dim | None) -> None:
    assert divide(dividend, divisor) == quotient


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (7, "7"),
        (-7, "-7"),
        (N, "n"),
        (-N, "-1*n"),
        (2 * N + 1, "2*n + 1"),
        (N * N * M - 3 * N - M - 1, "-1*m + m*n*n - 3*n - 1"),
        (5 - 2 * N, "-2*n + 5"),
    ],
)
def test_text_reads_as_written_by_hand(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert parse_dim(text) == dim


@given(polynomials())
def test_text_is_read_back_exactly(dim: Dim) -> None:
    assert parse_dim(str(dim)) == dim


@pytest.mark.parametrize("text", ["", "n +", "n+1", "2n", "n - ", "1.5", " n", "n * m", "٣", "n-1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_dim(text)


@pytest.mark.parametrize("name", ["", "two words", "1st", "a-b"])
def test_a_symbol_is_named_by_an_identifier(name: str) -> None:
    with pytest.raises(UserError, match="identifier"):
        symbol(name)


def test_a_dimension_knows_its_symbols() -> None:
    dim = N * M + N
    assert isinstance(dim, Symbolic)
    assert dim.symbols == {"n", "m"}
    assert is_static((1, 2))
    assert not is_static((1, N))


@given(st.lists(st.integers(0, 9), max_size=4))
def test_the_count_is_the_product_of_the_dimensions(sizes: list[int]) -> None:
    assert count(tuple(sizes)) == math.prod(sizes)
    assert bind(count((N, *sizes, M)), SIZES) == 15 * math.prod(sizes)
