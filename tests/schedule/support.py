"""Regions by letters, and a scheduler that is held against its laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.schedule import (
    CancelRequested,
    LaneShape,
    Launch,
    RegionFailed,
    RegionFinished,
    RunAdmitted,
    RunShape,
    Scheduler,
    check,
)

if TYPE_CHECKING:
    from fuel_async.schedule import Event, Instruction

LETTERS = "abcdefghij"


def shape(text: str, *, fine: str = "") -> RunShape:
    """Regions named a, b, c ... in order, one a word: `a b:a c:ab=300` means that b needs a, and c needs a and b.

    The number after `=` is the predicted time in ns, 100 where there is none.
    """
    needs: list[frozenset[int]] = []
    predicted: list[int] = []
    for number, word in enumerate(text.split()):
        head, _, time = word.partition("=")
        name, _, read = head.partition(":")
        assert name == LETTERS[number]
        needs.append(frozenset(LETTERS.index(letter) for letter in read))
        predicted.append(int(time or 100))
    dependents = [[n for n, some in enumerate(needs) if region in some] for region in range(len(needs))]
    return RunShape(needs, dependents, predicted, [LETTERS[n] in fine for n in range(len(needs))])


def launch(run: int, region: str, lane: int = 0, waits: str = "") -> Launch:
    return Launch(run, LETTERS.index(region), lane, tuple(LETTERS.index(letter) for letter in waits))


def finished(run: int, region: str) -> RegionFinished:
    return RegionFinished(run, LETTERS.index(region))


def failed(run: int, region: str, error: BaseException) -> RegionFailed:
    return RegionFailed(run, LETTERS.index(region), error)


class Checked(Scheduler):
    """A scheduler whose laws are checked after every event."""

    @classmethod
    def of(cls, lanes: int, slots: int) -> Checked:
        return cls([LaneShape(slots, takes_fine=not lane) for lane in range(lanes)])

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        told = super().handle(event)
        self.check()
        return told

    def check(self) -> None:
        check(self)

    def admit(self, run: int, regions: RunShape | str, priority: int = 0) -> tuple[Instruction, ...]:
        what = shape(regions) if isinstance(regions, str) else regions
        return self.handle(RunAdmitted(run, what, priority))

    def finish(self, run: int, region: str) -> tuple[Instruction, ...]:
        return self.handle(finished(run, region))

    def fail(self, run: int, region: str, error: BaseException) -> tuple[Instruction, ...]:
        return self.handle(failed(run, region, error))

    def cancel(self, run: int) -> tuple[Instruction, ...]:
        return self.handle(CancelRequested(run))

    @property
    def idle(self) -> bool:
        """Whether it knows of no run and no lane holds anything."""
        return not self.runs and not any(load.held or load.held_ns for load in self.loads)


Make: TypeAlias = Callable[..., Checked]
