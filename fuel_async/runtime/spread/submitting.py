"""What of a run goes to lanes: regions, copies, constants. Here they are submitted, and counted when they settle.

What follows from that is up to whoever submits: it says whom to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from fuel_async.errors import InternalError, OutOfMemory, TransferFailed
from fuel_async.schedule import HOST
from fuel_async.streams import CompletionHandle, Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.runtime.spread.run import SpreadRun
    from fuel_async.runtime.spread.table import DeviceTable
    from fuel_async.streams import Lane

T = TypeVar("T")

#: Is told once that something has settled: None when it went well, and how long it worked, 0 for copies.
Ended: TypeAlias = Callable[[BaseException | None, int], None]


class Submitter:
    """Submits for the runs of one executor. Any thread; never blocks."""

    def __init__(self, table: DeviceTable, reclaim: Callable[[int], bool]) -> None:
        """`reclaim(device)` drops what idles on a device; whether there was anything."""
        self._table, self._reclaim = table, reclaim

    def region(self, run: SpreadRun, region: int, lane: int, waits: Sequence[int], ended: Ended) -> None:
        """Submit a region behind those in `waits` and what it reads. Raises what keeps it off its lane."""
        table, spread = self._table, run.spread
        device = table.device_of[lane]
        memory, what = table.memory(device), spread.plan.regions[region]
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
        outputs = self.with_room(device, lambda: [run.output(place, memory) for place in what.program.outputs])
        handle = table.lanes[lane].submit(instance, feeds, outputs, waits=before, stop=run)
        run.handles[region], run.memories[region] = handle, memory
        totals, predicted_ns = table.totals[device], instance.predicted_ns

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if isinstance(outcome, Timing):
                instance.history.record(outcome.work_ns)
                totals.took(len(what.program), predicted_ns, outcome.work_ns)
                if run.progress is not None:
                    run.progress.done += 1
                ended(None, outcome.work_ns)
            else:
                ended(outcome, 0)

        handle.add_done_callback(settled)

    def copy(self, run: SpreadRun, value: int, source: int, memory: int, ended: Ended) -> None:
        """Copy a value from one memory to another, once it is there. Raises what keeps it off a lane."""
        lane = self._table.lane_between(source, memory)
        if lane is None:
            raise TransferFailed(*self._ends(source, memory), "there is no link")
        self.copy_over(lane, run, value, source, memory, ended)

    def copy_over(self, lane: Lane, run: SpreadRun, value: int, source: int, memory: int, ended: Ended) -> None:
        """The same over a lane that is known."""
        since = run.arrivals.get((value, source))
        waits = () if since is None or since.done() else (since,)
        there = self.with_room(memory - 1, lambda: run.buffer(value, memory))
        handle = lane.submit_copy(run.buffer(value, source), there, waits)
        run.arrivals[value, memory] = handle
        self._watch(handle, source, memory, run.spread.plan.values[value].nbytes, ended)

    def with_room(self, device: int, make: Callable[[], T]) -> T:
        """What `make` returns; it is called once more after what idles on the device was dropped."""
        try:
            return make()
        except OutOfMemory:
            if not self._reclaim(device):
                raise
        return make()

    def _watch(self, handle: CompletionHandle, source: int, memory: int, nbytes: int, ended: Ended) -> None:
        """Note what a copy took, and tell."""
        link = self._table.copies(source, memory)
        predicted_ns = 0 if link is None else link.model.copy_ns(nbytes)

        def settled(handle: CompletionHandle) -> None:
            outcome = handle.outcome()
            if isinstance(outcome, Timing):
                if link is not None:
                    link.took(nbytes, predicted_ns, outcome.elapsed_ns)
                ended(None, 0)
            else:
                ended(outcome, 0)

        handle.add_done_callback(settled)

    def _ends(self, source: int, memory: int) -> tuple[str, str]:
        return str(self._table.locations[source]), str(self._table.locations[memory])

    def _send_constant(self, memory: int) -> Callable[[Any, Any], CompletionHandle]:
        def send(value: Any, array: Any) -> CompletionHandle:
            lane = self._table.lane_between(HOST, memory)
            if lane is None:
                raise TransferFailed(*self._ends(HOST, memory), "there is no link")
            handle = lane.submit_copy(value, array)
            self._watch(handle, HOST, memory, value.nbytes, lambda *_: None)
            return handle

        return send
