"""The last section: what launches, awaits, copies and streams take, by the device's own events where it can say."""

from __future__ import annotations

from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir import CPU_DEVICE, DType, Graph
from fuel_async.runtime import Executor
from fuel_async.testing.gpu_check.encoder import Shape, batch_of, encoder, torch_encoder, weights_of
from fuel_async.testing.gpu_check.finding import opened
from fuel_async.testing.gpu_check.programs import PATIENCE_S, Bound, products, rotation, small

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fuel_async.testing.gpu_check.budget import Budget
    from fuel_async.testing.gpu_check.check import Setting
    from fuel_async.testing.gpu_check.report import Section


async def time_things(setting: Setting, section: Section, budget: Budget) -> None:
    """Measure one thing after the other, as long as there is time."""
    parts: dict[str, Callable[[Setting, Section], Awaitable[None]]] = {
        "launches": _launches,
        "awaits": _awaits,
        "overlap of copies and kernels": _overlap,
        "two streams": _two_streams,
        "an encoder": _encoder,
    }
    for name, part in parts.items():
        if budget.is_over:
            section.left_out.append(f"{name}: the time was over")
        else:
            await part(setting, section)


def _between(device: Any, work: Callable[[], None], lane: int = 0) -> float:
    """Milliseconds on the device from before `work`, which goes to one lane, until it is through with it."""
    cuda, stream = device.context.cuda, device.lanes[lane].stream.raw
    with device.context.here():
        first, last = cuda.Event(), cuda.Event()
        first.record(stream)
        work()
        last.record(stream)
        last.synchronize()
        return float(cuda.get_elapsed_time(first, last))


def _middle(times: int, measured: Callable[[], float]) -> float:
    return median([measured() for _ in range(times)])


