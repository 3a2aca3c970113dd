"""How bytes get from one device to another: the kinds of path and the matrix of the cheapest one a pair.

Direction matters and nothing is made symmetric: a device that can push may be unable to pull. What a path
costs for n bytes is measured elsewhere; here there is only an order of preference.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fuel_async.ir import DeviceLocation


class TransferPath(Enum):
    """A way from one device to another."""

    #: No copy: both are one device.
    SameDevice = "same_device"
    #: Both address the same memory.
    SharedMemory = "shared_memory"
    #: Device to device over their own link.
    Peer = "peer"
    #: One copy by the device's copy engine.
    DeviceCopy = "device_copy"
    #: Down to the host and up again.
    HostStaging = "host_staging"


#: The explicit order of cost, after the unmeasured defaults of these links: free; 20, 12, 8, 4 GB/s with 2,
#: 15, 30, 60 µs of latency. A path earlier in the list is cheaper at every size.
CHEAPEST_FIRST: tuple[TransferPath, ...] = (
    TransferPath.SameDevice,
    TransferPath.SharedMemory,
    TransferPath.Peer,
    TransferPath.DeviceCopy,
    TransferPath.HostStaging,
)

_RANK: Mapping[TransferPath, int] = {path: rank for rank, path in enumerate(CHEAPEST_FIRST)}


class TransferMatrix:
    """The cheapest advertised path for every ordered pair of devices. Immutable once built."""

    __slots__ = ("_paths",)

    def __init__(self, edges: Iterable[tuple[DeviceLocation, DeviceLocation, TransferPath]] = ()) -> None:
        paths: dict[tuple[DeviceLocation, DeviceLocation], TransferPath] = {}
        for source, destination, path in edges:
            pair = (source, destination)
            paths[pair] = min(paths.get(pair, path), path, key=_RANK.__getitem__)
        self._paths: Mapping[tuple[DeviceLocation, DeviceLocation], TransferPath] = paths

    def path(self, source: DeviceLocation, destination: DeviceLocation) -> TransferPath | None:
        """Return the advertised path, `SameDevice` from a device to itself; None when there is none."""
        if source == destination:
            return TransferPath.SameDevice
        return self._paths.get((source, destination))

    def path_or_staging(self, source: DeviceLocation, destination: DeviceLocation) -> TransferPath:
        """Return the advertised path, else `HostStaging`, which always works."""
        return self.path(source, destination) or TransferPath.HostStaging

    def entries(self) -> Iterator[tuple[DeviceLocation, DeviceLocation, TransferPath]]:
        """Iterate over what was advertised, in the order of registration."""
        return ((source, destination, path) for (source, destination), path in self._paths.items())

    def __len__(self) -> int:
        return len(self._paths)
