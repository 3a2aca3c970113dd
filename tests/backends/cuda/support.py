"""What the tests on CUDA devices share: devices of the double, and what their driver says."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from fuel_async.backends.base import OpenOptions
from fuel_async.backends.cuda import CudaOptions, open_devices
from fuel_async.backends.cuda.discovery import driver_for
from fuel_async.testing.cuda_double import install, uninstall
from tests.backends.grids.devices import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.device import CudaDevice
    from fuel_async.testing.cuda_double import DeviceModel, Machine

# Statuses of the runtime.
NO_MEMORY, ECC, ILLEGAL_ADDRESS, LAUNCH_FAILURE = 2, 214, 700, 719
INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES = 1, 701


class Doubled:
    """Devices of a double, and what is looked at when they are closed."""

    def __init__(self, models: int | Sequence[DeviceModel] = 1, memory_nbytes: int | None = None, **options: Any):
        options.setdefault("cache", "0")
        self.machine: Machine = install(models)
        self.devices: list[CudaDevice] = open_devices(CudaOptions(**options), OpenOptions(memory_nbytes=memory_nbytes))
        self._driver = driver_for()
        #: Whether nothing may be left of them: not where one is lost.
        self.is_clean = True

    def close(self) -> None:
        """End the devices and the double. Everything must have been given back, and no rule broken."""
        try:
            while self.devices:
                self._end(self.devices.pop())
            gc.collect()
            self.machine.check()
            if self.is_clean:
                leaks = self.machine.leaks()
                assert not leaks, leaks
        finally:
            uninstall()
            self._driver.graves.clear()  # what a process would keep to its end
            gc.collect()

    def _end(self, device: CudaDevice) -> None:
        device.close()
        if device.lost is None:
            device.join(PATIENCE_S)
            assert [line.name for line in device.lines if line.is_running] == []
        self.is_clean = self.is_clean and device.lost is None
        vars(device).clear()  # the fixtures' values are kept longer than this
