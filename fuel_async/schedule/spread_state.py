"""One run that may be spread over devices: which values lie where, and what is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import InternalError
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.state import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.shape import RunShape, SpreadShape


class SpreadState(RunState):
    """The state of one run over several memories. Pure, as its base is."""

    __slots__ = ("arriving", "binding", "bound", "memories", "owed", "places", "promised_ns", "readers_left", "spread")

    def __init__(
        self, run: int, shape: RunShape, priority: int, turn: int, resident: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(run, shape, priority, turn)
        if shape.spread is None:
            raise InternalError("the plan was made for one device")
        self.spread: SpreadShape = shape.spread
        #: By value: the memories where it lies or will, with the (expected) time of its arrival.
        self.places: list[dict[int, int]] = [{HOST: 0} if producer < 0 else {} for producer in self.spread.producers]
        for value, memory in resident:
            self.places[value][memory] = 0
        #: Values on their way: (value, memory).
        self.arriving: set[tuple[int, int]] = set()
        #: Memories of which the run holds a share.
        self.memories: set[int] = set()
        #: Devices on which its programs are ready, and those where they will be, with the regions held back for it.
        self.bound: set[int] = set()
        self.binding: dict[int, list[int]] = {}
        #: Outputs that are not in the host's memory yet.
        self.owed: set[int] = set(self.spread.outputs)
        #: By value: regions that will read it and have not finished.
        self.readers_left: list[int] = list(self.spread.readers)

        #: What was predicted for each region in flight where it went.
        self.promised_ns: dict[int, int] = {}

    def held_ns(self, region: int) -> int:
        """The time that a lane holds for the region while it is in flight."""
        return self.promised_ns[region]

    @property
    def issued(self) -> bool:
        """Whether anything was done for it."""
        return bool(self.in_flight or self.finished or self.arriving or self.binding or self.memories)

    @property
    def quiet(self) -> bool:
        """Whether nothing is in flight for it."""
        return not (self.in_flight or self.arriving or self.binding)

    def needed_at(self, memory: int) -> bool:
        """Whether something that lies in that memory alone is still wanted."""
        return any(
            (self.readers_left[value] or value in self.owed) and places.keys() == {memory}
            for value, places in enumerate(self.places)
            if places
        )

    def left_behind(self, memory: int) -> None:
        """Forget what lies in a memory that is lost; copies on their way there or from there settle by themselves."""
        for value, places in enumerate(self.places):
            if memory in places and (value, memory) not in self.arriving:
                del places[memory]
