"""Capture: launches turned into a CUDA graph, which is launched as one.

A graph keeps the addresses it was captured with. So it belongs to one recording, that of the given arrays whose blocks
and offsets are the same: block numbers are never given twice, so equal ones are the same bytes. What an instance
launches on a stream of its own while capturing runs nothing, and no other thread uses that stream.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.statuses import STICKY, status_of
from fuel_async.backends.cuda.streams import Stream
from fuel_async.errors import DeviceLost

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.script import Launches

#: cudaStreamCaptureModeThreadLocal: what other threads do meanwhile spoils nothing.
_THREAD_LOCAL = 1

#: Reasons that are kept for who asks.
REASONS_KEPT = 16


class Captures:
    """What captures for the instances of one device. Any thread; one captures at a time."""

    def __init__(self, context: Context) -> None:
        """Nothing is made before the first capture."""
        self._context = context
        self.is_wanted = context.options.capture
        self._stream: Stream | None = None
        #: Graphs made, and why others could not be.
        self.made = 0
        self.reasons: list[str] = []

    def prepare(self, *, products: bool) -> None:
        """Make what captures need, if there are to be any. Within `Context.here`; raises what the driver raises."""
        if self.is_wanted:
            with self._context.driver.capture_lock:
                if self._stream is None:
                    self._stream = Stream(self._context)
                if products:
                    _ = self._stream.blas

    def capture(self, launches: Launches, owner: object, what: str) -> Any | None:
        """Make the graph of `launches`, which ends with its owner; None where it cannot be: `reasons` says why.

        Within `Context.here`. Takes microseconds a launch. Raises what a lost device raises.
        """
        driver = self._context.driver
        with driver.capture_lock:
            driver.capturing = threading.get_ident()
            try:
                graph = self._captured(launches)
            except Exception as error:
                if isinstance(error, DeviceLost) or status_of(error) in STICKY:
                    raise
                self._note(f"{what} is launched kernel by kernel, since its capture failed: {error}")
                return None
            finally:
                driver.capturing = None
                driver.put_off.clear()
        self.made += 1
        self._context.end_with(owner, graph)
        return graph

    def _captured(self, launches: Launches) -> Any:
        if self._stream is None:
            self._stream = Stream(self._context)
        stream = self._stream
        launches.prepare(stream)
        try:
            stream.raw.begin_capture(_THREAD_LOCAL)
            launches.run(stream)
            return stream.raw.end_capture()
        except BaseException:
            with contextlib.suppress(Exception):
                stream.raw.end_capture()
            if _captures(stream):  # the next one has a stream on which nothing went wrong
                self._stream = None
            raise

    def _note(self, reason: str) -> None:
        if len(self.reasons) < REASONS_KEPT:
            self.reasons.append(reason)


def _captures(stream: Stream) -> bool:
    """Whether a stream is still captured, or cannot say."""
    try:
        return bool(stream.raw.is_capturing())
    except Exception:
        return True
