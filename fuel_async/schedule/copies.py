"""Copies of values between memories: which are on their way, and what each link is busy with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import TransferFailed
from fuel_async.schedule.instructions import Copy, Instruction
from fuel_async.schedule.machine import HOST, LinkLoad

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuel_async.schedule.events import CopyFailed, CopyFinished
    from fuel_async.schedule.machine import Hop, Links, Machine
    from fuel_async.schedule.spread_state import SpreadState


class Copies:
    """The part of a `SpreadScheduler` that has values copied."""

    def __init__(self, machine: Machine, links: Links) -> None:
        self._machine, self._links = machine, links

    def make(self, state: SpreadState, copies: Iterable[tuple[int, Hop]], now_ns: int) -> list[Instruction]:
        """Have values copied that are not there yet, nor on their way for another reader."""
        told: list[Instruction] = []
        for value, hop in copies:
            places = state.places[value]
            if hop.memory in places:
                continue
            load = self._machine.links.setdefault((hop.source, hop.memory), LinkLoad())
            places[hop.memory] = max(now_ns, places[hop.source], load.free_ns) + hop.copy_ns
            load.take(hop.copy_ns, places[hop.memory])
            state.arriving[value, hop.memory] = hop
            told.append(Copy(state.run, value, hop.source, hop.memory))
        return told

    def send(
        self, state: SpreadState, values: Iterable[tuple[int, int]], source: int, now_ns: int
    ) -> list[Instruction]:
        """Send values that lie in one memory ahead to others, (value, memory), where the run is at work already."""
        ready = {self._machine.devices[device].shape.memory for device in state.bound} & state.memories
        told: list[Instruction] = []
        for value, to in values:
            if to in ready and to != source and state.readers_left[value]:
                hops = self._links.route(source, to, state.spread.nbytes[value])
                told += self.make(state, [(value, hop) for hop in hops or ()], now_ns)
        return told

    def bring_home(
        self, state: SpreadState, values: Iterable[int], source: int, now_ns: int
    ) -> Sequence[Instruction] | TransferFailed:
        """Have outputs copied to the host; the error where there is no way."""
        told: list[Instruction] = []
        for value in values:
            hops = self._links.route(source, HOST, state.spread.nbytes[value])
            if hops is None:
                return TransferFailed(self._machine.name_of(source), "the host", "there is no way")
            told += self.make(state, [(value, hop) for hop in hops], now_ns)
        return told

    def ended(self, state: SpreadState, event: CopyFinished | CopyFailed, now_ns: int) -> bool:
        """Take a copy off its link; whether there was one."""
        hop = state.arriving.pop((event.value, event.memory), None)
        if hop is not None:
            self._give_back(hop, now_ns)
        return hop is not None

    def give_up(self, state: SpreadState, now_ns: int) -> None:
        """Take all that is on its way off the links."""
        for hop in state.arriving.values():
            self._give_back(hop, now_ns)

    def _give_back(self, hop: Hop, now_ns: int) -> None:
        self._machine.links[hop.source, hop.memory].give(hop.copy_ns, now_ns)
