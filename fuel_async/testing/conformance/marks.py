"""Cases as parameters of a pytest test."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fuel_async.errors import UserError
from fuel_async.testing.conformance.cases import cases

if TYPE_CHECKING:
    import pytest

    from fuel_async.testing.conformance.subject import Subject


def parameters(subject: Subject, seed: int | None = None, budget: int | None = None) -> list[Any]:
    """Return `cases(subject, seed, budget)` as `pytest.param`, under their ids.

    The test runs each with `check_case`. An expected failure is marked `xfail`, strictly: it fails when it passes.
    """
    library = _pytest()

    def marks(reason: str | None) -> tuple[Any, ...]:
        return () if reason is None else (library.mark.xfail(reason=reason, strict=True),)

    return [
        library.param(case, id=case.id, marks=marks(subject.why_expected_to_fail(case)))
        for case in cases(subject, seed, budget)
    ]


def parametrize(subject: Subject, seed: int | None = None, budget: int | None = None) -> pytest.MarkDecorator:
    """Return a mark that gives a test each of `parameters(subject, seed, budget)` as `case`."""
    mark: pytest.MarkDecorator = _pytest().mark.parametrize("case", parameters(subject, seed, budget))
    return mark


def _pytest() -> Any:
    try:
        return import_module("pytest")
    except ImportError as error:
        raise UserError("parameters are made for pytest; install fuel_async[test]") from error
