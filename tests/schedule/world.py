"""A machine that keeps its own account of what a scheduler of spread runs says, and holds it against what can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from fuel_async.schedule import (
    HOST,
    Bind,
    Copy,
    Deliver,
    Instruction,
    Launch,
    Question,
    Release,
    Replan,
    Resweep,
    RunShape,
    SpreadShape,
    Stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.schedule.spread_support import Checked


@dataclass
class Account:
    """One run: what was said of it, and where its values truly are."""

    shape: RunShape
    said: list[Instruction] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    #: What is to be placed anew, while there is no answer.
    question: Question | None = None
    launched: dict[int, int] = field(default_factory=dict)
    #: By device, whether its programs are ready there; None while they are being made so.
    programs: dict[int, bool | None] = field(default_factory=dict)
    #: Memories in which each value lies; and copies under way, each with its source.
    places: list[set[int]] = field(default_factory=list)
    copies: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Whether it is on the short way: its outputs come home with its region.
    alone: bool = False
    #: Copies under way that have arrived, though the scheduler has not heard of it yet.
    arrived: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.places = [{HOST} if producer < 0 else set() for producer in self.spread.producers]

    @property
    def spread(self) -> SpreadShape:
        assert self.shape.spread is not None
        return self.shape.spread

    def has(self, kind: type[Instruction]) -> bool:
        return any(isinstance(one, kind) for one in self.said)


class World:
    """Lanes that hold what they were given in order, links that hold copies in any order."""

    def __init__(self, scheduler: Checked) -> None:
        self.scheduler = scheduler
        self.accounts: dict[int, Account] = {}
        self.queues: list[list[tuple[int, int]]] = [[] for _ in scheduler.loads]
        self.gone: set[int] = set()

    def asked(self) -> list[int]:
        """The runs that wait for an answer."""
        return [run for run, account in self.accounts.items() if account.question is not None]

    def memory_of(self, lane: int) -> int:
        return self.scheduler.machine.memory_of(lane)

    # --- what is said -----------------------------------------------------------------------------

    def hear(self, told: Iterable[Instruction]) -> None:
        for one in told:
            account = self.accounts[one.run]
            assert not account.has(Release), "the last word on a run is its release"
            ended = account.has(Stop) or account.has(Replan) or account.has(Deliver)
            match one:
                case Launch():
                    assert not ended
                    self._launched(one, account)
                case Copy():
                    assert not ended
                    self._copied(one, account)
                case Bind(_, device):
                    assert not ended
                    assert device not in self.gone
                    assert not account.programs.get(device, False), "programs are made ready once"
                    assert account.programs.get(device, False) is not None, "one at a time"
                    account.programs[device] = None
                case Resweep():
                    assert not ended
                    assert account.question is None, "one question at a time"
                    account.question = one.question
                case Stop():
                    assert not ended
                case Replan():
                    assert not account.said, "nothing was issued"
                case Deliver():
                    assert not ended
                    assert account.finished == set(range(len(account.shape)))
                    assert all(HOST in account.places[value] for value in account.spread.outputs)
                case Release():
                    assert ended
                    assert not account.copies
                    assert None not in account.programs.values()
                    assert not any(run == one.run for queue in self.queues for run, _ in queue)
                case _:
                    assert_never(one)
            account.said.append(one)

    def _launched(self, one: Launch, account: Account, *, alone: bool = False) -> None:
        queue, region, spread = self.queues[one.lane], one.region, account.spread
        device, memory = self.scheduler.machine.device_of[one.lane], self.memory_of(one.lane)
        assert region not in account.launched
        assert device not in self.gone
        assert account.programs[device], "its programs are ready there"
        assert spread.pins[region] in (None, device)
        assert not account.shape.fine[region] or self.scheduler.loads[one.lane].shape.takes_fine
        assert len(queue) < self.scheduler.loads[one.lane].shape.slot_capacity
        account.alone = alone
        assert set(one.waits) == account.shape.needs[region] - account.finished
        assert all((one.run, need) in queue for need in one.waits)
        for value in spread.reads[region]:
            made_before = (one.run, spread.producers[value]) in queue
            assert alone or made_before or memory in account.places[value] or (value, memory) in account.copies
        account.launched[region] = one.lane
        queue.append((one.run, region))

    def _copied(self, one: Copy, account: Account) -> None:
        value, places = one.value, account.places[one.value]
        assert one.source in places or (value, one.source) in account.copies, "it is copied from where it is"
        assert one.memory not in places, "it is copied once"
        assert (value, one.memory) not in account.copies, "it is copied once"
        assert self.scheduler.links.route(one.source, one.memory, 1) is not None
        account.copies[value, one.memory] = one.source

    def begun_alone(self, run: int, lane: int) -> None:
        """Note that a run took the short way: all of it is under way at once."""
        account, device = self.accounts[run], self.scheduler.machine.device_of[lane]
        account.programs[device] = True
        self._launched(Launch(run, 0, lane), account, alone=True)

    # --- what happens -----------------------------------------------------------------------------

    def settled(self, lane: int, failed: bool) -> tuple[int, int]:
        """Take the first region off a lane; what it read has arrived before it could finish."""
        run, region = self.queues[lane].pop(0)
        account, memory = self.accounts[run], self.memory_of(lane)
        if not failed:
            for value in account.spread.reads[region]:
                self._arrives(account, value, memory)
            account.finished.add(region)
            for value in account.spread.writes[region]:
                account.places[value].update([memory, HOST] if account.alone else [memory])
        return run, region

    @staticmethod
    def _arrives(account: Account, value: int, memory: int) -> None:
        while (value, memory) in account.copies:
            account.arrived.add((value, memory))
            memory = account.copies[value, memory]

    def copied(self, run: int, value: int, memory: int, failed: bool) -> None:
        """End a copy."""
        account = self.accounts[run]
        del account.copies[value, memory]
        account.arrived.discard((value, memory))
        if not failed:
            account.places[value].add(memory)

    def copies_under_way(self) -> list[tuple[int, int, int]]:
        """Those that may end next: what they copy has reached where they copy it from."""
        return [
            (run, value, memory)
            for run, account in self.accounts.items()
            for (value, memory), source in account.copies.items()
            if (value, source) not in account.copies
        ]

    def programs_under_way(self) -> list[tuple[int, int]]:
        return [
            (run, device)
            for run, account in self.accounts.items()
            for device, ready in account.programs.items()
            if ready is None
        ]

    def lose(self, device: int) -> None:
        """Note that a device is gone, with what lies in its own memory."""
        self.gone.add(device)
        memory = self.scheduler.machine.devices[device].shape.memory
        if memory != HOST:
            for account in self.accounts.values():
                for places in account.places:
                    places.discard(memory)
