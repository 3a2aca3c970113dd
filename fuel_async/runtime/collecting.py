"""The cyclic collector of the process, held while whole runs are planned.

Planning makes a great many lists that no cycle goes through, and each collection would walk all of them: that is a
third of what it costs.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fuel_async.registry import fork_generation

if TYPE_CHECKING:
    from collections.abc import Iterator


class Collector:
    """Who holds the collector, counted: the last one to let go lets it work again, if it did before. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._worked = False
        self._forks = fork_generation()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for a while."""
        self._hold()
        try:
            yield
        finally:
            self._let_go()

    def _hold(self) -> None:
        with self._lock:
            if self._forks != fork_generation():  # whoever held it did so in the parent
                self._forks, self._holders = fork_generation(), 0
                if self._worked:
                    gc.enable()
            if not self._holders:
                self._worked = gc.isenabled()
                gc.disable()
            self._holders += 1

    def _let_go(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders and self._worked:
                gc.enable()


#: The setting belongs to the process, and so does the count.
COLLECTOR = Collector()
