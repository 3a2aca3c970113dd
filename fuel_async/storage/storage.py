"""Storage: bytes on one device, with a lease and a poison flag; and their numpy faces on the host.

Storages are compared by identity: two values share bytes exactly when their storages are one object. A
storage says nothing about shape; a `Layout` does. Leases are taken where kernels are bound or called one by
one, not inside a bound run, and taking one never waits: waiting for a shared storage is the runtime's
business.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fuel_async.errors import (
    BundleMisuse,
    FuelError,
    NotAdoptable,
    ReadOnlyStorage,
    ShapeMismatch,
    StorageBusy,
    StoragePoisoned,
    UserError,
    WrongSubstrate,
)
from fuel_async.ir import CPU_DEVICE, DeviceLocation, DType, Layout, OutputView, SubstrateClass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

#: Alignment of host memory allocated here: a cache line, and the widest vector register.
HOST_ALIGNMENT = 64

HostArray: TypeAlias = npt.NDArray[Any]


class Storage:
    """A buffer of `nbytes` bytes holding elements of `dtype` on `device`.

    `buffer` is the backend's own object; on the host substrate it is a contiguous 1-D numpy array of exactly
    `nbytes` bytes. The attributes never change; lease and poison do, from any thread. A storage with a `bundle` holds
    the outputs of one kernel, its slots, and `dtype` is that of slot 0.
    """

    __slots__ = (
        "__weakref__", "_bytes", "_lock", "_poisoned", "_readers", "_writing",
        "buffer", "bundle", "device", "dtype", "nbytes", "substrate",
    )  # fmt: skip

    def __init__(
        self, dtype: DType, nbytes: int, device: DeviceLocation, substrate: SubstrateClass, buffer: Any
    ) -> None:
        self.dtype = dtype
        self.nbytes = nbytes
        self.device = device
        self.substrate = substrate
        self.buffer = buffer
        #: Where the slots lie; None for a storage of one value. See `with_bundle`.
        self.bundle: tuple[OutputView, ...] | None = None
        #: The buffer as uint8 on the host substrate, None elsewhere.
        self._bytes = _host_bytes(buffer, nbytes) if substrate == SubstrateClass.HostBytes else None
        self._lock = threading.Lock()
        self._poisoned = False
        self._readers = 0
        self._writing = False

    def with_bundle(self, views: Sequence[OutputView]) -> Storage:
        """Give a storage that nobody else has seen yet its slots, once and for all; return it.

        `BundleMisuse` when it has some already, when there are none, when slot 0 has another dtype than the storage,
        and when a slot does not lie inside or begins at no multiple of its dtype's size.
        """
        if self.bundle is not None:
            raise BundleMisuse("with_bundle", f"{self.describe()} has slots already")
        if not views or views[0].dtype is not self.dtype:
            raise BundleMisuse("with_bundle", f"wanted a slot 0 of dtype {self.dtype}, that of the storage", views)
        for slot, view in enumerate(views):
            if view.offset < 0 or view.offset % view.dtype.nbytes or view.end > self.nbytes:
                reason = f"slot {slot} takes bytes {view.offset} to {view.end}, which {self.describe()} has not"
                raise BundleMisuse("with_bundle", reason, views)
        self.bundle = tuple(views)
        return self

    @property
    def elem_count(self) -> int:
        """The number of whole elements; 0 for a sub-byte dtype."""
        return self.nbytes // self.dtype.nbytes if self.dtype.nbytes else 0

    @property
    def is_poisoned(self) -> bool:
        """Whether a writer failed half-way, so that the bytes mean nothing."""
        return self._poisoned

    def poison(self) -> None:
        """Mark the bytes as meaningless: every lease raises `StoragePoisoned` until `clear_poison()`."""
        self._poisoned = True

    def clear_poison(self) -> None:
        """Declare the bytes meaningful again; for whoever has written them afresh or is about to."""
        self._poisoned = False

    def describe(self) -> str:
        """Return the words by which errors name this storage."""
        return f"storage {id(self):#x} ({self.dtype}, {self.nbytes:,} bytes on {self.device})"

    def __repr__(self) -> str:
        return f"<{self.describe()}{', poisoned' if self._poisoned else ''}>"


def _host_bytes(buffer: Any, nbytes: int) -> npt.NDArray[np.uint8]:
    wanted = "pass a contiguous 1-D numpy array of exactly the storage's size"
    if not isinstance(buffer, np.ndarray):
        raise NotAdoptable(f"a {type(buffer).__name__}", "it is no numpy array", wanted)
    if buffer.ndim != 1 or not buffer.flags.c_contiguous or buffer.nbytes != nbytes:
        what = f"an array of shape {buffer.shape}, strides {buffer.strides} and {buffer.nbytes} bytes"
        raise NotAdoptable(what, f"the storage has {nbytes} bytes in one row", wanted)
    return buffer.view(np.uint8)


# --- leases
# -----------------------------------------------------------------------------------------------------------


class _Lease:
    """One access to one storage, held for the length of a `with` block."""

    __slots__ = ("_storage",)

    def __init__(self, storage: Storage) -> None:
        self._storage = storage


class ReadLease(_Lease):
    """Excludes writers, not other readers. Made by `read_storage`."""

    __slots__ = ()

    def __enter__(self) -> Storage:
        storage = self._storage
        with storage._lock:
            if storage._poisoned:
                raise StoragePoisoned("read", storage.describe())
            if storage._writing:
                raise StorageBusy("read", storage.describe(), "a writer")
            storage._readers += 1
        return storage

    def __exit__(self, kind: object, error: object, frames: object) -> None:
        with self._storage._lock:
            self._storage._readers -= 1


class WriteLease(_Lease):
    """Excludes every other access, and poisons the storage when its block dies. Made by `write_storage`."""

    __slots__ = ()

    def __enter__(self) -> Storage:
        storage = self._storage
        with storage._lock:
            if storage._poisoned:
                raise StoragePoisoned("write", storage.describe())
            if storage._writing:
                raise StorageBusy("write", storage.describe(), "a writer")
            if storage._readers:
                raise StorageBusy("write", storage.describe(), f"{storage._readers} reader(s)")
            storage._writing = True
        return storage

    def __exit__(self, kind: type[BaseException] | None, error: object, frames: TracebackType | None) -> None:
        storage = self._storage
        with storage._lock:
            if kind is not None and not issubclass(kind, FuelError):
                storage._poisoned = True
            storage._writing = False


def read_storage(storage: Storage) -> ReadLease:
    """Return a context manager that leases `storage` for reading; it never waits and works from any thread.

    Entering raises `StoragePoisoned`, or `StorageBusy` while it is being written, also by the same thread.
    """
    return ReadLease(storage)


def write_storage(storage: Storage) -> WriteLease:
    """Return a context manager that leases `storage` for writing; it never waits and works from any thread.

    Entering raises `StoragePoisoned`, or `StorageBusy` while anybody reads or writes it, also the same
    thread. When anything but a `FuelError` escapes the block, cancellation and interrupts included, the
    storage is poisoned: what was half-written is never taken for a value.
    """
    return WriteLease(storage)


# --- the host's faces
# -------------------------------------------------------------------------------------------------


def cpu_input(storage: Storage) -> HostArray:
    """Return the storage as a 1-D numpy array of its dtype, read-only and without a copy.

    `WrongSubstrate` when it does not lie in host memory, `DTypeMismatch` when numpy has no such dtype. Takes
    no lease.
    """
    array = _typed(storage, "input")
    array.flags.writeable = False
    return array


def cpu_output(storage: Storage) -> HostArray:
    """Return the storage as a writable 1-D numpy array of its dtype, without a copy.

    `ReadOnlyStorage` when it adopted an array that must not be written; else as `cpu_input`. Takes no lease.
    """
    array = _typed(storage, "output")
    if not array.flags.writeable:
        raise ReadOnlyStorage(storage.describe())
    return array


def as_array(storage: Storage, layout: Layout, dtype: DType | None = None) -> HostArray:
    """Return the value that `layout` describes as a strided numpy view; writable if the storage's buffer is.

    The layout counts elements of the storage's dtype or, in a storage with a bundle, of `dtype`, that of the slot.
    `ShapeMismatch` when the layout leaves the storage; `BundleMisuse` when it has no slot of that dtype, and is not of
    that dtype itself; else the errors of `cpu_input`. Takes no lease.
    """
    kind = storage.dtype if dtype is None else dtype
    if kind is not storage.dtype and all(view.dtype is not kind for view in storage.bundle or ()):
        raise BundleMisuse("as_array", f"{storage.describe()} has no slot of dtype {kind}")
    return _laid_out(storage, layout, kind)


def slot_arrays(storage: Storage) -> tuple[HostArray, ...]:
    """Return the slots of a bundle in order, as row-major numpy views without a copy: for kernels of several outputs.

    `BundleMisuse` when the storage has no bundle; else the errors of `cpu_input`. Takes no lease.
    """
    if storage.bundle is None:
        raise BundleMisuse("slot_arrays", f"{storage.describe()} holds one value and has no slots")
    return tuple([_laid_out(storage, view.layout, view.dtype) for view in storage.bundle])


def _laid_out(storage: Storage, layout: Layout, kind: DType) -> HostArray:
    dtype, data, size = kind.require_np(), _bytes_of(storage, "operand"), kind.nbytes
    strides = tuple([stride * size for stride in layout.strides])
    try:
        return np.ndarray(layout.shape, dtype, data, layout.offset * size, strides)
    except (TypeError, ValueError):  # numpy checks the bounds, negative strides included
        span = layout.span()
    if span is None:
        return np.ndarray(layout.shape, dtype, data)
    raise ShapeMismatch("as_array", f"{layout} touches elements {span[0]} to {span[1]}, outside {storage.describe()}")


def _typed(storage: Storage, role: str) -> HostArray:
    return _bytes_of(storage, role).view(storage.dtype.require_np())


def _bytes_of(storage: Storage, role: str) -> npt.NDArray[np.uint8]:
    if storage._bytes is None:
        raise WrongSubstrate(f"{role} {storage.describe()}", storage.substrate, SubstrateClass.HostBytes)
    return storage._bytes


def alloc_cpu(dtype: DType, count: int, *, zeroed: bool = False, device: DeviceLocation = CPU_DEVICE) -> Storage:
    """Allocate host memory for `count` elements, aligned to 64 bytes; uninitialised unless `zeroed`.

    `DTypeMismatch` for a dtype without a numpy form, `MemoryError` from numpy when there is none left.
    """
    if count < 0:
        raise UserError(f"cannot allocate {count} elements; a count is not negative")
    nbytes = count * dtype.require_np().itemsize
    raw = (np.zeros if zeroed else np.empty)(nbytes + HOST_ALIGNMENT, np.uint8)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(raw.data)) % HOST_ALIGNMENT
    return Storage(dtype, nbytes, device, SubstrateClass.HostBytes, raw[start : start + nbytes])


def stored(array: Any, device: DeviceLocation) -> Storage:
    """Adopt what a device's memory gave for an array: a numpy array, or the backend's own object.

    Such an object has a dtype and a size in bytes; it may have `read()`, which copies it into a numpy array.
    """
    if isinstance(array, np.ndarray):
        return from_array(array, device=device)
    return Storage(array.dtype, array.nbytes, device, device.backend.default_substrate, array)


def alloc_bundle(views: Sequence[OutputView], *, device: DeviceLocation = CPU_DEVICE) -> Storage:
    """Allocate host memory for a bundle, aligned to 64 bytes; whole elements of slot 0, uninitialised.

    Errors are those of `with_bundle` and `alloc_cpu`.
    """
    if not views:
        raise BundleMisuse("alloc_bundle", "wanted at least one slot, got none")
    size = views[0].dtype.nbytes
    return alloc_cpu(views[0].dtype, -(-max(view.end for view in views) // size), device=device).with_bundle(views)


def from_array(array: HostArray, *, device: DeviceLocation = CPU_DEVICE) -> Storage:
    """Adopt a C-contiguous numpy array without a copy: the storage is the array's memory, and keeps it alive.

    bool arrays become U8. The result is read-only if the array is, and as aligned as it is. `DTypeParseError`
    for dtypes there is no member for, `NotAdoptable` for other memory orders.
    """
    dtype = DType.from_numpy(array.dtype)
    if not array.flags.c_contiguous:
        raise NotAdoptable(
            f"an array of shape {array.shape} and strides {array.strides}",
            "its elements do not follow each other",
            "pass numpy.ascontiguousarray(array)",
        )
    flat = np.asarray(array).reshape(-1)
    return Storage(dtype, flat.nbytes, device, SubstrateClass.HostBytes, flat)
