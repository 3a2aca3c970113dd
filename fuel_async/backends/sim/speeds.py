"""How long programs take on a simulated device: in truth, and by what the device says of itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.cost import Rates
    from fuel_async.dispatch import KernelCall, LaneProgram, OpParams
    from fuel_async.ir import DeviceLocation

#: The optional face of a kernel that knows its time on some devices: `simulated_ns(params, location)`, None elsewhere.
OwnTime = "Callable[[OpParams, DeviceLocation], int | None]"


class Speeds:
    """The two speeds of a device, and what they make of programs. Any thread."""

    __slots__ = ("_location", "_true_ns", "said", "true")

    def __init__(self, location: DeviceLocation, true: Rates, said: Rates) -> None:
        self._location, self.true, self.said = location, true, said
        self._true_ns: WeakKeyDictionary[LaneProgram, int] = WeakKeyDictionary()

    def true_ns(self, program: LaneProgram) -> int:
        """Return how long the program takes here, when nothing slows the device down."""
        found = self._true_ns.get(program)
        if found is None:
            found = self._true_ns[program] = _total(program, self._call_ns)
        return found

    def said_ns(self, program: LaneProgram) -> int:
        """Return how long it takes by the advertised rates."""
        return _total(program, lambda call: self.said.predict_ns(call.kind, call.estimate))

    def _call_ns(self, call: KernelCall) -> int:
        own: Callable[[OpParams, DeviceLocation], int | None] | None = getattr(call.kernel, "simulated_ns", None)
        known = None if own is None else own(call.params, self._location)
        return self.true.predict_ns(call.kind, call.estimate) if known is None else known


def _total(program: LaneProgram, call_ns: Callable[[KernelCall], int]) -> int:
    return sum(times * call_ns(call) for call, times in Counter(program.calls).items())
