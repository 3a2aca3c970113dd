"""Which backend serves an op when nothing but capabilities, and where the inputs are, is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fuel_async.ir import DeviceLocation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.dispatch.capability import CapabilityRegistry
    from fuel_async.ir import BackendId, DType, OpKind

#: Where an input is, and how many bytes it has when that is known.
Resident: TypeAlias = DeviceLocation | tuple[DeviceLocation, int]


def resolve_target_backend(registry: CapabilityRegistry, op: OpKind, dtype: DType) -> BackendId:
    """Return the first registered backend that serves `op` with output dtype `dtype`; else `NoBackendForOp`."""
    return registry.find_backend_for(op, dtype).backend_id


def resolve_target_backend_residency_aware(
    registry: CapabilityRegistry, op: OpKind, dtype: DType, inputs: Iterable[Resident]
) -> BackendId:
    """Return the backend of the device that serves `op` with output dtype `dtype` and holds most of the inputs.

    Most in bytes, then in number: an input whose size is not said weighs less than any that has bytes. Of equals, and
    without any input in place, the first registered. `NoBackendForOp` when none serves it.
    """
    candidates = registry.find_backends(op, dtype)
    if not candidates:
        return resolve_target_backend(registry, op, dtype)  # which raises, and says what there is
    held: dict[DeviceLocation, tuple[int, int]] = {}
    for resident in inputs:
        location, nbytes = (resident, 0) if isinstance(resident, DeviceLocation) else resident
        held_nbytes, count = held.get(location, (0, 0))
        held[location] = held_nbytes + nbytes, count + 1
    return max(candidates, key=lambda caps: held.get(caps.device_location, (0, 0))).backend_id
