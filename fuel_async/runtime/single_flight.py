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
        LoopShare.running().watch(self._session.worker)
        handle, call = flight
        try:
            await handle
        finally:
            if handle.done() and self._flying.get(key) is flight:
                del self._flying[key]
        value: T = call.value
        return value
