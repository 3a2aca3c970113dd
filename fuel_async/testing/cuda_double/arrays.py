"""`cupy.ndarray` as far as arrays are exchanged: made, filled from the host, read back, and shown by protocol.

Nothing is computed with them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.testing.cuda_double import copies
from fuel_async.testing.cuda_double.current import current_stream_ptr
from fuel_async.testing.cuda_double.memory import MemoryPointer, UnownedMemory, alloc
from fuel_async.testing.cuda_double.streams import streamSynchronize

if TYPE_CHECKING:
    import numpy.typing as npt

    from fuel_async.testing.cuda_double.devices import Device

__all__ = ["array", "asarray", "asnumpy", "empty", "ndarray", "zeros"]

#: The number of CUDA devices in DLPack.
DLPACK_DEVICE = 2


class ndarray:
    """An array on a device. Its bytes are `data`, a `MemoryPointer`."""

    __array_priority__ = 100

    def __init__(
        self,
        shape: int | tuple[int, ...],
        dtype: npt.DTypeLike = float,
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
        order: str = "C",
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.ndim, self.size, self.itemsize = len(self.shape), prod(self.shape), self.dtype.itemsize
        self.nbytes = self.size * self.itemsize
        packed = tuple(self.itemsize * prod(self.shape[axis + 1 :]) for axis in range(self.ndim))
        self.strides = packed if strides is None else strides
        self.is_packed = self.strides == packed
        self.data = alloc(self.nbytes) if memptr is None else memptr

    @property
    def device(self) -> Device:
        """Where it is."""
        return self.data.device

    def get(
        self, stream: Any = None, order: str = "C", out: npt.NDArray[Any] | None = None, blocking: bool = True
    ) -> npt.NDArray[Any]:
        """Return it as an array of the host."""
        self._demand_packed()
        result = np.empty(self.shape, self.dtype) if out is None else out
        stream_ptr = current_stream_ptr() if stream is None else stream.ptr
        copies.memcpyAsync(result.ctypes.data, self.data.ptr, self.nbytes, copies.DEVICE_TO_HOST, stream_ptr)
        if blocking:
            streamSynchronize(stream_ptr)
        return result

    def set(self, arr: npt.NDArray[Any], stream: Any = None) -> None:
        """Fill it from the host."""
        self._demand_packed()
        source = np.ascontiguousarray(arr, self.dtype)
        if source.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {source.shape}")
        stream_ptr = current_stream_ptr() if stream is None else stream.ptr
        copies.memcpyAsync(self.data.ptr, source.ctypes.data, self.nbytes, copies.HOST_TO_DEVICE, stream_ptr)

    def _demand_packed(self) -> None:
        if not self.is_packed:
            raise NotImplementedError("the double copies packed arrays only")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.data.ptr if self.size else 0, False),
            "version": 3,
            "strides": None if self.is_packed else self.strides,
            "stream": current_stream_ptr() or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (DLPACK_DEVICE, self.data.device_id)

    def __array__(self, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None) -> npt.NDArray[Any]:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = float, order: str = "C") -> ndarray:
    """Return an array with any content."""
    return ndarray(shape, dtype)


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike = float, order: str = "C") -> ndarray:
    """Return an array of zeros."""
    made = ndarray(shape, dtype)
    made.data.memset_async(0, made.nbytes)
    return made


def asarray(
    a: Any,
    dtype: npt.DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    blocking: bool = False,
) -> ndarray:
    """Return `a` on the current device: an array of a device as it is, one that shows itself by protocol, or a copy."""
    if isinstance(a, ndarray):
        return a
    if (shown := getattr(a, "__cuda_array_interface__", None)) is not None:
        memory = UnownedMemory(shown["data"][0], 0, a)
        return ndarray(shown["shape"], shown["typestr"], MemoryPointer(memory, 0), shown.get("strides"))
    host = np.ascontiguousarray(a, dtype)
    made = ndarray(host.shape, host.dtype)
    made.set(host)
    if blocking:
        streamSynchronize(current_stream_ptr())
    return made


def array(
    obj: Any,
    dtype: npt.DTypeLike | None = None,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """Return a copy of an array of the host on the current device."""
    return asarray(obj, dtype, blocking=blocking)


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: npt.NDArray[Any] | None = None, *, blocking: bool = True
) -> npt.NDArray[Any]:
    """Return an array as one of the host."""
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a)
