"""What the instances of one device share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_async.backends.cuda.capture import Captures
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.functions import Functions
    from fuel_async.backends.cuda.lane import CudaLane
    from fuel_async.backends.cuda.memory import CudaMemory
    from fuel_async.backends.grids.kernel import Limits


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A device as its program instances need it."""

    context: Context
    memory: CudaMemory
    functions: Functions
    captures: Captures
    limits: Limits
    #: The lane for what is no executor's: single kernels.
    lane: CudaLane
