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

    from fuel_async.backends.vulkan.physical import PhysicalDevice

#: The variable that is read at discovery: `name=value` pairs with `;` between them.
VARIABLE = "FUEL_ASYNC_VULKAN"

#: The longest that one submission may take before its device is given up.
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class VulkanOptions:
    """Which devices are offered, and how they are opened. The variable's names are those of the fields."""

    #: Patterns with `*`, one of which must fit a device's name or be part of it; case is ignored. None takes all.
    devices: tuple[str, ...] = ()
    #: Logical devices offered on each physical one, each with queues and memory of its own.
    logical: int = 1
    #: Queues of a device at most.
    queues: int = 4
    #: Copy as if the device's memory could not be seen by the host.
    staged: bool = False
    #: Let the Khronos validation layer watch: `Driver.messages` and the log have what it says.
    validation: bool = False
    #: Seconds that a submission may take on the device.
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        if self.logical < 1 or self.queues < 1 or self.deadline_s <= 0:
            raise UserError(f"{self}: logical, queues and deadline_s must be positive")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> VulkanOptions:
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

    def wants(self, physical: PhysicalDevice) -> bool:
        """Whether a device is asked for."""
        name = physical.name.lower()
        return not self.devices or any(fnmatchcase(name, f"*{pattern.lower()}*") for pattern in self.devices)


def _flag(text: str) -> bool:
    return bool(int(text or "1"))


_READ: Mapping[str, Callable[[str], Any]] = {
    "devices": lambda text: tuple(filter(None, map(str.strip, text.split(",")))),
    "logical": int,
    "queues": int,
    "staged": _flag,
    "validation": _flag,
    "deadline_s": float,
}
