"""`Executor.map`: many feeds through one graph, a bounded number at a time, results in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from fuel_async.runtime.run import Run

Feeds: TypeAlias = Mapping[str, Any]


class Mapped:
    """An asynchronous iterator over results. `aclose`, and leaving it by `break`, cancel what is under way.

    No scope is held between two results. The first error, of a run or of the feeds' own iterator, is raised in the
    place of its result, and the rest cancelled. An asynchronous iterable is read by a task of its own, from its first
    feeds to its end: results come while it waits for more. For one consumer at a time.
    """

    def __init__(
        self, submit: Callable[[Feeds], Run], feeds: Iterator[Feeds] | AsyncIterable[Feeds], most: int
    ) -> None:
        """`Executor.map` makes these."""
        self._line = _Line(submit, most)
        self._source: _Pump | _Pull = _Pump(feeds) if isinstance(feeds, AsyncIterable) else _Pull(feeds)

    def __aiter__(self) -> Mapped:
        return self

    async def __anext__(self) -> dict[str, Any]:
        try:
            run = await self._source.head(self._line)
            if run is None:
                raise StopAsyncIteration
            results = await run
            self._line.advance()
        except BaseException:
            await self.aclose()
            raise
        return results

    async def aclose(self) -> None:
        """Cancel what is under way and wait until its callers are told. Idempotent."""
        tasks = []
        for task, cancel in self._ended():
            cancel()
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks)

    def __del__(self) -> None:
        # Left by `break`: an async for loop does not close its iterator. This may be any thread.
        for task, cancel in self._ended():
            try:
                task.get_loop().call_soon_threadsafe(cancel)
            except RuntimeError:  # its loop is closed, and it with it
                continue

    def _ended(self) -> list[tuple[asyncio.Task[Any], Callable[[], object]]]:
        """Everything under way, with what cancels it; nothing follows it any more."""
        reading = self._source.task
        readers: list[tuple[asyncio.Task[Any], Callable[[], object]]] = []
        if reading is not None and not reading.done():
            readers.append((reading, reading.cancel))
        return [*readers, *[(run.task, run.cancel) for run in self._line.end()]]


class _Line:
    """Runs under way, in order, and the error behind them."""

    def __init__(self, submit: Callable[[Feeds], Run], most: int) -> None:
        self._submit, self._most = submit, most
        self._runs: deque[Run] = deque()
        self._error: BaseException | None = None
        self.ended = False
        #: Set when a run was added or taken off, or the end came.
        self.moved = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether no further run may start."""
        return len(self._runs) >= self._most

    @property
    def empty(self) -> bool:
        """Whether no run is under way."""
        return not self._runs

    def add(self, feeds: Feeds) -> None:
        """Start a run."""
        self._runs.append(self._submit(feeds))
        self.moved.set()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing follows, or nothing but this error."""
        if not self.ended:
            self._error, self.ended = error, True
        self.moved.set()

    def head(self) -> Run | None:
        """The run whose result is due; raises the error that is due; None at the end."""
        if self._runs:
            return self._runs[0]
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # error -> traceback -> this frame -> error
        return None

    def advance(self) -> None:
        """The result of the head was taken."""
        if self._runs:
            self._runs.popleft()
        self.moved.set()

    def end(self) -> list[Run]:
        """Close, and give up everything that was under way."""
        self.close()
        self._error = None
        runs, self._runs = self._runs, deque()
        return list(runs)


class _Pull:
    """Feeds from a plain iterator: as many as may run are taken whenever a result is asked for."""

    task = None

    def __init__(self, feeds: Iterator[Feeds]) -> None:
        self._feeds = feeds

    async def head(self, line: _Line) -> Run | None:
        """The run whose result is due; None at the end."""
        while not line.ended and not line.full:
            try:
                line.add(next(self._feeds))
            except StopIteration:
                line.close()
            except Exception as error:
                line.close(error)
        return line.head()


class _Pump:
    """Feeds from an asynchronous iterable, read by one task, so that scopes it holds across its items stay whole."""

    def __init__(self, feeds: AsyncIterable[Feeds]) -> None:
        self._feeds = feeds
        self.task: asyncio.Task[None] | None = None

    async def head(self, line: _Line) -> Run | None:
        """The run whose result is due; None at the end."""
        if self.task is None and not line.ended:
            self.task = asyncio.create_task(_read(self._feeds, line))
        while line.empty and not line.ended:
            line.moved.clear()
            await line.moved.wait()
        return line.head()


async def _read(feeds: AsyncIterable[Feeds], line: _Line) -> None:
    """Start a run for each of `feeds` as long as there is room. Does not hold the iterator it works for."""
    try:
        async for one in feeds:
            while line.full and not line.ended:
                line.moved.clear()
                await line.moved.wait()
            if line.ended:
                return
            line.add(one)
        line.close()
    except BaseException as error:
        line.close(error)
        if not isinstance(error, Exception):
            raise
