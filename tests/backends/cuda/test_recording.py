"""Instances: arguments made once, graphs captured once and launched instead, and what keeps one from being captured."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import DeviceLost, InternalError
from fuel_async.ir import DType
from tests.backends.cuda.support import ILLEGAL_ADDRESS, Doubled
from tests.backends.grids.devices import PATIENCE_S, Work, copied, planned, put, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.cuda.device import CudaDevice

#: What a capture may meet.
CAPTURE_INVALIDATED = 901


def test_a_repeated_run_makes_nothing_and_allocates_nothing(one: Doubled) -> None:
    (device,) = one.devices
    work = Work(device, long=True)
    for _ in range(4):
        work.submit().wait(PATIENCE_S)
    before, used = one.machine.counts(), device.memory.used_nbytes
    for _ in range(20):
        work.submit().wait(PATIENCE_S)
    after = one.machine.counts()
    assert work.instance.recordings == 1
    assert device.memory.used_nbytes == used
    made = ("malloc", "eventCreateWithFlags", "streamCreateWithPriority", "moduleLoadData", "graphInstantiate")
    assert [after.calls.get(call) for call in made] == [before.calls.get(call) for call in made]


def test_a_program_is_captured_after_its_first_runs_and_launched_as_one(one: Doubled) -> None:
    (device,) = one.devices
    work = Work(device, long=True)
    count = work.instance.dispatches
    assert count >= 2
    bits = []
    for _ in range(5):
        work.submit().wait(PATIENCE_S)
        bits.append(work.y.read().tobytes())
    assert work.is_done
    assert len(set(bits)) == 1, "the same bits by both ways"
    counts = one.machine.counts()
    assert (work.instance.graphs, counts.graph_launches) == (1, 3)
    # Those of the graph count as well where it runs them; the calls are those of two runs and one capture.
    assert counts.calls["launchKernel"] == 3 * count
    assert device.notes == ()


def test_a_program_of_one_kernel_is_not_worth_a_graph(one: Doubled) -> None:
    work = Work(one.devices[0])
    for _ in range(5):
        work.submit().wait(PATIENCE_S)
    assert one.machine.counts().graph_launches == 0


def test_capture_can_be_turned_off(make: Callable[..., Doubled]) -> None:
    one = make(capture=False)
    work = Work(one.devices[0], long=True)
    for _ in range(5):
        work.submit().wait(PATIENCE_S)
    assert work.is_done
    assert one.machine.counts().calls.get("streamBeginCapture") is None


def test_other_arrays_are_recorded_beside_and_the_oldest_makes_room(one: Doubled) -> None:
    """A graph belongs to the arrays that it was captured with: each recording has its own."""
    (device,) = one.devices
    work = Work(device, long=True)
    targets = [put(device, np.zeros(64, np.float32)) for _ in range(6)]
    for target in (*targets, *targets[-2:], *targets[-2:], *targets[-2:]):
        device.lanes[0].submit(work.instance, [work.x], [target]).wait(PATIENCE_S)
        np.testing.assert_allclose(target.read(), work.expected, rtol=1e-5, atol=1e-5)
    assert (work.instance.recordings, work.instance.graphs) == (4, 2)
    for target in targets[:4]:
        device.lanes[0].submit(work.instance, [work.x], [target]).wait(PATIENCE_S)
    gc.collect()
    assert work.instance.graphs == 0
    assert one.machine.leaks().graphs == 0


def test_arrays_at_the_place_of_others_that_are_gone_are_their_equals(one: Doubled) -> None:
    """The same bytes of the same block: the graph is theirs, too."""
    (device,) = one.devices
    work = Work(device, long=True)
    for _ in range(3):
        work.submit().wait(PATIENCE_S)
    place = work.y.ptr
    del work.y
    gc.collect()
    work.y = put(device, np.zeros(64, np.float32))
    assert work.y.ptr == place
    work.submit().wait(PATIENCE_S)
    assert work.is_done
    assert work.instance.recordings == 1


@pytest.mark.parametrize("at", ["capture", "graph"])
def test_a_capture_that_fails_leaves_the_program_as_it_was_and_says_why(one: Doubled, at: Any) -> None:
    (device,) = one.devices
    work, other = Work(device, long=True), Work(device, 1, count=32, long=True)
    one.machine.inject_error(0, CAPTURE_INVALIDATED, at=at)
    for _ in range(6):
        work.submit().wait(PATIENCE_S)
        assert work.is_done
    assert work.instance.graphs == 0
    assert one.machine.counts().calls["streamBeginCapture"] <= 1 + (at == "capture")
    (note,) = device.notes
    assert "is launched kernel by kernel, since its capture failed" in note
    assert "'work'" in note
    for _ in range(4):
        other.submit().wait(PATIENCE_S)
    assert other.is_done
    assert other.instance.graphs == 1, "others are captured as ever"
    assert one.machine.leaks().captures == 0


def test_a_device_that_is_lost_while_capturing_is_lost(one: Doubled) -> None:
    (device,) = one.devices
    work = Work(device, long=True)
    for _ in range(2):
        work.submit().wait(PATIENCE_S)
    one.machine.inject_error(0, ILLEGAL_ADDRESS, at="capture")
    with pytest.raises(DeviceLost):
        work.submit().wait(PATIENCE_S)
    assert device.lost is not None


def test_what_others_do_meanwhile_spoils_no_capture(one: Doubled) -> None:
    (device,) = one.devices
    works = [Work(device, seed, long=True) for seed in range(4)]

    def run(work: Work, lane: int) -> None:
        for _ in range(12):
            work.submit(lane=lane).wait(PATIENCE_S)
            assert device.memory.allocate_array((1_000,), DType.F32).nbytes == 4_000

    threads = [threading.Thread(target=run, args=(work, at % 2)) for at, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(work.is_done for work in works)
    assert [work.instance.graphs for work in works] == [1] * 4
    assert device.notes == ()


def test_memory_that_is_freed_while_capturing_is_freed_after_it(one: Doubled) -> None:
    (device,) = one.devices
    driver = device.context.driver
    work = Work(device, long=True)
    for _ in range(2):
        work.submit().wait(PATIENCE_S)
    block: Any = device.memory._make(4_096, 99)
    run = type(device.site.captures)._captured
    freed: list[int] = []

    def captured(self: Any, launches: Any) -> Any:
        nonlocal block
        before = one.machine.leaks().blocks
        block = None
        gc.collect()
        freed.append(before - one.machine.leaks().blocks)
        return run(self, launches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(device.site.captures), "_captured", captured)
        before = one.machine.leaks().blocks
        work.submit().wait(PATIENCE_S)
    assert freed == [0]
    assert one.machine.leaks().blocks == before - 1
    assert driver.put_off == []
    assert work.instance.graphs == 1


def test_the_number_of_given_arrays_is_checked(device: CudaDevice) -> None:
    work = Work(device)
    with pytest.raises(InternalError, match="2 arrays must be given"):
        device.lanes[0].submit(work.instance, [work.x], []).wait(PATIENCE_S)


def with_scalar(device: CudaDevice) -> Any:
    """y = (x · a).cumsum() + a, with a number that each submission gives."""

    def build(graph: fa.Graph) -> None:
        x, a = graph.input("x", (8,), fa.f32), graph.input("a", (), fa.f32)
        graph.output("y", (x * a).cumulative_sum(0) + a)

    (region,) = planned(device, build).regions
    program = region.program
    slots = program.slots
    classes, places = list(slots.classes), list(slots.places)
    feed = next(at for at, cls in enumerate(classes) if cls == SlotClass.FEED and slots.types[at].shape == ())
    classes[feed], places[feed] = SlotClass.SCALAR, 0
    table = SlotTable(classes, places, slots.types, slots.layouts)
    from dataclasses import replace

    kept = tuple([place for place in program.ports[0] if place != slots.places[feed]])
    return replace(program, slots=table, ports=(kept, program.ports[1], (), (0,)))


def test_numbers_change_from_run_to_run_of_one_graph(one: Doubled) -> None:
    (device,) = one.devices
    instance = device.instantiate(with_scalar(device), [])
    x, y = put(device, values(8)), put(device, np.zeros(8, np.float32))
    for number in range(6):
        scalars = [np.float32(number)]
        device.lanes[0].submit(instance, [x], [y], scalars=scalars).wait(PATIENCE_S)
        wanted = (values(8) * np.float32(number)).cumsum(dtype=np.float32) + number
        np.testing.assert_allclose(y.read(), wanted, rtol=1e-5, atol=1e-5)
    assert (instance.graphs, instance.recordings) == (1, 1)


def test_kernels_are_compiled_once_a_device(one: Doubled) -> None:
    (device,) = one.devices
    for _ in range(3):
        device.instantiate(copied(device), [])
    assert len(device.site.functions) == one.machine.counts().compiles == 1


def test_what_a_first_launch_needs_is_there_when_a_program_is_bound(one: Doubled) -> None:
    """cuBLAS takes a tenth of a second to start: not while a loop waits for a submission."""
    (device,) = one.devices

    def build(graph: fa.Graph) -> None:
        x = graph.input("x", (8, 8), fa.f32)
        graph.output("y", (x @ x).relu())

    (region,) = planned(device, build).regions
    device.instantiate(copied(device), [])
    assert "cublasCreate" not in one.machine.counts().calls
    instance = device.instantiate(region.program, [])
    before = one.machine.counts().calls
    x, y = put(device, values(64).reshape(8, 8)), put(device, np.zeros((8, 8), np.float32))
    for lane in (0, 1, 0, 1):
        device.lanes[lane].submit(instance, [x], [y]).wait(PATIENCE_S)
    after = one.machine.counts().calls
    assert instance.graphs == 1
    for call in ("cublasCreate", "streamCreateWithPriority", "moduleLoadData"):
        assert after[call] == before[call], call
