"""The one door by which threads enter an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
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

    __slots__ = ("__weakref__", "_armed", "_bell", "_context", "_loop", "_posts")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the waker of a loop, in that loop."""
        #: Weak, since the loop is the key under which its waker is found: it must be able to go.
        self._loop = weakref.ref(loop)
        self._posts: deque[Callable[[], None]] = deque()
        self._armed = False
        self._context = contextvars.Context()  # else each call would copy the poster's
        self._bell = self._context.run(_hang_bell, loop, self._answer)

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop. Any thread. On a closed loop it runs here, since buffers must come back."""
        self._posts.append(call)
        loop = self._loop()
        if not self._armed:  # append, then look; the drain clears, then empties: no post is lost
            self._armed = True
            self._wake(loop)
        elif loop is None or loop.is_closed():  # it was closed before it came to the drain
            self._drain_all()

    def _wake(self, loop: asyncio.AbstractEventLoop | None) -> None:
        bell = self._bell
        if bell is not None and loop is not None and not loop.is_closed():
            os.eventfd_write(bell, 1)
            if not loop.is_closed():
                return
        try:
            if loop is None:
                raise RuntimeError("the loop is gone")
            loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:  # the loop is closed; asking first would race with its closing
            self._drain_all()

    def _answer(self) -> None:
        if self._bell is not None:
            os.eventfd_read(self._bell)
        self._drain()

    def _drain(self) -> None:
        self._armed = False
        posts, until = self._posts, 0
        try:
            while posts:
                posts.popleft()()
                if posts:  # most often there was the one
                    now_ns = perf_counter_ns()
                    until = until or now_ns + DRAIN_NS
                    if now_ns > until:
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


def _hang_bell(loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> int | None:
    """An event descriptor that the loop answers, or None where the loop's own way is as good or the only one.

    asyncio's selector loop is woken through a pair of sockets, at the price of a send, two receives and a handle; one
    event descriptor takes 6 to 14 µs less. It is closed with the loop's last holder.
    """
    if not (hasattr(os, "eventfd") and isinstance(loop, asyncio.SelectorEventLoop) and loop.is_running()):
        return None
    try:
        bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:  # no descriptor left: the loop has its own
        return None
    loop.add_reader(bell, answer)
    weakref.finalize(loop, os.close, bell).atexit = False
    return bell
