"""A submitted run: what `Executor.submit` returns."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fuel_async.streams import fresh

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from fuel_async.runtime.perform import Progress

_LOG = logging.getLogger("fuel_async")


class _Outcome:
    """What becomes of a run that may outlive its `Run`: whoever comes last, the end or the drop, looks at the error."""

    __slots__ = ("asked", "dropped", "name")

    def __init__(self, name: str) -> None:
        self.name, self.asked, self.dropped = name, False, False

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Take note of the error, so that asyncio does not report it as well."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self.dropped and not self.asked:
            _LOG.error("a run of graph %r failed and nobody asked: %s", self.name, error)


class Run:
    """One run under way. Awaitable, any number of times; to be used on the loop that submitted it.

    Each `await` raises an error of its own. Cancelling a task that awaits a run cancels the run, as with a task. A run
    whose `Run` is dropped goes on; when it fails and was never asked for its outcome, that is logged once.
    """

    __slots__ = ("__weakref__", "_outcome", "_progress", "task")

    def __init__(self, name: str, task: asyncio.Task[dict[str, Any]], progress: Progress) -> None:
        """`Executor.submit` makes these."""
        self.task, self._progress, self._outcome = task, progress, _Outcome(name)
        task.add_done_callback(self._outcome.ended)

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        self._outcome.asked = True
        try:
            return (yield from self.task.__await__())
        except Exception as error:
            told = fresh(error)
        try:
            raise told
        finally:
            del told  # error -> traceback -> this frame -> error

    def cancel(self) -> bool:
        """Ask for the end of the run: awaiting it raises CancelledError. False when it has ended already.

        Whoever cancels a run does not care for its outcome: it is not logged.
        """
        self._outcome.asked = True
        return self.task.cancel()

    def done(self) -> bool:
        """Whether the run has ended."""
        return self.task.done()

    def exception(self) -> BaseException | None:
        """Return the error of a run that has ended, or None. Raises as `asyncio.Task.exception` does."""
        error = self.task.exception()
        self._outcome.asked = True
        return error

    @property
    def progress(self) -> tuple[int, int]:
        """(regions done, regions in all); (0, 0) before the run is planned, and for a run in place."""
        return self._progress.done, self._progress.total

    def __del__(self) -> None:
        self._outcome.dropped = True
        if self.task.done():
            self._outcome.ended(self.task)

    def __repr__(self) -> str:
        done, total = self._progress.done, self._progress.total
        return f"<Run of {self._outcome.name!r}: {'ended' if self.done() else f'{done} of {total} regions'}>"
