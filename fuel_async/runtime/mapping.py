"""`Executor.map`: many feeds through one graph, a bounded number at a time, results in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from fuel_async.runtime.run import Run

Feeds: TypeAlias = Mapping[str, Any]


class Mapped:
    """An asynchronous iterator over results. `aclose`, and leaving it by `break`, cancel what is under way.

    No scope is held between two results. The first error is raised in the place of its result, and the rest cancelled.
    """

    def __init__(
        self, submit: Callable[[Feeds], Run], feeds: Iterable[Feeds] | AsyncIterable[Feeds], most: int
    ) -> None:
        """`Executor.map` makes these."""
        self._submit, self._most = submit, most
        self._source: Iterator[Feeds] | AsyncIterator[Feeds] = (
            feeds.__aiter__() if isinstance(feeds, AsyncIterable) else iter(feeds)
        )
        self._runs: deque[Run] = deque()
        self._exhausted = False

    def __aiter__(self) -> Mapped:
        return self

    async def __anext__(self) -> dict[str, Any]:
        try:
            while not self._exhausted and len(self._runs) < self._most:
                feeds = await self._next_feeds()
                if feeds is None:
                    self._exhausted = True
                else:
                    self._runs.append(self._submit(feeds))
            if not self._runs:
                raise StopAsyncIteration
            return await self._runs.popleft()
        except BaseException:
            await self.aclose()
            raise

    async def _next_feeds(self) -> Feeds | None:
        if isinstance(self._source, AsyncIterator):
            return await anext(self._source, None)
        return next(self._source, None)

    async def aclose(self) -> None:
        """Cancel what is under way and wait until its callers are told. Idempotent."""
        self._exhausted = True
        runs, self._runs = list(self._runs), deque()
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait([run.task for run in runs])

    def __del__(self) -> None:
        # Left by `break`: an async for loop does not close its iterator.
        for run in self._runs:
            if not run.done():
                run.cancel()
