"""What each device advertises: which (op, dtype) it serves, how fast it claims to be, what it can reach.

Backends advertise, they never decide. Capabilities are kept per device, not per backend, so two unequal cards
of one backend stay apart. Deriving them from the binding table is `dispatch.derive_caps`; the process-wide
instance is in `registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.dispatch.transfer import TransferMatrix, TransferPath
from fuel_async.errors import NoBackendForOp, RegistryMisuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.ir import BackendId, DeviceLocation, DType, OpKind, SubstrateClass


class FitStatus(Enum):
    """Whether an allocation fits a device."""

    Comfortable = "comfortable"
    #: It fits and leaves the device more than 85 % full.
    Tight = "tight"
    WontFit = "wont_fit"
    #: The device cannot tell; never reported when it can.
    Unknown = "unknown"


_TIGHT_ABOVE = 0.85


def would_fit(nbytes: int, available_nbytes: int | None, total_nbytes: int | None) -> FitStatus:
    """Judge an allocation of `nbytes` on a device with that much memory; None where it cannot tell."""
    if available_nbytes is None or total_nbytes is None:
        return FitStatus.Unknown
    if nbytes > available_nbytes:
        return FitStatus.WontFit
    used_after = total_nbytes - available_nbytes + nbytes
    return FitStatus.Tight if used_after > _TIGHT_ABOVE * total_nbytes else FitStatus.Comfortable


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What decides which kernels can run on a device: devices of one kind run the same ones."""

    backend: BackendId
    features: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return str(self.backend)


@dataclass(frozen=True, slots=True)
class BackendCapabilities:
    """The facts one device advertises. Immutable."""

    backend_id: BackendId
    device_location: DeviceLocation
    #: (op, dtype of its output) pairs with at least one kernel.
    op_dtype_support: frozenset[tuple[OpKind, DType]]
    #: Alignment of every buffer, in bytes.
    required_alignment: int
    access_granularity_bits: int
    #: Direct ways from this device to others; nothing is assumed about the way back.
    transfer_paths: tuple[tuple[DeviceLocation, TransferPath], ...]
    storage_substrate: SubstrateClass
    compute_throughput_flops_per_ns: float
    mem_bandwidth_bytes_per_ns: float
    #: What the device has beyond the least of its backend; kernels that need more are not for it.
    features: frozenset[str] = frozenset()
    #: What starting a kernel takes, in ns; None where that is not known.
    launch_overhead_ns: int | None = None
    #: Flops of matrix products in a ns; None where they are as fast as everything else.
    dense_throughput_flops_per_ns: float | None = None

    @property
    def kind(self) -> DeviceKind:
        """Which kernels serve it."""
        return DeviceKind(self.backend_id, self.features)

    def supports(self, op: OpKind, dtype: DType) -> bool:
        """Whether a kernel of `op` with output dtype `dtype` is advertised."""
        return (op, dtype) in self.op_dtype_support


class CapabilityRegistry:
    """An ordered list of capabilities, most preferred first (by convention the host comes last).

    A plain value: tests and other dispatchers build their own. Once frozen it never changes and may be read
    from any thread; before that it belongs to whoever builds it.
    """

    __slots__ = ("_entries", "_frozen")

    def __init__(self, entries: Iterable[BackendCapabilities] = ()) -> None:
        self._entries = tuple(entries)
        self._frozen = False

    def register(self, caps: BackendCapabilities) -> None:
        """Append `caps`; of two entries for one device the first wins. `RegistryMisuse` if frozen."""
        if self._frozen:
            raise RegistryMisuse(
                "this capability registry is published and never changes; use register_backend_capabilities()"
            )
        self._entries = (*self._entries, caps)

    def freeze(self) -> CapabilityRegistry:
        """Make it immutable for good, and return it."""
        self._frozen = True
        return self

    @property
    def is_frozen(self) -> bool:
        """Whether it can change no more."""
        return self._frozen

    def backends(self) -> tuple[BackendCapabilities, ...]:
        """Return all entries in registration order."""
        return self._entries

    def for_device(self, location: DeviceLocation) -> BackendCapabilities | None:
        """Return the first entry of that device; None when it advertised nothing."""
        return next((caps for caps in self._entries if caps.device_location == location), None)

    def find_backends(self, op: OpKind, dtype: DType) -> tuple[BackendCapabilities, ...]:
        """Return the entries that serve `op` with output dtype `dtype`, in registration order."""
        return tuple(caps for caps in self._entries if caps.supports(op, dtype))

    def find_backend_for(self, op: OpKind, dtype: DType) -> BackendCapabilities:
        """Return the first entry that serves (op, output dtype); `NoBackendForOp` says what there is."""
        found = next((caps for caps in self._entries if caps.supports(op, dtype)), None)
        if found is None:
            raise NoBackendForOp(
                op.value,
                [dtype.name],
                [caps.backend_id.variant for caps in self._entries],
                sorted(
                    (caps.backend_id.variant, kind.value, (served.name,))
                    for caps in self._entries
                    for kind, served in caps.op_dtype_support
                ),
            )
        return found

    def build_transfer_matrix(self) -> TransferMatrix:
        """Return the matrix of every advertised path; of several for one pair the cheapest is kept."""
        return TransferMatrix(
            (caps.device_location, destination, path)
            for caps in self._entries
            for destination, path in caps.transfer_paths
        )

    def __len__(self) -> int:
        return len(self._entries)