def _seconds(work: Callable[[], None]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


async def _launches(setting: Setting, section: Section) -> None:
    """A chain of tiny kernels, launched one by one and as a graph: time of the host, and of the device."""
    kernels, rounds = setting.scale.kernels, setting.scale.rounds
    for name, capture in (("eager", 0), ("captured", 1)):
        with opened(setting.found[:1], capture=capture) as (device,):
            bound = Bound(device, small(kernels), np.ones(1_024, np.float32))
            for _ in range(4):
                bound.run()
            submits: list[float] = []

            def launch(bound: Bound = bound, submits: list[float] = submits) -> None:
                submits.append(_seconds(lambda: void(bound.submit())))

            took = _middle(rounds, partial(_between, device, launch))
            bound.run()
            section.demand(bool((bound.y.read() == (-1) ** kernels).all()), f"{name}: wrong numbers")
            section.figures[f"{name} launch, host us a kernel"] = 1e6 * median(submits) / kernels
            section.figures[f"{name} launch, device us a kernel"] = 1e3 * took / kernels
            section.figures[f"{name} graphs"] = bound.instance.graphs
            section.figures |= {f"{name} note": note for note in device.notes[:1]}


def void(_: object) -> None:
    """Let go of a handle: its work goes on."""


async def _awaits(setting: Setting, section: Section) -> None:
    """A run of one small program by an executor, from call to result, and what a lane alone takes for it."""
    feed = np.ones(1_024, np.float32)
    with opened(setting.found[:1]) as (device,):
        bound = Bound(device, small(4), feed)
        bound.run(4)
        section.figures["lane p50 us"] = 1e6 * _middle(setting.scale.awaits, lambda: _seconds(bound.run))
        async with Executor([device]) as executor:
            graph, taken = Graph("awaited"), list[float]()
            small(4)(graph)
            for _ in range(setting.scale.awaits + 4):
                began = perf_counter()
                found = await executor.run(graph, x=feed)
                taken.append(perf_counter() - began)
            section.demand(bool((found["y"] == feed).all()), "an awaited run gave wrong numbers")
        section.figures["await p50 us"] = 1e6 * median(taken[4:])
        section.figures["await p99 us"] = 1e6 * sorted(taken[4:])[int(0.99 * len(taken[4:]))]


async def _overlap(setting: Setting, section: Section) -> None:
    """Copies up, while products are computed: 1 when the shorter of both is hidden behind the longer."""
    size, scale = setting.scale.size, setting.scale
    with opened(setting.found[:1]) as (device,):
        bound = Bound(device, products(scale.products, size), rotation(size))
        source = np.ones(scale.copied_nbytes // 4, np.float32)
        there = device.memory.allocate_array(source.shape, DType.F32)
        up, down = device.copy_lane(CPU_DEVICE, device.location), device.copy_lane(device.location, CPU_DEVICE)
        back = np.empty_like(source)

        def copy() -> None:
            up.submit_copy(source, there).wait(PATIENCE_S)

        def fetch() -> None:
            down.submit_copy(there, back).wait(PATIENCE_S)

        def both() -> None:
            handle = bound.submit()
            copy()
            handle.wait(PATIENCE_S)

        for warm in (copy, bound.run, both, fetch):
            warm()
        copied, computed, together, fetched = [
            _middle(scale.rounds, partial(_seconds, work)) for work in (copy, bound.run, both, fetch)
        ]
        section.demand(bool((back == 1).all()), "a copy brought wrong numbers")
        section.figures["upload GB/s"] = scale.copied_nbytes / copied / 1e9
        section.figures["download GB/s"] = scale.copied_nbytes / fetched / 1e9
        flops = 2.0 * size**3 * scale.products
        section.figures["products Tflop/s in f32"] = flops / (_between(device, lambda: void(bound.submit())) * 1e9)
        section.figures["overlap of upload and products"] = (copied + computed - together) / min(copied, computed)


async def _two_streams(setting: Setting, section: Section) -> None:
    """Two chains of tiny kernels on two streams, against both on one: 2 when they do not hinder each other."""
    with opened(setting.found[:1], streams=2) as (device,):
        bounds = [Bound(device, small(setting.scale.kernels), np.ones(64, np.float32)) for _ in range(2)]
        for bound in bounds:
            bound.run(4)

        def timed(*lanes: int) -> float:
            began = perf_counter()
            for handle in [bound.submit(lane) for bound, lane in zip(bounds, lanes, strict=True)]:
                handle.wait(PATIENCE_S)
            return perf_counter() - began

        one, two = [_middle(setting.scale.rounds, partial(timed, 0, lane)) for lane in (0, 1)]
        section.figures["two streams speed-up"] = one / two


async def _encoder(setting: Setting, section: Section) -> None:
    """A batch through six layers: this package by its executor, and torch's eager mode where it is installed."""
    shape = setting.scale.encoder
    weights, batch = weights_of(shape), batch_of(shape)
    graph = encoder(shape, weights)
    with opened(setting.found[:1]) as (device,):
        async with Executor([device]) as executor:
            ours = list[float]()
            for _ in range(setting.scale.rounds + 4):
                began = perf_counter()
                found = (await executor.run(graph, x=batch))["y"]
                ours.append(perf_counter() - began)
    section.figures["encoder ms"] = 1e3 * median(ours[4:])
    theirs = torch_encoder(shape, weights, batch)
    if isinstance(theirs, str):
        section.left_out.append(f"the encoder in torch: {theirs}")
        return
    wanted = theirs()
    section.demand(bool(np.allclose(found, wanted, rtol=1e-3, atol=1e-3)), "the encoder differs from torch's")
    took = _middle(setting.scale.rounds, lambda: _seconds(lambda: void(theirs())))
    section.figures["encoder in torch, ms"] = 1e3 * took
    section.figures["encoder, times torch's time"] = median(ours[4:]) / took


#: The encoder that a quick check takes.
TINY = Shape(layers=1, heads=2, width=32, hidden=64, batch=2, tokens=8)
