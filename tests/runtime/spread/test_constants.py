"""Constants go to a device once, whatever the number of plans that read them, and stay while their arrays live."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from fuel_async.backends.sim import SimDeviceSpec, SimMachine
from fuel_async.testing import run_virtual

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuel_async.backends.sim import VirtualClock

WEIGHTS = np.random.default_rng(7).standard_normal((256, 256)).astype(np.float32)
WEIGHTS.flags.writeable = False


def product(value: NDArray[np.float32] = WEIGHTS) -> fa.Graph:
    g = fa.Graph("product")
    g.output("y", g.input("x", ("n", 256)) @ g.constant(value))
    return g


def sent_nbytes(executor: fa.Executor) -> int:
    """Bytes that went from the host to devices, feeds included."""
    return sum(link.nbytes for (source, _), link in executor.statistics().links.items() if source.is_host)


def test_sizes_of_a_symbol_share_a_constant() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec()], clock=clock)
        g = product()
        async with fa.Executor(devices=machine.devices) as executor:
            for n in (1, 2, 3, 4):
                x = np.ones((n, 256), np.float32)
                np.testing.assert_allclose((await executor.run(g, x=x))["y"], x @ WEIGHTS, rtol=1e-5)
            assert sent_nbytes(executor) == WEIGHTS.nbytes + 10 * 256 * 4
        machine.close()

    run_virtual(main)


def test_graphs_over_the_same_array_share_it() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec()], clock=clock)
        x = np.ones((1, 256), np.float32)
        async with fa.Executor(devices=machine.devices) as executor:
            for _ in range(3):
                await executor.run(product(), x=x)  # adopted as it is: read-only and its own
            assert sent_nbytes(executor) == WEIGHTS.nbytes + 3 * x.nbytes
        machine.close()

    run_virtual(main)


def test_equal_bytes_in_another_array_are_another_constant() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec()], clock=clock)
        x = np.ones((1, 256), np.float32)
        async with fa.Executor(devices=machine.devices) as executor:
            first, second = product(), product(WEIGHTS.copy())
            await executor.run(first, x=x)
            await executor.run(second, x=x)
            assert sent_nbytes(executor) == 2 * WEIGHTS.nbytes + 2 * x.nbytes
        machine.close()

    run_virtual(main)


def test_the_device_has_its_memory_back_with_the_array() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec()], clock=clock)
        memory = machine.devices[0].memory
        async with fa.Executor(devices=machine.devices) as executor:
            graph = product(WEIGHTS.copy())
            await executor.run(graph, x=np.ones((1, 256), np.float32))
            assert memory.used_nbytes >= WEIGHTS.nbytes
            del graph
            gc.collect()
            assert memory.used_nbytes < WEIGHTS.nbytes
        gc.collect()
        assert memory.used_nbytes == 0
        machine.close()

    run_virtual(main)


def test_a_device_that_lacks_memory_lets_go_of_what_no_run_reads() -> None:
    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec(memory_nbytes=WEIGHTS.nbytes * 3 // 2)], clock=clock)
        x = np.ones((1, 256), np.float32)
        graphs = [product(WEIGHTS * scale) for scale in (1, 2, 3)]
        async with fa.Executor(devices=machine.devices) as executor:
            for _ in range(2):
                for scale, g in enumerate(graphs, 1):
                    expected = x @ (WEIGHTS * scale)
                    np.testing.assert_allclose((await executor.run(g, x=x))["y"], expected, rtol=1e-4, atol=1e-4)
            assert sent_nbytes(executor) == 6 * (WEIGHTS.nbytes + x.nbytes)
        machine.close()

    run_virtual(main)
