"""Where a value lives: backends, their devices, and the kind of memory a device's storage is made of.

All three are open values: a third-party backend makes its own with a name of its choice. The constants are
the ones the project ships with; this is the one file of the core in which a backend's name is spelled.

    >>> DeviceLocation.parse("cuda:1")
    DeviceLocation(backend=BackendId(name='cuda'), ordinal=1)
    >>> str(CPU_DEVICE)
    'cpu:0'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot name a {what}; use lowercase letters, digits and _, a letter first")


@dataclass(frozen=True, slots=True, order=True)
class BackendId:
    """The name of a backend, for example `BackendId("cpu")`. Two ids are equal when their names are."""

    name: str

    CPU: ClassVar[BackendId]
    CUDA: ClassVar[BackendId]
    VULKAN: ClassVar[BackendId]
    METAL: ClassVar[BackendId]

    def __post_init__(self) -> None:
        _check_name("backend", self.name)

    def as_str(self) -> str:
        """Return the lowercase name, stable across versions."""
        return self.name

    @property
    def variant(self) -> str:
        """The name as error texts print it: `Cpu`, `Cuda`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_host(self) -> bool:
        """Whether its kernels run on the host's own processor, over the host's own memory."""
        return self == CPU

    @property
    def default_substrate(self) -> SubstrateClass:
        """The kind of memory its storage is made of, unless its capabilities say otherwise."""
        return _DEFAULT_SUBSTRATES.get(self, SubstrateClass(f"{self.name}_buffer"))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, order=True)
class DeviceLocation:
    """One device of one backend, counted from 0. Hashable; ordered by name, then ordinal."""

    backend: BackendId
    ordinal: int = 0

    def __post_init__(self) -> None:
        if self.ordinal < 0:
            raise UserError(f"device ordinal {self.ordinal} is negative; devices are counted from 0")

    @classmethod
    def parse(cls, text: str) -> DeviceLocation:
        """Read what `str` prints; `"cpu"` alone means `"cpu:0"`. `UserError` when `text` has another form."""
        name, colon, ordinal = text.partition(":")
        if colon and not (ordinal.isascii() and ordinal.isdigit()):
            raise UserError(f"{text!r} names no device; write it as backend:ordinal, for example cpu:0")
        return cls(BackendId(name), int(ordinal or 0))

    @property
    def is_host(self) -> bool:
        """Whether it is a device of the host backend."""
        return self.backend.is_host

    def __str__(self) -> str:
        return f"{self.backend.name}:{self.ordinal}"


@dataclass(frozen=True, slots=True, order=True)
class SubstrateClass:
    """A kind of memory. Storages of one device and one substrate can be read by each other's kernels."""

    name: str

    HostBytes: ClassVar[SubstrateClass]
    CudaUntyped: ClassVar[SubstrateClass]
    VulkanBuffer: ClassVar[SubstrateClass]
    MetalBuffer: ClassVar[SubstrateClass]

    def __post_init__(self) -> None:
        _check_name("substrate", self.name)

    def __str__(self) -> str:
        return self.name


CPU = BackendId.CPU = BackendId("cpu")
CUDA = BackendId.CUDA = BackendId("cuda")
VULKAN = BackendId.VULKAN = BackendId("vulkan")
METAL = BackendId.METAL = BackendId("metal")

#: The host's own processor: present on every machine.
CPU_DEVICE = DeviceLocation(CPU)

SubstrateClass.HostBytes = SubstrateClass("host_bytes")
SubstrateClass.CudaUntyped = SubstrateClass("cuda_untyped")
SubstrateClass.VulkanBuffer = SubstrateClass("vulkan_buffer")
SubstrateClass.MetalBuffer = SubstrateClass("metal_buffer")

_DEFAULT_SUBSTRATES: Mapping[BackendId, SubstrateClass] = {
    CPU: SubstrateClass.HostBytes,
    CUDA: SubstrateClass.CudaUntyped,
    VULKAN: SubstrateClass.VulkanBuffer,
    METAL: SubstrateClass.MetalBuffer,
}
