"""Symbolic dimensions: integer polynomials in named symbols, bound to sizes when a run's feeds are known.

A `Dim` is an `int` or a `Symbolic`. Arithmetic keeps a canonical form, so two dimensions are equal exactly
when their polynomials are: `batch * tokens == tokens * batch`. A polynomial without symbols collapses to
`int` at once.

    >>> batch = symbol("batch")
    >>> str(batch * 2 + 1)
    '2*batch + 1'
    >>> bind(batch * 2 + 1, {"batch": 4})
    9
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_INTEGER = re.compile(r"-?[0-9]+")

#: Symbols of one product, sorted, repeated for powers: () is the constant term, ("n", "n") is n squared.
Monomial: TypeAlias = tuple[str, ...]


class UnboundSymbol(UserError):
    """A symbolic dimension has no value."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"symbol {name!r} has no value; it is bound by the shapes of the feeds that name it")


@dataclass(frozen=True, slots=True)
class Symbolic:
    """A non-constant integer polynomial. Immutable; built by `symbol` and by arithmetic only."""

    #: (monomial, non-zero coefficient), sorted by monomial; at least one monomial is not ().
    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _combine([self, other])

    def __radd__(self, other: int) -> Dim:
        return _combine([other, self])

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return _combine([self, other * -1])

    def __rsub__(self, other: int) -> Dim:
        return _combine([other, self * -1])

    def __mul__(self, other: Dim) -> Dim:
        return _combine(_from_terms({tuple(sorted((*a, *b))): m * n}) for a, m in self.terms for b, n in _terms(other))

    def __rmul__(self, other: int) -> Dim:
        return self * other

    @property
    def symbols(self) -> frozenset[str]:
        """The names this dimension depends on."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def __str__(self) -> str:
        # Symbols first, the constant last, as one writes it by hand.
        first, *rest = sorted(self.terms, key=lambda term: (not term[0], term[0]))
        signed = [f" {'-' if number < 0 else '+'} {_show_term(names, abs(number))}" for names, number in rest]
        return _show_term(*first) + "".join(signed)

    __repr__ = __str__


Dim: TypeAlias = "int | Symbolic"
Shape: TypeAlias = tuple[Dim, ...]


def symbol(name: str) -> Symbolic:
    """Return the dimension called `name`, an identifier. Equal names are equal dimensions."""
    if not name.isidentifier():
        raise UserError(f"a symbolic dimension is named by an identifier, not {name!r}")
    return Symbolic((((name,), 1),))


def bind(dim: Dim, env: Mapping[str, int]) -> int:
    """Return the size of `dim` under `env`; `UnboundSymbol` when a symbol of it is missing."""
    if isinstance(dim, int):
        return dim
    try:
        return sum(n * math.prod(env[name] for name in monomial) for monomial, n in dim.terms)
    except KeyError as error:
        raise UnboundSymbol(str(error.args[0])) from None


def is_static(shape: Shape) -> bool:
    """Whether no dimension of `shape` is symbolic."""
    return all(isinstance(dim, int) for dim in shape)


def count(shape: Shape) -> Dim:
    """Return the number of elements of `shape`: the product of its dimensions, 1 for a scalar."""
    total: Dim = 1
    for dim in shape:
        total = total * dim
    return total


def divide(dividend: Dim, divisor: Dim) -> Dim | None:
    """Return the exact quotient of two dimensions, or None when no polynomial with integer coefficients is
    one.

    Nothing divides by 0, not even 0. Long division by leading terms in graded lexicographic order.
    """
    if divisor == 0:
        return None
    lead, factor = _leading(divisor)
    quotient: Dim = 0
    while dividend != 0:
        names, number = _leading(dividend)
        rest = _without(names, lead)
        if rest is None or number % factor:
            return None
        step = _from_terms({rest: number // factor})
        quotient, dividend = quotient + step, dividend - step * divisor
    return quotient


def parse_dim(text: str) -> Dim:
    """Read a dimension back from its `str`: an exact inverse. `UserError` when `text` has another form."""
    first, *rest = re.split(" ([+-]) ", text)
    total = _parse_term(first)
    for sign, term in zip(rest[::2], rest[1::2], strict=True):
        total = total + _parse_term(term) * (1 if sign == "+" else -1)
    return total


def _show_term(names: Monomial, number: int) -> str:
    return "*".join([*([] if names and number == 1 else [str(number)]), *names])


def _parse_term(text: str) -> Dim:
    product: Dim = 1
    for factor in text.split("*"):
        product = product * (int(factor) if _INTEGER.fullmatch(factor) else symbol(factor))
    return product


def _terms(dim: Dim) -> Iterable[tuple[Monomial, int]]:
    return dim.terms if isinstance(dim, Symbolic) else (((), dim),)


def _leading(dim: Dim) -> tuple[Monomial, int]:
    """The term of the highest degree; of several the one whose symbols come first."""
    return min(_terms(dim), key=lambda term: (-len(term[0]), term[0]))


def _without(names: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial that times `factor` is `names`, or None."""
    rest = list(names)
    for name in factor:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def _combine(dims: Iterable[Dim]) -> Dim:
    total: dict[Monomial, int] = {}
    for dim in dims:
        for monomial, number in _terms(dim):
            total[monomial] = total.get(monomial, 0) + number
    return _from_terms(total)


def _from_terms(terms: Mapping[Monomial, int]) -> Dim:
    kept = tuple(sorted((monomial, number) for monomial, number in terms.items() if number))
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Symbolic(kept)
