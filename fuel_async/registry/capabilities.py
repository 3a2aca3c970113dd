"""The process's capability registry: what each backend registered, and the host as its kernels make it.

Readers get an immutable snapshot. The host's entry is derived from the binding table of the moment, so it
advertises exactly the kernels there are, also after the table was extended; it comes last, the fallback of
every preference.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.dispatch import (
    BackendCapabilities,
    CapabilityRegistry,
    KernelBindingTable,
    derive_backend_caps,
)
from fuel_async.ir import CPU_DEVICE
from fuel_async.registry.bindings import global_bindings
from fuel_async.registry.topology import bump_topology_generation

if TYPE_CHECKING:
    from collections.abc import Callable


class CapabilitiesStore:
    """Registered capabilities and the snapshot made of them. Usable from any thread.

    `bindings` gives the current binding table; `published` is called after each registration, outside the
    lock.
    """

    def __init__(self, bindings: Callable[[], KernelBindingTable], published: Callable[[], object]) -> None:
        self._bindings = bindings
        self._published = published
        self._lock = threading.Lock()
        self._registered: tuple[BackendCapabilities, ...] = ()
        #: The last snapshot and the table it was derived from; None after a registration.
        self._snapshot: tuple[KernelBindingTable, CapabilityRegistry] | None = None

    def snapshot(self) -> CapabilityRegistry:
        """Return the frozen registry; the same object until a registration or a new binding table."""
        table = self._bindings()
        current = self._snapshot
        if current is not None and current[0] is table:
            return current[1]
        with self._lock:
            registry = CapabilityRegistry(_with_host(self._registered, table)).freeze()
            self._snapshot = (table, registry)
        return registry

    def register(self, caps: BackendCapabilities) -> None:
        """Append `caps` and publish."""
        with self._lock:
            self._registered = (*self._registered, caps)
            self._snapshot = None
        self._published()


def _with_host(
    registered: tuple[BackendCapabilities, ...], table: KernelBindingTable
) -> tuple[BackendCapabilities, ...]:
    """Add the derived host entry, unless one was registered (measured rates, say): that one then stands."""
    if any(caps.device_location == CPU_DEVICE for caps in registered):
        return registered
    return (*registered, derive_backend_caps(CPU_DEVICE.backend, CPU_DEVICE, table))


_CAPABILITIES = CapabilitiesStore(global_bindings, bump_topology_generation)


def global_registry() -> CapabilityRegistry:
    """Return the process's capability registry, an immutable snapshot; any thread.

    The host's capabilities are always in it, derived from `global_bindings()`.
    """
    return _CAPABILITIES.snapshot()


def register_backend_capabilities(caps: BackendCapabilities) -> None:
    """Append a device's capabilities and bump the topology generation. Any thread.

    An equal device may be registered again: the first entry wins. Entries registered first are preferred.
    """
    _CAPABILITIES.register(caps)
