"""Constants on devices: sent once a device, whatever the number of plans that read them.

A constant is known by its array. Plans of one graph for several sizes of a symbol, and graphs built over the same
arrays, share what lies on a device. It stays there while the array is alive, unless the device lacks memory and no run
reads it. Bytes are sent when the first region that reads them is launched, and whoever comes meanwhile waits for the
same copy.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import ref as weakref

from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from fuel_async.backends import Device
    from fuel_async.streams import CompletionHandle

    Array = NDArray[Any]


class _Resident:
    """One constant in one memory."""

    __slots__ = ("array", "nbytes", "sent")

    def __init__(self, array: Any, nbytes: int) -> None:
        self.array, self.nbytes = array, nbytes
        #: The copy that brings or brought it; None before anybody asked.
        self.sent: CompletionHandle | None = None

    @property
    def is_missing(self) -> bool:
        """Whether nobody has sent it, or the copy failed."""
        return self.sent is None or (self.sent.done() and self.sent.exception() is not None)

    @property
    def has_arrived(self) -> bool:
        """Whether it is there for good."""
        return self.sent is not None and self.sent.done() and self.sent.exception() is None


class ConstantStore:
    """The constants of all plans on one device. Any thread."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.lock = threading.RLock()
        #: By the identity of the host's array, which a weak reference guards.
        self._by_id: dict[int, tuple[weakref[Array], _Resident]] = {}
        #: Of the plans under way, by its own identity: bytes of each constant by the identity of its array.
        self._used: dict[int, Mapping[int, int]] = {}
        self._used_nbytes = 0

    def place(self, values: Sequence[Array]) -> DeviceConstants:
        """Return the constants with arrays on the device, which are allocated where there are none. `OutOfMemory`."""
        if self._device.memory_location.is_host:
            return DeviceConstants(self, values, [], values)
        with self.lock:
            residents = [self._resident(value) for value in values]
        return DeviceConstants(self, values, residents, [one.array for one in residents])

    def drop_unused(self) -> bool:
        """Forget what no plan under way reads; whether there was anything.

        Its bytes are free when the last plan that has it is gone.
        """
        with self.lock:
            used = self._in_use()
            unused = [number for number in self._by_id if number not in used]
            for number in unused:
                del self._by_id[number]
        return bool(unused)

    def missing_nbytes(self, values: Sequence[Array]) -> int:
        """Bytes of those that have not been sent yet; nothing is allocated for the question."""
        with self.lock:
            found = [(value, self._by_id.get(id(value))) for value in values]
            return sum(value.nbytes for value, entry in found if entry is None or entry[1].is_missing)

    def use(self, sizes: Mapping[int, int], change: int) -> int:
        """Note that a plan under way reads constants (1), or does no more (-1); return the change of bytes in use.

        `sizes` is the plan's own: the bytes of each of its constants by the identity of its array.
        """
        if self._device.memory_location.is_host:
            return 0
        with self.lock:
            if change > 0:
                self._used[id(sizes)] = sizes
            else:
                del self._used[id(sizes)]
            used, before = self._in_use(), self._used_nbytes
            if change < 0 and self._device.lost is not None:
                for number in sizes.keys() - used.keys():
                    self._by_id.pop(number, None)
            self._used_nbytes = sum(used.values())
            return self._used_nbytes - before

    def _in_use(self) -> Mapping[int, int]:
        """What some plan under way reads. Most often there is one such plan, and nothing to be put together."""
        plans = list(self._used.values())
        return plans[0] if len(plans) == 1 else {number: nbytes for sizes in plans for number, nbytes in sizes.items()}

    def _resident(self, value: Array) -> _Resident:
        entry = self._by_id.get(id(value))
        if entry is None:
            array = self._device.memory.allocate_array(value.shape, DType.from_numpy(value.dtype))
            entry = self._by_id[id(value)] = self._guard(value), _Resident(array, value.nbytes)
        return entry[1]

    def _guard(self, value: Array) -> weakref[Array]:
        """A reference that makes the store forget the array with its last holder."""
        number, by_id = id(value), self._by_id

        def forget(_: weakref[Array]) -> None:
            by_id.pop(number, None)

        return weakref(value, forget)


class DeviceConstants:
    """The constants of one plan on one device. Any thread."""

    __slots__ = ("_complete", "_residents", "_store", "_values", "arrays")

    def __init__(
        self, store: ConstantStore, values: Sequence[Array], residents: Sequence[_Resident], arrays: Sequence[Any]
    ) -> None:
        """`ConstantStore.place` makes these; no residents where the arrays are the host's own."""
        self._store, self._values, self._residents, self.arrays = store, values, residents, arrays
        self._complete = not residents

    def missing_nbytes(self, places: Sequence[int]) -> int:
        """Bytes of those that have not been sent yet."""
        if self._complete:
            return 0
        return sum(self._residents[place].nbytes for place in places if self._residents[place].is_missing)

    def arrive(self, places: Sequence[int], send: Callable[[Array, Any], CompletionHandle]) -> list[CompletionHandle]:
        """What to wait for before they may be read; sends those that nobody has sent. A failed copy is sent again."""
        if self._complete:
            return []
        waits: list[CompletionHandle] = []
        for place in places:
            one = self._residents[place]
            if one.is_missing:
                with self._store.lock:
                    if one.is_missing:
                        one.sent = send(self._values[place], one.array)
            handle = one.sent
            # It may have failed within `send`.
            if handle is not None and (not handle.done() or handle.exception() is not None):
                waits.append(handle)
        if not waits:
            self._complete = all(one.has_arrived for one in self._residents)
        return waits
