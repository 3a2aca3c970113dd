"""Finding devices: every backend that is installed as an entry point, and why the others offer nothing.

Looking never initialises a driver beyond what a backend needs to count its devices, and one broken backend does not
hide the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from fuel_async.backends.base import Absent, BackendSpec, DeviceInfo
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from fuel_async.ir import DeviceLocation

#: Entry points of this group name `BackendSpec` objects.
GROUP = "fuel_async.backends"


@dataclass(frozen=True, slots=True)
class Found:
    """One device that can be opened."""

    spec: BackendSpec
    info: DeviceInfo


@dataclass(frozen=True, slots=True)
class Discovery:
    """What is there, in order of preference, and what is not."""

    found: tuple[Found, ...]
    absent: dict[str, str]

    def select(self, wanted: tuple[DeviceLocation, ...] | None) -> tuple[Found, ...]:
        """Return the devices at `wanted`, in that order. `UserError` names what is missing.

        For None those that are taken by default.
        """
        if wanted is None:
            return tuple([found for found in self.found if found.info.by_default])
        by_location = {found.info.location: found for found in self.found}
        missing = [str(location) for location in wanted if location not in by_location]
        if missing:
            reasons = "".join(f"; {name}: {reason}" for name, reason in self.absent.items())
            there = ", ".join(map(str, by_location)) or "none"
            raise UserError(f"no device {', '.join(missing)} here (found: {there}{reasons})")
        return tuple(by_location[location] for location in wanted)


def discover() -> Discovery:
    """Ask every installed backend. May take milliseconds where a driver is loaded: call it off the loop."""
    found: list[Found] = []
    absent: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        devices = _ask(point)
        if isinstance(devices, Absent):
            absent[point.name] = devices.reason
        else:
            found.extend(devices)
    return Discovery(tuple(found), absent)


def _ask(point: EntryPoint) -> list[Found] | Absent:
    try:
        spec: BackendSpec = point.load()
        devices = spec.discover()
    except Exception as error:  # a broken backend is absent, with its error as the reason
        return Absent(f"{type(error).__name__}: {error}")
    return devices if isinstance(devices, Absent) else [Found(spec, info) for info in devices]
