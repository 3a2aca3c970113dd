"""CuPy, and what is asked of it before any device is used.

Nothing is loaded when this module is imported, and nothing here makes a context on a device.
"""

from __future__ import annotations

import threading
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.statuses import NO_DEVICE, NOT_INITIALISED, OLD_DRIVER, status_of
from fuel_async.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


class NoDriver(DeviceError):
    """There is no CUDA here: `reason` says what is missing."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no CUDA device: {reason}")


#: Why devices cannot even be counted, by status.
_REASONS: Mapping[int, str] = {
    NOT_INITIALISED: "CUDA was in use before this process was forked; start processes by spawn, or fork earlier",
    OLD_DRIVER: "no NVIDIA driver is installed, or one that is too old for this CuPy",
    NO_DEVICE: "the driver finds no device",
}


class Driver:
    """CuPy as a process has it. Any thread. It lives as long as the process."""

    def __init__(self, cupy: ModuleType) -> None:
        self.cupy: Any = cupy
        self.cuda: Any = cupy.cuda
        self.runtime: Any = cupy.cuda.runtime
        #: What is left of lost devices. Freeing any of it would fail or block, so it stays.
        self.graves: list[Any] = []
        #: Held while a thread captures, its number, and what is to be freed when it is through.
        self.capture_lock = threading.Lock()
        self.capturing: int | None = None
        self.put_off: list[Any] = []

    def count(self) -> int:
        """The number of devices. `NoDriver` says why there is none."""
        try:
            found: int = self.runtime.getDeviceCount()
        except RuntimeError as error:
            status = status_of(error)
            reason = _REASONS.get(status) if status is not None else None
            raise NoDriver(f"{reason} ({error})" if reason else str(error)) from error
        if not found:
            raise NoDriver(_REASONS[NO_DEVICE])
        return found

    @cached_property
    def blas(self) -> Any:
        """CuPy's raw calls of cuBLAS. `ImportError` where the library is not installed."""
        return import_module("cupy_backends.cuda.libs.cublas")

    @property
    def has_blas(self) -> bool:
        """Whether there is cuBLAS. Loads it."""
        try:
            return self.blas is not None
        except ImportError:
            return False

    @property
    def versions(self) -> str:
        """Of CuPy, and of CUDA as CuPy and as the driver have it."""
        runtime, driver = self.runtime.runtimeGetVersion(), self.runtime.driverGetVersion()
        return f"CuPy {self.cupy.__version__}, CUDA {dotted(runtime)}, driver for {dotted(driver)}"


def load() -> ModuleType:
    """Import CuPy, which takes half a second. `NoDriver` where it is not installed or cannot be loaded."""
    try:
        return import_module("cupy")
    except ImportError as error:
        text = str(error).partition("\n")[0]
        raise NoDriver(f"CuPy is not installed ({text}); install fuel_async[cuda]") from error


def dotted(version: int) -> str:
    """A version as CUDA packs it, in words: 12090 is 12.9."""
    return f"{version // 1000}.{version % 1000 // 10}"
