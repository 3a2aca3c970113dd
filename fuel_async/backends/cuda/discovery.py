"""Finding devices: CuPy is not loaded before somebody asks; what is missing is a reason, not an error.

Looking makes no context on any device. It does initialise the driver, which a process that forks later cannot use in
its children: see `driver.NoDriver`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fuel_async.backends.base import Absent, BackendSpec, DeviceInfo, OpenOptions
from fuel_async.backends.cuda.driver import Driver, NoDriver, load
from fuel_async.backends.cuda.options import CudaOptions
from fuel_async.backends.cuda.physical import PhysicalDevice, look_at
from fuel_async.backends.options import fits
from fuel_async.errors import DeviceLost
from fuel_async.ir import BackendId, DeviceLocation
from fuel_async.registry import fork_generation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from fuel_async.backends.cuda.device import CudaDevice


@lru_cache(1)
def _driver(generation: int, cupy: ModuleType) -> Driver:
    """The process's one; a forked child has its own."""
    return Driver(cupy)


def driver_for() -> Driver:
    """CuPy in this process. `NoDriver` where there is none. Loading it takes half a second."""
    return _driver(fork_generation(), load())


def physical_devices(options: CudaOptions) -> Sequence[PhysicalDevice] | Absent:
    """The devices that can be used and are asked for, in the driver's order; else why there is none.

    The environment's CUDA_VISIBLE_DEVICES says which the driver offers, and numbers them.
    """
    try:
        driver = driver_for()
        found = [look_at(driver, ordinal) for ordinal in range(driver.count())]
    except NoDriver as error:
        return Absent(error.reason)
    except RuntimeError as error:
        return Absent(f"the driver fails: {error}")
    fit = [one for one in found if one.lacks is None]
    if not fit:
        return Absent("; ".join([one.lacks or "" for one in found]))
    wanted = [one for one in fit if fits(one.name, options.devices)]
    if not wanted:
        return Absent(f"none of {', '.join(one.name for one in fit)} fits {', '.join(options.devices)}")
    return wanted


def info_of(physical: PhysicalDevice, versions: str = "") -> DeviceInfo:
    """What is known of a device before it is opened."""
    words = [
        f"compute capability {physical.words}",
        f"{physical.multiprocessors} multiprocessors",
        f"bus {physical.pci}",
        *(["integrated"] if physical.is_integrated else []),
        *(["ECC"] if physical.has_ecc else []),
        *([versions] if versions else []),
    ]
    location = DeviceLocation(BackendId.CUDA, physical.ordinal)
    return DeviceInfo(location, physical.name, physical.total_nbytes, ", ".join(words))


def discover(options: CudaOptions | None = None) -> Sequence[DeviceInfo] | Absent:
    """The devices there are; else why there is none."""
    found = physical_devices(options or CudaOptions.from_environment())
    if isinstance(found, Absent):
        return found
    versions = driver_for().versions
    return tuple([info_of(physical, versions) for physical in found])


def open_device(info: DeviceInfo, asked: OpenOptions | None = None, options: CudaOptions | None = None) -> CudaDevice:
    """Open a device that `discover` told of. `DeviceLost` when it is there no more. Takes up to a second: a context."""
    from fuel_async.backends.cuda.device import CudaDevice

    options = options or CudaOptions.from_environment()
    found = physical_devices(options)
    if isinstance(found, Absent):
        raise DeviceLost(str(info.location), found.reason)
    physical = next((one for one in found if one.ordinal == info.location.ordinal), None)
    if physical is None:
        raise DeviceLost(str(info.location), "it is there no more")
    return CudaDevice(driver_for(), physical, info, asked or OpenOptions(), options)


def open_devices(options: CudaOptions, asked: OpenOptions | None = None) -> list[CudaDevice]:
    """Open all devices that the options ask for, to be given to an executor. `DeviceLost` says why there is none."""
    found = discover(options)
    if isinstance(found, Absent):
        raise DeviceLost(str(BackendId.CUDA), found.reason)
    return [open_device(info, asked, options) for info in found]


BACKEND = BackendSpec(BackendId.CUDA, discover, open_device)
