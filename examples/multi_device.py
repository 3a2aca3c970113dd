"""A sentence encoder served by four devices of different speed, with a picture of who did what when.

    python -m examples.multi_device [--requests 240] [--svg multi_device.svg]

The machine is simulated: four GPUs of speed 4, 2, 2 and 1, each with its own memory, behind links of 12 GB/s. The
kernels are the host's and compute real embeddings, in virtual time: it passes only while somebody waits for it, so a
third of a second of it takes as long as the arithmetic takes here, and each course is the same. Requests come at
random moments; the program awaits `executor.run` for each and knows nothing of devices.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import fuel_async as fa
from examples.embed import read_sentences
from examples.minilm_assets import AssetsMissing, encode_batch, load_tokenizer, load_weights
from examples.minilm_model import sentence_encoder
from examples.timeline import Recorded, picture
from fuel_async.backends.sim import Links, Sharing, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.cost import Rates
from fuel_async.ir import CPU_DEVICE
from fuel_async.runtime import Row, Span
from fuel_async.testing import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from fuel_async.backends import Device
    from fuel_async.runtime import Statistics

SPEEDS = (4, 2, 2, 1)

#: A device of speed 1: 100 Gflop/s in products, 20 GB/s, 5 µs a kernel.
RATES = Rates(flops_per_ns=20, dense_flops_per_ns=100, bytes_per_ns=20, call_ns=5_000)

#: A memory sends one copy at a time and receives one at a time.
LINKS = Links.of(latency_ns=10_000, bytes_per_ns=12, sharing=Sharing.PORTS)

#: Sentences are padded to one of these, so that there are three plans, not sixty.
LENGTHS = (16, 32, 64)

#: Simulated: about three quarters of what the four devices can do.
REQUESTS_PER_S = 750

#: Requests of each length that are sent at once before the others, so that every device has the weights.
FIRST = 16

COLOURS = {16: "#93c5fd", 32: "#3b82f6", 64: "#1e3a8a"}


class Request(NamedTuple):
    """One sentence: token ids, u32, and mask, f32, both [1, length]."""

    ids: npt.NDArray[np.uint32]
    mask: npt.NDArray[np.float32]

    @property
    def length(self) -> int:
        """Tokens, padding included."""
        return int(self.ids.shape[1])


@dataclass(slots=True)
class Served:
    """What came of the requests."""

    embeddings: list[npt.NDArray[np.float32]] = field(default_factory=list)
    #: Simulated.
    latencies_ms: list[float] = field(default_factory=list)
    started_ns: int = 0
    ended_ns: int = 0
    #: When the requests began, and when the last was answered.
    before: Statistics | None = None
    after: Statistics | None = None
    spans: list[Span] = field(default_factory=list)


async def serve(machine: SimMachine, graph: fa.Graph, requests: Sequence[Request]) -> Served:
    """Run the requests at random moments."""
    served, clock, draw = Served(), machine.clock, random.Random(7)

    def tokens(program: Any) -> str:
        return str(program.graph.types[program.graph.inputs["ids"]].shape[1])

    async def answer(request: Request) -> npt.NDArray[np.float32]:
        since_ns = clock.now_ns()
        embedding = (await executor.run(graph, ids=request.ids, mask=request.mask))["embeddings"]
        served.latencies_ms.append((clock.now_ns() - since_ns) / 1e6)
        return embedding

    devices = [cast("Device", Recorded(device, served.spans, tokens)) for device in machine.devices]
    async with fa.Executor(devices) as executor:
        for request in {request.length: request for request in requests}.values():
            await asyncio.gather(*[answer(request) for _ in range(min(FIRST, len(requests)))])
        served.latencies_ms.clear()
        served.started_ns, served.before = clock.now_ns(), executor.statistics()
        async with asyncio.TaskGroup() as tasks:
            answers = []
            for request in requests:
                answers.append(tasks.create_task(answer(request)))
                await asyncio.sleep(draw.expovariate(REQUESTS_PER_S))
        served.ended_ns, served.after = clock.now_ns(), executor.statistics()
    served.embeddings = [answer.result() for answer in answers]
    return served


async def largest_error(graph: fa.Graph, requests: Sequence[Request], served: Served) -> float:
    """How far the embeddings are from those of the host, which computes all of a length as one batch."""
    worst = 0.0
    async with fa.Executor(["cpu:0"]) as executor:
        for length in LENGTHS:
            places = [place for place, request in enumerate(requests) if request.length == length]
            if places:
                ids = np.concatenate([requests[place].ids for place in places])
                mask = np.concatenate([requests[place].mask for place in places])
                expected = (await executor.run(graph, ids=ids, mask=mask))["embeddings"]
                found = np.concatenate([served.embeddings[place] for place in places])
                worst = max(worst, float(np.abs(found - expected).max()))
    return worst


def make_requests(number: int) -> list[Request]:
    """Sentences of this project's pages, padded to `LENGTHS`, those beyond cut off."""
    tokenizer, requests = load_tokenizer(), list[Request]()
    for sentence in islice(cycle(list(read_sentences())), number):
        ids, mask = encode_batch(tokenizer, [sentence.text])
        length = next((length for length in LENGTHS if length >= ids.shape[1]), LENGTHS[-1])
        padding = ((0, 0), (0, max(length - ids.shape[1], 0)))
        requests.append(Request(np.pad(ids, padding)[:, :length], np.pad(mask, padding)[:, :length]))
    return requests


