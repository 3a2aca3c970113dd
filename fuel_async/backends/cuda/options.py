"""What may be asked of the backend, by a program or by the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The variable that is read at discovery: `name=value` pairs with `;` between them.
VARIABLE = "FUEL_ASYNC_CUDA"

#: The longest that one submission may take before its device is given up.
DEADLINE_S = 60.0

#: Streams that run programs, unless an executor says otherwise.
STREAMS = 2


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """Which devices are offered, and how they are opened. The variable's names are those of the fields."""

    #: Patterns with `*`, one of which must fit a device's name or be part of it; case is ignored. None takes all.
    devices: tuple[str, ...] = ()
    #: Streams of a device that run programs; two more copy.
    streams: int = STREAMS
    #: Capture programs as CUDA graphs, once they have run a few times.
    capture: bool = True
    #: Copy straight from device to device where they can.
    peers: bool = True
    #: Fill freed memory, so that what reads it shows.
    poison: bool = False
    #: The folder of compiled kernels; the user's cache for an empty one, none for "0".
    cache: str = ""
    #: Seconds that a submission may take on the device.
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        if self.streams < 1 or self.deadline_s <= 0:
            raise UserError(f"{self}: streams and deadline_s must be positive")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> CudaOptions:
        """Read the variable. `UserError` names what cannot be."""
        found = cls()
        for part in filter(None, map(str.strip, environment.get(VARIABLE, "").split(";"))):
            name, _, value = part.partition("=")
            read = _READ.get(name.strip())
            if read is None:
                raise UserError(f"{VARIABLE}={part!r}: no such option; there are {', '.join(_READ)}")
            try:
                found = replace(found, **{name.strip(): read(value.strip())})
            except ValueError as error:
                raise UserError(f"{VARIABLE}: {part!r} cannot be read: {error}") from error
        return found

    def wants(self, name: str) -> bool:
        """Whether a device of that name is asked for."""
        return not self.devices or any(fnmatchcase(name.lower(), f"*{one.lower()}*") for one in self.devices)


def _flag(text: str) -> bool:
    return bool(int(text or "1"))


_READ: Mapping[str, Callable[[str], Any]] = {
    "devices": lambda text: tuple(filter(None, map(str.strip, text.split(",")))),
    "streams": int,
    "capture": _flag,
    "peers": _flag,
    "poison": _flag,
    "cache": str,
    "deadline_s": float,
}
