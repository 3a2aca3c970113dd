"""What the tests of the runtime share: kernels that do as they are told, and the look at base lines.

`Rig` serves integer ops that no installed pack serves, so that a graph of int64 tensors can hold a kernel that
waits, one that fails and one that merely counts, beside the real kernels of every other dtype.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

import fuel_async as fa
from fuel_async.dispatch import BackendCapabilities, KernelBindingTable, KernelCaps, OpParams
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DType, OpKind
from fuel_async.registry import bindings, bump_topology_generation, extend_global_bindings, inflight_count, pending_ns
from fuel_async.storage import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

Array = Any

#: A kernel or a thread that has not come so far by then never will: the test fails instead of hanging.
PATIENCE_S = 10.0

#: Flops that the planner takes for a millisecond or more: such a kernel is a region of its own.
HEAVY = 1 << 28


class TestKernel:
    """A kernel of one input and one output over whatever `call(x, out)` does, with a price."""

    __test__ = False

    def __init__(self, call: Callable[..., object], flops: int = 0) -> None:
        self.direct, self.flops = call, flops

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Any, params: OpParams) -> None:
        pairs = zip((*inputs, *outputs), layouts, strict=True)
        self.direct(*[as_array(storage, layout) for storage, layout in pairs])

    def cost(self, shapes: Any, dtypes: Any, params: OpParams, caps: BackendCapabilities) -> CostEstimate:
        return CostEstimate(flops=self.flops)


class Gate:
    """A kernel that copies its input once it is let through; every call is heard of."""

    def __init__(self) -> None:
        self._entries: SimpleQueue[int] = SimpleQueue()
        self._open = threading.Semaphore(0)
        #: Calls that have returned.
        self.passed = 0

    def __call__(self, x: Array, out: Array) -> None:
        self._entries.put(threading.get_ident())
        if not self._open.acquire(timeout=PATIENCE_S):
            raise TimeoutError("nobody opened the gate")
        np.copyto(out, x)
        self.passed += 1

    async def entered(self) -> int:
        """Wait until a thread stands in the gate that was not reported yet; return its id."""
        return await asyncio.to_thread(self.entered_here)

    def entered_here(self) -> int:
        """The same for code without a loop."""
        return self._entries.get(timeout=PATIENCE_S)

    def open(self, calls: int = 1) -> None:
        """Let that many calls through, now or later."""
        self._open.release(calls)


class Rig:
    """The kernels of int64 graphs: `-x` waits in a gate, `abs(x)` fails, `x.sign()` counts, `x + y` adds.

    On int32, `-x` waits in a second gate and costs as much as a region; on int16 it is cheap and counts.
    """

    def __init__(self) -> None:
        self.gate, self.other = Gate(), Gate()
        #: What `abs` raises; a new one each time.
        self.error: Callable[[], BaseException] = lambda: ArithmeticError("as told")
        #: Whether `abs` does nothing instead, and below which first element it does so anyhow.
        self.works = False
        self.from_value = -100
        #: What a counting kernel does besides.
        self.meanwhile: Callable[[], object] = lambda: None
        #: Threads that ran a counting kernel, in order.
        self.calls: list[int] = []

    def fail(self, x: Array, out: Array) -> None:
        if self.works or x[0] < self.from_value:
            return
        raise self.error()

    def count(self, x: Array, out: Array) -> None:
        self.calls.append(threading.get_ident())
        self.meanwhile()
        np.copyto(out, x)

    async def warm(self, ex: fa.Executor, g: fa.Graph, x: Array | None = None) -> None:
        """Let a graph succeed until it runs in place."""
        self.works = True
        await in_place(ex, g, x=ints() if x is None else x)
        self.works = False

    def register(self, table: KernelBindingTable) -> None:
        i64, i32 = DType.I64, DType.I32

        def put(op: OpKind, dtypes: tuple[DType, ...], kernel: TestKernel) -> None:
            caps = KernelCaps(strided_input=True)
            table.register(op, dtypes, BackendId.CPU, kernel, caps=caps, cost=kernel.cost, kernel_source="rig")

        put(OpKind.NegElementwise, (i64, i64), TestKernel(self.gate))
        put(OpKind.AbsElementwise, (i64, i64), TestKernel(self.fail))
        put(OpKind.SignElementwise, (i64, i64), TestKernel(self.count))
        put(OpKind.AddElementwise, (i64, i64, i64), TestKernel(np.add))
        put(OpKind.SqrElementwise, (i64, i64), TestKernel(self.count, HEAVY))
        put(OpKind.NegElementwise, (i32, i32), TestKernel(self.other, HEAVY))
        put(OpKind.AbsElementwise, (i32, i32), TestKernel(self.fail, HEAVY))
        put(OpKind.AddElementwise, (i32, i32, i32), TestKernel(np.add, HEAVY))


@contextmanager
def installed(rig: Rig) -> Iterator[Rig]:
    """Publish the rig's kernels for a while."""
    with published(rig.register):
        yield rig


