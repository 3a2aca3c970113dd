"""What the instances of one device share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.capture import Captures
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.functions import Functions
    from fuel_async.backends.cuda.lane import CudaLane
    from fuel_async.backends.cuda.memory import CudaMemory
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.grids.kernel import Limits


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A device as its program instances need it."""

    context: Context
    memory: CudaMemory
    functions: Functions
    captures: Captures
    limits: Limits
    #: The streams that run programs.
    streams: Sequence[Stream]
    #: The lane for what is no executor's: single kernels.
    lane: CudaLane

    def prepare(self, *, products: bool) -> None:
        """Make what a first launch or capture would have to make: up to a tenth of a second. `DeviceError`."""
        try:
            with self.context.here():
                self.captures.prepare(products=products)
                for stream in self.streams if products else ():
                    _ = stream.blas
        except Exception as error:
            raise self.context.failed(error, "cublasCreate") from None
