"""Runs over several devices in a short notation, and a scheduler of such runs that is held against its laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from fuel_async.schedule import (
    HOST,
    AloneEnded,
    Bind,
    BindFailed,
    Bound,
    CancelRequested,
    Copy,
    CopyFailed,
    CopyFinished,
    Deliver,
    DeviceAdded,
    DeviceGone,
    DeviceShape,
    Event,
    Hop,
    Instruction,
    LaneShape,
    Launch,
    Policy,
    RegionFailed,
    RegionFinished,
    Release,
    Replan,
    Resweep,
    RunAdmitted,
    RunShape,
    SpreadScheduler,
    SpreadShape,
    Stop,
    TopologyChanged,
    check,
    earliest_finish,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FEEDS = LETTERS.upper()

DeviceParts: TypeAlias = tuple[DeviceShape, list[LaneShape]]


@dataclass
class Speeds:
    """Prices by speed: what takes 100 ns at speed 1 takes 50 at speed 2. Uploads are free but where told."""

    times_ns: Sequence[int]
    by_device: Mapping[int, float] = field(default_factory=dict)
    uploads_ns: Mapping[int, int] = field(default_factory=dict)
    #: Of the values.
    names: Sequence[str] = ()

    def region_ns(self, region: int, device: int) -> int:
        return int(self.times_ns[region] / self.by_device.get(device, 1))

    def upload_ns(self, region: int, device: int) -> int:
        return self.uploads_ns.get(device, 0)


def spread(
    text: str,
    *,
    nbytes: Mapping[str, int] | None = None,
    outputs: str | None = None,
    share: int = 10,
    fine: str = "",
    speeds: Mapping[int, float] | None = None,
    uploads: Mapping[int, int] | None = None,
) -> RunShape:
    """Regions a, b, c ..., one a word: `a:X b:aX=300@1` means that b reads what a makes and the feed X, takes 300 ns at
    speed 1, and is pinned to device 1. `b:X/a` reads X only, but comes after a.

    Each region makes one value, which has its letter. Those that nobody reads are outputs, unless `outputs` says
    otherwise. A value has 100 bytes where `nbytes` says nothing.
    """
    reads: list[str] = []
    needs: list[frozenset[int]] = []
    times: list[int] = []
    pins: list[int | None] = []
    for number, word in enumerate(text.split()):
        head, _, pin = word.partition("@")
        head, _, time = head.partition("=")
        name, _, before = head.partition(":")
        read, _, after = before.partition("/")
        assert name == LETTERS[number]
        needs.append(frozenset(LETTERS.index(letter) for letter in read + after if letter.islower()))
        reads.append(read)
        times.append(int(time or 100))
        pins.append(int(pin) if pin else None)
    feeds = sorted({letter for read in reads for letter in read if letter.isupper()})
    values = [*feeds, *LETTERS[: len(reads)]]
    place_of = {name: place for place, name in enumerate(values)}
    made = LETTERS[: len(reads)]
    wanted = [name for name in made if not any(name in read for read in reads)] if outputs is None else list(outputs)
    return RunShape(
        needs=needs,
        dependents=[[n for n, some in enumerate(needs) if region in some] for region in range(len(needs))],
        predicted_ns=times,
        fine=[name in fine for name in made],
        spread=SpreadShape(
            reads=[tuple(sorted(place_of[letter] for letter in read)) for read in reads],
            writes=[(place_of[name],) for name in made],
            nbytes=[(nbytes or {}).get(name, 100) for name in values],
            producers=[*[-1] * len(feeds), *range(len(reads))],
            readers=[sum(name in read for read in reads) for name in values],
            outputs=frozenset(place_of[name] for name in wanted),
            pins=pins,
            share_nbytes=share,
            prices=Speeds(times, speeds or {}, uploads or {}, values),
        ),
    )


def names(shape: RunShape) -> Sequence[str]:
    """The letters of the values of a shape that `spread` made."""
    assert shape.spread is not None
    assert isinstance(shape.spread.prices, Speeds)
    return shape.spread.prices.names


@dataclass
class Mesh:
    """Links between all memories, each of 10 ns and a tenth of one a byte, but for those that are `missing`.

    If `shared`, a memory sends one copy at a time and receives one.
    """

    latency_ns: int = 10
    ns_per_byte: float = 0.1
    missing: set[tuple[int, int]] = field(default_factory=set)
    shared: bool = False

    def copy_ns(self, nbytes: int) -> int:
        return self.latency_ns + int(nbytes * self.ns_per_byte)

    def route(self, source: int, memory: int, nbytes: int) -> Sequence[Hop] | None:
        ways = (
            [[(source, memory)], [(source, HOST), (HOST, memory)]]
            if HOST not in (source, memory)
            else [[(source, memory)]]
        )
        for way in ways:
            if not self.missing.intersection(way):
                return [Hop(*link, self.copy_ns(nbytes), self._ports(*link)) for link in way]
        return None

    def _ports(self, source: int, memory: int) -> tuple[int, ...]:
        return (source, -1 - memory) if self.shared else ()


def gpu(number: int, *, budget: int = 1_000, slots: int = 2, lanes: int = 1) -> DeviceParts:
    """A device with memory `number` of its own."""
    return DeviceShape(f"dev:{number}", number, budget), [LaneShape(slots) for _ in range(lanes)]


def cpu(*, budget: int = 1_000, slots: int = 2, lanes: int = 1) -> DeviceParts:
    """A device that works in the host's memory; fine regions go to its first lane only."""
    return DeviceShape("host:0", HOST, budget), [LaneShape(slots, takes_fine=not lane) for lane in range(lanes)]


