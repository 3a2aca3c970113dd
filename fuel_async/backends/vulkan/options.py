"""What may be asked of the backend, by a program or by the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_async.backends.options import DEADLINE_S, flag, patterns, read_options
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.backends.options import Readers

#: The variable that is read at discovery: `name=value` pairs with `;` between them.
VARIABLE = "FUEL_ASYNC_VULKAN"


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
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> VulkanOptions:
        """Read the variable, of the process unless another environment is given. `UserError` names what cannot be."""
        return read_options(VARIABLE, cls(), _READ, environment)


_READ: Readers = {
    "devices": patterns,
    "logical": int,
    "queues": int,
    "staged": flag,
    "validation": flag,
    "deadline_s": float,
}
