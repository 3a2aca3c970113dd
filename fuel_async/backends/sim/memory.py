"""The memory of a simulated device: ordinary arrays that are counted, and known to belong to one device.

A device that reached into another's memory would compute the right thing here and crash elsewhere. So all memories of
a machine share a `Deeds`, which knows whose every array is, and lanes ask it.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fuel_async.errors import OutOfMemory, WrongSubstrate
from fuel_async.ir import CPU_DEVICE, DeviceLocation
from fuel_async.storage import HostArena

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from fuel_async.ir import DType


T = TypeVar("T")


class SimArena(HostArena):
    """An arena that shows its block."""

    __slots__ = ()

    @property
    def block(self) -> NDArray[np.uint8]:
        """The bytes themselves."""
        return self._buffer


class Deeds:
    """Whose memory an array is: a device's, when it was allocated there and lives, else the host's. Any thread."""

    __slots__ = ("_freed", "_lock", "_owners", "_used")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Owner and size by the id of the block.
        self._owners: dict[int, tuple[DeviceLocation, int]] = {}
        self._used: dict[DeviceLocation, int] = {}
        #: Blocks that are gone, told by the collector: it may come in any thread, with any lock held. They are settled
        #: before a new block is noted, which may have the id of one of them.
        self._freed: deque[int] = deque()

    def used_nbytes(self, location: DeviceLocation) -> int:
        """Bytes of the device's memory that are in use."""
        with self._lock:
            self._settle()
            return self._used.get(location, 0)

    def owner(self, array: NDArray[Any]) -> DeviceLocation:
        """Return whose memory the array, or what it is a view of, lies in."""
        block: Any = array
        while isinstance(block.base, np.ndarray):
            block = block.base
        with self._lock:
            self._settle()
            found = self._owners.get(id(block))
        return CPU_DEVICE if found is None else found[0]

    def check(self, what: str, arrays: Iterable[Any], wanted: DeviceLocation) -> None:
        """`WrongSubstrate` unless all arrays lie in the memory of `wanted`."""
        for place, array in enumerate(arrays):
            if isinstance(array, np.ndarray) and array.size and (owner := self.owner(array)) != wanted:
                raise WrongSubstrate(f"{what} {place}", f"memory of {owner}", f"memory of {wanted}")

    def register(self, location: DeviceLocation, block: NDArray[Any], nbytes: int, limit_nbytes: int) -> None:
        """Note a new block until it is collected. `OutOfMemory` when the device holds too much with it."""
        with self._lock:
            self._settle()
            used = self._used.get(location, 0)
            if used + nbytes > limit_nbytes:
                raise OutOfMemory(str(location), nbytes, limit_nbytes, f", of which {used:,} are in use")
            self._used[location] = used + nbytes
            self._owners[id(block)] = (location, nbytes)
        weakref.finalize(block, self._freed.append, id(block)).atexit = False

    def _settle(self) -> None:
        while self._freed:
            location, nbytes = self._owners.pop(self._freed.popleft())
            self._used[location] -= nbytes


class SimMemory:
    """A device's memory. Its bytes are in use as long as an array over them lives."""

    __slots__ = ("_deeds", "_location", "budget_nbytes")

    def __init__(self, location: DeviceLocation, nbytes: int, deeds: Deeds) -> None:
        self.budget_nbytes = nbytes
        self._location, self._deeds = location, deeds

    @property
    def used_nbytes(self) -> int:
        """Bytes in use."""
        return self._deeds.used_nbytes(self._location)

    def allocate(self, nbytes: int) -> SimArena:
        """Return an arena of `nbytes`. `OutOfMemory` when they do not fit beside what is in use."""
        self._check(nbytes)
        arena = self._made(nbytes, lambda: SimArena(nbytes))
        self._deeds.register(self._location, arena.block, nbytes, self.budget_nbytes)
        return arena

    def allocate_array(self, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
        """Return a row-major array. `OutOfMemory` when it does not fit beside what is in use."""
        nbytes = math.prod(shape) * dtype.nbytes
        self._check(nbytes)
        array: NDArray[Any] = self._made(nbytes, lambda: np.empty(shape, dtype.require_np()))
        self._deeds.register(self._location, array, array.nbytes, self.budget_nbytes)
        return array

    def _check(self, nbytes: int) -> None:
        """Refuse before the host is asked: a device may be said to have more memory than the host."""
        used = self.used_nbytes
        if used + nbytes > self.budget_nbytes:
            raise OutOfMemory(str(self._location), nbytes, self.budget_nbytes, f", of which {used:,} are in use")

    def _made(self, nbytes: int, make: Callable[[], T]) -> T:
        try:
            return make()
        except (MemoryError, ValueError) as error:  # ValueError: more than an array can have
            raise OutOfMemory(str(self._location), nbytes, self.budget_nbytes, ", and the host refused") from error
