"""One kernel, once, on a stream of the device's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.memory import CudaArray
from fuel_async.backends.cuda.script import Launches, Script
from fuel_async.backends.grids.once import Alone
from fuel_async.ir import SubstrateClass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.grids.kernel import Dispatch
    from fuel_async.backends.grids.operands import Bound


class _Once:
    """Launches as a lane takes them."""

    predicted_ns = 0

    def __init__(self, launches: Launches) -> None:
        self._launches = launches

    def launch(self, stream: Stream, given: Sequence[Sequence[Any]]) -> None:
        """See `lane.Launched`."""
        self._launches.run(stream)


def _launch(
    site: Site, dispatches: Sequence[Dispatch], operands: Sequence[Bound], arrays: Sequence[CudaArray]
) -> Callable[[], object]:
    script = Script(site)
    for dispatch in dispatches:
        script.add(dispatch, operands)
    return site.lane.submit(_Once(script.bind(lambda space: arrays[space[1]])), arrays).wait


#: See `Alone.run`.
run_once = Alone(CudaArray, SubstrateClass.CudaUntyped, _launch).run
