"""How arrays of a device are shown to other libraries, and theirs taken as feeds, without a copy.

By the CUDA array interface and DLPack. A result is complete when its caller holds it: there is no stream to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.errors import NotAdoptable, NotExportable
from fuel_async.ir import DType, Layout
from fuel_async.storage import DeviceArray, stored
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.backends.cuda.memory import CudaArray

#: kDLCUDA of dlpack.h.
DLPACK_CUDA = 2


def array_interface(array: CudaArray) -> dict[str, Any]:
    """Return version 3 of the CUDA array interface. `DeviceLost` on a lost device, `NotExportable` for odd dtypes."""
    if array.memory.context.lost is not None:
        raise fresh(array.memory.context.lost)
    dtype = array.dtype.require_np()
    if dtype.kind not in "biuf":
        raise NotExportable(repr(array), f"the interface has no {array.dtype}")
    return {
        "shape": array.shape,
        "typestr": dtype.str,
        "data": (array.ptr if array.nbytes else 0, False),
        "version": 3,
        "strides": None,
        "stream": None,
    }


def exported(context: Context, shown: Any, **asked: Any) -> Any:
    """Return a DLPack capsule of what shows itself by the interface, by way of CuPy, which keeps it alive.

    `asked` are the arguments of `__dlpack__`. `DeviceLost` on a lost device.
    """
    with context.here():
        return context.driver.cupy.asarray(shown).__dlpack__(**asked)


def adopt(device: CudaDevice, array: Any) -> DeviceArray:
    """Return another library's array on `device` as a feed takes it; it is kept alive by what is returned.

    It shows itself by the CUDA array interface, as CuPy's and torch's do. This thread waits for the stream that the
    array names. It must not be written before the runs that read it have ended. `NotAdoptable` for an array that lies
    elsewhere, is not row-major, or has a dtype that there is none for.
    """
    shown = getattr(array, "__cuda_array_interface__", None)
    if shown is None:
        raise NotAdoptable(f"a {type(array).__name__}", "it has no CUDA array interface", "pass it as a numpy array")
    there = getattr(array, "__dlpack_device__", None)
    if there is not None and there() != (DLPACK_CUDA, device.context.ordinal):
        raise NotAdoptable(f"an array on {there()}", f"it does not lie on {device.location}", "copy it there first")
    shape, dtype = tuple(shown["shape"]), np.dtype(shown["typestr"])
    packed = np.empty(0, dtype).itemsize * np.cumprod((1, *shape[:0:-1]))[::-1]
    strides = shown.get("strides")
    if strides is not None and tuple(strides) != tuple(packed) and 0 not in shape:
        raise NotAdoptable(f"an array with strides {strides}", "it is not row-major", "make it contiguous first")
    stream = shown.get("stream")
    if stream is not None:
        with device.context.here():
            device.context.runtime.streamSynchronize(stream)
    boolean = dtype == np.bool_
    made = device.memory.adopt(shown["data"][0], shape, DType.U8 if boolean else DType.from_numpy(dtype), array)
    return DeviceArray(stored(made, device.location), Layout.contiguous(shape), boolean)
