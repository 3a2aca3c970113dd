"""A plan carried out by a machine that takes other times than it was told: event by event, in simulated time.

Nothing of the planner's own replay is used. Copies are made as soon as a value is there, for each memory where a reader
is to run; on ways with ports they wait for each other. `Static` lanes take their tasks in the planned order and wait
for each. `Guarded` devices start what is ready, in the planned order, and wait for the next one only if it is expected
soon. `Rolling` ones, beside, sweep what is left again.
"""

from __future__ import annotations

import enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fuel_async.plan.placement import live

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.plan.placement import Placement, Row, Tables


class Policy(enum.Enum):
    STATIC = "static"
    GUARDED = "guarded"
    ROLLING = "rolling"


class Order(enum.Enum):
    """Which of the copies that wait goes first."""

    PLANNED = "planned"
    AS_THEY_COME = "as they come"


def carried_out_ns(
    tables: Tables,
    plan: Placement,
    truth_ns: Sequence[Row],
    policy: Policy = Policy.STATIC,
    order: Order = Order.PLANNED,
) -> float:
    """The time until everything has ended, when tasks take `truth_ns`, by task and device."""
    if policy is Policy.STATIC:
        return _Static(tables, plan, truth_ns, order).run()
    return _Live(tables, plan, truth_ns, order, rolling=policy is Policy.ROLLING).run()


class _Run:
    """Tasks, copies and what is to come; when lanes start which task is for others to say."""

    def __init__(self, tables: Tables, plan: Placement, truth_ns: Sequence[Row], order: Order) -> None:
        self.tables, self.problem, self.plan, self.truth_ns = tables, tables.problem, plan, truth_ns
        self.fleet = self.problem.fleet
        self.devices, self.planned_ns = list(plan.devices), list(plan.starts_ns)
        self.now = 0.0
        self.running: list[int | None] = [None] * len(tables.lane_device)
        self.lane_of = [-1] * len(tables)
        self.began_ns: dict[int, float] = {}
        self.ended_ns: dict[int, float] = {}
        #: By value: in which memories it is, or from when it will be as far as known.
        self.places: list[dict[int, float]] = [{} for _ in tables.nbytes]
        self.arrived: list[set[int]] = [set() for _ in tables.nbytes]
        self.asked: list[set[int]] = [set() for _ in tables.nbytes]
        self.source = [-1] * len(tables.nbytes)
        self.rank = {(copy.value, copy.memory): place for place, copy in enumerate(plan.copies)}
        self.in_order, self.turn = order is Order.PLANNED, 0
        self.waiting: list[tuple[float, int, int, int]] = []
        self.taken: set[int] = set()
        #: By port: when the last copy that took it is through.
        self.sent_ns: dict[int, float] = {}
        self.to_come: list[tuple[float, int, Callable[..., None], tuple[int, ...]]] = []

    def memory(self, task: int) -> int:
        return self.fleet.memories[self.devices[task]]

    def is_ready(self, task: int) -> bool:
        memory = self.memory(task)
        return all(memory in self.arrived[value] for value in self.tables.reads[task])

    def run(self) -> float:
        for value, places in self.problem.given.items():
            self._made(value, dict(places))
        self.look()
        while self.to_come:
            self.now, _, happens, what = heappop(self.to_come)
            happens(*what)
            self.look()
        assert len(self.ended_ns) == len(self.tables)
        owed = [self.places[value][memory] for value, memory in self.problem.owed.items()]
        return max([0.0, *self.ended_ns.values(), *owed])

    def look(self) -> None:
        """Start what can start."""
        raise NotImplementedError

    def later(self, at_ns: float, happens: Callable[..., None], *what: int) -> None:
        self.turn += 1
        heappush(self.to_come, (at_ns, self.turn, happens, what))

    def start(self, task: int, lane: int) -> None:
        self.running[lane], self.lane_of[task], self.began_ns[task] = task, lane, self.now
        self.later(self.now + self.truth_ns[task][self.devices[task]], self.finish, task)

    def finish(self, task: int) -> None:
        self.running[self.lane_of[task]] = None
        self.ended_ns[task] = self.now
        for value in self.tables.writes[task]:
            self._made(value, {self.memory(task): self.now})

    # --- copies -----------------------------------------------------------------------------------

    def _made(self, value: int, places: dict[int, float]) -> None:
        self.source[value] = min(places, key=lambda memory: (places[memory], memory))
        self.places[value] = places
        for memory, since in places.items():
            self.asked[value].add(memory)
            if since <= self.now:
                self.arrived[value].add(memory)
            else:
                self.later(since, self.arrive, value, memory)
        wanted = [self.memory(reader) for reader in self.tables.readers[value] if reader not in self.began_ns]
        if value in self.problem.owed:
            wanted.append(self.problem.owed[value])
        for memory in sorted(set(wanted), key=lambda memory: self.rank.get((value, memory), len(self.rank))):
            self.want(value, memory)

    def want(self, value: int, memory: int) -> None:
        """Have a value copied that is there already."""
        if memory in self.asked[value]:
            return
        self.asked[value].add(memory)
        since = self.places[value][self.source[value]]
        if since > self.now:
            self.later(since, self._ask, value, memory)
        else:
            self._ask(value, memory)

    def _ask(self, value: int, memory: int) -> None:
        self.turn += 1
        urgent = self.rank.get((value, memory), len(self.rank)) if self.in_order else 0
        heappush(self.waiting, (urgent, self.turn, value, memory))
        self._send()

    def _send(self) -> None:
        """Start all copies whose ports are free, in their order."""
        kept = []
        while self.waiting:
            one = heappop(self.waiting)
            _, _, value, memory = one
            way = self.fleet.ways[self.source[value]][memory]
            ports = set(way.ports or ())
            if ports & self.taken:
                kept.append(one)
                continue
            self.taken |= ports
            sent_ns = self.now + way.sent_ns(self.tables.nbytes[value])
            self.places[value][memory] = sent_ns + way.latency_ns
            if ports:
                self.sent_ns.update(dict.fromkeys(ports, sent_ns))
                self.later(sent_ns, self._sent, *ports)
            self.later(sent_ns + way.latency_ns, self.arrive, value, memory)
        self.waiting = kept  # sorted, so a heap

    def _sent(self, *ports: int) -> None:
        self.taken.difference_update(ports)
        self._send()

    def arrive(self, value: int, memory: int) -> None:
        self.arrived[value].add(memory)


