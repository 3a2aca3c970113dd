"""The engine of an open executor: from a graph and its feeds to results.

Here the path of a run is decided: found in the cache or prepared, in place on the loop or on lanes. The hot path (a
small program seen before) makes no task, no future and no hop beyond its one checkpoint.
"""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fuel_async.errors import FeedError, FuelError, UserError
from fuel_async.registry import global_bindings
from fuel_async.runtime import feeds as feed_rules
from fuel_async.runtime.admission import Admission
from fuel_async.runtime.checkpoint import checkpoint
from fuel_async.runtime.config import COPIED_NBYTES, INLINE_NS, OFF_LOOP_NODES, Config
from fuel_async.runtime.entering import Entering
from fuel_async.runtime.explain import Explanation, Known, KnownDevice, explain_local
from fuel_async.runtime.feed_guards import FeedGuards
from fuel_async.runtime.instances import Prepared, refuse_other_pins
from fuel_async.runtime.perform import ActiveRun, Driver, Progress, Results, described
from fuel_async.runtime.plans import Key, PlanCache
from fuel_async.runtime.preparing import Preparing, plan_key
from fuel_async.runtime.statistics import Counters, DeviceStatistics, LinkStatistics, device_statistics
from fuel_async.schedule import LaneShape, Scheduler
from fuel_async.streams import LoopShare, Waker, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import DeviceLocation, FrozenGraph, Graph, PrecisionGuarantee
    from fuel_async.plan import Plan
    from fuel_async.registry import SystemTopology
    from fuel_async.runtime.instances import Array, PlanInstance
    from fuel_async.runtime.measured import Measured
    from fuel_async.runtime.session import Session

#: What an inline run costs beside its kernels.
_RUN_NS = 8_000


