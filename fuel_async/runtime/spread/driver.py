"""The effects of runs that are spread over devices: binding, copying, launching, and devices that come and go."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, assert_never

from fuel_async.errors import InternalError, TransferFailed
from fuel_async.runtime.config import OFF_LOOP_NODES
from fuel_async.runtime.perform import Driver
from fuel_async.runtime.spread.alone import ShortWay
from fuel_async.runtime.spread.run import SpreadRun
from fuel_async.runtime.spread.submitting import Submitter
from fuel_async.schedule import (
    HOST,
    AloneEnded,
    Bind,
    BindFailed,
    Bound,
    Copy,
    CopyFailed,
    CopyFinished,
    Deliver,
    DeviceAdded,
    DeviceGone,
    Event,
    Instruction,
    Launch,
    RegionFailed,
    RegionFinished,
    Release,
    Replan,
    Resweep,
    Reswept,
    RunAdmitted,
    SpreadScheduler,
    Stop,
    answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import Breathe
    from fuel_async.runtime.perform import ActiveRun, Released, Results
    from fuel_async.runtime.session import Session
    from fuel_async.runtime.spread.planning import Planning
    from fuel_async.runtime.spread.shares import Share
    from fuel_async.runtime.spread.table import DeviceTable
    from fuel_async.streams import CompletionHandle


class PlanOutdated(InternalError):
    """The run's plan is out of date and nothing of it was issued: the engine plans it anew."""


