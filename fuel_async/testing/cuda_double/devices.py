"""Devices: the runtime's functions for them, and `cupy.cuda.Device`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.testing.cuda_double.gpu import Gpu

#: The version of driver and runtime that a machine has.
VERSION: Final = 12090

#: Attributes by their number in the runtime: CuPy's name of each and its value.
ATTRIBUTES: Mapping[int, tuple[str, Callable[[Gpu], int]]] = MappingProxyType({
    1: ("MaxThreadsPerBlock", lambda _: 1024),
    2: ("MaxBlockDimX", lambda _: 1024),
    3: ("MaxBlockDimY", lambda _: 1024),
    4: ("MaxBlockDimZ", lambda _: 64),
    5: ("MaxGridDimX", lambda _: 2**31 - 1),
    6: ("MaxGridDimY", lambda _: 65535),
    7: ("MaxGridDimZ", lambda _: 65535),
    8: ("MaxSharedMemoryPerBlock", lambda _: 48 << 10),
    10: ("WarpSize", lambda _: 32),
    13: ("ClockRate", lambda gpu: gpu.model.clock_khz),
    16: ("MultiProcessorCount", lambda gpu: gpu.model.processors),
    17: ("KernelExecTimeout", lambda _: 0),
    18: ("Integrated", lambda _: 0),
    20: ("ComputeMode", lambda _: 0),
    31: ("ConcurrentKernels", lambda _: 1),
    32: ("EccEnabled", lambda _: 1),
    33: ("PciBusId", lambda gpu: gpu.index + 1),
    34: ("PciDeviceId", lambda _: 0),
    36: ("MemoryClockRate", lambda gpu: gpu.model.memory_clock_khz),
    37: ("GlobalMemoryBusWidth", lambda gpu: gpu.model.memory_bus_bits),
    38: ("L2CacheSize", lambda _: 4 << 20),
    39: ("MaxThreadsPerMultiProcessor", lambda _: 2048),
    40: ("AsyncEngineCount", lambda _: 2),
    41: ("UnifiedAddressing", lambda _: 1),
    50: ("PciDomainId", lambda _: 0),
    75: ("ComputeCapabilityMajor", lambda gpu: gpu.model.compute_capability[0]),
    76: ("ComputeCapabilityMinor", lambda gpu: gpu.model.compute_capability[1]),
    78: ("StreamPrioritiesSupported", lambda _: 1),
    81: ("MaxSharedMemoryPerMultiprocessor", lambda _: 64 << 10),
    83: ("ManagedMemory", lambda _: 1),
    97: ("MaxSharedMemoryPerBlockOptin", lambda _: 48 << 10),
    115: ("MemoryPoolsSupported", lambda _: 1),
})  # fmt: skip
#: Those that `Device.attributes` leaves out: CuPy has `compute_capability` for them.
UNLISTED = frozenset({75, 76})


def driverGetVersion() -> int:
    """Return the version of the driver; 0 without one."""
    return 0 if installed().absence == statuses.INSUFFICIENT_DRIVER else VERSION


def runtimeGetVersion() -> int:
    """Return the version of the runtime."""
    return VERSION


def getDeviceCount() -> int:
    """Return how many devices there are."""
    machine = installed()
    machine.demand_driver()
    return len(machine.gpus)


def getDevice() -> int:
    """Return the number of the calling thread's device."""
    machine = installed()
    machine.demand_driver()
    return machine.here.device


def setDevice(device: int) -> None:
    """Make a device the calling thread's. It raises what ended the device, if anything did."""
    machine = installed()
    gpu = machine.gpu(device)
    machine.enter("setDevice", gpu)
    machine.here.device = device


def deviceSynchronize() -> None:
    """Wait until all streams of the current device have done what they were given."""
    machine = installed()
    gpu = machine.enter("deviceSynchronize", place="sync", unsafe=True)
    for mark in [stream.tail() for stream in list(gpu.streams)]:
        mark.wait()
    machine.demand_healthy(gpu)


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    """Whether `device` may map the memory of `peerDevice`."""
    machine = installed()
    gpus = machine.gpu(device), machine.gpu(peerDevice)
    return int(device != peerDevice and all(gpu.model.is_peer for gpu in gpus))


