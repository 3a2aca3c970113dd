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
VARIABLE = "FUEL_ASYNC_CUDA"

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
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> CudaOptions:
        """Read the variable, of the process unless another environment is given. `UserError` names what cannot be."""
        return read_options(VARIABLE, cls(), _READ, environment)


_READ: Readers = {
    "devices": patterns,
    "streams": int,
    "capture": flag,
    "peers": flag,
    "poison": flag,
    "cache": str,
    "deadline_s": float,
}
