"""Very many runs at once on four unequal devices that fail by chance: each result is right, or rightly failed.

What fails follows from the seed of the session, which is printed; which run it hits depends on the threads.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.cuda.discovery import driver_for
from fuel_async.errors import DeviceError, DeviceLost, KernelFailed, OutOfMemory
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.testing.cuda_double import DeviceModel, RandomFaults
from tests.backends.cuda.support import Doubled
from tests.backends.grids.devices import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuel_async.backends.cuda.device import CudaDevice

RUNS = 200
ROUNDS = 3
MIB = 1 << 20
#: Of very unequal speed and memory; times are so short that the test is, too.
MODELS = tuple(
    DeviceModel(memory_nbytes=memory * MIB, kernel_s=2e-5 * slowness, link_bytes_per_s=2e9 / slowness)
    for memory, slowness in ((64, 1), (16, 2), (8, 4), (4, 8))
)
ENDING = (214, 700, 719)


@dataclass(frozen=True)
class Kind:
    """A graph, and what numpy makes of its feed."""

    graph: fa.Graph
    shape: tuple[int, ...]
    numpy: Callable[[Any], Any]

    def feed(self, seed: int) -> Any:
        return np.random.default_rng(seed).standard_normal(self.shape).astype(np.float32)


def _chain() -> Kind:
    graph = fa.Graph("chain")
    y = graph.input("x", (64, 32))
    for _ in range(5):
        y = (y + y).tanh()
    graph.output("y", y)

    def computed(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(x + x)
        return x

    return Kind(graph, (64, 32), computed)


def _product() -> Kind:
    weights = np.random.default_rng(5).standard_normal((32, 48)).astype(np.float32)
    graph = fa.Graph("product")
    graph.output("y", (graph.input("x", (40, 32)) @ graph.constant(weights)).sum(axis=1))
    return Kind(graph, (40, 32), lambda x: (x @ weights).sum(axis=1))


def _large() -> Kind:
    """Megabytes of temporaries: few of them fill the smallest device."""
    graph = fa.Graph("large")
    x = graph.input("x", (256, 1024))
    graph.output("y", ((x + x).tanh() * x).max(axis=1))
    return Kind(graph, (256, 1024), lambda x: (np.tanh(x + x) * x).max(axis=1))


@pytest.fixture
def kinds() -> tuple[Kind, ...]:
    return _chain(), _product(), _large()


@pytest.fixture
def storm(request: pytest.FixtureRequest) -> Iterator[tuple[Doubled, int]]:
    """Four devices and the seed. Afterwards nothing is left: not in the counters, not of memory, events or threads."""
    seed = int(request.config.getoption("hypothesis_seed"))
    print(f"--hypothesis-seed={seed}")
    doubled = Doubled(MODELS)
    machine, devices = doubled.machine, doubled.devices
    yield doubled, seed
    machine.inject_random()
    locations = [device.location for device in devices]
    working = [place for place, device in enumerate(devices) if device.lost is None]
    names = {line.name for device in devices for line in device.lines}
    for device in devices:
        device.close()
        device.join(PATIENCE_S)
        vars(device).clear()  # the fixtures' values are kept longer than this
    devices.clear()
    gc.collect()
    try:
        assert [(inflight_count(location), pending_ns(location)) for location in locations] == [(0, 0)] * len(MODELS)
        assert not machine.leaks(*working), machine.leaks(*working)
        assert [
            thread.name for thread in threading.enumerate() if thread.name.removeprefix("fuel_async ") in names
        ] == []
        driver_for().graves.clear()  # what is kept of lost devices, which nobody could give back
        gc.collect()
        assert not machine.leaks(), machine.leaks()
    finally:
        doubled.close()


async def _run(executor: fa.Executor, kind: Kind, seed: int) -> Exception | None:
    """Run once; the error, of a kind that a device may cause. Any other result than numpy's fails."""
    feed = kind.feed(seed)
    try:
        found = await executor.run(kind.graph, x=feed)
    except DeviceError as error:
        return error
    np.testing.assert_allclose(found["y"], kind.numpy(feed), rtol=2e-3, atol=2e-3)
    return None


async def _stormed(executor: fa.Executor, kinds: tuple[Kind, ...], draw: random.Random) -> list[Exception]:
    chosen = [(draw.choices(kinds, (20, 20, 1))[0], draw.randrange(1 << 30)) for _ in range(RUNS)]
    found = await asyncio.gather(*[_run(executor, kind, seed) for kind, seed in chosen])
    return [error for error in found if error is not None]


