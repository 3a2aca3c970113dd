"""What a test says of the devices it wants, and what it reads of them afterwards: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where a fault strikes. At "launch" and "copy" a status that ends the device strikes when the operation runs, another
#: one in the call that gives it to a stream; the other places are calls.
Place = Literal["now", "launch", "copy", "event", "malloc", "pinned", "sync", "compile", "stream", "capture", "graph"]


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """One device. Times are at least as modelled: what a kernel really takes here comes on top where it is longer.

    Kernels of all streams of a device share one engine, and copies have one for each direction.
    """

    memory_nbytes: int = 64 << 20
    compute_capability: tuple[int, int] = (8, 0)
    name: str = "Double"
    #: Seconds of every operation of a stream, besides the time of its engine.
    latency_s: float = 0.0
    #: Seconds of a kernel, and what is added for each of its threads.
    kernel_s: float = 0.0
    thread_s: float = 0.0
    #: Floating-point operations of matmuls a second; None: no time of their own.
    flops_per_s: float | None = None
    #: Bytes a second between host and device, and within the device.
    link_bytes_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    processors: int = 16
    clock_khz: int = 1_500_000
    memory_clock_khz: int = 5_000_000
    memory_bus_bits: int = 256
    #: Whether other devices may map its memory.
    is_peer: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the surface, as the log keeps it."""

    name: str
    thread: str
    device: int | None


@dataclass(slots=True)
class Fault:
    """An error that waits for its turn: `after` chances pass, then `times` of them fail."""

    device: int
    status: int
    at: Place
    after: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Every chance of `places` fails with a probability of `rate`; which ones follows from `seed`."""

    seed: int
    rate: float
    statuses: tuple[int, ...]
    places: frozenset[str]
    devices: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Leaks:
    """What is alive on a machine. Nothing of it is, when everything was given back: then it is false."""

    streams: int = 0
    events: int = 0
    graphs: int = 0
    handles: int = 0
    blocks: int = 0
    nbytes: int = 0
    pinned: int = 0
    pinned_nbytes: int = 0
    captures: int = 0
    #: Work that no stream has done yet.
    pending: int = 0

    def __bool__(self) -> bool:
        return self != Leaks()


@dataclass(frozen=True, slots=True)
class Counts:
    """How often what was done since the machine was made, and the most bytes that were allocated on each device."""

    calls: Mapping[str, int] = field(default_factory=dict)
    launches: int = 0
    graph_launches: int = 0
    copies: int = 0
    pageable_copies: int = 0
    #: Copies between devices that cannot reach each other, which a driver would lead through the host.
    staged_peer_copies: int = 0
    copied_nbytes: int = 0
    allocations: int = 0
    pinned_allocations: int = 0
    compiles: int = 0
    peak_nbytes: tuple[int, ...] = ()
