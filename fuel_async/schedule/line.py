"""The line of runs that have regions to place."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.schedule.spread_state import SpreadState


class Line:
    """Runs in the order of their turns, those of higher priority before others. False while nobody stands in it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        #: (-priority, turn, run).
        self._entries: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter([run for _, _, run in self._entries])

    def __getitem__(self, place: int) -> int:
        """The run that stands there."""
        return self._entries[place][2]

    def enter(self, state: SpreadState) -> None:
        """Let a run stand in line, if it has candidates and does not yet."""
        if state.candidates and state.entry is None:
            state.entry = (-state.priority, state.turn, state.run)
            insort(self._entries, state.entry)

    def leave(self, state: SpreadState) -> None:
        """Take a run out, if it stands there."""
        if state.entry is not None:
            del self._entries[bisect_left(self._entries, state.entry)]
            state.entry = None
