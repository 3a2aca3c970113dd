"""Local search among the tasks that decide the length of a schedule.

A schedule is read as a graph: what waits for what by values, and on a lane for the one before. A task's head is the
longest way to its start, its tail that from its end; on a critical task head, time and tail add up to the makespan.
Such a task is tried in every lane at the places where it would not wait; the move with the shortest estimated way
through the task is made and evaluated as a whole. It stays if the schedule is not longer, and a task does not go back
at once. The estimate is that of Dell'Amico and Trubian for job shops, 1993, with moves between memories.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.errors import InternalError
from fuel_async.ir import Breathe, no_breath
from fuel_async.plan.placement.sweep import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.placement.tables import Tables

#: Places in a lane that are tried behind the first at which a task would find what it reads.
PLACES = 4
#: Moves that are made in the order of their estimates before the state is looked at anew.
TRIED = 4
#: Rounds for which a task does not go back to a lane that it left, and not again to one where it was no use.
LEFT_ROUNDS = 10
USELESS_ROUNDS = 20
_EVERY = 127

#: Lengths that differ by less are equal.
_EQUAL = 1e-9


class _Move(NamedTuple):
    estimate_ns: float
    task: int
    lane: int
    place: int


def search(tables: Tables, found: Pass, evaluations: int, breathe: Breathe = no_breath) -> Pass:
    """Return a schedule that is not longer than `found`, both told from their start.

    `evaluations` is how many times a task may be looked at. Ways without contention.
    """
    return _Search(tables, found, breathe).run(evaluations)


class _Search:
    def __init__(self, tables: Tables, found: Pass, breathe: Breathe) -> None:
        self.tables, self.breathe = tables, breathe
        self.devices, self.lanes = list(found.devices), list(found.lanes)
        self.order: list[list[int]] = [[] for _ in tables.lane_device]
        for task in sorted(range(len(tables)), key=lambda task: (found.starts_ns[task], found.ends_ns[task], task)):
            self.order[self.lanes[task]].append(task)
        #: By task: what it reads from and what reads from it, with the bytes that go between.
        self.needs, self.dependents = _edges(tables, breathe)
        self.heads, self.tails = list[float](), list[float]()
        self.makespan_ns = 0.0
        #: The round until which a task does not go to a lane.
        self.barred: dict[tuple[int, int], int] = {}
        self.round = self.looked_at = 0

    def run(self, evaluations: int) -> Pass:
        if not self._evaluate():
            raise InternalError("a schedule has no cycle")
        while self.looked_at < evaluations:
            moves = sorted(self._moves())
            if not moves:
                break
            if not any(self._try(move) for move in moves[:TRIED] if self.looked_at < evaluations) and not any(
                self.barred.get((move.task, move.lane), -1) < self.round for move in moves
            ):
                break
        times_ns, devices = self.tables.times_ns, self.devices
        ends = [head + times_ns[task][devices[task]] for task, head in enumerate(self.heads)]
        return Pass(self.makespan_ns, devices, self.lanes, self.heads, ends, [])

    def _try(self, move: _Move) -> bool:
        """Make a move; take it back unless it is of use."""
        task, lane = move.task, move.lane
        old_lane, old_device = self.lanes[task], self.devices[task]
        old_place = self.order[old_lane].index(task)
        del self.order[old_lane][old_place]
        self.order[lane].insert(move.place, task)
        self.lanes[task], self.devices[task] = lane, self.tables.lane_device[lane]
        before_ns = self.makespan_ns
        self.round += 1
        if self._evaluate(before_ns * (1 + _EQUAL)):
            if self.makespan_ns >= before_ns * (1 - _EQUAL):
                self.barred[task, old_lane] = self.round + LEFT_ROUNDS
            return True
        del self.order[lane][move.place]
        self.order[old_lane].insert(old_place, task)
        self.lanes[task], self.devices[task] = old_lane, old_device
        self.barred[task, lane] = self.round + USELESS_ROUNDS
        return False

    # --- what a schedule comes to -----------------------------------------------------------------

    def _evaluate(self, limit_ns: float = float("inf")) -> bool:
        """Note heads, tails and makespan of the order, if it has no cycle and is not longer than the limit."""
        self.looked_at += 2 * len(self.tables)
        self.breathe()
        after, missing = self._line_up()
        heads, sequence = self._walk_heads(after, missing)
        self.breathe()
        if len(sequence) < len(missing):
            return False
        times_ns, devices, closing = self.tables.times_ns, self.devices, self.tables.tails_ns
        makespan_ns = 0.0
        for task, head in enumerate(heads):
            end, close = head + times_ns[task][devices[task]], closing[task]
            if close is not None:
                end += close[devices[task]]
            if end > makespan_ns:
                makespan_ns = end
        if makespan_ns > limit_ns:
            return False
        self.heads, self.makespan_ns = heads, makespan_ns
        self.tails = self._walk_tails(after, sequence)
        self.breathe()
        return True

    def _line_up(self) -> tuple[list[int], list[int]]:
        """By task: the one behind it on its lane, or -1; and how many it waits for."""
        after, missing = [-1] * len(self.tables), [len(needs) for needs in self.needs]
        for line in self.order:
            for task, behind in pairwise(line):
                after[task] = behind
                missing[behind] += 1
        return after, missing

    def _walk_heads(self, after: Sequence[int], missing: list[int]) -> tuple[list[float], list[int]]:
        times_ns, devices, away, dependents = self.tables.times_ns, self.devices, self.tables.away, self.dependents
        heads = [
            0.0 if head is None else head[device] for head, device in zip(self.tables.heads_ns, devices, strict=True)
        ]
        todo = [task for task, count in enumerate(missing) if not count]
        sequence = []
        while todo:
            task = todo.pop()
            sequence.append(task)
            if not len(sequence) & _EVERY:
                self.breathe()
            device = devices[task]
            end, moves = heads[task] + times_ns[task][device], away[device]
            for reader, nbytes in dependents[task]:
                to = devices[reader]
                there = end if to == device else end + moves[to][0] + nbytes * moves[to][1]
                if there > heads[reader]:
                    heads[reader] = there
                missing[reader] -= 1
                if not missing[reader]:
                    todo.append(reader)
            behind = after[task]
            if behind >= 0:
                if end > heads[behind]:
                    heads[behind] = end
                missing[behind] -= 1
                if not missing[behind]:
                    todo.append(behind)
        return heads, sequence

    def _walk_tails(self, after: Sequence[int], sequence: Sequence[int]) -> list[float]:
        times_ns, devices, away, dependents = self.tables.times_ns, self.devices, self.tables.away, self.dependents
        tails = [0.0] * len(sequence)
        closing = self.tables.tails_ns
        for step, task in enumerate(reversed(sequence)):
            if not step & _EVERY:
                self.breathe()
            device, behind, close = devices[task], after[task], closing[task]
            tail = 0.0 if close is None else close[device]
            if behind >= 0:
                tail = max(tail, times_ns[behind][device] + tails[behind])
            moves = away[device]
            for reader, nbytes in dependents[task]:
                to = devices[reader]
                rest = times_ns[reader][to] + tails[reader]
                if to != device:
                    rest += moves[to][0] + nbytes * moves[to][1]
                if rest > tail:
                    tail = rest
            tails[task] = tail
        return tails

    # --- moves ------------------------------------------------------------------------------------

    def _moves(self) -> list[_Move]:
        """What could shorten the ways through critical tasks."""
        times_ns, devices, heads, tails = self.tables.times_ns, self.devices, self.heads, self.tails
        almost = self.makespan_ns * (1 - _EQUAL)
        moves: list[_Move] = []
        for task, (head, tail) in enumerate(zip(heads, tails, strict=True)):
            if head + times_ns[task][devices[task]] + tail >= almost:
                self.looked_at += len(self.tables.devices)
                self._moves_of(task, almost, moves)
                self.breathe()
        return moves

    def _moves_of(self, task: int, almost: float, moves: list[_Move]) -> None:
        tables = self.tables
        for device in tables.devices:
            took = tables.times_ns[task][device]
            ready, rest = self._around(task, device)
            if ready + took + rest >= almost:
                continue
            for lane in tables.lanes_of[device]:
                if self.barred.get((task, lane), -1) < self.round:
                    self._places(task, device, lane, (ready, took, rest), almost, moves)

    def _around(self, task: int, device: int) -> tuple[float, float]:
        """When all that a task reads would be on a device, and the longest way from its end there, without its lane."""
        tables, devices, heads, tails = self.tables, self.devices, self.heads, self.tails
        head, tail = tables.heads_ns[task], tables.tails_ns[task]
        ready, rest = 0.0 if head is None else head[device], 0.0 if tail is None else tail[device]
        for need, nbytes in self.needs[task]:
            source = devices[need]
            there = heads[need] + tables.times_ns[need][source]
            if source != device:
                latency, per_byte = tables.away[source][device]
                there += latency + nbytes * per_byte
            if there > ready:
                ready = there
        for reader, nbytes in self.dependents[task]:
            to = devices[reader]
            way = tails[reader] + tables.times_ns[reader][to]
            if to != device:
                latency, per_byte = tables.away[device][to]
                way += latency + nbytes * per_byte
            if way > rest:
                rest = way
        return ready, rest

    def _places(
        self,
        task: int,
        device: int,
        lane: int,
        around: tuple[float, float, float],
        almost: float,
        moves: list[_Move],
    ) -> None:
        """The places in a lane from the one at which the task would find what it reads."""
        ready, took, rest = around
        line, heads, tails, times_ns = self.order[lane], self.heads, self.tails, self.tables.times_ns
        if self.lanes[task] == lane:
            line = [other for other in line if other != task]
        low, high = 0, len(line)
        while low < high:
            middle = (low + high) // 2
            if heads[line[middle]] + times_ns[line[middle]][device] <= ready:
                low = middle + 1
            else:
                high = middle
        for place in range(low, min(len(line) + 1, low + PLACES)):
            start, later = ready, rest
            if place:
                start = max(start, heads[line[place - 1]] + times_ns[line[place - 1]][device])
            if start + took + rest >= almost:
                break
            if place < len(line):
                later = max(later, tails[line[place]] + times_ns[line[place]][device])
            if start + took + later < almost:
                moves.append(_Move(start + took + later, task, lane, place))


#: By task: (other task, bytes).
_Edges = list[list[tuple[int, float]]]


def _edges(tables: Tables, breathe: Breathe) -> tuple[_Edges, _Edges]:
    needs: _Edges = [[] for _ in range(len(tables))]
    dependents: _Edges = [[] for _ in range(len(tables))]
    for task, values in enumerate(tables.reads):
        largest: dict[int, float] = {}
        for value in values:
            maker = tables.producers[value]
            if maker >= 0:
                largest[maker] = max(largest.get(maker, 0.0), tables.nbytes[value])
        for maker, nbytes in largest.items():
            needs[task].append((maker, nbytes))
            dependents[maker].append((task, nbytes))
        if not task & _EVERY:
            breathe()
    return needs, dependents