def deviceEnablePeerAccess(peerDevice: int) -> None:
    """Map the memory of `peerDevice` for the current device."""
    machine = installed()
    peer = machine.gpu(peerDevice)
    gpu = machine.enter("deviceEnablePeerAccess")
    if peer is gpu:
        raise CUDARuntimeError(statuses.INVALID_DEVICE)
    if not deviceCanAccessPeer(gpu.index, peerDevice):
        raise CUDARuntimeError(statuses.PEER_UNSUPPORTED)
    if peerDevice in gpu.peers:
        raise CUDARuntimeError(statuses.PEER_ALREADY_ENABLED)
    gpu.peers.add(peerDevice)


def deviceDisablePeerAccess(peerDevice: int) -> None:
    """Take the mapping back."""
    machine = installed()
    machine.gpu(peerDevice)
    gpu = machine.enter("deviceDisablePeerAccess")
    if peerDevice not in gpu.peers:
        raise CUDARuntimeError(statuses.PEER_NOT_ENABLED)
    gpu.peers.discard(peerDevice)


def deviceGetAttribute(attrib: int, device: int) -> int:
    """Return an attribute by its number in the runtime."""
    gpu = installed().gpu(device)
    if attrib not in ATTRIBUTES:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    return ATTRIBUTES[attrib][1](gpu)


def deviceGetPCIBusId(device: int) -> str:
    """Return where the device sits."""
    return f"0000:{installed().gpu(device).index + 1:02X}:00.0"


def getDeviceProperties(device: int) -> dict[str, Any]:
    """Return properties by the names of `cudaDeviceProp`; `name` is bytes."""
    gpu = installed().gpu(device)
    model = gpu.model
    return {
        "name": model.name.encode(),
        "totalGlobalMem": model.memory_nbytes,
        "major": model.compute_capability[0],
        "minor": model.compute_capability[1],
        "multiProcessorCount": model.processors,
        "clockRate": model.clock_khz,
        "memoryClockRate": model.memory_clock_khz,
        "memoryBusWidth": model.memory_bus_bits,
        "sharedMemPerBlock": 48 << 10,
        "maxThreadsPerBlock": 1024,
        "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2**31 - 1, 65535, 65535),
        "warpSize": 32,
        "l2CacheSize": 4 << 20,
        "asyncEngineCount": 2,
        "concurrentKernels": 1,
        "integrated": 0,
        "ECCEnabled": 1,
        "unifiedAddressing": 1,
        "pciDomainID": 0,
        "pciBusID": gpu.index + 1,
        "pciDeviceID": 0,
        "uuid": gpu.index.to_bytes(16, "big"),
    }


def memGetInfo() -> tuple[int, int]:
    """Return the free and all bytes of the current device."""
    gpu = installed().enter("memGetInfo")
    return gpu.model.memory_nbytes - gpu.used_nbytes, gpu.model.memory_nbytes


def is_available() -> bool:
    """Whether there is a device."""
    machine = installed()
    return machine.absence is None and bool(machine.gpus)


class Device:
    """`cupy.cuda.Device`: a number, with which a thread's current device is chosen."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = getDevice() if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Device) else NotImplemented

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Self:
        before = getDevice()
        setDevice(self.id)
        installed().here.devices_before.append(before)
        return self

    def __exit__(self, *_: object) -> None:
        setDevice(installed().here.devices_before.pop())

    def use(self) -> Device:
        """Make it the calling thread's."""
        setDevice(self.id)
        return self

    def synchronize(self) -> None:
        """Wait until its streams have done what they were given."""
        with self:
            deviceSynchronize()

    @property
    def compute_capability(self) -> str:
        """Major and minor number, as in "80"."""
        return "".join(str(deviceGetAttribute(attribute, self.id)) for attribute in (75, 76))

    @property
    def attributes(self) -> dict[str, int]:
        """Its attributes by CuPy's names."""
        gpu = installed().gpu(self.id)
        return {name: of(gpu) for number, (name, of) in ATTRIBUTES.items() if number not in UNLISTED}

    @property
    def mem_info(self) -> tuple[int, int]:
        """Its free and all bytes."""
        with self:
            return memGetInfo()

    @property
    def pci_bus_id(self) -> str:
        """Where it sits."""
        return deviceGetPCIBusId(self.id)