def _memory_faults(seed: int, rate: float) -> RandomFaults:
    return RandomFaults(seed, rate, (2,), frozenset({"malloc", "pinned"}))


def _ending_faults(seed: int, rate: float) -> RandomFaults:
    """Two of the four devices may be lost, at any launch, copy or wait."""
    return RandomFaults(seed, rate, ENDING, frozenset({"launch", "copy", "sync"}), frozenset({0, 2}))


@pytest.mark.asyncio(loop_factories=["default"])
async def test_two_hundred_runs_are_right_or_rightly_failed(
    storm: tuple[Doubled, int], kinds: tuple[Kind, ...]
) -> None:
    doubled, seed = storm
    async with fa.Executor(doubled.devices) as executor:
        doubled.machine.inject_random(_ending_faults(seed, 0.02), _memory_faults(seed + 1, 0.05))
        errors = await _stormed(executor, kinds, random.Random(seed))
        _judge(doubled, errors)
        await _at_base(executor, doubled.devices)
        statistics = executor.statistics()
        assert (statistics.runs, statistics.runs_failed) == (RUNS - len(errors), len(errors))


@pytest.mark.slow
async def test_runs_are_right_when_nothing_fails(storm: tuple[Doubled, int], kinds: tuple[Kind, ...]) -> None:
    doubled, seed = storm
    async with fa.Executor(doubled.devices) as executor:
        for turn in range(ROUNDS):
            assert await _stormed(executor, kinds, random.Random(seed + turn)) == []
        await _at_base(executor, doubled.devices)
        assert executor.statistics().runs == RUNS * ROUNDS


@pytest.mark.slow
async def test_a_full_memory_fails_runs_and_nothing_else(storm: tuple[Doubled, int], kinds: tuple[Kind, ...]) -> None:
    doubled, seed = storm
    doubled.machine.inject_random(_memory_faults(seed, 0.2))
    async with fa.Executor(doubled.devices) as executor:
        errors = [error for _ in range(ROUNDS) for error in await _stormed(executor, kinds, random.Random(seed))]
        _judge(doubled, errors)
        assert [device.lost for device in doubled.devices] == [None] * len(MODELS)
        await _at_base(executor, doubled.devices)
        doubled.machine.inject_random()
        assert await _stormed(executor, kinds, random.Random(seed)) == []


@pytest.mark.slow
async def test_lost_devices_fail_their_runs_and_the_others_go_on(
    storm: tuple[Doubled, int], kinds: tuple[Kind, ...]
) -> None:
    doubled, seed = storm
    async with fa.Executor(doubled.devices) as executor:
        assert await _stormed(executor, kinds, random.Random(seed)) == []
        doubled.machine.inject_random(_ending_faults(seed, 0.02), _memory_faults(seed + 1, 0.05))
        errors = [error for turn in range(ROUNDS) for error in await _stormed(executor, kinds, random.Random(turn))]
        _judge(doubled, errors)
        assert any(device.lost for device in doubled.devices)
        await _at_base(executor, doubled.devices)
        doubled.machine.inject_random()
        assert await _stormed(executor, kinds, random.Random(seed)) == []


def _judge(doubled: Doubled, errors: Sequence[Exception]) -> None:
    """Runs fail only by what struck, and devices are lost that ended, and no others."""
    struck = {place for place, times in doubled.machine.faults.struck.items() if times}
    lost = [device.lost for device in doubled.devices]
    assert [error is not None for error in lost] == [gpu.status != 0 for gpu in doubled.machine.gpus]
    assert {place for place, error in enumerate(lost) if error is not None} <= struck & {0, 2}
    for error in errors:
        cause = error.__cause__ if isinstance(error, KernelFailed) else error
        assert isinstance(cause, (DeviceLost, OutOfMemory)), repr(error)
        assert struck
        if isinstance(cause, DeviceLost):
            assert cause.device in {str(device.location) for device in doubled.devices if device.lost is not None}


async def _at_base(executor: fa.Executor, devices: list[CudaDevice]) -> None:
    """Nothing is under way any more, in the executor's counters and in the devices'."""
    engine = await executor.engine()
    async with asyncio.timeout(PATIENCE_S):
        await engine.idle()
    found = executor.statistics()
    assert (found.runs_active, found.runs_waiting, found.used_nbytes) == (0, 0, 0), found
    for device in devices:
        did = found.devices[device.location]
        assert (did.pending_count, did.pending_s) == (0, 0.0), (device.location, did)
        assert (device.pending_work_count(), device.pending_work_ns()) == (0, 0)
