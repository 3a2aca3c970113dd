"""Other devices whose memory one can read by itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.backends.cuda.statuses import PEER_ENABLED, STICKY, status_of

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context


class Peers:
    """What one device knows of the others. Any thread."""

    __slots__ = ("_context", "_enabled", "_lock", "_there")

    def __init__(self, context: Context) -> None:
        self._context, self._lock = context, threading.Lock()
        #: By number: whether its memory can be read from here, as far as it was asked.
        self._there: dict[int, bool] = {}
        self._enabled: set[int] = set()

    def reaches(self, ordinal: int) -> bool:
        """Whether copies from that device come straight. Asked once; takes microseconds."""
        found = self._there.get(ordinal)
        if found is None:
            found = self._there[ordinal] = self._ask(ordinal)
        return found

    def enable(self, ordinal: int) -> bool:
        """Have its memory mapped here, once: milliseconds. Within `Context.here`.

        Whether it is; a refusal is remembered. Raises what the driver raises on a lost device.
        """
        with self._lock:
            if ordinal in self._enabled:
                return True
            try:
                self._context.runtime.deviceEnablePeerAccess(ordinal)
            except RuntimeError as error:
                status = status_of(error)
                if status in STICKY:
                    raise
                if status != PEER_ENABLED:
                    self._there[ordinal] = False
                    return False
            self._enabled.add(ordinal)
            return True

    def is_enabled(self, ordinal: int) -> bool:
        """Whether its memory is mapped here."""
        return ordinal in self._enabled

    def _ask(self, ordinal: int) -> bool:
        context = self._context
        if not context.options.peers or ordinal == context.ordinal:
            return False
        try:
            return bool(context.runtime.deviceCanAccessPeer(context.ordinal, ordinal))
        except RuntimeError:  # one that is not there any more
            return False
