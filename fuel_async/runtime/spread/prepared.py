"""A plan with the constants of one graph, ready to be spread over the devices of an executor."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_async.dispatch import SlotClass
from fuel_async.errors import UserError
from fuel_async.ir import Breathe, no_breath
from fuel_async.plan import regions_ns
from fuel_async.runtime.instances import PlanInstance, Prepared
from fuel_async.runtime.measured import PlannedWhole
from fuel_async.runtime.spread.shares import Share, bind_share
from fuel_async.schedule import HOST, RunShape, SpreadShape, judge_plan, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends import Arena
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import FrozenGraph
    from fuel_async.plan import Plan, Region
    from fuel_async.runtime.measured import Measured
    from fuel_async.runtime.spread.constants import DeviceConstants
    from fuel_async.runtime.spread.table import DeviceTable
    from fuel_async.streams import History

#: Numbers of runs after which predictions are compared with those that the plan of the whole run was made with; where
#: there is a plan also after every so many: devices change in a long life. And the share by which predictions must have
#: moved for a new plan.
LOOKED_AT_AFTER = frozenset(4**power for power in range(1, 16))
LOOKED_AT_EVERY = 64
MOVED = 0.2

#: What runs have in place of an instance of their own: they take shares of devices as they go.
NO_INSTANCE = PlanInstance((), 0)


class PreparedSpread(Prepared):
    """Everything that runs of one plan share: constants and pools by device, learned times. Any thread."""

    __slots__ = (
        "__weakref__",
        "_constants",
        "_histories",
        "_lock",
        "_planned_for",
        "_priors",
        "_runs",
        "_sizes",
        "_users",
        "_whole",
        "are_indices_checked",
        "feed_values",
        "idle_shares",
        "on_device",
        "output_values",
        "outputs_made",
        "table",
    )

    def __init__(
        self,
        plan: Plan,
        graph: FrozenGraph,
        table: DeviceTable,
        generation: int,
        measured: Measured,
        free: Callable[[int], None],
    ) -> None:
        """`UserError` when a node is pinned to a device that the executor does not have."""
        super().__init__(plan, graph, table.devices[0], generation, measured, free)
        self.table = table
        self._lock = threading.RLock()
        #: By device: shares that runs have, or are about to.
        self._users: dict[int, int] = {}
        self._constants: dict[int, DeviceConstants] = {}
        #: Bytes of the constants, by the identity of their arrays.
        self._sizes = {id(array): array.nbytes for array in self.constants}
        #: By device and region; None for regions that cannot run there.
        self._histories: dict[int, list[History | None]] = {}
        self._priors: dict[int, list[int | None]] = {}
        self.idle_shares: dict[int, deque[Share]] = {}
        #: Whether those among the constants were looked at.
        self.are_indices_checked = False
        #: The values of feeds and outputs, by place; a feed that nobody reads has none.
        self.feed_values = {one.place: number for number, one in enumerate(plan.values) if one.kind is SlotClass.FEED}
        self.output_values = {
            one.place: number for number, one in enumerate(plan.values) if one.kind is SlotClass.OUTPUT
        }
        self.outputs_made = tuple(self.output_values.values())
        self.shape: RunShape = shape_of(plan, self._spread(frozenset(self.outputs_made)))
        #: The same for runs whose outputs stay where they are made.
        self.on_device: RunShape = shape_of(plan, self._spread(frozenset()))
        #: The plan of whole runs that it follows, and for which devices it has asked for one.
        self._whole: PlannedWhole | None = None
        self._planned_for: tuple[bool, ...] = ()
        self._runs = 0
        if measured.whole is not None:
            self._follow(measured.whole)

    def _spread(self, outputs: frozenset[int]) -> SpreadShape:
        plan, regions = self.plan, self.plan.regions
        readers = [0] * len(plan.values)
        for region in regions:
            for value in region.reads:
                readers[value] += 1
        return SpreadShape(
            reads=[region.reads for region in regions],
            writes=[region.writes for region in regions],
            nbytes=[value.nbytes for value in plan.values],
            producers=[value.producer for value in plan.values],
            readers=readers,
            outputs=outputs,
            pins=[self._pin(region) for region in regions],
            share_nbytes=plan.arena_nbytes + sum(port.type.nbytes for port in (*plan.feeds, *plan.outputs)),
            # Weak: the scheduler's story outlives the plan, and must not keep its constants and shares.
            prices=weakref.proxy(self),
        )

    def _pin(self, region: Region) -> int | None:
        location = region.pin
        if location is None:
            return None
        number = self.table.number(location)
        if number is None:
            there = ", ".join(str(device.location) for device in self.table.devices)
            raise UserError(f"graph {self.plan.graph.name!r} is pinned to {location}, which is not among {there}")
        if self.program(region, number) is None:
            what = f"graph {self.plan.graph.name!r}: {_lacking(region)}"
            raise UserError(f"{what} pinned to {location}, which has no kernel for it; pin it elsewhere")
        return number

    def program(self, region: Region, device: int) -> LaneProgram | None:
        """What a device runs for a region; None when it lacks a kernel for one of its nodes."""
        kinds, kind = self.plan.kinds, self.table.kinds[device]
        return region.on(kinds.index(kind)) if kind in kinds else None

    # --- the plan of the whole run ----------------------------------------------------------------

    def wants_plan(self) -> bool:
        """Count a run; whether the whole run should be planned, or planned again since predictions have moved.

        Looked at before the first run, when other devices are there, after 4 runs, 16, 64 and so on, and while there is
        a plan, after every 64. The first run of a graph goes by what was planned for another graph of the same plan, if
        predictions are still the same.
        """
        self._runs += 1
        if len(self.shape) < 2:
            return False
        there = self._there()
        if self._planned_for != there:
            self._planned_for = there
            return True
        whole, prior = self._whole, self.shape.prior
        before = self._runs - 1
        if before not in LOOKED_AT_AFTER and (prior is None or before % LOOKED_AT_EVERY):  # the first may inherit one
            return False
        if whole is None or prior is None:
            return True
        now_ns = [self.region_ns(region, device) or 0 for region, device in enumerate(prior.devices)]
        moved = sum([abs(now - then) for now, then in zip(now_ns, whole.regions_ns, strict=True)])
        return moved > MOVED * sum(whole.regions_ns)

    def _there(self) -> tuple[bool, ...]:
        """Which devices are there."""
        return tuple([device.lost is None for device in self.table.devices])

    def plan_run(self, breathe: Breathe = no_breath) -> None:
        """Plan the whole run by what is predicted now. In the planner thread; runs under way keep what they have.

        What was planned meanwhile for another graph of the same plan is taken as it is.
        """
        table, there, whole = self.table, self._there(), self.measured.whole
        if whole is not None and whole is not self._whole and whole.there == there:
            self._follow(whole)
            return
        devices = [table.shape(number) for number in range(len(table.devices))]
        gone = {number: device.lost for number, device in enumerate(table.devices) if device.lost is not None}
        judged = judge_plan(replace(self.shape, prior=None), devices, table, gone, breathe)
        prior = judged.prior if judged.follows else None
        planned = [] if prior is None else prior.devices
        regions_ns = [self.region_ns(region, device) or 0 for region, device in enumerate(planned)]
        self.measured.whole = PlannedWhole(there, regions_ns, prior)
        self._follow(self.measured.whole)

    def _follow(self, whole: PlannedWhole) -> None:
        self._whole, self._planned_for = whole, whole.there
        self.shape, self.on_device = (replace(shape, prior=whole.prior) for shape in (self.shape, self.on_device))

    # --- prices -----------------------------------------------------------------------------------

    def region_ns(self, region: int, device: int) -> int | None:
        """See `schedule.Prices`: what was measured there, else what the cost model says of the device's rates."""
        histories = self._histories.get(device)
        if histories is not None:
            history = histories[region]
            return None if history is None else history.predicted_ns
        priors = self._priors.get(device)
        if priors is None:
            priors = self._priors[device] = self._priced(device)
        return priors[region]

    def _priced(self, device: int) -> list[int | None]:
        """What the cost model says of each region on a device: the same on all of its kind and rates."""
        kinds, rates = self.table.kinds, self.table.devices[device].rates
        for other, priors in list(self._priors.items()):  # in one step: others may ask meanwhile
            if kinds[other] == kinds[device] and self.table.devices[other].rates == rates:
                return priors
        return regions_ns([self.program(one, device) for one in self.plan.regions], rates)

    def is_measured(self, region: int, device: int) -> bool:
        """Whether the time of a region on a device is the mean of what was measured there."""
        history = (self._histories.get(device) or {region: None})[region]
        return history is not None and history.measured_median_ns is not None

    @property
    def constants_nbytes(self) -> int:
        """Bytes of the graph's constants."""
        return sum(self._sizes.values())

    def upload_ns(self, region: int, device: int) -> int:
        """See `schedule.Prices`."""
        places, memory = self.plan.regions[region].constants, self.table.memory(device)
        if not places or memory == HOST:
            return 0
        constants = self._constants.get(device)
        if constants is None:
            nbytes = self.table.stores[device].missing_nbytes([self.constants[place] for place in places])
        else:
            nbytes = constants.missing_nbytes(places)
        link = self.table.copies(HOST, memory) if nbytes else None
        return 0 if link is None else link.model.copy_ns(nbytes)

    # --- shares -----------------------------------------------------------------------------------

    def constants_on(self, device: int) -> DeviceConstants:
        """The constants on a device; their arrays are allocated when first asked for. `OutOfMemory`."""
        found = self._constants.get(device)
        if found is None:
            with self._lock:
                found = self._constants.get(device)
                if found is None:
                    found = self._constants[device] = self.table.stores[device].place(self.constants)
        return found

    def has_idle_share(self, device: int) -> bool:
        """Whether there is an idle share, at this moment."""
        return bool(self.idle_shares.get(device))

    def take_share(self, device: int) -> Share | None:
        """Return an idle share, or None when all are in use."""
        with self._lock:
            idle = self.idle_shares.get(device)
            if not idle:
                return None
            self._use(device, 1)
            return idle.pop()

    def bind_share(self, device: int, arena: Arena | None = None, breathe: Breathe = no_breath) -> Share:
        """Make one more share of a device, over an arena if there is one. `OutOfMemory` when it refuses."""
        self._use(device, 1)
        try:
            programs = [self.program(region, device) for region in self.plan.regions]
            where = self.table.devices[device]
            share = bind_share(self.plan, programs, where, self.constants_on(device), arena, breathe)
        except BaseException:
            self._use(device, -1)
            raise
        histories = [None if program is None else program.history for program in share.programs]
        self._histories.setdefault(device, histories)
        return share

    def give_share(self, device: int, share: Share) -> None:
        """Keep a share for the next run."""
        with self._lock:
            if self.alive and self.table.devices[device].lost is None:
                self.idle_shares.setdefault(device, deque()).append(share)
            self._use(device, -1)

    def _use(self, device: int, change: int) -> None:
        """Count the shares that runs have; while they have one, the constants count as held."""
        with self._lock:
            before = self._users.get(device, 0)
            self._users[device] = before + change
            if self._sizes and 0 in (before, before + change):
                self.table.count_constants(device, self.table.stores[device].use(self._sizes, change))
            if not before + change and self.table.devices[device].lost is not None:
                self._constants.pop(device, None)

    def drop_idle_on(self, device: int) -> bool:
        """Give up the idle shares of a device, and the constants when no run uses them; whether there was anything."""
        with self._lock:
            dropped = bool(self.idle_shares.pop(device, None))
            if not self._users.get(device):
                dropped = self._constants.pop(device, None) is not None or dropped
        return dropped

    def drop_idle(self) -> int:
        """Give up all idle shares. They are counted by their devices, not by admission: always 0."""
        for device in {*self.idle_shares, *self._constants}:
            self.drop_idle_on(device)
        return 0


def _lacking(region: Region) -> str:
    """The nodes of a region, in words."""
    kinds = list(dict.fromkeys([call.kind.value for call in region.program.calls]))
    return ", ".join(kinds[:4]) + ("" if len(kinds) <= 4 else " and more")
