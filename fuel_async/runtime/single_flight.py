"""Work that several callers want at the same time is done once, and outlives those of them that are cancelled."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from fuel_async.ir import Breathe
from fuel_async.runtime.session import Session, WorkerCall
from fuel_async.streams import CompletionHandle, LoopShare

T = TypeVar("T")


class SingleFlight:
    """Calls on the session's worker thread by key. Any loop; the call itself runs in the worker thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._flying: dict[Hashable, tuple[CompletionHandle, WorkerCall[Any]]] = {}

    async def do(self, key: Hashable, work: Callable[[Breathe], T]) -> T:
        """Return `work(breathe)`, done by whoever asks first; each caller gets its own copy of an error."""
        flight = self._flying.get(key)
        if flight is None or flight[0].done():
            flight = self._flying[key] = self._session.call(work)
            # Not by a caller: all of them may have been cancelled, and the key may hold a graph.
            flight[0].add_done_callback(lambda handle: self._landed(key, handle))
        LoopShare.running().watch(self._session.worker)
        handle, call = flight
        await handle
        value: T = call.value
        return value

    def _landed(self, key: Hashable, handle: CompletionHandle) -> None:
        flight = self._flying.get(key)
        if flight is not None and flight[0] is handle:
            del self._flying[key]
