"""The engine of an executor over several devices.

Admission counts what runs hold of the host; what they hold of devices is the scheduler's business.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fuel_async.dispatch import SlotClass
from fuel_async.errors import FeedError
from fuel_async.ir import CPU_DEVICE, DeviceLocation, SubstrateClass
from fuel_async.registry import on_topology_change, topology_generation
from fuel_async.runtime.config import COPIED_NBYTES, OFF_LOOP_NBYTES
from fuel_async.runtime.engine import Engine
from fuel_async.runtime.entering import Entering
from fuel_async.runtime.explain import Explanation, Spread, explain_spread
from fuel_async.runtime.spread.driver import PlanOutdated, SpreadDriver
from fuel_async.runtime.spread.indices import check_indices
from fuel_async.runtime.spread.planning import Planning
from fuel_async.runtime.spread.prepared import PreparedSpread
from fuel_async.runtime.spread.run import SpreadRun
from fuel_async.runtime.spread.table import DeviceTable
from fuel_async.runtime.statistics import DeviceStatistics, LinkStatistics, device_statistics
from fuel_async.schedule import (
    HOST,
    POLICIES,
    Judged,
    SpreadScheduler,
    TopologyChanged,
    alone_on_each,
    dry_run,
    earliest_finish,
    judge_plan,
    with_constants_there,
)
from fuel_async.storage import DeviceArray
from fuel_async.streams import HostLane, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import Breathe, FrozenGraph, Graph, PrecisionGuarantee
    from fuel_async.plan import Plan
    from fuel_async.registry import SystemTopology
    from fuel_async.runtime.config import Config
    from fuel_async.runtime.instances import Array, Prepared
    from fuel_async.runtime.measured import Measured
    from fuel_async.runtime.perform import ActiveRun, Progress, Results
    from fuel_async.runtime.session import Session
    from fuel_async.streams import LoopShare

#: What runs may hold of the host's memory when the host is not among the devices and nobody said.
HOST_NBYTES = 1 << 34


class SpreadEngine(Engine):
    """The caches, budgets and scheduler of one open session with several devices."""

    driver: SpreadDriver

    def __init__(self, session: Session, config: Config) -> None:
        self.table, self._config = DeviceTable(session.devices), config
        self._plans_whole = config.placement is earliest_finish and len(session.devices) > 1
        super().__init__(session, config)
        mine = weakref.ref(self.driver)

        def changed(generation: int) -> None:
            driver = mine()
            if driver is not None:
                driver.post(TopologyChanged())

        self._unhook = on_topology_change(changed)

    def _held(self, config: Config) -> tuple[DeviceLocation, int]:
        for device in self.session.devices:
            if device.location == CPU_DEVICE:
                return CPU_DEVICE, device.memory.budget_nbytes
        return CPU_DEVICE, config.budget_nbytes(CPU_DEVICE) or HOST_NBYTES

    def _make_prepared(
        self,
        plan: Plan,
        graph: FrozenGraph,
        device: Device,
        generation: int,
        measured: Measured,
        free: Callable[[int], None],
    ) -> Prepared:
        return PreparedSpread(plan, graph, self.table, generation, measured, free)

    def _make_driver(self, config: Config) -> SpreadDriver:
        devices = [self.table.shape(number) for number in range(len(self.table.devices))]
        scheduler = SpreadScheduler(devices, self.table, config.placement)
        self.planning = Planning(self.session, self.counters)
        return SpreadDriver(scheduler, self.table, self.session, self.planning, self._released, self._reclaim_on)

    def _explain(self, prepared: Prepared, sizes: Mapping[str, int], warm: bool) -> Explanation:
        prepared = cast("PreparedSpread", prepared)
        table, policy = self.table, self._config.placement
        devices = [table.shape(number) for number in range(len(table.devices))]
        gone = {number: one.lost for number, one in enumerate(table.devices) if one.lost is not None}
        shape = with_constants_there(prepared.shape) if warm else prepared.shape
        if self._plans_whole:
            judged = judge_plan(shape, devices, table, gone)
        else:
            judged = Judged(dry_run(devices, table, policy, shape, gone))
        assert shape.spread is not None
        run = Spread(
            shape.spread,
            devices,
            table,
            table.locations,
            alone_on_each(shape, devices, table, gone),
            prepared.constants_nbytes,
            warm=warm,
        )
        name = next((name for name, known in POLICIES.items() if known is policy), "the given policy")
        return explain_spread(prepared.plan, sizes, self._known(prepared.is_measured), name, judged, run)

    def device_statistics(self) -> dict[DeviceLocation, DeviceStatistics]:
        """What each device did so far."""
        return {
            device.location: device_statistics(
                device, totals.kernels, totals.regions, totals.predicted_ns, totals.actual_ns
            )
            for device, totals in zip(self.table.devices, self.table.totals, strict=True)
        }

    def topology(self) -> SystemTopology:
        """The devices, and what is known of the ways between them."""
        return self.session.topology(self.table.estimates())

    def link_statistics(self) -> dict[tuple[DeviceLocation, DeviceLocation], LinkStatistics]:
        """What went over each link so far."""
        return {
            ends: LinkStatistics(link.count, link.nbytes, link.predicted_ns / 1e9, link.actual_ns / 1e9)
            for ends, link in self.table.links().items()
        }

    def close(self) -> None:
        """Forget everything, after the last run."""
        self._unhook()
        self.driver.unwatch()
        super().close()

    def add(self, device: Device) -> None:
        """Let a device take regions from now on. `UserError` when it is among them already."""
        self.driver.add(device)
        self.session.join(device)

    # --- runs -------------------------------------------------------------------------------------

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

        With `keep` they stay on the devices that made them, as `DeviceArray`s.
        """
        share = self._share()
        lying = [name for name, feed in feeds.items() if isinstance(feed, DeviceArray)]
        plain = {**feeds, **{name: _stand_in(feeds[name]) for name in lying}} if lying else feeds
        while True:
            found = self._look_up(graph, plain, precision)
            if found is None:
                with Entering(self):
                    found = await self.preparing.prepare(graph, plain, precision)
            frozen, prepared, values = found
            prepared = cast("PreparedSpread", prepared)
            given: Mapping[tuple[int, int], Any] = {}
            if lying or prepared.plan.checks or not self.admission.take_nowait(prepared.output_nbytes):
                with Entering(self):
                    given = self._given(prepared, feeds)
                    if prepared.plan.checks:
                        await self._check_indices(prepared, values, {value for value, _ in given})
                    await self.admission.take(prepared.output_nbytes, priority)
            if prepared.generation != topology_generation():  # the wait was long enough for the world to change
                self.admission.give(prepared.output_nbytes)
                continue
            try:
                return await self._run_spread(frozen, prepared, values, share, priority, progress, keep, given)
            except PlanOutdated:
                continue

    async def _check_indices(self, prepared: PreparedSpread, values: Sequence[Array], there: set[int]) -> None:
        """Raise what a kernel of the host would, for indices that others bring within bounds. Not for feeds `there`."""
        looked_at = [
            (check, values[check.place])
            for check in prepared.plan.checks
            if check.kind is SlotClass.FEED and prepared.feed_values.get(check.place) not in there
        ]
        if not prepared.are_indices_checked:
            constants = [check for check in prepared.plan.checks if check.kind is SlotClass.CONSTANT]
            looked_at += [(check, prepared.constants[check.place]) for check in constants]
        if sum([array.nbytes for _, array in looked_at]) <= OFF_LOOP_NBYTES:
            check_indices(prepared.plan, looked_at)
        else:
            handle, _ = self.session.call(lambda breathe: check_indices(prepared.plan, looked_at, breathe))
            await handle
        prepared.are_indices_checked = True

    def _given(self, prepared: PreparedSpread, feeds: Mapping[str, Any]) -> dict[tuple[int, int], Any]:
        """The feeds that lie in the memory of one of the devices: by (value, memory).

        `FeedError` for those that lie on a device that the executor lacks, `DeviceLost` for those that are lost.
        """
        given: dict[tuple[int, int], Any] = {}
        for place, port in enumerate(prepared.plan.feeds):
            feed = feeds.get(port.name)
            if not isinstance(feed, DeviceArray) or feed.device == CPU_DEVICE:
                continue
            number = self.table.number(feed.device)
            if number is None:
                raise FeedError(prepared.plan.graph.name, {port.name: self._elsewhere(feed)})
            lost, memory = self.table.devices[number].lost, self.table.memory(number)
            if lost is not None:
                raise fresh(lost)
            if memory != HOST and place in prepared.feed_values:
                given[prepared.feed_values[place], memory] = _lying(feed)
        return given

    def _elsewhere(self, feed: DeviceArray) -> str:
        there = ", ".join(str(device.location) for device in self.table.devices)
        return f"lies on {feed.device}, which is not among {there}; pass it as a numpy array"

    async def _run_spread(
        self,
        graph: FrozenGraph,
        prepared: PreparedSpread,
        values: Sequence[Array],
        share: LoopShare,
        priority: int,
        progress: Progress | None,
        keep: bool,
        given: Mapping[tuple[int, int], Any],
    ) -> Results:
        loop = asyncio.get_running_loop()
        try:
            kept = [value.copy() if value.nbytes <= COPIED_NBYTES else value for value in values]
            for value, _ in given:
                place = prepared.plan.values[value].place
                kept[place] = np.empty_like(values[place])  # room to come by on the way to another device
            result: asyncio.Future[Results] = loop.create_future()
            if self._plans_whole and prepared.wants_plan():
                self.planning.call(prepared.plan_run)  # what comes before it is done goes without
            run = SpreadRun(graph, prepared, kept, share, priority, progress, result, keep=keep, given=given)
            if loop.get_debug():
                run.guard(self._guards, [value for value in values if value.nbytes > COPIED_NBYTES])
        except BaseException:
            self.admission.give(prepared.output_nbytes)
            raise
        for lane in self.table.lanes:
            if isinstance(lane, HostLane):
                share.watch(lane)
        self.driver.start(run)
        try:
            return await run.result
        except (asyncio.CancelledError, GeneratorExit):  # the latter when its loop was closed under it
            self.driver.cancel(run)
            if run.outdated and run.counts():
                self.counters.cancelled += 1
            raise
        finally:
            del run  # error -> traceback -> this frame -> run -> future -> error

    def _released(self, run: ActiveRun, delivered: bool, *, intact: bool) -> None:
        assert isinstance(run, SpreadRun)
        prepared, counters = run.prepared, self.counters
        self.admission.give(prepared.output_nbytes)
        if delivered:
            counters.on_lanes += 1
            counters.kernels += prepared.plan.kernels
        elif run.result.cancelled():
            counters.cancelled += run.counts()
        elif not run.outdated:
            counters.failed += 1
        if self._waiting_for_idle:
            self._tell_idle(self.driver.tell)

    def _plan(self, frozen: FrozenGraph, key: Any, breathe: Breathe) -> Prepared:
        """In the worker thread. Runs bind what they need on the devices that they go to."""
        return self.cache.prepare(frozen, key, breathe)

    def _reclaim_on(self, device: int) -> bool:
        """Drop what idles on a device; whether there was anything."""
        prepared = [one for one in self.cache.all() if isinstance(one, PreparedSpread)]
        dropped = [one.drop_idle_on(device) for one in prepared]
        return self.table.stores[device].drop_unused() or any(dropped)


def _stand_in(feed: Any) -> Any:
    """What is checked, and has room, in the place of a feed that the host cannot read where it is."""
    if not isinstance(feed, DeviceArray) or feed.storage.substrate == SubstrateClass.HostBytes:
        return feed
    return np.empty(feed.shape, np.bool_ if feed.boolean else feed.dtype.require_np())


def _lying(feed: DeviceArray) -> Any:
    """A feed as the lanes of its device take it: a row-major array."""
    if feed.storage.substrate != SubstrateClass.HostBytes:
        return feed.storage.buffer
    array = feed.numpy()
    return array.view(np.uint8) if feed.boolean else array