@contextmanager
def published(register: Callable[[KernelBindingTable], None]) -> Iterator[None]:
    """Publish what `register` adds for a while."""
    store = bindings._BINDINGS
    before = store.snapshot()
    extend_global_bindings(register)
    try:
        yield
    finally:
        store._table = before
        bump_topology_generation()


def gated(name: str = "gated", dtype: DType = DType.I64) -> fa.Graph:
    """y = -x, through a gate (which copies)."""
    g = fa.Graph(name)
    g.output("y", -g.input("x", (4,), dtype))
    return g


def failing(name: str = "failing", dtype: DType = DType.I64) -> fa.Graph:
    """y = abs(x), which fails."""
    g = fa.Graph(name)
    g.output("y", abs(g.input("x", (4,), dtype)))
    return g


def doubling(size: int = 4, name: str = "doubling") -> fa.Graph:
    """y = x + x in float32."""
    g = fa.Graph(name)
    x = g.input("x", (size,))
    g.output("y", x + x)
    return g


def chain(length: int, size: int = 16, name: str = "chain") -> fa.Graph:
    """y = x + x + ... + x, `length` additions in float32: y = (length + 1) x."""
    g = fa.Graph(name)
    x = g.input("x", (size,))
    total = x
    for _ in range(length):
        total = total + x
    g.output("y", total)
    return g


def ints(value: int = 3, dtype: type[np.integer[Any]] = np.int64) -> NDArray[Any]:
    return np.full(4, value, dtype)


def ones(size: int = 4) -> NDArray[np.float32]:
    return np.ones(size, np.float32)


def in_flight() -> tuple[int, int]:
    """Unsettled submissions on the host and their predicted time, of the whole process."""
    return inflight_count(CPU_DEVICE), pending_ns(CPU_DEVICE)


async def settled(executor: fa.Executor) -> None:
    """Wait until no lane works for a run of the executor and everything that a run takes is back."""
    engine = await executor.engine()
    async with asyncio.timeout(PATIENCE_S):
        await engine.idle()
    found = executor.statistics()
    assert (found.runs_active, found.runs_waiting, found.used_nbytes) == (0, 0, 0), found
    device = found.devices[CPU_DEVICE]
    assert (device.pending_count, device.pending_s) == (0, 0.0), device
    assert in_flight() == (0, 0)


async def forgotten(ex: fa.Executor) -> None:
    """Wait until nothing holds what a run used: lanes let go of a job before they take the next one."""
    await settled(ex)
    for lane in ex.devices[0].lanes:
        await lane.submit_copy(np.zeros(1), np.zeros(1))
    await turns(2)  # the loop's own handle holds a result for one turn


async def in_place(ex: fa.Executor, g: fa.Graph, **feeds: Any) -> None:
    """Run a graph, then once more on the loop, however long it was measured to take on a disturbed machine."""
    await ex.run(g, feeds)
    prepared = (await ex.engine()).cache.find(g.freeze(), ((), None))
    assert prepared is not None
    for _ in range(64):
        prepared.measured.history.record(1_000)
    before = ex.statistics().runs_inline
    await ex.run(g, feeds)
    assert ex.statistics().runs_inline == before + 1


def our_threads() -> list[threading.Thread]:
    """Threads of the package that run now."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("fuel_async")]


def join(threads: Sequence[threading.Thread]) -> None:
    """Wait for threads to end; fails when one does not."""
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), thread


async def turns(count: int = 1) -> None:
    """Let the loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)
