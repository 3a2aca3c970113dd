"""Runs the command line in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from fuel_async.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


class Outcome(NamedTuple):
    status: int
    out: list[str]
    err: str


@pytest.fixture
def fuel(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `fuel-async` with the given arguments."""

    def run(*argv: str) -> Outcome:
        status = main(argv)
        printed = capsys.readouterr()
        return Outcome(status, printed.out.splitlines(), printed.err)

    return run
