"""DeviceArray: what a caller holds of a result that stays on its device.

Its memory is its own, never an arena's. On the host it is a numpy array in all but name (`numpy()`,
`__array__`, DLPack, each without a copy); elsewhere it is a reference to hand back as a feed, and `numpy()` copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fuel_async.errors import NotExportable, StoragePoisoned, WrongSubstrate
from fuel_async.ir import DeviceLocation, DType, Layout, SubstrateClass
from fuel_async.storage.storage import HostArray, Storage, as_array, from_array

#: (kDLCPU, 0): host memory in the terms of dlpack.h.
_DLPACK_HOST = (1, 0)


class DeviceArray:
    """An array of `shape` and `dtype` on `device`, immutable as a reference; its bytes are the caller's.

    `boolean` marks truth values: they are stored as U8 and come out as numpy bool.
    """

    __slots__ = ("__weakref__", "_boolean", "_layout", "_storage")

    def __init__(self, storage: Storage, layout: Layout, boolean: bool = False) -> None:
        self._storage = storage
        self._layout = layout
        self._boolean = boolean

    @property
    def storage(self) -> Storage:
        """The bytes; shared with nobody but other references that the caller made."""
        return self._storage

    @property
    def layout(self) -> Layout:
        """Where in the storage the elements lie."""
        return self._layout

    @property
    def boolean(self) -> bool:
        """Whether the elements are truth values."""
        return self._boolean

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._layout.rank

    @property
    def dtype(self) -> DType:
        """The element type; U8 for truth values."""
        return self._storage.dtype

    @property
    def device(self) -> DeviceLocation:
        """The device whose memory it lies in."""
        return self._storage.device

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self._layout.count * self.dtype.nbytes

    def numpy(self) -> HostArray:
        """Return the array as numpy sees it, without a copy: writing to it writes to this array.

        From a device whose memory is not the host's it comes as a copy, for which this thread waits. `WrongSubstrate`
        when the device cannot be read, `StoragePoisoned` when its writer failed half-way.
        """
        if self._storage.is_poisoned:
            raise StoragePoisoned("read", self._storage.describe())
        read = getattr(self._storage.buffer, "read", None)
        array = as_array(self._storage if read is None else from_array(read()), self._layout)
        return array.view(np.bool_) if self._boolean else array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array to libraries that read a CUDA device's memory, without a copy; there only on such a device.

        The work that wrote it has ended, so there is no stream to wait for. `NotExportable` for dtypes that the
        interface lacks.
        """
        if self._storage.is_poisoned:
            raise StoragePoisoned("read", self._storage.describe())
        shown: dict[str, Any] = self._storage.buffer.__cuda_array_interface__
        return {**shown, "typestr": "|b1"} if self._boolean else shown

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export by DLPack, without a copy unless `copy` is true; `NotExportable` is a `BufferError`.

        The errors of `numpy()` come first. Work on the host is finished when the caller holds the array, so
        `stream` must be None. A device whose memory others can read exports in its own way.
        """
        export = getattr(self._storage.buffer, "exported", None)
        if export is not None:
            return export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if stream is not None:
            raise NotExportable(repr(self), f"the host has no stream {stream!r} to wait for")
        array = self.numpy()
        try:
            return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        except (BufferError, ValueError) as error:
            raise NotExportable(repr(self), str(error)) from error

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device number)."""
        place = getattr(self._storage.buffer, "dlpack_device", None)
        if place is not None:
            found: tuple[int, int] = place
            return found
        if self._storage.substrate != SubstrateClass.HostBytes:
            raise WrongSubstrate(repr(self), self._storage.substrate, SubstrateClass.HostBytes)
        return _DLPACK_HOST

    def __repr__(self) -> str:
        kind = "bool" if self._boolean else self.dtype
        return f"<DeviceArray {kind}[{', '.join(map(str, self.shape))}] on {self.device}>"
