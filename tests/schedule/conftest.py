"""The scheduler's tests hold its state against its laws after every event and at the end of every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schedule.support import Checked, Make

if TYPE_CHECKING:
    from collections.abc import Iterator


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
