"""How arrays of a device are shown to other libraries: the CUDA array interface and DLPack, both without a copy.

A result is complete when its caller holds it, so there is no stream to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.errors import NotExportable
from fuel_async.streams import fresh

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context
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
