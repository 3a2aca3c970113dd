"""A submitted run: what `Executor.submit` returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Any

from fuel_async.runtime.perform import Progress

_LOG = logging.getLogger("fuel_async")


class Run:
    """One run under way. Awaitable, any number of times; to be used on the loop that submitted it.

    A run that fails and is never asked for its outcome is logged once.
    """

    __slots__ = ("__weakref__", "_asked", "_name", "_progress", "task")

    def __init__(self, name: str, task: asyncio.Task[dict[str, Any]], progress: Progress) -> None:
        """`Executor.submit` makes these."""
        self._name, self.task, self._progress = name, task, progress
        self._asked = False
        task.add_done_callback(_retrieve)

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        self._asked = True
        return self.task.__await__()

    def cancel(self) -> bool:
        """Ask for the end of the run: awaiting it raises CancelledError. False when it has ended already."""
        return self.task.cancel()

    def done(self) -> bool:
        """Whether the run has ended."""
        return self.task.done()

    def exception(self) -> BaseException | None:
        """Return the error of a run that has ended, or None. Raises as `asyncio.Task.exception` does."""
        self._asked = True
        return self.task.exception()

    @property
    def progress(self) -> tuple[int, int]:
        """(regions done, regions in all); (0, 0) before the run is planned, and for a run in place."""
        return self._progress.done, self._progress.total

    def __del__(self) -> None:
        task = self.task
        if not self._asked and task.done() and not task.cancelled() and task.exception() is not None:
            _LOG.error("a run of graph %r failed and nobody asked: %s", self._name, task.exception())

    def __repr__(self) -> str:
        done, total = self._progress.done, self._progress.total
        return f"<Run of {self._name!r}: {'ended' if self.done() else f'{done} of {total} regions'}>"


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Take note of the task's error, so that asyncio does not report it as well."""
    if not task.cancelled():
        task.exception()
