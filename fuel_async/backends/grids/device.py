"""What a device of grids tells and counts, whatever its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fuel_async.dispatch import BackendCapabilities, FitStatus, LaneProgram, derive_backend_caps, would_fit
from fuel_async.registry import global_bindings, inflight_of
from fuel_async.streams import HOST_CLOCK, Clock, History

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.base import DeviceInfo
    from fuel_async.backends.grids.memory import GridMemory
    from fuel_async.backends.losing import Losable
    from fuel_async.cost import Rates
    from fuel_async.dispatch import KernelBindingTable


class GridDevice:
    """The part of `Device` that is the same for all of them. Any thread."""

    #: One submission running and one behind it.
    slot_capacity = 2
    binds_off_loop = True
    clock: Clock = HOST_CLOCK

    memory: GridMemory[Any]
    context: Losable

    def __init__(self, info: DeviceInfo, rates: Rates, features: frozenset[str]) -> None:
        """`rates` and `features` are what it is said to do; `memory` and `context` are for the backend to make."""
        self.info, self.location, self.memory_location = info, info.location, info.location
        self.rates: Rates = rates
        self._features = features
        self._inflight = inflight_of(info.location)
        #: For the kernels that they were derived from: that takes a millisecond.
        self._capabilities: tuple[KernelBindingTable, BackendCapabilities] | None = None
        self._histories: WeakKeyDictionary[LaneProgram, History] = WeakKeyDictionary()

    @property
    def capabilities(self) -> BackendCapabilities:
        """What the kernels registered now can do here, given the device's features."""
        table, known = global_bindings(), self._capabilities
        if known is not None and known[0] is table:
            return known[1]
        found = derive_backend_caps(
            self.location.backend,
            self.location,
            table,
            rates=(self.rates.flops_per_ns, self.rates.bytes_per_ns),
            features=self._features,
            launch_overhead_ns=self.rates.call_ns,
            dense_flops_per_ns=self.rates.dense_flops_per_ns,
        )
        self._capabilities = table, found
        return found

    @property
    def lost(self) -> BaseException | None:
        """Why it can do nothing any more; None while it can."""
        return self.context.lost

    def pending_work_count(self) -> int:
        """Submissions on the device that have not settled, of the whole process. Copies are not counted."""
        return self._inflight.count

    def pending_work_ns(self) -> int:
        """Their predicted time."""
        return self._inflight.pending_ns

    def would_fit(self, nbytes: int) -> FitStatus:
        """Whether `nbytes` more would fit its memory now."""
        total = self.memory.budget_nbytes
        return would_fit(nbytes, total - self.memory.used_nbytes, total)

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once when the device is lost, at once if it is; the function returned ends that."""
        return self.context.when_lost(call)

    def history(self, program: LaneProgram) -> History:
        """Return what a program was measured to take here; its instances share it."""
        found = self._histories.get(program)
        if found is None:
            found = self._histories.setdefault(program, History(program.predicted_ns))
        return found
