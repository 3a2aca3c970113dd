"""The executor: `await executor.run(graph, …)` inside any asyncio service.

An executor may be constructed anywhere, opens its devices with the first run that needs them, and works on any loop, on
several in turn or at once; each run completes on the loop that asked for it. `run` makes no task: the caller's drives
it. A small program whose measured time allows it runs in place; everything else goes to lanes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from fuel_async.errors import ExecutorClosed, ForkedProcess, Overloaded, UserError
from fuel_async.ir import DeviceLocation, Graph, Layout, PrecisionGuarantee
from fuel_async.registry import fork_generation
from fuel_async.runtime.config import make_config
from fuel_async.runtime.engine import Engine
from fuel_async.runtime.mapping import Feeds, Mapped
from fuel_async.runtime.perform import Array, Progress, Results
from fuel_async.runtime.run import Run
from fuel_async.runtime.session import Session
from fuel_async.runtime.spread import SpreadEngine
from fuel_async.runtime.statistics import Statistics
from fuel_async.runtime.walk import Walk
from fuel_async.storage import DeviceArray, from_array
from fuel_async.streams import LoopShare

if TYPE_CHECKING:
    from fuel_async.backends import Device
    from fuel_async.registry import SystemTopology
    from fuel_async.runtime.explain import Explanation
    from fuel_async.schedule import Policy
    from fuel_async.streams import Clock


class Executor:
    """Runs graphs on the devices of this machine. Thread-safe; one serves a whole process.

    `devices`: locations or texts such as "cpu:0", in order of preference; None for all that are found.
    `memory`: bytes of budget, by device or for each; None for each backend's own choice.
    `max_inflight`: runs that may use lanes and memory at a time. `max_queued`: runs that `submit` lets wait beyond.
    `host_lanes`, `blas_threads`: worker threads of the host, and threads of its BLAS library (a setting of the whole
    process, restored at close); by default one lane, and a core is left to the loop.
    `clock`: what times are read from, when simulated devices keep another than the host's; by default theirs.
    """

    def __init__(
        self,
        devices: Sequence[DeviceLocation | str | Device] | None = None,
        *,
        memory: Mapping[DeviceLocation | str, int] | int | None = None,
        max_inflight: int | None = None,
        max_queued: int | None = None,
        placement: Literal["earliest_finish", "spread"] | Policy = "earliest_finish",
        host_lanes: int | None = None,
        blas_threads: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = make_config(
            devices, memory, max_inflight, max_queued, placement, host_lanes, blas_threads, clock
        )
        self._session = Session(self._config)
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._closed = False
        #: The process it was opened in; None before that, since nothing of it is lost by a fork.
        self._forks: int | None = None
        self._last = Statistics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, MappingProxyType({}))
        self._submitted: set[asyncio.Task[Results]] = set()

    # --- running ----------------------------------------------------------------------------------

    @overload
    async def run(
        self,
        graph: Graph,
        feeds: Feeds | None = None,
        /,
        *,
        on_device: Literal[False] = False,
        precision: PrecisionGuarantee | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        **named: Any,
    ) -> dict[str, Array]: ...

    @overload
    async def run(
        self,
        graph: Graph,
        feeds: Feeds | None = None,
        /,
        *,
        on_device: Literal[True],
        precision: PrecisionGuarantee | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        **named: Any,
    ) -> dict[str, DeviceArray]: ...

    async def run(
        self,
        graph: Graph,
        feeds: Feeds | None = None,
        /,
        *,
        on_device: bool = False,
        precision: PrecisionGuarantee | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        **named: Any,
    ) -> dict[str, Array] | dict[str, DeviceArray]:
        """Run `graph` once and return its outputs by name.

        Feeds are given by name, as keywords or as a mapping: numpy arrays of exactly the declared shapes and dtypes
        (bool for u8), DeviceArrays, or Python numbers and lists. A feed must not be written before the run has ended.
        Results are numpy arrays of the caller's own, or `DeviceArray`s with `on_device`.
        `FeedError` names everything wrong with the feeds, before anything runs. `KernelFailed` names the node and the
        line that built it. `TimeoutError` after `timeout_s`. Cancelling ends the wait at once; buffers are taken back
        when the lanes are through.
        """
        given = named if feeds is None else {**feeds, **named} if named else dict(feeds)
        engine = self._engine
        if engine is None or self._closed or self._forks != fork_generation():
            engine = await self._open()
        if timeout_s is None:
            results = await engine.run(graph, given, precision, priority, keep=on_device)
        else:
            LoopShare.running()  # `timeout` has no words for a loop that is not asyncio's
            async with asyncio.timeout(timeout_s):
                results = await engine.run(graph, given, precision, priority, keep=on_device)
        return _device_arrays(engine, results) if on_device else results

    def submit(
        self,
        graph: Graph,
        feeds: Feeds | None = None,
        /,
        *,
        precision: PrecisionGuarantee | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        **named: Any,
    ) -> Run:
        """Start a run and return at once. Needs a running loop. `Overloaded` when too many are waiting already."""
        LoopShare.running()
        self._refuse_unusable()
        queued = len(self._submitted) - self._config.max_inflight
        if queued >= self._config.max_queued:
            raise Overloaded(queued, self._config.max_queued)
        given = {**(feeds or {}), **named}
        progress = Progress()
        task = asyncio.get_running_loop().create_task(
            self._submitted_run(graph, given, precision, timeout_s, priority, progress)
        )
        self._submitted.add(task)
        task.add_done_callback(self._submitted.discard)
        return Run(graph.name, task, progress)

    def map(
        self,
        graph: Graph,
        feeds: Iterable[Feeds] | AsyncIterable[Feeds],
        /,
        *,
        max_inflight: int | None = None,
        priority: int = 0,
    ) -> Mapped:
        """Return an asynchronous iterator over the results for each of `feeds`, in order.

        At most `max_inflight` runs are under way (the executor's own bound when None). The first error is raised in
        the place of its result and the rest are cancelled, as they are when the iterator is closed or left.
        """
        if max_inflight is not None and max_inflight < 1:
            raise UserError(f"max_inflight={max_inflight} must be at least 1")
        most = min(max_inflight or self._config.max_inflight, self._config.max_inflight)
        source = feeds if isinstance(feeds, AsyncIterable) else iter(feeds)
        return Mapped(lambda one: self.submit(graph, one, priority=priority), source, most)

    def walk(self, graph: Graph, feeds: Feeds | None = None, /, **named: Any) -> Walk:
        """Return an asynchronous iterator over one `CompletionHandle` for each kernel, as it is submitted.

        The graph runs kernel by kernel in topological order, not as lane programs: this is for looking.
        """
        return Walk(self, graph, {**(feeds or {}), **named})

    async def _submitted_run(
        self,
        graph: Graph,
        feeds: dict[str, Any],
        precision: PrecisionGuarantee | None,
        timeout_s: float | None,
        priority: int,
        progress: Progress,
    ) -> Results:
        engine = await self._opened()  # accepted before a close that may have begun meanwhile
        async with asyncio.timeout(timeout_s):
            return await engine.run(graph, feeds, precision, priority, progress)

    # --- looking ----------------------------------------------------------------------------------

    @property
    def devices(self) -> tuple[Device, ...]:
        """The opened devices in order of preference; empty before the first run."""
        return self._session.devices

    def add_device(self, device: Device) -> None:
        """Let one more open device take work, also of runs under way. It is not closed with the executor. Any thread.

        `UserError` before the first run, and where the executor was opened with the host alone: its plans are made for
        the host.
        """
        self._refuse_unusable()
        if self._engine is None:
            raise UserError("the executor has not opened its devices yet; enter it, or name the device in devices=")
        self._engine.add(device)

    @property
    def topology(self) -> SystemTopology:
        """The executor's own topology: its devices that are there, and the ways between them as they are known now.

        `UserError` before the first run.
        """
        if self._engine is None:
            raise UserError("the executor has not opened its devices yet; enter it, or run something")
        return self._engine.topology()

    @property
    def absent(self) -> Mapping[str, str]:
        """Why the other installed backends offer no device here; empty before the first run."""
        return MappingProxyType(self._session.absent)

    def statistics(self) -> Statistics:
        """Return what the executor has done so far, also after its end. Changes nothing. Any thread."""
        engine = self._engine
        if engine is None:
            return self._last
        counters, admission = engine.counters, engine.admission
        idle_nbytes = sum(prepared.idle_nbytes for prepared in engine.cache.all())
        return Statistics(
            runs_inline=counters.inline,
            runs_on_lanes=counters.on_lanes,
            runs_failed=counters.failed,
            runs_cancelled=counters.cancelled,
            runs_active=admission.runs,
            runs_waiting=admission.waiting,
            plans_prepared=engine.cache.made,
            used_nbytes=admission.held_nbytes - idle_nbytes,
            idle_nbytes=idle_nbytes,
            budget_nbytes=admission.budget_nbytes,
            devices=MappingProxyType(engine.device_statistics()),
            links=MappingProxyType(engine.link_statistics()),
            plans_failed=counters.plans_failed,
        )

    def explain(
        self,
        graph: Graph,
        feeds: Feeds | None = None,
        /,
        *,
        sizes: Mapping[str, int] | None = None,
        warm: bool = False,
        **named: Any,
    ) -> Explanation:
        """Say what a run of `graph` would do now: regions, kernels, devices, times, and why; `str()` is for people.

        Feeds are looked at for the sizes of symbols alone; `sizes` gives these themselves. Without them a symbol has
        the size of the last run, else that of its `hint`, else 1. With `warm` the graph's constants are taken to be on
        every device already, as they are after a few runs; otherwise what has to be sent first counts. Opens the
        executor and plans the graph where that has not happened: it may block for as long as that takes, and so belongs
        into a thread when graphs are large.
        """
        self._refuse_unusable()
        if self._engine is None:
            self._forks = fork_generation()
            self._session.call(lambda breathe: self._open_here())[0].wait()
        engine = self._engine
        if engine is None:
            raise ExecutorClosed
        return engine.explain(graph, {**(feeds or {}), **named}, sizes, warm=warm)

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        await self.aclose(drain=kind is None)

    async def aclose(self, drain: bool = True) -> None:
        """Refuse new runs, wait for those under way (cancel them first, unless `drain`), and end the threads.

        Idempotent. May be called on another loop or in another task than the executor was entered in.
        """
        LoopShare.running()
        self._closed = True
        if self._forks not in (None, fork_generation()):
            return  # what it opened is the parent's
        if not drain:
            self._cancel_submitted()
        here = asyncio.get_running_loop()
        mine = [task for task in list(self._submitted) if task.get_loop() is here]
        if self._engine is None and self._session.worker.pending_count:  # it is being opened
            await self._session.call(lambda breathe: None)[0].settled()
        engine = self._engine
        if engine is not None and not drain:
            engine.cancel_all()
        if mine:
            await asyncio.wait(mine)
        engine = self._engine
        if engine is not None:
            await engine.idle()
            self._last = self.statistics()
            engine.close()
        self._session.close()
        if self._session.is_open:
            await asyncio.to_thread(self._session.release)
        self._engine = None

    def _cancel_submitted(self) -> None:
        for task in list(self._submitted):
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:  # its loop is closed, and it with it
                self._submitted.discard(task)

    async def engine(self) -> Engine:
        """Open the executor if it is not, and return what serves it; for the walker."""
        return await self._open()

    async def _open(self) -> Engine:
        LoopShare.running()
        self._refuse_unusable()
        return await self._opened()

    async def _opened(self) -> Engine:
        if self._engine is None:
            self._forks = fork_generation()
            handle, _ = self._session.call(lambda breathe: self._open_here())
            await handle
        engine = self._engine
        if engine is None:
            raise ExecutorClosed
        return engine

    def _open_here(self) -> None:
        """In the worker thread: find and open the devices, once."""
        with self._opening:
            if self._engine is None:
                self._session.open()
                make = SpreadEngine if self._session.is_spread else Engine
                self._engine = make(self._session, self._config)

    def _refuse_unusable(self) -> None:
        if self._forks not in (None, fork_generation()):
            raise ForkedProcess
        if self._closed:
            raise ExecutorClosed


def _device_arrays(engine: Engine, results: Mapping[str, Any]) -> dict[str, DeviceArray]:
    location = engine.session.device.location
    return {
        name: array
        if isinstance(array, DeviceArray)  # it stayed where it was made
        else DeviceArray(from_array(array, device=location), Layout.contiguous(array.shape), array.dtype.kind == "b")
        for name, array in results.items()
    }
