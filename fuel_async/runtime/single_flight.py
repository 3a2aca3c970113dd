"""Work that several callers want at the same time is done once, and outlives those of them that are cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fuel_async.ir import Breathe
    from fuel_async.runtime.session import Session, WorkerCall
    from fuel_async.streams import CompletionHandle

T = TypeVar("T")


class _Flight(Generic[T]):
    """One call under way, or done and not yet seen by anybody."""

    __slots__ = ("call", "handle", "waiting")

    def __init__(self, handle: CompletionHandle, call: WorkerCall[T]) -> None:
        self.handle, self.call, self.waiting = handle, call, 0


class SingleFlight:
    """Calls on the session's worker thread by key. Any loop; the call itself runs in the worker thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._flying: dict[Hashable, _Flight[Any]] = {}

    async def do(self, key: Hashable, work: Callable[[Breathe], T]) -> T:
        """Return `work(breathe)`, done by whoever asks first; each caller gets its own copy of an error.

        Whoever asks before the first caller has the value shares it: that caller can publish it before anybody asks
        again.
        """
        flight: _Flight[T] | None = self._flying.get(key)
        if flight is None:
            flight = self._flying[key] = _Flight(*self._session.call(work))
        self._session.watch_worker()
        flight.waiting += 1
        try:
            await flight.handle
        finally:
            flight.waiting -= 1
            if flight.handle.done():
                self._forget(key, flight)
            elif not flight.waiting:  # all were cancelled; the key may hold a graph
                flight.handle.add_done_callback(lambda _: self._forget(key, flight))
        return flight.call.value

    def _forget(self, key: Hashable, flight: _Flight[Any]) -> None:
        if self._flying.get(key) is flight:
            self._flying.pop(key, None)