class _Static(_Run):
    """Each lane takes its tasks in the planned order."""

    def __init__(self, tables: Tables, plan: Placement, truth_ns: Sequence[Row], order: Order) -> None:
        super().__init__(tables, plan, truth_ns, order)
        self.place = [0] * len(plan.order)

    def look(self) -> None:
        for lane, queue in enumerate(self.plan.order):
            place = self.place[lane]
            if self.running[lane] is None and place < len(queue) and self.is_ready(queue[place]):
                self.place[lane] += 1
                self.start(queue[place], lane)


class _Live(_Run):
    """Each device starts what is ready in the planned order, with the guard; and all is swept again if it rolls."""

    def __init__(
        self, tables: Tables, plan: Placement, truth_ns: Sequence[Row], order: Order, *, rolling: bool
    ) -> None:
        super().__init__(tables, plan, truth_ns, order)
        self.rolling, self.sweeps = rolling, 0
        self.factors = [1.0] * len(tables.devices)
        self.factors_before = list(self.factors)
        self.late_ns, self.makespan_ns = 0.0, plan.makespan_ns
        self.expected_end_ns = list(plan.ends_ns)
        self.since_look, self.every = 0, max(4, int(live.EVERY * len(tables)))
        self.ahead = live.ahead_of(tables, plan) if rolling else []
        self.left: list[list[int]] = []
        self._line_up()

    def _line_up(self) -> None:
        """The tasks that have not started by device, in the planned order."""
        self.left = [[] for _ in self.tables.devices]
        for task in sorted(range(len(self.tables)), key=lambda task: (self.planned_ns[task], task)):
            if task not in self.began_ns:
                self.left[self.devices[task]].append(task)

    def predicted_ns(self, task: int) -> float:
        device = self.devices[task]
        return self.tables.times_ns[task][device] * self.factors[device]

    def look(self) -> None:
        for device, lanes in enumerate(self.tables.lanes_of):
            for lane in lanes:
                task = self._next(device) if self.running[lane] is None else None
                if task is None:
                    continue
                self.left[device].remove(task)
                self.start(task, lane)

    def _next(self, device: int) -> int | None:
        left = self.left[device]
        for place, task in enumerate(left):
            if self.is_ready(task):
                soon = place and not live.may_start(self.predicted_ns(task), self._expected_ns(left[0]), self.now)
                return None if soon else task
        return None

    def _expected_ns(self, task: int) -> float:
        """When a task is expected to be ready."""
        memory, expected = self.memory(task), self.now
        for value in self.tables.reads[task]:
            maker = self.tables.producers[value]
            if memory in self.places[value]:
                expected = max(expected, self.places[value][memory])
            elif self.places[value] or maker in self.began_ns:
                source = self.source[value] if self.places[value] else self.memory(maker)
                since = self.now if self.places[value] else self._end_ns(maker)
                expected = max(expected, since + self.fleet.ways[source][memory].copy_ns(self.tables.nbytes[value]))
            else:
                return max(expected, self.planned_ns[task] + self.late_ns)
        return expected

    def _end_ns(self, task: int) -> float:
        return max(self.now, self.began_ns[task] + self.predicted_ns(task))

    def finish(self, task: int) -> None:
        super().finish(task)
        device = self.devices[task]
        if self.rolling:
            took = self.now - self.began_ns[task]
            self.factors[device] = live.learned(self.factors[device], took, self.tables.times_ns[task][device])
        self.late_ns += 0.2 * (self.now - self.expected_end_ns[task] - self.late_ns)
        self.since_look += 1
        if self.rolling and self.since_look >= self.every and len(self.began_ns) < len(self.tables):
            if live.due(self.factors, self.factors_before, self.late_ns, self.makespan_ns):
                self._sweep()
            self.since_look = 0

    def _sweep(self) -> None:
        tables = self.tables
        free_ns = [self.now if task is None else self._end_ns(task) for task in self.running]
        places = {
            value: {memory: max(ns, self.now) for memory, ns in places.items()}
            for value, places in enumerate(self.places)
            if places
        }
        for task in self.running:
            if task is not None:
                places.update({value: {self.memory(task): self._end_ns(task)} for value in tables.writes[task]})
        left = [task for task in sorted(range(len(tables)), key=self._planned) if task not in self.began_ns]
        progress = live.Progress(free_ns, places, left, self._ports_ns(), max(free_ns))
        found = live.resweep(tables, self.devices, self.ahead, progress, self.factors)
        self.sweeps += 1
        for task in left:
            self.planned_ns[task], self.expected_end_ns[task] = found.starts_ns[task], found.ends_ns[task]
            if self.devices[task] != found.devices[task]:
                self.devices[task] = found.devices[task]
                for value in tables.reads[task]:
                    if self.places[value]:
                        self.want(value, self.memory(task))
        self.late_ns, self.factors_before = 0.0, list(self.factors)
        self._line_up()

    def _ports_ns(self) -> dict[int, float]:
        """When ports are through with the copies that are under way or wait."""
        found = {port: ns for port, ns in self.sent_ns.items() if ns > self.now}
        for _, _, value, memory in self.waiting:
            way = self.fleet.ways[self.source[value]][memory]
            for port in set(way.ports or ()):
                found[port] = found.get(port, self.now) + way.sent_ns(self.tables.nbytes[value])
        return found

    def _planned(self, task: int) -> tuple[float, int]:
        return self.planned_ns[task], task
