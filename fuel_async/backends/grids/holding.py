"""Submissions that the host holds back, for a queue on which copies must pass them.

Behind a gate a submission holds up all that comes after it. Where copies through staging memory use the same queue, one
of them may be what the gate waits for. So there work goes to the queue when what it waits for has settled, by the
thread that settles it.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.streams import CompletionHandle

T = TypeVar("T")


class Held(Generic[T]):
    """Work in order, of which the first goes as soon as it waits for nothing. Any thread."""

    __slots__ = ("_after", "_go", "_is_going", "_lock", "_queue")

    def __init__(self, go: Callable[[T], None], after: Callable[[], None]) -> None:
        """`go(work)` is called for one piece at a time, in order, and then `after()`; neither may raise."""
        self._go, self._after, self._lock, self._is_going = go, after, threading.Lock(), False
        #: Work, and for how many it waits.
        self._queue: deque[tuple[T, list[int]]] = deque()

    def __len__(self) -> int:
        return len(self._queue) + self._is_going

    def add(self, work: T, waits: Sequence[CompletionHandle]) -> None:
        """Let it go after all before it, when `waits` have settled."""
        left = [len(waits)]
        with self._lock:
            self._queue.append((work, left))
        for wait in waits:
            wait.add_done_callback(partial(self._settled, left))
        self._pump()

    def take_all(self) -> list[T]:
        """Take out all that is held, for good."""
        with self._lock:
            taken = [work for work, _ in self._queue]
            self._queue.clear()
        return taken

    def _settled(self, left: list[int], _: CompletionHandle) -> None:
        with self._lock:
            left[0] -= 1
        self._pump()

    def _pump(self) -> None:
        while True:
            with self._lock:
                if self._is_going or not self._queue or self._queue[0][1][0]:
                    return
                self._is_going = True
                work, _ = self._queue.popleft()
            try:
                self._go(work)
            finally:
                with self._lock:
                    self._is_going = False
                self._after()
