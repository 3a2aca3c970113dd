"""How many threads the BLAS library uses: a setting of the whole process, held while executors are open.

Where threadpoolctl is not installed the library stays as it is.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

try:
    import threadpoolctl
except ImportError:
    threadpoolctl = None

from fuel_async.registry import fork_generation

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class BlasThreads:
    """The limit that open executors hold. The last one to let go restores what was before. Any thread; may block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: int | None = None
        self._before: Any = None
        self._forks = fork_generation()
        #: Holders that were collected while the lock was taken.
        self._abandoned: deque[None] = deque()

    def hold(self, threads: int) -> None:
        """Limit the library to `threads`, the newest holder's wish."""
        with self._lock:
            if self._forks != fork_generation():  # those who held it are the parent's
                self._forks, self._holders = fork_generation(), 0
            if threads != self._limit:
                before = _limited(threads)
                self._before = self._before or before
            self._limit = threads
            self._holders += 1

    def release(self) -> None:
        """Let go; the last holder restores the limit that was found."""
        with self._lock:
            self._let_go()
            while self._abandoned:
                self._abandoned.pop()
                self._let_go()

    def abandon(self, forks: int) -> None:
        """Let go for a holder of that fork generation that is being collected.

        Never blocks: this may interrupt `hold` or `release`.
        """
        if forks != fork_generation():
            return  # it is not among those counted here
        if self._lock.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._lock.release()
        else:
            self._abandoned.append(None)

    def _let_go(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            if self._before is not None:
                _in_control(self._before.restore_original_limits)
            self._before = self._limit = None


def _limited(threads: int) -> Any:
    """Limit the library; what restores it."""
    if threadpoolctl is None:
        return None
    return _in_control(lambda: threadpoolctl.threadpool_limits(threads, user_api="blas"))


def _in_control(call: Callable[[], T]) -> T:
    """Set limits from this thread, and keep no claim to them.

    threadpoolctl lets the first thread that sets the limits of OpenBLAS go on doing so and ignores all others, without
    a word; the threads that open and close executors come and go.
    """
    let_go: Callable[..., None] | None = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if let_go is None:  # an older one knows no such claim
        return call()
    let_go(force=True)
    try:
        return call()
    finally:
        let_go(force=True)


#: The library of this process.
BLAS = BlasThreads()
