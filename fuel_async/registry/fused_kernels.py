"""The process's registry of fused kernels: those of the binding table, under the numbers of the fused ops.

It is derived, so that its kernels, prices and precision are the binding table's own. Readers get a frozen snapshot.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.dispatch import (
    FUSED_OPS_BY_KIND,
    FusedKernelRegistry,
    KernelBindingTable,
    KernelRevisionHash,
    register_fused,
)
from fuel_async.registry.bindings import global_bindings

if TYPE_CHECKING:
    from collections.abc import Callable


def register_default_fused_kernels(registry: FusedKernelRegistry, bindings: KernelBindingTable | None = None) -> None:
    """Append the kernels that `bindings` (the process's when None) have for fused ops, in their order there.

    `RegistryMisuse` when the registry is frozen.
    """
    for kind, dtypes, backend, entry in (global_bindings() if bindings is None else bindings).iter_entries():
        fused = FUSED_OPS_BY_KIND.get(kind)
        if fused is not None:
            register_fused(
                registry,
                fused.id,
                backend,
                dtypes,
                entry.kernel,
                cost=entry.cost,
                precision=entry.precision,
                caps=entry.caps,
                revision=KernelRevisionHash(entry.kernel_revision_hash),
                cost_expr=entry.cost_expr,
                slot_names=fused.slot_names,
            )


class FusedKernelsStore:
    """The fused kernels of a binding table, which `bindings` gives. Usable from any thread."""

    def __init__(self, bindings: Callable[[], KernelBindingTable]) -> None:
        self._bindings = bindings
        self._lock = threading.Lock()
        #: The last snapshot and the table it was derived from.
        self._snapshot: tuple[KernelBindingTable, FusedKernelRegistry] | None = None

    def snapshot(self) -> FusedKernelRegistry:
        """Return the frozen registry; the same object until there is another binding table."""
        table = self._bindings()
        with self._lock:
            current = self._snapshot
            if current is None or current[0] is not table:
                registry = FusedKernelRegistry()
                register_default_fused_kernels(registry, table)
                current = self._snapshot = (table, registry.freeze())
            return current[1]


_FUSED_KERNELS = FusedKernelsStore(global_bindings)


def default_kernel_registry() -> FusedKernelRegistry:
    """Return the process's registry of fused kernels, a frozen snapshot; any thread.

    The first call may load the kernels, as `global_bindings` does. Kernels that are bound later are in later snapshots.
    """
    return _FUSED_KERNELS.snapshot()
