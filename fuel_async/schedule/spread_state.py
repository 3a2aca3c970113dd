"""One run that may be spread over devices: which values lie where, and what is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import InternalError
from fuel_async.schedule.machine import HOST
from fuel_async.schedule.state import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule.machine import Hop
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.rolling import Course
    from fuel_async.schedule.shape import RunShape, SpreadShape


class SpreadState(RunState):
    """The state of one run over several memories. Pure, as its base is."""

    __slots__ = (
        "_passed",
        "arriving",
        "binding",
        "bound",
        "course",
        "entry",
        "issued",
        "memories",
        "owed",
        "pinned_memories",
        "places",
        "plain",
        "prior",
        "promised_ns",
        "ranks",
        "readers_left",
        "since_ns",
        "spread",
    )

    def __init__(
        self, run: int, shape: RunShape, priority: int, turn: int, resident: Sequence[tuple[int, int]] = ()
    ) -> None:
        super().__init__(run, shape, priority, turn)
        if shape.spread is None:
            raise InternalError("the plan was made for one device")
        self.spread: SpreadShape = shape.spread
        #: By value: the memories where it lies or will, with the (expected) time of its arrival.
        self.places: list[dict[int, int]] = [{HOST: 0} if producer < 0 else {} for producer in self.spread.producers]
        for value, memory in resident:
            self.places[value] = {memory: 0}
        #: Whether its feeds lie in the host's memory only, as those of most runs do.
        self.plain = not resident
        #: Values on their way, by (value, memory).
        self.arriving: dict[tuple[int, int], Hop] = {}
        #: Memories of which the run holds a share, and those in which it is going to need one whatever is decided.
        self.memories: set[int] = set()
        self.pinned_memories: frozenset[int] = frozenset()
        #: Devices on which its programs are ready, and those where they will be, with the regions held back for it.
        self.bound: set[int] = set()
        self.binding: dict[int, list[int]] = {}
        #: Outputs that are not in the host's memory yet.
        self.owed: set[int] = set(self.spread.outputs)
        #: By value: regions that will read it and have not finished.
        self.readers_left: list[int] = list(self.spread.readers)
        #: What was predicted for each region in flight where it went.
        self.promised_ns: dict[int, int] = {}
        #: Whether anything was done for it.
        self.issued = False
        self.follow(shape.prior)
        #: How it does beside its plan, where that is looked at.
        self.course: Course | None = None
        #: When it was admitted.
        self.since_ns = 0
        #: Its place in the line of runs with candidates; None while it has none.
        self.entry: tuple[int, int, int] | None = None

    def issue(self, region: int, lane: int) -> None:
        """Note that the region goes to the lane. Candidates stand in the order of their ranks, the highest first."""
        self.issued = True
        others = len(self.candidates) - 1
        super().issue(region, lane)
        if len(self.candidates) > max(others, 1):
            self.candidates.sort(key=self.ranks.__getitem__, reverse=True)

    def follow(self, prior: Prior | None) -> None:
        """Go by another plan from now on."""
        self.prior = prior
        #: How urgent each region is.
        self.ranks = self.shape.ranks if prior is self.shape.prior or prior is None else prior.ranks
        #: By device: regions at the head of the plan's queue that have been issued.
        self._passed = [] if prior is None else [0] * len(prior.queues)
        if self.issued:
            self.candidates.sort(key=self.ranks.__getitem__, reverse=True)

    def next_on(self, device: int) -> int | None:
        """The first region that the plan has left for a device."""
        if self.prior is None or device >= len(self._passed):
            return None
        queue, passed = self.prior.queues[device], self._passed[device]
        while passed < len(queue) and self.is_issued(queue[passed]):
            passed += 1
        self._passed[device] = passed
        return queue[passed] if passed < len(queue) else None

    def is_issued(self, region: int) -> bool:
        """Whether a region was given to a lane."""
        return region in self.finished or region in self.in_flight

    def made_for(self, need: int, region: int) -> Sequence[int]:
        """The values of a region that another reads."""
        return [value for value in self.spread.reads[region] if self.spread.producers[value] == need]

    def held_ns(self, region: int) -> int:
        """The time that a lane holds for the region while it is in flight."""
        return self.promised_ns[region]

    @property
    def quiet(self) -> bool:
        """Whether nothing is in flight for it."""
        return not (self.in_flight or self.arriving or self.binding)

    def shares_for(self, memory: int) -> frozenset[int]:
        """The memories of which it would have to take a share to run in one.

        All that its pins demand are taken with the first, so that no two runs wait for what the other holds.
        """
        return frozenset() if memory in self.memories else (self.pinned_memories | {memory}) - self.memories

    def needed_at(self, memory: int) -> bool:
        """Whether something that lies in that memory alone is still wanted."""
        return any(
            (self.readers_left[value] or value in self.owed) and places.keys() == {memory}
            for value, places in enumerate(self.places)
        )

    def left_behind(self, memory: int) -> None:
        """Forget what lies in a memory that is lost; copies on their way there or from there settle by themselves."""
        for places in self.places:
            places.pop(memory, None)
