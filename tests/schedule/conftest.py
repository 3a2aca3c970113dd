"""The scheduler's tests hold its state against its laws after every event and at the end of every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.schedule import check
from tests.schedule import spread_support
from tests.schedule.support import Checked, Make

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.schedule.spread_support import MakeSpread


@pytest.fixture
def scheduler() -> Iterator[Make]:
    """Make a scheduler over `lanes` host lanes, of which only the first takes fine regions."""
    made: list[Checked] = []

    def make(lanes: int = 1, slots: int = 2) -> Checked:
        made.append(Checked.of(lanes, slots))
        return made[-1]

    yield make
    for one in made:
        one.check()


@pytest.fixture
def devices() -> Iterator[MakeSpread]:
    """Make a scheduler over several devices."""
    made: list[spread_support.Checked] = []

    def make(*parts: spread_support.DeviceParts, **options: object) -> spread_support.Checked:
        made.append(spread_support.Checked(*parts, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        check(one)
