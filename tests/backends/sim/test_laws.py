"""Laws of simulated machines over random work: order, waits, ports, and that everything settles exactly once."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.backends.sim import Links, ScaledClock, Sharing, SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.errors import DeviceLost
from tests.backends.sim.support import PATIENCE_S, Work, assert_quiet, on, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.sim.lane import Track
    from fuel_async.dispatch import LaneProgram
    from fuel_async.streams import CompletionHandle

DEVICES = 3
FAR_NS = 10**9
COSTS = (1, 60, 100, 300)


@cache
def timed(cost_ns: int) -> LaneProgram:
    """Programs are the same on every device: planned once."""
    return program(SimMachine([SimDeviceSpec()]).devices[0], cost_ns)


@dataclass(frozen=True)
class Task:
    """Work on a lane of a device, or a copy to another; after some of the tasks before it."""

    device: int
    to: int
    cost_ns: int
    waits: tuple[int, ...]
    at_ns: int


@st.composite
def tasks(draw: st.DrawFn) -> list[Task]:
    made: list[Task] = []
    at_ns = 0
    for number in range(draw(st.integers(1, 12))):
        at_ns += draw(st.sampled_from([0, 0, 0, 70, 250]))
        waits = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        device, to = draw(st.integers(0, DEVICES - 1)), draw(st.integers(0, DEVICES - 1))
        made.append(Task(device, to, draw(st.sampled_from(COSTS)), tuple(sorted(waits)), at_ns))
    return made


@dataclass(frozen=True)
class Course:
    """What became of tasks: the handle of each, the lane it was on, and how often it was told of its end."""

    handles: list[CompletionHandle]
    tracks: list[Track]
    told: Counter[int]

    def spans(self) -> list[tuple[int, int]]:
        timings = [handle._timing for handle in self.handles]
        return [(timing.started_ns, timing.finished_ns) for timing in timings if timing is not None]


def play(work: list[Task], sharing: Sharing, jitter: float, lost_at_ns: int | None) -> Course:
    """Run tasks on a machine whose device 0 may be lost; device to itself means a program."""
    clock = VirtualClock()
    spec = SimDeviceSpec(jitter=jitter, lanes=2)
    specs = [replace(spec, lost_at_ns=lost_at_ns), *[spec] * (DEVICES - 1)]
    machine = SimMachine(specs, links=Links.of(50.0, 1.0, sharing=sharing), clock=clock)
    arrays = [on(device, np.zeros(300, np.uint8)) for device in machine.devices]
    links = {(link.source, link.destination): link for link in machine.links}
    course = Course([], [], Counter())
    for number, task in enumerate(work):
        clock.advance_to(task.at_ns)
        waits = [course.handles[wait] for wait in task.waits]
        here, there = machine.devices[task.device], machine.devices[task.to]
        if here is there:
            lane = here.lanes[number % 2]
            course.tracks.append(lane)
            handle = lane.submit(Work(here, task.cost_ns, of=timed(task.cost_ns)), waits=waits)
        else:
            link = links[here.location, there.location]
            course.tracks.append(link)
            size = slice(task.cost_ns)
            handle = link.submit_copy(arrays[task.device][size], arrays[task.to][size], waits)
        course.handles.append(handle)
        handle.add_done_callback(lambda _, number=number: course.told.update([number]))  # type: ignore[misc]
    clock.advance_to(FAR_NS)
    assert_quiet(machine)
    return course


@settings(max_examples=40)
@given(tasks(), st.sampled_from(Sharing), st.sampled_from([0.0, 0.3]), st.none() | st.integers(1, 2_000))
def test_laws(work: list[Task], sharing: Sharing, jitter: float, lost_at_ns: int | None) -> None:
    course = play(work, sharing, jitter, lost_at_ns)
    spans, handles = course.spans(), course.handles
    # everything settles, once, and the same work takes the same course
    assert course.told == Counter(range(len(work)))
    assert spans == play(work, sharing, jitter, lost_at_ns).spans()
    failed = [handle.exception() for handle in handles]
    for number, task in enumerate(work):
        start, end = spans[number]
        assert task.at_ns <= start <= end
        # a task runs after its waits, or fails with one of them; and fails for no other reason than the loss
        if failed[number] is None:
            assert all(failed[wait] is None and spans[wait][1] <= start for wait in task.waits)
        else:
            assert isinstance(failed[number], DeviceLost)
            assert lost_at_ns is not None
            assert 0 in (task.device, task.to) or any(failed[wait] for wait in task.waits)
        if lost_at_ns is not None and end > lost_at_ns and 0 in (task.device, task.to):
            assert failed[number] is not None
    # a lane works in order, one at a time
    for track in set(course.tracks):
        mine = [spans[number] for number, other in enumerate(course.tracks) if other is track]
        ran = [span for span in mine if span[1] > span[0]]
        assert all(before[1] <= after[0] for before, after in pairwise(ran))
    # so does each side of a memory where copies share it
    if sharing is Sharing.PORTS:
        for side in (lambda task: task.device, lambda task: task.to):
            assert_apart(work, spans, side)


def assert_apart(work: list[Task], spans: list[tuple[int, int]], side: Callable[[Task], int]) -> None:
    copies = [number for number, task in enumerate(work) if task.device != task.to]
    for place in range(DEVICES):
        busy = sorted(spans[number] for number in copies if side(work[number]) == place)
        ran = [span for span in busy if span[1] > span[0]]
        assert all(before[1] <= after[0] for before, after in pairwise(ran))


def test_threads_that_submit_while_a_device_is_lost_and_slowed() -> None:
    """many threads, a clock's and each lane's own: everything settles, and every account is closed"""
    machine = SimMachine([SimDeviceSpec(lanes=2)] * 2, clock=ScaledClock(1_000.0), links=Links.of(1.0, 1.0))
    one, other = machine.devices
    works = {device.location: Work(device, 10_000) for device in machine.devices}
    handles: list[CompletionHandle] = []
    go = threading.Barrier(5)

    def submit(number: int) -> None:
        go.wait(PATIENCE_S)
        last: list[CompletionHandle] = []
        for turn in range(40):
            device = machine.devices[(number + turn) % 2]
            last = [device.lanes[turn % 2].submit(works[device.location], waits=last[-1:])]
            handles.extend(last)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    go.wait(PATIENCE_S)
    machine.slow(other, 2.0)
    machine.lose(one, "as told")
    machine.slow(other, 0.5)
    for thread in threads:
        thread.join(PATIENCE_S)
    for handle in handles:
        assert handle.completion.wait(PATIENCE_S)
        settled = threading.Event()
        handle.add_done_callback(lambda _, settled=settled: settled.set())  # type: ignore[misc]
        assert settled.wait(PATIENCE_S)
        assert handle.exception() is None or isinstance(handle.exception(), DeviceLost)
    assert len(handles) == 160
    machine.close()
    machine.join(PATIENCE_S)
    assert_quiet(machine)