# --- what is shown ----------------------------------------------------------------------------------------------------


def lines(machine: SimMachine, served: Served) -> Iterator[str]:
    """Yield how the requests went, and what each device did meanwhile."""
    before, after = served.before, served.after
    assert before is not None
    assert after is not None
    took_s = (served.ended_ns - served.started_ns) / 1e9
    p50, p95 = np.percentile(served.latencies_ms, (50, 95))
    yield f"{len(served.latencies_ms)} requests in {took_s * 1e3:.0f} ms of simulated time"
    yield f"latency: p50 {p50:.1f} ms, p95 {p95:.1f} ms"
    yield "device        busy   regions   received          sent"
    for place, device in enumerate(machine.devices):
        was, did = before.devices[device.location], after.devices[device.location]
        moved = {True: [0, 0], False: [0, 0]}
        for ends, link in after.links.items():
            if device.location in ends:
                earlier = before.links.get(ends)
                counts = moved[ends[1] == device.location]
                counts[0] += link.copies - (earlier.copies if earlier else 0)
                counts[1] += link.nbytes - (earlier.nbytes if earlier else 0)
        share = (did.busy_s - was.busy_s) / took_s
        into, out = (f"{copies:4} copies {nbytes / 1e6:5.1f} MB" for copies, nbytes in (moved[True], moved[False]))
        yield f"{label(machine, place):12} {share:4.0%} {did.regions - was.regions:8}   {into}  {out}"


def draw(machine: SimMachine, served: Served) -> str:
    """Return the picture: a row for each device, and one for each link that something went over."""
    names = {device.location: f"gpu {place}" for place, device in enumerate(machine.devices)}
    took_ns = served.ended_ns - served.started_ns
    rows = []
    for place, device in enumerate(machine.devices):
        for lane in device.lanes:
            mine = [span for span in served.spans if span.row == lane.name and span.start_ns >= served.started_ns]
            busy = sum(span.end_ns - span.start_ns for span in mine) / took_ns
            rows.append(Row(lane.name, label(machine, place), 34, f"{busy:.0%} busy"))
    order = {CPU_DEVICE: -1} | {device.location: place for place, device in enumerate(machine.devices)}
    links = sorted(
        machine.links, key=lambda link: (order[link.source] >= 0, order[link.destination] >= 0, order[link.source])
    )
    rows += [
        Row(link.name, f"{names.get(link.source, 'host')} → {names.get(link.destination, 'host')}", 10)
        for link in links
        if link.copies
    ]
    ours = {str(length): (colour, f"sentence of up to {length} tokens") for length, colour in COLOURS.items()}
    kinds = {**ours, "copy": ("#f97316", "copy")}
    title = f"MiniLM on four simulated devices of speed 4, 2, 2 and 1: {len(served.latencies_ms)} requests"
    marks = {"requests begin": served.started_ns}
    return picture(title, rows, kinds, served.spans, marks)


def label(machine: SimMachine, place: int) -> str:
    return f"gpu {place} (speed {machine.devices[place].spec.speed:g})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.multi_device", description=__doc__)
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--svg", type=Path, default=Path(gettempdir()) / "multi_device.svg", help="the picture")
    chosen = parser.parse_args(arguments)
    try:
        requests, graph = make_requests(chosen.requests), sentence_encoder(load_weights())
    except AssetsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    clock = VirtualClock()
    specs = [SimDeviceSpec(speed=speed, rates=RATES, jitter=0.05, memory_nbytes=16 << 30) for speed in SPEEDS]
    machine = SimMachine(specs, links=LINKS, clock=clock)
    served = run_virtual(lambda clock: serve(machine, graph, requests), clock=clock)
    machine.close()
    error = asyncio.run(largest_error(graph, requests, served))
    assert error < 1e-5, f"the devices' embeddings are {error} from the host's"
    print(*lines(machine, served), sep="\n")
    chosen.svg.write_text(draw(machine, served), encoding="utf-8")
    print(f"embeddings are those of the host (largest difference {error:.0e}); picture: {chosen.svg}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
