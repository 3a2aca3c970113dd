"""Copies of values between memories: which are on their way, which wait for their turn, what each port is busy with.

What a region needs that is given to a lane is copied at once. What is sent ahead, to where the plan has a reader, goes
in the order in which it is needed there, and outputs of runs that have a plan go when nothing is needed sooner. While a
port is busy, what wants to pass it waits here, not in the queue of a link, where whatever came first would go first.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from fuel_async.errors import TransferFailed
from fuel_async.schedule.instructions import Copy, Instruction
from fuel_async.schedule.machine import HOST, PortLoad
from fuel_async.schedule.state import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fuel_async.schedule.events import CopyFailed, CopyFinished
    from fuel_async.schedule.machine import Hop, Links, Machine, Port
    from fuel_async.schedule.spread_state import SpreadState

#: A port that would be through with what it has within this time is given more, so that it does not stand still until
#: a copy's end was heard of and the next one is submitted. With less time to go than that, order matters little.
AHEAD_NS = 1_000_000

#: (priority of the run, negated, when it is needed, turn, run, value, source, memory).
_Send = tuple[int, int, int, "SpreadState", int, int, int]


class Copies:
    """The part of a `SpreadScheduler` that has values copied."""

    def __init__(
        self, machine: Machine, links: Links, stop: Callable[[SpreadState, BaseException], Sequence[Instruction]]
    ) -> None:
        """`stop` ends a run early, of which an output that waits cannot come home any more."""
        self._machine, self._links, self._stop = machine, links, stop
        #: By port: what waits for it, as a heap.
        self._waiting: dict[Port, list[_Send]] = {}
        #: The same by run, value and memory. What is not here has been forgotten.
        self._held_back: set[tuple[int, int, int]] = set()
        self._turn = count()

    def make(self, state: SpreadState, copies: Iterable[tuple[int, Hop]], now_ns: int) -> list[Instruction]:
        """Have values copied that are not there yet, nor on their way for another reader."""
        told: list[Instruction] = []
        for value, hop in copies:
            places = state.places[value]
            if hop.memory in places:
                continue
            loads = [self._machine.ports.setdefault(port, PortLoad()) for port in hop.ports]
            since_ns = max(now_ns, places[hop.source], *[load.free_ns for load in loads])
            places[hop.memory] = since_ns + hop.copy_ns
            for load in loads:
                load.take(hop.copy_ns, places[hop.memory])
            state.arriving[value, hop.memory] = hop
            told.append(Copy(state.run, value, hop.source, hop.memory))
        return told

    def send(
        self, state: SpreadState, values: Iterable[tuple[int, int, int]], source: int, now_ns: int
    ) -> list[Instruction]:
        """Send values that lie in one memory ahead to others, where the run is at work already.

        `values` are (value, memory, when it is needed there in ns after the run began).
        """
        ready = {self._machine.devices[device].shape.memory for device in state.bound} & state.memories
        ports: list[Port] = []
        for value, to, needed_ns in values:
            if to in ready and to != source and (state.run, value, to) not in self._held_back:
                ports += self._enter(state, value, source, to, state.since_ns + needed_ns)
        return self.go_on(ports, now_ns)

    def _enter(self, state: SpreadState, value: int, source: int, to: int, needed_ns: int) -> Sequence[Port]:
        """Let a value wait for its turn, be it at once; return the port."""
        one = -state.priority, needed_ns, next(self._turn), state, value, source, to
        hops = self._hops(one)
        if not hops:
            return ()
        self._line_up(hops[0].ports[0], one)
        return hops[0].ports[:1]

    def go_on(self, ports: Sequence[Port], now_ns: int) -> list[Instruction]:
        """Have copied what waits for ports, some of which may be free now."""
        told: list[Instruction] = []
        while lines := [
            line for port in ports if (line := self._waiting.get(port)) and not self._is_busy(port, now_ns)
        ]:
            one = heappop(min(lines))
            *_, state, value, source, to = one
            if (state.run, value, to) not in self._held_back:
                continue
            self._held_back.discard((state.run, value, to))
            hops = self._hops(one)
            busy = [port for port in (hops[0].ports if hops else ()) if self._is_busy(port, now_ns)]
            if busy:
                self._line_up(busy[0], one)
            elif hops is None:
                told += self._stop(state, self._no_way_home(source))
            else:
                told += self.make(state, [(value, hop) for hop in hops], now_ns)
        return told

    def _line_up(self, port: Port, one: _Send) -> None:
        *_, state, value, _, to = one
        heappush(self._waiting.setdefault(port, []), one)
        self._held_back.add((state.run, value, to))

    def _hops(self, one: _Send) -> Sequence[Hop] | None:
        """The way of a value that is to be sent, if somebody still needs it; None where an output cannot go home."""
        *_, state, value, source, to = one
        places, is_owed = state.places[value], to == HOST and value in state.owed
        if state.phase is not Phase.RUNNING or to in places or source not in places:
            return ()
        if not (state.readers_left[value] or is_owed):
            return ()
        hops = self._links.route(source, to, state.spread.nbytes[value])
        return hops if is_owed else hops or ()

    def forget(self, state: SpreadState) -> None:
        """Let nothing of a run wait any more but outputs: it has another plan."""
        self._held_back -= {
            (run, value, to)
            for run, value, to in self._held_back
            if run == state.run and not (to == HOST and value in state.owed)
        }

    def hold_back(self, state: SpreadState, copies: Iterable[tuple[int, Hop]]) -> bool:
        """Whether any of these copies waits for its turn: soon it will be under way without anybody's doing."""
        return any((state.run, value, hop.memory) in self._held_back for value, hop in copies)

    @property
    def waiting(self) -> Mapping[Port, Sequence[_Send]]:
        """What waits, by port."""
        return self._waiting

    def _is_busy(self, port: Port, now_ns: int) -> bool:
        """Whether a port has enough to do for now."""
        load = self._machine.ports.get(port)
        return load is not None and load.count > 0 and load.free_ns - now_ns > AHEAD_NS

    def bring_home(
        self, state: SpreadState, values: Iterable[int], source: int, now_ns: int
    ) -> Sequence[Instruction] | TransferFailed:
        """Have outputs copied to the host; the error where there is no way."""
        told: list[Instruction] = []
        ports: list[Port] = []
        for value in values:
            hops = self._links.route(source, HOST, state.spread.nbytes[value])
            if hops is None:
                return self._no_way_home(source)
            if state.prior is None:
                told += self.make(state, [(value, hop) for hop in hops], now_ns)
            else:
                ports += self._enter(state, value, source, HOST, state.since_ns + state.prior.makespan_ns)
        return [*told, *self.go_on(ports, now_ns)]

    def _no_way_home(self, source: int) -> TransferFailed:
        return TransferFailed(self._machine.name_of(source), "the host", "there is no way")

    def ended(self, state: SpreadState, event: CopyFinished | CopyFailed, now_ns: int) -> Hop | None:
        """Take a copy off its ports; None when there was none."""
        hop = state.arriving.pop((event.value, event.memory), None)
        if hop is not None:
            self._give_back(hop, now_ns)
        return hop

    def give_up(self, state: SpreadState, now_ns: int) -> None:
        """Take all that is on its way off the ports. What waits for them waits no more, and is copied when needed."""
        for hop in state.arriving.values():
            self._give_back(hop, now_ns)
            for port in hop.ports:
                for *_, other, value, _, to in self._waiting.pop(port, ()):
                    self._held_back.discard((other.run, value, to))

    def _give_back(self, hop: Hop, now_ns: int) -> None:
        for port in hop.ports:
            self._machine.ports[port].give(hop.copy_ns, now_ns)