class SpreadDriver(Driver):
    """The scheduler of one executor over several devices, with its effects. Any thread; never blocks."""

    _scheduler: SpreadScheduler

    def __init__(
        self,
        scheduler: SpreadScheduler,
        table: DeviceTable,
        session: Session,
        planning: Planning,
        released: Released,
        reclaim: Callable[[int], bool],
    ) -> None:
        """`reclaim(device)` drops what idles on a device; whether there was anything."""
        super().__init__(scheduler, table.lanes, released)
        self.table, self._session, self._reclaim, self._clock = table, session, reclaim, table.clock
        self._planning = planning
        self._submitter = Submitter(table, reclaim)
        self._handle = self._handle_now
        self._watched: list[Callable[[], None]] = []
        #: Devices get their numbers in the order in which the scheduler hears of them.
        self._adding = threading.RLock()
        for number, device in enumerate(table.devices):
            self._watch(number, device)

    def _handle_now(self, event: Event) -> tuple[Instruction, ...]:
        self._look_around()
        return self._scheduler.handle(event, self._now_ns())

    def _look_around(self) -> None:
        """Tell the scheduler what else is on the devices."""
        machine = self._scheduler.machine
        for number, load in enumerate(machine.devices):
            if len(machine.devices) > 1:  # or else there is no other to compare it with
                own_ns = sum(self._scheduler.loads[lane].held_ns for lane in load.lanes)
                load.foreign_ns = max(self.table.devices[number].pending_work_ns() - own_ns, 0)
            if load.shape.memory != HOST:
                machine.memories[load.shape.memory].others_nbytes = self.table.constants_nbytes[number]

    # --- devices ----------------------------------------------------------------------------------

    def add(self, device: Device) -> None:
        """Let a device take regions from now on. `UserError` when it is among them already."""
        with self._adding:
            what = self.table.add(device)
            number = len(self.table.devices) - 1
            self.post(DeviceAdded(*what))
        self._watch(number, device)

    def unwatch(self) -> None:
        """Hear of lost devices no more."""
        while self._watched:
            self._watched.pop()()

    def _watch(self, number: int, device: Device) -> None:
        # Weak: a device may outlive the executors that use it.
        lost = weakref.WeakMethod(self._lost)

        def tell() -> None:
            call = lost()
            if call is not None:
                call(number)

        self._watched.append(device.on_lost(tell))

    def _lost(self, number: int) -> None:
        error = self.table.devices[number].lost
        if error is not None:
            self.post(DeviceGone(number, error))
            self._reclaim(number)

    def _cause(self, error: BaseException | None) -> BaseException | None:
        """What ends a run: a loss that the scheduler has not heard of is why there is no way."""
        if isinstance(error, TransferFailed):
            for load, device in zip(self._scheduler.machine.devices, self.table.devices, strict=False):
                if load.gone is None and device.lost is not None:
                    return device.lost
        return error

    # --- runs -------------------------------------------------------------------------------------

    def start(self, run: ActiveRun) -> None:
        """Launch an admitted run."""
        assert isinstance(run, SpreadRun)
        run.number = next(self._numbers)
        self.active[run.number] = run
        if not self._start_alone(run):
            self.post(RunAdmitted(run.number, run.shape, run.priority, run.resident))

    def _start_alone(self, run: SpreadRun) -> bool:
        """Take the short way: with an idle share of the one device, whose links are there. Whether it was open."""
        table = self.table
        if len(table.devices) != 1 or len(run.shape) != 1 or not run.spread.has_idle_share(0):
            return False
        memory = table.memory(0)
        up, down = table.lane_between(HOST, memory), table.lane_between(memory, HOST)
        if up is None or down is None:
            return False
        lane = self._begin_alone(run)
        if lane is None:
            return False
        ShortWay(self, self._submitter, run, memory, up, down).launch(lane)
        if self._events:
            self._pump()
        return True

    def _begin_alone(self, run: SpreadRun) -> int | None:
        """Have the scheduler note it, and take the share; the lane, None when that does not work out."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            self._look_around()
            lane = self._scheduler.begin_alone(run.number, run.shape, self._now_ns())
            share = None if lane is None else run.take_share(0)
            if share is not None:
                run.shares[0] = share
            elif lane is not None:  # what idled was dropped at this moment
                self._scheduler.forget(run.number)
                return None
            return lane
        finally:
            self._busy.release()

    def _now_ns(self) -> int:
        return self._clock.now_ns()

    def _alone_ended(self, number: int) -> Event:
        return AloneEnded(number)

    def _perform(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            run = self.active[instruction.run]
            assert isinstance(run, SpreadRun)
            match instruction:
                case Launch():
                    self._launch_on(run, instruction.region, instruction.lane, instruction.waits)
                case Bind():
                    self._bind(run, instruction.device)
                case Copy():
                    self._copy(run, instruction.value, instruction.source, instruction.memory)
                case Stop():
                    self._stop(run, self._cause(instruction.error))
                case Resweep():
                    self._resweep(instruction)
                case Replan():
                    run.outdated = True
                    self._stop(run, PlanOutdated("the plan is out of date"))
                case Deliver():
                    self._deliver(run)
                case Release():
                    self._release(run)
                case _:
                    assert_never(instruction)

    def _deliver(self, run: ActiveRun) -> None:
        assert isinstance(run, SpreadRun)
        results: Results = run.results() if run.keep else run.spread.deliver(run.outputs)  # type: ignore[assignment]
        self._give(run, results)

    def _release(self, run: ActiveRun) -> None:
        assert isinstance(run, SpreadRun)
        for device, share in run.shares.items():
            run.spread.give_share(device, share)
        run.forget()
        super()._release(run)

    def _resweep(self, instruction: Resweep) -> None:
        run, question = instruction.run, instruction.question
        self._planning.call(lambda breathe: answer(question, breathe), lambda prior: self.post(Reswept(run, prior)))

    # --- programs ---------------------------------------------------------------------------------

    def _bind(self, run: SpreadRun, device: int) -> None:
        try:
            share = run.take_share(device)
            slow = run.spread.plan.kernels > OFF_LOOP_NODES or self.table.devices[device].binds_off_loop
            if share is None and slow:
                self._bind_off_loop(run, device)
            else:
                self._bound(run, device, share or self._bound_share(run, device))
        except Exception as error:
            self.post(BindFailed(run.number, device, error))

    def _bind_off_loop(self, run: SpreadRun, device: int) -> None:
        handle, call = self._session.call(lambda breathe: self._bound_share(run, device, breathe))

        def settled(handle: CompletionHandle) -> None:
            error = handle.exception()
            if error is None:
                self._bound(run, device, call.value)
            else:
                self.post(BindFailed(run.number, device, error))

        handle.add_done_callback(settled)

    def _bound(self, run: SpreadRun, device: int, share: Share) -> None:
        run.shares[device] = share
        self.post(Bound(run.number, device))

    def _bound_share(self, run: SpreadRun, device: int, breathe: Breathe | None = None) -> Share:
        more = () if breathe is None else (breathe,)
        return self._submitter.with_room(device, lambda: run.bind_share(device, *more))

    # --- copies and launches ----------------------------------------------------------------------

    def _copy(self, run: SpreadRun, value: int, source: int, memory: int) -> None:
        number = run.number

        def ended(error: BaseException | None, took_ns: int = 0) -> None:
            if error is None:
                self.post(CopyFinished(number, value, memory))
            else:
                self.post(CopyFailed(number, value, memory, error))

        try:
            self._submitter.copy(run, value, source, memory, ended)
        except Exception as error:
            ended(error)

    def _launch_on(self, run: SpreadRun, region: int, lane: int, waits: tuple[int, ...]) -> None:
        number = run.number

        def ended(error: BaseException | None, took_ns: int = 0) -> None:
            self.post(RegionFinished(number, region, took_ns) if error is None else RegionFailed(number, region, error))

        try:
            self._submitter.region(run, region, lane, waits, ended)
        except Exception as error:
            ended(error)
