"""Feeds that a loop in debug mode keeps its callers from writing while lanes read them.

A feed must not be written before its run has ended. In debug mode such a write raises where it is made: the array is
read-only meanwhile, until the last of the runs that were fed with it has ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Array = NDArray[Any]


class FeedGuards:
    """The arrays held, with how many runs hold each. All methods take any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[int, int] = {}

    def hold(self, arrays: Iterable[Array]) -> list[Array]:
        """Make arrays read-only that can be written, or are held already; return those that must be released."""
        held: list[Array] = []
        with self._lock:
            for array in arrays:
                holders = self._holders.get(id(array), 0)
                if holders or array.flags.writeable:
                    array.flags.writeable = False
                    self._holders[id(array)] = holders + 1
                    held.append(array)  # and so alive: its id is its own
        return held

    def release(self, held: Iterable[Array]) -> None:
        """Let go of what `hold` returned: who is the last lets it be written again."""
        with self._lock:
            for array in held:
                holders = self._holders.pop(id(array)) - 1
                if holders:
                    self._holders[id(array)] = holders
                else:
                    array.flags.writeable = True