class Engine:
    """The caches, budgets and scheduler of one open session."""

    def __init__(self, session: Session, config: Config) -> None:
        self.session = session
        location, budget_nbytes = self._held(config)
        self.admission = Admission(str(location), config.max_inflight, budget_nbytes, self._reclaim)
        self.cache = PlanCache(session, self.admission.free, self._make_prepared)
        self.preparing = Preparing(session, self.cache, self._plan)
        self._lanes = tuple(session.lanes)
        self._guards = FeedGuards()
        self.counters = Counters()
        self.driver = self._make_driver(config)
        self._here: LoopShare | None = None
        #: Runs that are being prepared, or wait to be admitted.
        self.entering: set[Entering] = set()
        self._waiting_for_idle: list[tuple[LoopShare, asyncio.Future[None]]] = []

    # --- what an engine over several devices does otherwise ---

    def _held(self, config: Config) -> tuple[DeviceLocation, int]:
        """Whose memory admission counts, and how much of it there is."""
        device = self.session.device
        return device.location, device.memory.budget_nbytes

    def _make_prepared(
        self,
        plan: Plan,
        graph: FrozenGraph,
        device: Device,
        generation: int,
        measured: Measured,
        free: Callable[[int], None],
    ) -> Prepared:
        refuse_other_pins(plan, device.location)
        return Prepared(plan, graph, device, generation, measured, free)

    def _make_driver(self, config: Config) -> Driver:
        # Host lanes share the interpreter: fine kernels stay on the first.
        capacity = self.session.device.slot_capacity
        shapes = [LaneShape(capacity, takes_fine=not place) for place in range(len(self._lanes))]
        return Driver(Scheduler(shapes), self._lanes, self._released)

    def _explain(self, prepared: Prepared, sizes: Mapping[str, int], warm: bool) -> Explanation:
        history, device = prepared.measured.history, self.session.device
        median_ns = history.measured_median_ns
        known = "predicted" if median_ns is None else "measured"
        took_ns = prepared.plan.predicted_ns if median_ns is None else median_ns
        if median_ns is not None and median_ns <= INLINE_NS:
            way = f"in place on the event loop: {known} at {median_ns / 1e3:,.1f} µs, at most {INLINE_NS / 1e3:.0f} µs"
        else:
            way = f"on {len(self._lanes)} lane(s) of {device.location}: {known} at {took_ns / 1e3:,.1f} µs"
        constants_nbytes = sum({id(array): array.nbytes for array in prepared.constants}.values())
        return explain_local(prepared.plan, sizes, self._known(), way, took_ns, constants_nbytes)

    def _known(self, measured: Callable[[int, int], bool] = lambda region, device: False) -> Known:
        """What explanations are made of. `measured` says of (region, device) whether its time there is."""
        return Known(
            devices=[KnownDevice.of(device) for device in self.session.devices],
            bindings=global_bindings(),
            estimator=self.topology(),
            measured=measured,
        )

    def device_statistics(self) -> dict[DeviceLocation, DeviceStatistics]:
        """What each device did so far."""
        device = self.session.device
        return {device.location: device_statistics(device, kernels=self.counters.kernels)}

    def add(self, device: Device) -> None:
        """Plans are made for the one device there is."""
        raise UserError(f"{device.location} cannot join an executor with the host alone; name both in devices=")

    def topology(self) -> SystemTopology:
        """The devices, and what is known of the ways between them."""
        return self.session.topology()

    def link_statistics(self) -> dict[tuple[DeviceLocation, DeviceLocation], LinkStatistics]:
        """What went over each link so far."""
        return {}

    def close(self) -> None:
        """Forget everything, after the last run."""
        self.cache.clear()

    async def run(
        self,
        graph: Graph,
        feeds: dict[str, Any],
        precision: PrecisionGuarantee | None = None,
        priority: int = 0,
        progress: Progress | None = None,
        *,
        keep: bool = False,
    ) -> Results:
        """Run a graph once; the results by name, each an array of the caller's own.

        With `keep` results may stay on the devices that made them, as `DeviceArray`s.
        """
        share = self._share()
        found = self._look_up(graph, feeds, precision)
        if found is None:
            with Entering(self):
                found = await self.preparing.prepare(graph, feeds, precision)
        frozen, prepared, values = found
        median_ns = prepared.measured.history.measured_median_ns
        if median_ns is not None and median_ns <= INLINE_NS:
            cost_ns = median_ns + _RUN_NS
            try:
                if share.take(cost_ns):
                    await checkpoint()
                else:
                    await share.wait(cost_ns)
            except asyncio.CancelledError:
                self.counters.cancelled += 1
                raise
            return self._run_inline(frozen, prepared, values, share)
        return await self._run_on_lanes(frozen, prepared, values, share, priority, progress)

    def explain(
        self, graph: Graph, feeds: Mapping[str, Any], sizes: Mapping[str, int] | None = None, *, warm: bool = False
    ) -> Explanation:
        """Say what a run would do now; plans the graph if it is not planned. May block for milliseconds.

        Given `sizes` go before those of feeds; `warm` takes the graph's constants to be wherever they are read.
        """
        frozen = graph.frozen or graph.freeze()
        usual = {**dict.fromkeys(frozen.symbols, 1), **graph.hints, **self.cache.last_sizes(frozen)}
        taken = {name: usual[name] for name in frozen.symbols}
        if feeds:
            taken.update(feed_rules.symbol_sizes(frozen, feeds))
        for name in sizes or ():
            if name not in taken:
                there = ", ".join(frozen.symbols) or "none"
                raise UserError(f"graph {frozen.name!r} has no symbol {name!r}; it has {there}")
        taken.update(sizes or {})
        prepared = self.cache.prepare(frozen, (tuple(sorted(taken.items())), None))
        return self._explain(prepared, taken, warm)

    def _look_up(
        self, graph: Graph, feeds: dict[str, Any], precision: PrecisionGuarantee | None
    ) -> tuple[FrozenGraph, Prepared, Sequence[Array]] | None:
        """The way of nearly every run: the graph is prepared, and the feeds are arrays that fit as they are."""
        frozen = graph.frozen
        if frozen is None:
            return None
        try:
            key = plan_key(frozen, feeds, precision)
        except FeedError:
            self.counters.failed += 1
            raise
        prepared = self.cache.find(frozen, key)
        values = None if prepared is None else prepared.match(feeds)
        return None if prepared is None or values is None else (frozen, prepared, values)

    def _share(self) -> LoopShare:
        """The running loop's share. Looking it up costs half a microsecond, so the last one is remembered."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return LoopShare.running()  # raises, and says what runs here instead
        share = self._here
        if share is None or share.loop() is not loop:
            share = self._here = LoopShare.of(loop)
        return share

    # --- in place ---------------------------------------------------------------------------------

    def _run_inline(self, graph: FrozenGraph, prepared: Prepared, values: Sequence[Array], share: LoopShare) -> Results:
        """Run here and now. It holds nothing between two turns of the loop, so it needs no admission: its instance is
        counted as idle, which it is again when anybody can look.
        """
        idle, counters = prepared.idle, self.counters
        outputs = prepared.allocate_outputs()  # first: it may raise
        try:
            instance = idle.pop()
        except IndexError:
            instance = prepared.bind()
            self.admission.hold(instance.nbytes)
        started_ns = perf_counter_ns()
        try:
            for program, (feeds, given) in zip(instance.programs, prepared.ports, strict=True):
                share.calm.run(
                    program.execute,  # type: ignore[attr-defined]
                    values if feeds is None else [values[place] for place in feeds],
                    outputs if given is None else [outputs[place] for place in given],
                    (),
                    (),
                    None,
                    None,
                )
        except FuelError as error:
            counters.failed += 1
            raise described(without_frames(error), graph)  # noqa: B904 - its cause is the kernel's own error
        finally:
            idle.append(instance)
            if self.admission.waiting:
                self.admission.serve()  # who looked for idle memory meanwhile did not find this
        prepared.measured.in_place(perf_counter_ns() - started_ns)
        counters.inline += 1
        counters.kernels += prepared.plan.kernels
        return prepared.deliver(outputs)

    # --- on lanes ---------------------------------------------------------------------------------

    async def _run_on_lanes(
        self,
        graph: FrozenGraph,
        prepared: Prepared,
        values: Sequence[Array],
        share: LoopShare,
        priority: int,
        progress: Progress | None,
    ) -> Results:
        instance: PlanInstance | None = None
        if prepared.idle and self.admission.take_nowait(prepared.output_nbytes):
            instance = prepared.take()
            if instance is None:  # another run was faster
                self.admission.give(prepared.output_nbytes)
        if instance is None:
            with Entering(self):
                instance = await self._admit(prepared, priority)
        try:
            kept = [value.copy() if value.nbytes <= COPIED_NBYTES else value for value in values]
            loop = asyncio.get_running_loop()
            run = ActiveRun(graph, prepared, instance, kept, share, priority, progress, loop.create_future())
            if loop.get_debug():
                run.guard(self._guards, [value for value in values if value.nbytes > COPIED_NBYTES])
        except BaseException:
            prepared.give(instance)
            self.admission.give(prepared.output_nbytes)
            raise
        for lane in self._lanes:
            share.watch(lane)  # type: ignore[arg-type]
        self.driver.start(run)
        try:
            return await run.result
        except (asyncio.CancelledError, GeneratorExit):  # the latter when its loop was closed under it
            self.driver.cancel(run)
            raise
        finally:
            del run  # error -> traceback -> this frame -> run -> future -> error

    async def _admit(self, prepared: Prepared, priority: int) -> PlanInstance:
        """Wait for a place among the runs under way, and for an instance; the outputs' bytes are then held, too."""
        admission = self.admission
        await admission.take(prepared.nbytes, priority)
        instance = prepared.take()
        if instance is not None:
            admission.free(prepared.plan.arena_nbytes)  # one came back meanwhile; its arena is counted already
            return instance
        try:
            return await self._bind(prepared)
        except BaseException:
            admission.give(prepared.nbytes)
            raise

    def _released(self, run: ActiveRun, delivered: bool, *, intact: bool) -> None:
        prepared = run.prepared
        if intact:
            prepared.give(run.instance)
        self.admission.give(prepared.output_nbytes if intact else prepared.nbytes)
        counters = self.counters
        if delivered:
            counters.on_lanes += 1
            counters.kernels += prepared.plan.kernels
        elif run.result.cancelled():
            counters.cancelled += 1
        else:
            counters.failed += 1
        if self._waiting_for_idle:
            self._tell_idle(self.driver.tell)  # after what the callers of ended runs are told

    # --- preparing --------------------------------------------------------------------------------

    def _plan(self, frozen: FrozenGraph, key: Key, breathe: Any) -> Prepared:
        """In the worker thread: plan, and bind the instance of the run that asks."""
        prepared = self.cache.prepare(frozen, key, breathe)
        if not prepared.idle and self.admission.hold_nowait(prepared.plan.arena_nbytes):
            try:
                prepared.give(prepared.bind(breathe))
            except BaseException:
                self.admission.free(prepared.plan.arena_nbytes)
                raise
        return prepared

    async def _bind(self, prepared: Prepared) -> PlanInstance:
        if prepared.plan.kernels <= OFF_LOOP_NODES:
            return prepared.bind()
        handle, call = self.session.call(prepared.bind)
        self.session.watch_worker()
        await handle
        return call.value

    def _reclaim(self, nbytes: int) -> int:
        return self.cache.reclaim(nbytes)

    # --- the end ----------------------------------------------------------------------------------

    async def idle(self) -> None:
        """Wait until every run that was begun has ended and no lane works for one; runs in place hold nothing."""
        while self._busy():
            share = LoopShare.running()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting_for_idle.append((share, future))
            if not self._busy():
                self._tell_idle()
            await future

    def _busy(self) -> bool:
        return bool(self.admission.runs) or any(not token.loop.is_closed() for token in list(self.entering))

    def cancel_all(self) -> None:
        """Stop every run on lanes and in line; their callers get CancelledError. Later ones are refused."""
        self.admission.close()
        for run in list(self.driver.active.values()):
            future = run.result
            run.share.waker.post(lambda future=future: future.cancel() or None)  # type: ignore[misc]
            self.driver.cancel(run)

    def entered(self, token: Entering, error: BaseException | None) -> None:
        """A run is admitted, or will run in place, or ended with `error` before that."""
        self.entering.discard(token)
        if isinstance(error, Exception):
            self.counters.failed += 1
        elif error is not None:
            self.counters.cancelled += 1
        if self._waiting_for_idle:
            self._tell_idle()

    def _tell_idle(self, tell: Callable[[Waker, Callable[[], None]], None] = Waker.post) -> None:
        while self._waiting_for_idle:
            try:
                share, future = self._waiting_for_idle.pop()
            except IndexError:
                return
            tell(share.waker, lambda future=future: None if future.done() else future.set_result(None))  # type: ignore[misc]
