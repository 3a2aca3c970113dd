"""What an executor may be told: one frozen value, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.errors import UserError
from fuel_async.ir import DeviceLocation
from fuel_async.schedule import POLICIES, Policy, earliest_finish
from fuel_async.streams import HOST_CLOCK, Clock

if TYPE_CHECKING:
    from fuel_async.backends import Device

#: Runs that may use lanes and memory at the same time, unless told otherwise.
MAX_INFLIGHT = 64

#: Runs that `submit` lets wait for that.
MAX_QUEUED = 1_024

#: A measured median up to this lets a program run in place on the loop.
INLINE_NS = 50_000

#: Planning and binding of graphs up to this size happens on the loop: about 5 µs a node.
OFF_LOOP_NODES = 64

#: Feeds up to this size are copied when a run goes to lanes.
COPIED_NBYTES = 4_096

#: Arrays up to this size are copied on the loop where a copy is needed.
OFF_LOOP_NBYTES = 262_144


@dataclass(frozen=True, slots=True)
class Config:
    """The options of an executor."""

    #: Addresses of devices to find and open, and devices that are open already.
    devices: tuple[DeviceLocation | Device, ...] | None
    memory_nbytes: Mapping[DeviceLocation, int] | int | None
    max_inflight: int
    max_queued: int
    host_lanes: int
    blas_threads: int
    placement: Policy = earliest_finish
    #: What times are read from.
    clock: Clock = HOST_CLOCK

    def budget_nbytes(self, location: DeviceLocation) -> int | None:
        """The memory budget asked for on a device, None for the backend's own choice."""
        if isinstance(self.memory_nbytes, Mapping):
            return self.memory_nbytes.get(location)
        return self.memory_nbytes


def make_config(
    devices: Sequence[DeviceLocation | str | Device] | None,
    memory: Mapping[DeviceLocation | str, int] | int | None,
    max_inflight: int | None,
    max_queued: int | None,
    placement: str | Policy,
    host_lanes: int | None,
    blas_threads: int | None,
    clock: Clock | None = None,
) -> Config:
    """Check an executor's arguments; `UserError` names the first that cannot be."""
    cores = os.cpu_count() or 1
    lanes = _positive("host_lanes", host_lanes, 1)
    policy = POLICIES.get(placement) if isinstance(placement, str) else placement
    if not callable(policy):
        names = ", ".join(map(repr, POLICIES))
        raise UserError(f"placement={placement!r} is not known; use {names}, or a function that chooses among offers")
    if devices is not None and not devices:
        raise UserError("devices=() leaves nothing to run on; name a device, or pass None for all of them")
    wanted = None if devices is None else tuple(_device(device) for device in devices)
    return Config(
        devices=wanted,
        memory_nbytes=_memory(memory),
        max_inflight=_positive("max_inflight", max_inflight, MAX_INFLIGHT),
        max_queued=_positive("max_queued", max_queued, MAX_QUEUED),
        host_lanes=lanes,
        # Lanes times library threads leave a core to the loop.
        blas_threads=_positive("blas_threads", blas_threads, max(1, (cores - 1) // lanes)),
        placement=policy,
        clock=_clock(clock, wanted),
    )


def _clock(clock: Clock | None, devices: Sequence[DeviceLocation | Device] | None) -> Clock:
    """The one clock of all: that of the devices which have one of their own, else the host's."""
    if devices is None and clock is not None and clock.is_virtual:
        raise UserError("devices that are found here keep the host's clock; name simulated ones in devices=")
    devices = devices or ()
    given = [device.clock for device in devices if not isinstance(device, DeviceLocation)]
    wanted = clock if clock is not None else next((one for one in given if one is not HOST_CLOCK), HOST_CLOCK)
    for device in devices:
        kept = HOST_CLOCK if isinstance(device, DeviceLocation) else device.clock
        if kept is not wanted and (kept is not HOST_CLOCK or wanted.is_virtual):
            name = device if isinstance(device, DeviceLocation) else device.location
            raise UserError(f"{name} keeps another clock than the executor; give all devices one, and clock= the same")
    return wanted


def _device(device: DeviceLocation | str | Device) -> DeviceLocation | Device:
    return DeviceLocation.parse(device) if isinstance(device, str) else device


def _location(device: DeviceLocation | str) -> DeviceLocation:
    return DeviceLocation.parse(device) if isinstance(device, str) else device


def _memory(memory: Mapping[DeviceLocation | str, int] | int | None) -> Mapping[DeviceLocation, int] | int | None:
    if memory is None:
        return None
    if isinstance(memory, Mapping):
        return {_location(device): _positive("memory", nbytes, 1) for device, nbytes in memory.items()}
    return _positive("memory", memory, 1)


def _positive(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if value < 1:
        raise UserError(f"{name}={value} must be at least 1")
    return value
