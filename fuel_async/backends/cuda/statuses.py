"""What the statuses of CUDA calls mean, by their numbers, and the errors that they become.

CuPy has no names for them. Those of the runtime and of the driver are the same numbers since CUDA 10.1; those of cuBLAS
are its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import DeviceError, DeviceLost, FuelError, OutOfMemory
from fuel_async.streams import without_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_MEMORY = 2
NOT_INITIALISED = 3
OLD_DRIVER = 35
NO_DEVICE = 100
PEER_ENABLED = 704

#: After one of these nothing on the device can be trusted, and each later call says the same: the driver is going down,
#: memory or a link is broken, or a kernel has crashed and taken its context with it (CUDA Runtime API, error handling).
STICKY: Mapping[int, str] = {
    4: "the driver is shutting down",
    46: "the device is taken by somebody else",
    214: "uncorrectable ECC error",
    220: "uncorrectable error of a link",
    226: "contained memory error",
    700: "illegal address",
    702: "a kernel took too long for the system's watchdog",
    709: "the context was destroyed",
    710: "a kernel's assertion failed",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "a kernel failed",
    721: "tensor memory was not freed",
    999: "unknown error",
}

#: cuBLAS: what it said for want of memory.
_BLAS_NO_MEMORY = 3


class CudaError(DeviceError):
    """A CUDA call failed, and the device goes on: `status` is what it said, None where CuPy itself refused."""

    def __init__(self, device: str, call: str, status: int | None, text: str) -> None:
        self.device, self.call, self.status = device, call, status
        super().__init__(f"{call} failed on {device}: {text}")


def status_of(error: BaseException) -> int | None:
    """The status of a call of the runtime or driver; None for other errors, those of cuBLAS included."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) and not _is_of_blas(error) else None


def error_of(device: str, call: str, error: BaseException, nbytes: int = 0, budget_nbytes: int = 0) -> FuelError:
    """The error that a failed call becomes: `DeviceLost`, `OutOfMemory`, else `CudaError`; the original is its cause.

    An error of this package's own stays what it is.

    `nbytes` and `budget_nbytes` are what was asked for, and of how much.
    """
    if isinstance(error, FuelError):
        return error
    status = status_of(error)
    made: DeviceError
    if status in STICKY:
        made = DeviceLost(device, f"{call} said {error}")
    elif status == NO_MEMORY or isinstance(error, MemoryError) or _lacks_blas_memory(error):
        made = OutOfMemory(device, nbytes, budget_nbytes, f", and {call} said {error}")
    else:
        made = CudaError(device, call, status, f"{error}" if status is not None else f"{type(error).__name__}: {error}")
    made.__cause__ = without_frames(error)
    return made


def _is_of_blas(error: BaseException) -> bool:
    return type(error).__name__ == "CUBLASError"


def _lacks_blas_memory(error: BaseException) -> bool:
    return _is_of_blas(error) and getattr(error, "status", None) == _BLAS_NO_MEMORY
