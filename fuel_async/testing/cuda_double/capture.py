"""Capture: what is submitted to a stream becomes the nodes of a graph, and what may not happen meanwhile.

Source of the rules: CUDA C++ Programming Guide, "CUDA Graphs", and `cudaThreadExchangeStreamCaptureMode` of the runtime
API. Where these leave open whether a call is "potentially unsafe", it counts as such.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.testing.cuda_double.work import Operation, StreamWork

GLOBAL: Final = 0
THREAD_LOCAL: Final = 1
RELAXED: Final = 2


class Node(NamedTuple):
    """An operation of a graph and the nodes that it comes after, by number."""

    operation: Operation
    after: frozenset[int]


class Capture:
    """A capture under way, in the stream where it began and those that joined it by waiting for its events."""

    def __init__(self, origin: StreamWork, mode: int) -> None:
        self.origin, self.mode = origin, mode
        self.thread = threading.get_ident()
        self.nodes: list[Node] = []
        self.streams: list[StreamWork] = []
        self.is_valid = True
        self.is_over = False
        self.join(origin, frozenset())

    def join(self, stream: StreamWork, after: frozenset[int]) -> None:
        """Let what is submitted to `stream` belong to this capture."""
        self.streams.append(stream)
        stream.capture, stream.frontier = self, after

    def add(self, stream: StreamWork, operation: Operation) -> None:
        """Append a node. `CUDARuntimeError`."""
        self.demand_valid()
        self.nodes.append(Node(operation, stream.frontier))
        stream.frontier = frozenset({len(self.nodes) - 1})

    def demand_valid(self) -> None:
        """Raise if something spoiled the capture. `CUDARuntimeError`."""
        if not self.is_valid:
            raise CUDARuntimeError(statuses.CAPTURE_INVALIDATED)

    def leave(self) -> None:
        """Let its streams work again."""
        self.is_over = True
        for stream in self.streams:
            stream.capture, stream.frontier = None, frozenset()

    def is_joined(self) -> bool:
        """Whether every node comes before the end of the stream where it began."""
        reached: set[int] = set()
        waiting = list(self.origin.frontier)
        while waiting:
            number = waiting.pop()
            if number not in reached:
                reached.add(number)
                waiting.extend(self.nodes[number].after)
        return len(reached) == len(self.nodes)


class Captures:
    """The captures under way on a machine."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ongoing: list[Capture] = []

    def __len__(self) -> int:
        return len(self._ongoing)

    def begin(self, stream: StreamWork, mode: int) -> None:
        """Let `stream` capture. `CUDARuntimeError`."""
        with self._lock:
            if stream.capture is not None:
                raise CUDARuntimeError(statuses.ILLEGAL_STATE)
            if mode not in (GLOBAL, THREAD_LOCAL, RELAXED):
                raise CUDARuntimeError(statuses.INVALID_VALUE)
            self._ongoing.append(Capture(stream, mode))

    def end(self, stream: StreamWork) -> Sequence[Node]:
        """Return what was captured. `CUDARuntimeError` if it was spoiled, does not end where it began or is open."""
        with self._lock:
            capture = stream.capture
            if capture is None:
                raise CUDARuntimeError(statuses.ILLEGAL_STATE)
            if capture.origin is not stream:
                capture.is_valid = False
                raise CUDARuntimeError(statuses.CAPTURE_UNMATCHED)
            if capture.mode != RELAXED and capture.thread != threading.get_ident():
                raise CUDARuntimeError(statuses.CAPTURE_WRONG_THREAD)
            is_joined = capture.is_joined()
            self._ongoing.remove(capture)
            capture.leave()
            capture.demand_valid()
            if not is_joined:
                raise CUDARuntimeError(statuses.CAPTURE_UNJOINED)
            return tuple(capture.nodes)

    def drop(self, stream: StreamWork) -> None:
        """Forget what a stream that is destroyed captures."""
        with self._lock:
            if (capture := stream.capture) is not None:
                capture.is_valid = False
                if capture.origin is stream:
                    self._ongoing.remove(capture)
                    capture.leave()

    def refuse_unsafe(self) -> None:
        """Spoil every capture that forbids the calling thread an unsafe call. `CUDARuntimeError` if there was one."""
        if not self._ongoing:
            return
        me = threading.get_ident()
        with self._lock:
            spoiled = [
                capture
                for capture in self._ongoing
                if capture.mode == GLOBAL or (capture.mode == THREAD_LOCAL and capture.thread == me)
            ]
            for capture in spoiled:
                capture.is_valid = False
        if spoiled:
            raise CUDARuntimeError(statuses.CAPTURE_UNSUPPORTED)

    @staticmethod
    def refuse_on(stream: StreamWork) -> None:
        """Spoil the capture of a stream that is asked for its state. `CUDARuntimeError` if it has one."""
        if (capture := stream.capture) is not None:
            capture.is_valid = False
            raise CUDARuntimeError(statuses.CAPTURE_UNSUPPORTED)
