"""Status codes of the CUDA runtime, their texts, which of them end a device, and the exceptions that carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
RUNTIME_UNLOADING: Final = 4
INVALID_CONFIGURATION: Final = 9
INSUFFICIENT_DRIVER: Final = 35
NO_DEVICE: Final = 100
INVALID_DEVICE: Final = 101
INVALID_IMAGE: Final = 200
ECC_UNCORRECTABLE: Final = 214
PEER_UNSUPPORTED: Final = 217
INVALID_HANDLE: Final = 400
ILLEGAL_STATE: Final = 401
NOT_FOUND: Final = 500
NOT_READY: Final = 600
ILLEGAL_ADDRESS: Final = 700
LAUNCH_TIMEOUT: Final = 702
PEER_ALREADY_ENABLED: Final = 704
PEER_NOT_ENABLED: Final = 705
DEVICE_ASSERT: Final = 710
LAUNCH_FAILURE: Final = 719
CAPTURE_UNSUPPORTED: Final = 900
CAPTURE_INVALIDATED: Final = 901
CAPTURE_MERGE: Final = 902
CAPTURE_UNMATCHED: Final = 903
CAPTURE_UNJOINED: Final = 904
CAPTURE_ISOLATION: Final = 905
CAPTURE_IMPLICIT: Final = 906
CAPTURED_EVENT: Final = 907
CAPTURE_WRONG_THREAD: Final = 908
UNKNOWN: Final = 999

#: Name and text of a status, as the runtime gives them.
TEXTS: Mapping[int, tuple[str, str]] = {
    INVALID_VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    OUT_OF_MEMORY: ("cudaErrorMemoryAllocation", "out of memory"),
    RUNTIME_UNLOADING: ("cudaErrorCudartUnloading", "driver shutting down"),
    INVALID_CONFIGURATION: ("cudaErrorInvalidConfiguration", "invalid configuration argument"),
    INSUFFICIENT_DRIVER: (
        "cudaErrorInsufficientDriver",
        "CUDA driver version is insufficient for CUDA runtime version",
    ),
    NO_DEVICE: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    INVALID_DEVICE: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    ECC_UNCORRECTABLE: ("cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"),
    PEER_UNSUPPORTED: (
        "cudaErrorPeerAccessUnsupported",
        "peer access is not supported between these two devices",
    ),
    INVALID_IMAGE: ("cudaErrorInvalidKernelImage", "device kernel image is invalid"),
    INVALID_HANDLE: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    ILLEGAL_STATE: ("cudaErrorIllegalState", "the operation cannot be performed in the present state"),
    NOT_FOUND: ("cudaErrorSymbolNotFound", "named symbol not found"),
    NOT_READY: ("cudaErrorNotReady", "device not ready"),
    ILLEGAL_ADDRESS: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    LAUNCH_TIMEOUT: ("cudaErrorLaunchTimeout", "the launch timed out and was terminated"),
    PEER_ALREADY_ENABLED: ("cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"),
    PEER_NOT_ENABLED: ("cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"),
    DEVICE_ASSERT: ("cudaErrorAssert", "device-side assert triggered"),
    LAUNCH_FAILURE: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    CAPTURE_UNSUPPORTED: (
        "cudaErrorStreamCaptureUnsupported",
        "operation not permitted when stream is capturing",
    ),
    CAPTURE_INVALIDATED: (
        "cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture",
    ),
    CAPTURE_MERGE: (
        "cudaErrorStreamCaptureMerge",
        "operation would result in a merge of separate capture sequences",
    ),
    CAPTURE_UNMATCHED: (
        "cudaErrorStreamCaptureUnmatched",
        "capture was not ended in the same stream as it began",
    ),
    CAPTURE_UNJOINED: ("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"),
    CAPTURE_ISOLATION: (
        "cudaErrorStreamCaptureIsolation",
        "dependency created on uncaptured work in another stream",
    ),
    CAPTURE_IMPLICIT: (
        "cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    CAPTURED_EVENT: (
        "cudaErrorCapturedEvent",
        "operation not permitted on an event last recorded in a capturing stream",
    ),
    CAPTURE_WRONG_THREAD: (
        "cudaErrorStreamCaptureWrongThread",
        "attempt to terminate a thread-local capture sequence from another thread",
    ),
    UNKNOWN: ("cudaErrorUnknown", "unknown error"),
}

#: After one of these nothing works on the device until the process ends.
STICKY = frozenset({ECC_UNCORRECTABLE, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, DEVICE_ASSERT, LAUNCH_FAILURE, UNKNOWN})


class CUDARuntimeError(RuntimeError):
    """What a call of the runtime raises; `status` is its code."""

    def __init__(self, status: int) -> None:
        self.status = status
        name, text = TEXTS.get(status, ("unrecognized error code", "unrecognized error code"))
        super().__init__(f"{name}: {text}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status,)


class OutOfMemoryError(MemoryError):
    """What CuPy's own pools raise. A plain allocation raises `CUDARuntimeError` with status 2 instead."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        self._size, self._total, self._limit = size, total, limit
        so_far = f"allocated so far: {total:,} bytes" + (f", limit set to: {limit:,} bytes" if limit else "")
        super().__init__(f"Out of memory allocating {size:,} bytes ({so_far}).")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._size, self._total, self._limit)


class CompileException(Exception):
    """The compiler refused a source."""

    def __init__(self, msg: str, source: str, name: str, options: tuple[str, ...], backend: str = "nvrtc") -> None:
        self._msg = msg
        self.source, self.name, self.options, self.backend = source, name, options, backend
        super().__init__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._msg, self.source, self.name, self.options, self.backend)

    def __str__(self) -> str:
        return self._msg

    def get_message(self) -> str:
        """Return the compiler's log."""
        return self._msg


class CUBLASError(RuntimeError):
    """What a call of cuBLAS raises; `status` is its own code."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(
            {1: "CUBLAS_STATUS_NOT_INITIALIZED", 7: "CUBLAS_STATUS_INVALID_VALUE"}.get(status, str(status))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status,)
