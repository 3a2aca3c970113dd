"""Faults that are still to strike, and those that strike by chance."""

from __future__ import annotations

import threading
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

from fuel_async.testing.cuda_double.statuses import CUDARuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.testing.cuda_double.model import Fault, RandomFaults


class Faults:
    """What is to go wrong on a machine. Any thread may ask; each fault strikes as often as it says."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self._random: tuple[RandomFaults, ...] = ()
        self._chances: Counter[tuple[RandomFaults, int, str]] = Counter()
        #: How many struck, by device.
        self.struck: Counter[int] = Counter()

    def add(self, fault: Fault) -> None:
        """Let `fault` strike when its turn comes."""
        with self._lock:
            self._waiting.append(fault)

    def at_random(self, *faults: RandomFaults) -> None:
        """Let faults strike by chance; without any, no more."""
        with self._lock:
            self._random = faults

    def strike(self, device: int, place: str, allowed: Callable[[int], bool] = lambda _: True) -> None:
        """Raise the fault whose turn it is at this place, of those with an `allowed` status. `CUDARuntimeError`."""
        if not self._waiting and not self._random:
            return
        with self._lock:
            status = self._due(device, place, allowed) or self._by_chance(device, place, allowed)
            if status:
                self.struck[device] += 1
        if status:
            raise CUDARuntimeError(status)

    def _due(self, device: int, place: str, allowed: Callable[[int], bool]) -> int:
        for fault in self._waiting:
            if (fault.device, fault.at) != (device, place) or not allowed(fault.status):
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            fault.times -= 1
            if fault.times <= 0:
                self._waiting.remove(fault)
            return fault.status
        return 0

    def _by_chance(self, device: int, place: str, allowed: Callable[[int], bool]) -> int:
        return next(filter(None, (self._drawn(each, device, place, allowed) for each in self._random)), 0)

    def _drawn(self, faults: RandomFaults, device: int, place: str, allowed: Callable[[int], bool]) -> int:
        """The n-th chance of a place fails or not whatever the threads do."""
        if place not in faults.places or (faults.devices is not None and device not in faults.devices):
            return 0
        if not (statuses := [status for status in faults.statuses if allowed(status)]):
            return 0
        self._chances[faults, device, place] += 1
        chance = f"{faults.seed} {device} {place} {self._chances[faults, device, place]}"
        drawn = int.from_bytes(blake2b(chance.encode(), digest_size=8).digest(), "little")
        return statuses[drawn % len(statuses)] if drawn < faults.rate * 2**64 else 0
