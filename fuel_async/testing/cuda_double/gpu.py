"""One device of a machine: its model, its health, its engines, and the gate that holds its streams up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.testing.cuda_double.statuses import STICKY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.testing.cuda_double.faults import Faults
    from fuel_async.testing.cuda_double.model import DeviceModel
    from fuel_async.testing.cuda_double.work import Engine, StreamWork

#: Where faults of operations strike, by the name of the operation.
PLACES: Mapping[str, str] = {"launch": "launch", "graph": "launch", "copy": "copy", "fill": "copy"}

#: The engines that one operation of a device occupies at a time.
SHARED = frozenset({"compute", "upload", "download"})


class Gpu:
    """A device. Any thread may read it."""

    def __init__(self, index: int, model: DeviceModel, faults: Faults) -> None:
        self.index, self.model = index, model
        #: The status that ended it; 0 while it works. And what an operation really raised.
        self.status = 0
        self.cause: BaseException | None = None
        self.used_nbytes = 0
        self.peak_nbytes = 0
        #: Devices whose memory its kernels may use.
        self.peers: set[int] = set()
        self.streams: list[StreamWork] = []
        self.lock = threading.RLock()
        self._faults = faults
        self._free_s: dict[str, float] = {}
        self._is_over = threading.Event()
        self._gate = threading.Event()
        self._gate.set()

    def fail(self, status: int, cause: BaseException | None = None) -> None:
        """End it with `status`. The first one stays."""
        with self.lock:
            if not self.status:
                self.status, self.cause = status, cause

    def hang(self) -> None:
        """Let no stream begin anything more."""
        self._gate.clear()

    def release(self) -> None:
        """Let the streams go on."""
        self._gate.set()

    def end(self) -> None:
        """Let nothing wait any more."""
        self._is_over.set()
        self._gate.set()

    def rest(self, duration_s: float) -> None:
        """Wait for `duration_s`, or until the machine ends."""
        self._is_over.wait(duration_s)

    def pass_gate(self) -> bool:
        """Wait while the device hangs. Whether it did."""
        if self._gate.is_set():
            return False
        self._gate.wait()
        return True

    def strike(self, name: str) -> None:
        """Raise the fault whose turn it is for an operation that runs, if any. `CUDARuntimeError`."""
        if (place := PLACES.get(name)) is not None:
            self._faults.strike(self.index, place, STICKY.__contains__)

    def refuse(self, name: str) -> None:
        """Raise the fault whose turn it is for the call that gives an operation to a stream. `CUDARuntimeError`."""
        if (place := PLACES.get(name)) is not None:
            self._faults.strike(self.index, place, lambda status: status not in STICKY)

    def book(self, engine: Engine, since_s: float, duration_s: float) -> float:
        """Take an engine for `duration_s` as soon as it is free, from `since_s` on; return when that began.

        That may lie in the past: a thread that was late to begin has not made the device slower.
        """
        with self.lock:
            start_s = max(since_s, self._free_s.get(engine, 0.0)) if engine in SHARED else since_s
            self._free_s[engine] = start_s + duration_s
        return start_s

    def keep(self, engine: Engine, until_s: float) -> None:
        """Keep an engine longer than was booked."""
        with self.lock:
            self._free_s[engine] = max(self._free_s.get(engine, 0.0), until_s)

    def take(self, nbytes: int) -> bool:
        """Count `nbytes` as allocated if there is room."""
        with self.lock:
            if self.used_nbytes + nbytes > self.model.memory_nbytes:
                return False
            self.used_nbytes += nbytes
            self.peak_nbytes = max(self.peak_nbytes, self.used_nbytes)
            return True

    def give(self, nbytes: int) -> None:
        """Count them as free again."""
        with self.lock:
            self.used_nbytes -= nbytes
