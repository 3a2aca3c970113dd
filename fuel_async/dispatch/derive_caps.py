"""Capabilities read off the binding table, so that what a device advertises never drifts from its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.dispatch.capability import BackendCapabilities
from fuel_async.dispatch.transfer import TransferPath
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, SubstrateClass

if TYPE_CHECKING:
    from fuel_async.dispatch.table import KernelBindingTable

#: Unmeasured rates: (flop/ns, byte/ns). A device that was measured says so in its own capabilities.
HOST_RATES = (1.0, 4.0)
ACCELERATOR_RATES = (30.0, 40.0)

_HOST_ALIGNMENT, _ACCELERATOR_ALIGNMENT = 64, 256
_GRANULARITY_BITS = 8


def default_backend_rates(backend: BackendId) -> tuple[float, float]:
    """Return the (flop/ns, byte/ns) that are assumed of an unmeasured device of `backend`."""
    return HOST_RATES if backend.is_host else ACCELERATOR_RATES


def derive_backend_caps(
    backend: BackendId,
    device_location: DeviceLocation,
    table: KernelBindingTable,
    *,
    substrate: SubstrateClass | None = None,
    rates: tuple[float, float] | None = None,
    features: frozenset[str] = frozenset(),
    launch_overhead_ns: int | None = None,
    dense_flops_per_ns: float | None = None,
) -> BackendCapabilities:
    """Return what a device of `backend` can advertise given the kernels in `table`.

    An op is supported with the last dtype of each key that `lookup_entry` would serve, given the device's `features`.
    `rates` are measured flop/ns and byte/ns; without them, and without a `substrate`, the defaults of the backend stand
    in. What else was measured is passed on. The only path is to the host, over the host. Pure; works the same for the
    host as for every other device.
    """
    on_host = backend.is_host
    flops_per_ns, bytes_per_ns = rates or default_backend_rates(backend)
    return BackendCapabilities(
        backend_id=backend,
        device_location=device_location,
        op_dtype_support=frozenset(
            (op, dtypes[-1])
            for op, dtypes, found in table.iter_keys()
            if found == backend and table.backend_supports(op, dtypes, found, features)
        ),
        required_alignment=_HOST_ALIGNMENT if on_host else _ACCELERATOR_ALIGNMENT,
        access_granularity_bits=_GRANULARITY_BITS,
        transfer_paths=((CPU_DEVICE, TransferPath.SameDevice if on_host else TransferPath.HostStaging),),
        storage_substrate=substrate or backend.default_substrate,
        compute_throughput_flops_per_ns=flops_per_ns,
        mem_bandwidth_bytes_per_ns=bytes_per_ns,
        features=features,
        launch_overhead_ns=launch_overhead_ns,
        dense_throughput_flops_per_ns=dense_flops_per_ns,
    )
