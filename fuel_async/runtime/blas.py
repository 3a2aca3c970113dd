"""How many threads the BLAS library uses: a setting of the whole process, held while executors are open."""

from __future__ import annotations

import threading
from typing import Any

from threadpoolctl import threadpool_limits


class BlasThreads:
    """The limit that open executors hold. The last one to let go restores what was before. Any thread; may block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: int | None = None
        self._before: Any = None

    def hold(self, threads: int) -> None:
        """Limit the library to `threads`, the newest holder's wish."""
        with self._lock:
            if self._holders == 0:
                self._before = threadpool_limits(threads, user_api="blas")
            elif threads != self._limit:
                threadpool_limits(threads, user_api="blas")
            self._limit = threads
            self._holders += 1

    def release(self) -> None:
        """Let go; the last holder restores the limit that was found."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._before.restore_original_limits()
                self._before = self._limit = None


#: The library of this process.
BLAS = BlasThreads()
