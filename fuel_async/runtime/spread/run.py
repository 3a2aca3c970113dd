"""One run that is spread over devices: where the bytes of its values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from fuel_async.dispatch import SlotClass
from fuel_async.errors import InternalError
from fuel_async.ir import Breathe, Layout, no_breath
from fuel_async.runtime.perform import ActiveRun
from fuel_async.runtime.spread.prepared import NO_INSTANCE, PreparedSpread
from fuel_async.schedule import HOST
from fuel_async.storage import DeviceArray, HostArena, stored

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fuel_async.backends import Arena
    from fuel_async.ir import FrozenGraph
    from fuel_async.runtime.perform import Progress, Results
    from fuel_async.runtime.spread.shares import Share
    from fuel_async.schedule import RunShape
    from fuel_async.streams import CompletionHandle, LoopShare

    Array = NDArray[Any]


class SpreadRun(ActiveRun):
    """One run over several devices, from admission to release."""

    __slots__ = (
        "_given",
        "_host_arena",
        "_uncounted",
        "arrivals",
        "keep",
        "memories",
        "outdated",
        "shape",
        "shares",
        "spread",
    )

    def __init__(
        self,
        graph: FrozenGraph,
        prepared: PreparedSpread,
        values: Sequence[Array],
        share: LoopShare,
        priority: int,
        progress: Progress | None,
        result: asyncio.Future[Results],
        *,
        keep: bool,
        given: Mapping[tuple[int, int], Any],
    ) -> None:
        """Outputs stay on their devices with `keep`. `given` holds feeds by (value, memory) where they lie already."""
        super().__init__(graph, prepared, NO_INSTANCE, values, share, priority, progress, result)
        self.spread, self.keep = prepared, keep
        self.shape: RunShape = prepared.on_device if keep else prepared.shape
        #: By device.
        self.shares: dict[int, Share] = {}
        #: Copies on their way or done: (value, memory).
        self.arrivals: dict[tuple[int, int], CompletionHandle] = {}
        #: Whether it ended for being planned anew.
        self.outdated = False
        #: By region: the memory in which it ran.
        self.memories: dict[int, int] = {}
        self._uncounted = [None]
        self._given = given
        #: Its one arena in the host's memory, once it has any.
        self._host_arena: Arena | None = None

    def buffer(self, value: int, memory: int) -> Any:
        """The bytes of a value in a memory, as copies take them."""
        what = self.spread.plan.values[value]
        match what.kind:
            case SlotClass.FEED:
                return self.feed(what.place, memory)
            case SlotClass.OUTPUT:
                return self.output(what.place, memory)
            case SlotClass.TEMPORARY:
                return self.arena(memory).array(self.spread.plan.regions[0].program.slots, what.place)
            case SlotClass.CONSTANT | SlotClass.SESSION | SlotClass.SCALAR:
                raise InternalError(f"a value of class {what.kind.name} crosses no regions")
            case _:
                assert_never(what.kind)

    @property
    def resident(self) -> Sequence[tuple[int, int]]:
        """The feeds that lie in a device's memory already: (value, memory)."""
        return tuple(self._given)

    def lies_in(self, value: int, memory: int) -> bool:
        """Whether a feed lies in a device's memory already."""
        return (value, memory) in self._given

    def feed(self, place: int, memory: int) -> Any:
        """Where a feed is read by regions that run in a memory."""
        found = self._given.get((self.spread.feed_values[place], memory)) if self._given else None
        if found is not None:
            return found
        return self.values[place] if memory == HOST else self.shares[memory - 1].feed(place)

    def results(self) -> dict[str, DeviceArray]:
        """The outputs where they were made; they are the caller's from now on."""
        found: dict[str, DeviceArray] = {}
        for place, port in enumerate(self.spread.plan.outputs):
            memory = self.memories[self.spread.plan.values[self.spread.output_values[place]].producer]
            array = self.output(place, memory)
            if memory != HOST:
                del self.shares[memory - 1].outputs[place]
            storage = stored(array, self.spread.table.locations[memory])
            found[port.name] = DeviceArray(storage, Layout.contiguous(array.shape), port.boolean)
        return found

    def take_share(self, device: int) -> Share | None:
        """Return an idle share of a device; None when there is none that fits.

        In the host's memory a run has one arena. Called by whoever has the scheduler, before `bind_share`.
        """
        on_host = self.spread.table.memory(device) == HOST
        if on_host and self._host_arena is not None:
            return None
        share = self.spread.take_share(device)
        if on_host:
            self._host_arena = HostArena(self.spread.plan.arena_nbytes) if share is None else share.arena
        return share

    def bind_share(self, device: int, breathe: Breathe = no_breath) -> Share:
        """Make a share of a device. `OutOfMemory` when it refuses. Any thread."""
        arena = self._host_arena if self.spread.table.memory(device) == HOST else None
        return self.spread.bind_share(device, arena, breathe)

    def counts(self) -> bool:
        """Whether its cancellation is yet to be counted; then it is. It may be planned anew and cancelled at once."""
        try:
            self._uncounted.pop()
        except IndexError:
            return False
        return True

    def forget(self) -> None:
        """Let go of what belongs to devices."""
        self.shares, self._given, self._host_arena = {}, {}, None
        self.arrivals.clear()

    def output(self, place: int, memory: int) -> Any:
        """Where an output is written by regions that run in a memory."""
        return self.outputs[place] if memory == HOST else self.shares[memory - 1].output(place)

    def arena(self, memory: int) -> Arena:
        """The arena of the run in a memory; in the host's there is always one, for what is staged there."""
        if memory != HOST:
            return self.shares[memory - 1].arena
        if self._host_arena is None:
            self._host_arena = HostArena(self.spread.plan.arena_nbytes)
        return self._host_arena
