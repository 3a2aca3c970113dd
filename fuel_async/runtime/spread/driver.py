"""The effects of runs that are spread over devices: binding, copying, launching, and devices that come and go."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from fuel_async.errors import InternalError, OutOfMemory, TransferFailed
from fuel_async.runtime.config import OFF_LOOP_NODES
from fuel_async.runtime.perform import Driver
from fuel_async.runtime.spread.run import SpreadRun
from fuel_async.schedule import (
    HOST,
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
    RunAdmitted,
    SpreadScheduler,
    Stop,
)
from fuel_async.streams import CompletionHandle, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import Breathe
    from fuel_async.runtime.perform import ActiveRun, Released, Results
    from fuel_async.runtime.session import Session
    from fuel_async.runtime.spread.shares import Share
    from fuel_async.runtime.spread.table import DeviceTable


T = TypeVar("T")


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
        released: Released,
        reclaim: Callable[[int], bool],
    ) -> None:
        """`reclaim(device)` drops what idles on a device; whether there was anything."""
        super().__init__(scheduler, table.lanes, released)
        self.table, self._session, self._reclaim, self._clock = table, session, reclaim, table.clock
        self._handle = self._handle_now
        self._watched: list[Callable[[], None]] = []
        #: Devices get their numbers in the order in which the scheduler hears of them.
        self._adding = threading.RLock()
        for number, device in enumerate(table.devices):
            self._watch(number, device)

    def _handle_now(self, event: Event) -> tuple[Instruction, ...]:
        machine = self._scheduler.machine
        for number, load in enumerate(machine.devices):
            own_ns = sum(self._scheduler.loads[lane].held_ns for lane in load.lanes)
            load.foreign_ns = max(self.table.devices[number].pending_work_ns() - own_ns, 0)
            if load.shape.memory != HOST:
                machine.memories[load.shape.memory].others_nbytes = self.table.constants_nbytes[number]
        return self._scheduler.handle(event, self._clock.now_ns())

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
        self.post(RunAdmitted(run.number, run.shape, run.priority, run.resident))

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
                case Replan():
                    run.outdated = True
                    self._stop(run, PlanOutdated("the plan is out of date"))
                case Deliver():
                    self._deliver_values(run)
                case Release():
                    self._give_back(run)
                    self._release(run)
                case _:
                    assert_never(instruction)

    def _deliver_values(self, run: SpreadRun) -> None:
        results: Results = run.results() if run.keep else run.spread.deliver(run.outputs)  # type: ignore[assignment]
        self._give(run, results)

    def _give_back(self, run: SpreadRun) -> None:
        for device, share in run.shares.items():
            run.spread.give_share(device, share)
        run.forget()

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
        return self._with_room(device, lambda: run.bind_share(device, *more))

    def _with_room(self, device: int, make: Callable[[], T]) -> T:
        """What `make` returns; it is called once more after what idles on the device was dropped."""
        try:
            return make()
        except OutOfMemory:
            if not self._reclaim(device):
                raise
        return make()

    # --- copies -----------------------------------------------------------------------------------

    def _copy(self, run: SpreadRun, value: int, source: int, memory: int) -> None:
        number = run.number
        try:
            lane = self.table.lane_between(source, memory)
            if lane is None:
                raise TransferFailed(*self._ends(source, memory), "there is no link")
            since = run.arrivals.get((value, source))
            waits = () if since is None or since.done() else (since,)
            there = self._with_room(memory - 1, lambda: run.buffer(value, memory))
            handle = lane.submit_copy(run.buffer(value, source), there, waits)
        except Exception as error:
            self.post(CopyFailed(number, value, memory, error))
            return
        run.arrivals[value, memory] = handle
        link, nbytes = self.table.copies(source, memory), run.spread.plan.values[value].nbytes
        predicted_ns = 0 if link is None else link.model.copy_ns(nbytes)

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if isinstance(outcome, Timing):
                if link is not None:
                    link.took(nbytes, predicted_ns, outcome.elapsed_ns)
                self.post(CopyFinished(number, value, memory))
            else:
                self.post(CopyFailed(number, value, memory, outcome))

        handle.add_done_callback(settled)

    def _ends(self, source: int, memory: int) -> tuple[str, str]:
        return str(self.table.locations[source]), str(self.table.locations[memory])

    def _send_constant(self, memory: int) -> Callable[[Any, Any], CompletionHandle]:
        def send(value: Any, array: Any) -> CompletionHandle:
            lane, link = self.table.lane_between(HOST, memory), self.table.copies(HOST, memory)
            if lane is None or link is None:
                raise TransferFailed(*self._ends(HOST, memory), "there is no link")
            handle = lane.submit_copy(value, array)
            predicted_ns = link.model.copy_ns(value.nbytes)

            def settled(handle: CompletionHandle) -> None:
                outcome = handle.outcome()
                if isinstance(outcome, Timing):
                    link.took(value.nbytes, predicted_ns, outcome.elapsed_ns)

            handle.add_done_callback(settled)
            return handle

        return send

    # --- launches ---------------------------------------------------------------------------------

    def _launch_on(self, run: SpreadRun, region: int, lane: int, waits: tuple[int, ...]) -> None:
        table, spread, number = self.table, run.spread, run.number
        device = table.device_of[lane]
        memory, what = table.memory(device), spread.plan.regions[region]
        try:
            before = [run.handles[need] for need in waits]
            before += [
                arrival
                for value in what.reads
                if (arrival := run.arrivals.get((value, memory))) is not None and not arrival.done()
            ]
            if what.constants:
                before += spread.constants_on(device).arrive(what.constants, self._send_constant(memory))
            instance = run.shares[device].programs[region]
            if instance is None:
                raise InternalError(f"region {region} was given to {table.devices[device].location} without kernels")
            feeds = [run.feed(place, memory) for place in what.program.feeds]
            outputs = self._with_room(device, lambda: [run.output(place, memory) for place in what.program.outputs])
            handle = table.lanes[lane].submit(instance, feeds, outputs, waits=before, stop=run)
        except Exception as error:
            self.post(RegionFailed(number, region, error))
            return
        run.handles[region], run.memories[region] = handle, memory
        totals, predicted_ns = table.totals[device], instance.predicted_ns

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if isinstance(outcome, Timing):
                instance.history.record(outcome.work_ns)
                totals.took(len(what.program), predicted_ns, outcome.work_ns)
                if run.progress is not None:
                    run.progress.done += 1
                self.post(RegionFinished(number, region))
            else:
                self.post(RegionFailed(number, region, outcome))

        handle.add_done_callback(settled)