class Checked(SpreadScheduler):
    """A scheduler whose laws are checked after every event, and whose answers are text.

    `1a@0` launches region a of run 1 on lane 0, `1b@0<a` behind a; `1X 0>2` copies value X from memory 0 to 2;
    `1 bind 2`, `1 stop OutOfMemory`, `1 replan`, `1 done`, `1 end` are what they say.
    """

    def __init__(
        self,
        *devices: DeviceParts,
        links: Mesh | None = None,
        policy: Policy = earliest_finish,
        binds: bool = True,
    ) -> None:
        """With `binds`, programs are ready at once, and nothing is said of it."""
        super().__init__(devices, links or Mesh(), policy)
        self.binds = binds
        self.shapes: dict[int, RunShape] = {}
        self.errors: dict[int, BaseException | None] = {}
        self.at_ns = 0

    def handle(self, event: Event, now_ns: int = 0) -> tuple[Instruction, ...]:
        told = super().handle(event, now_ns)
        check(self)
        if not self.binds:
            return told
        said: list[Instruction] = [one for one in told if not isinstance(one, Bind)]
        for one in told:
            if isinstance(one, Bind):
                said += self.handle(Bound(one.run, one.device), now_ns)
        return tuple(said)

    def begin_alone(self, run: int, shape: RunShape, now_ns: int = 0) -> int | None:
        lane = super().begin_alone(run, shape, now_ns)
        check(self)
        return lane

    def end_alone(self, run: int, now_ns: int = 0) -> Sequence[Instruction] | None:
        told = super().end_alone(run, now_ns)
        check(self)
        return told

    def tell(self, event: Event) -> str:
        return self.texts(self.handle(event, self.at_ns))

    def texts(self, told: Sequence[Instruction]) -> str:
        return ", ".join(self.text(one) for one in told)

    def text(self, one: Instruction) -> str:
        match one:
            case Launch(run, region, lane, waits):
                behind = "".join(LETTERS[wait] for wait in waits)
                return f"{run}{LETTERS[region]}@{lane}" + (f"<{behind}" if behind else "")
            case Bind(run, device):
                return f"{run} bind {device}"
            case Copy(run, value, source, memory):
                return f"{run}{names(self.shapes[run])[value]} {source}>{memory}"
            case Stop(run, error):
                self.errors[run] = error
                return f"{run} stop" + ("" if error is None else f" {type(error).__name__}")
            case Replan(run):
                return f"{run} replan"
            case Resweep(run, _):
                return f"{run} resweep"
            case Deliver(run):
                return f"{run} done"
            case Release(run):
                return f"{run} end"
            case _:
                assert_never(one)

    # --- what happens -----------------------------------------------------------------------------

    def admit(self, run: int, what: RunShape | str, priority: int = 0, resident: str = "") -> str:
        """`resident` says which feeds lie where else: `X1` is X in memory 1."""
        self.shapes[run] = shape = spread(what) if isinstance(what, str) else what
        places = [(self._value(run, word[0]), int(word[1:])) for word in resident.split()]
        return self.tell(RunAdmitted(run, shape, priority, places))

    def begin(self, run: int, what: RunShape | str) -> int | None:
        """Let a run take the short way; the lane, None where that is not open."""
        self.shapes[run] = shape = spread(what) if isinstance(what, str) else what
        return self.begin_alone(run, shape, self.at_ns)

    def end(self, run: int) -> str | None:
        """End it by the same way."""
        told = self.end_alone(run, self.at_ns)
        return None if told is None else self.texts(told)

    def ended(self, run: int) -> str:
        """End it by an event."""
        return self.tell(AloneEnded(run))

    def finish(self, run: int, region: str) -> str:
        return self.tell(RegionFinished(run, LETTERS.index(region)))

    def fail(self, run: int, region: str, error: BaseException) -> str:
        return self.tell(RegionFailed(run, LETTERS.index(region), error))

    def cancel(self, run: int) -> str:
        return self.tell(CancelRequested(run))

    def bound(self, run: int, device: int) -> str:
        return self.tell(Bound(run, device))

    def bind_failed(self, run: int, device: int, error: BaseException) -> str:
        return self.tell(BindFailed(run, device, error))

    def copied(self, run: int, value: str, memory: int) -> str:
        return self.tell(CopyFinished(run, self._value(run, value), memory))

    def copy_failed(self, run: int, value: str, memory: int, error: BaseException) -> str:
        return self.tell(CopyFailed(run, self._value(run, value), memory, error))

    def gone(self, device: int, error: BaseException) -> str:
        return self.tell(DeviceGone(device, error))

    def added(self, device: DeviceParts) -> str:
        return self.tell(DeviceAdded(*device))

    def topology_changed(self) -> str:
        return self.tell(TopologyChanged())

    def _value(self, run: int, letter: str) -> int:
        return names(self.shapes[run]).index(letter)

    @property
    def idle(self) -> bool:
        """Whether it knows of no run, and neither lanes, links nor memories hold anything."""
        machine = self.machine
        held = [load.held for load in self.loads] + [load.held_ns for load in self.loads]
        held += [load.held_ns for load in machine.ports.values()]
        held += [load.held_nbytes for load in machine.memories.values()]
        return not (self.runs or self.alone.runs or self.waiting() or any(held))


MakeSpread: TypeAlias = Callable[..., Checked]
