"""The one door by which threads enter an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: A drain gives the loop back after this long and goes on at its next turn.
DRAIN_NS = 200_000


class Waker:
    """A deque of calls for one loop, and one wake a batch: any number of posts cost one `call_soon_threadsafe`."""

    __slots__ = ("_armed", "_context", "_loop", "_posts")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        #: Weak, since the loop is the key under which its waker is found: it must be able to go.
        self._loop = weakref.ref(loop)
        self._posts: deque[Callable[[], None]] = deque()
        self._armed = False
        self._context = contextvars.Context()  # else each call would copy the poster's

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop. Any thread. On a closed loop it runs here, since buffers must come back."""
        self._posts.append(call)
        loop = self._loop()
        if self._armed:  # append, then look; the drain clears, then empties: no post is lost
            if loop is None or loop.is_closed():  # it was closed before it came to the drain
                self._drain_all()
            return
        self._armed = True
        try:
            if loop is None:
                raise RuntimeError("the loop is gone")
            loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:  # the loop is closed; asking first would race with its closing
            self._drain_all()

    def _drain(self) -> None:
        self._armed = False
        posts, until = self._posts, perf_counter_ns() + DRAIN_NS
        try:
            while posts:
                posts.popleft()()
                if posts and perf_counter_ns() > until:
                    return
        finally:
            if posts and not self._armed:  # the time is over, or a call raised, which the loop reports
                self._armed = True
                asyncio.get_running_loop().call_soon(self._drain, context=self._context)

    def _drain_all(self) -> None:
        """Run what is left in this thread. A call that would wake a task of the closed loop has nobody to wake."""
        self._armed = False
        while self._posts:
            try:
                call = self._posts.popleft()
            except IndexError:
                return
            with contextlib.suppress(RuntimeError):
                call()
