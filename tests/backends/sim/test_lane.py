"""Lanes in virtual time: order, waits, durations, and what becomes of what fails."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import SimDevice, SimDeviceSpec, SimMachine, VirtualDeadlock
from fuel_async.errors import ExecutorClosed, KernelFailed, Stopped, UserError, WrongSubstrate
from fuel_async.ir import DType
from fuel_async.registry import inflight_count, pending_ns
from fuel_async.streams import StopFlag
from tests.backends.sim.support import Work, error_of, on, plan_of, program, run, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.sim.clock import VirtualClock

    Make = Callable[..., SimMachine]


def clock_of(device: SimDevice) -> VirtualClock:
    return device.clock  # type: ignore[return-value]  # machines of these tests have no other


# --- order and time ---


def test_a_lane_works_in_order_one_at_a_time(device: SimDevice) -> None:
    handles = [run(device, cost_ns) for cost_ns in (100, 50, 200)]
    assert [span(handle) for handle in handles] == [(0, 100), (100, 150), (150, 350)]


def test_lanes_of_one_device_work_beside_each_other(device: SimDevice) -> None:
    first, second = (lane.submit(Work(device, 100)) for lane in device.lanes)
    assert (span(first), span(second)) == ((0, 100), (0, 100))
    assert second.wait().lane == f"{device.location} lane 1"


def test_a_timing_says_where_and_when(device: SimDevice) -> None:
    clock_of(device).advance_to(7)
    run(device, 100)
    timing = run(device, 30).wait()
    assert (timing.submitted_ns, timing.started_ns, timing.finished_ns, timing.work_ns) == (7, 107, 137, 30)
    assert (timing.device, timing.lane) == (device.location, f"{device.location} lane 0")


def test_work_takes_its_time_by_the_true_speed_and_is_predicted_by_the_advertised_one(make: Make) -> None:
    said = SimDeviceSpec(speed=2.0).true_rates
    device = make(SimDeviceSpec(speed=4.0, advertised=said)).devices[0]
    graph = fa.Graph()
    graph.output("y", graph.input("x", (64, 64)) @ graph.input("w", (64, 64)))
    (region,) = plan_of(graph, device).regions
    instance = device.instantiate(region.program, [])
    feeds = [on(device, np.ones((64, 64), np.float32)) for _ in range(2)]
    output = device.memory.allocate_array((64, 64), DType.F32)
    timing = device.lanes[0].submit(instance, feeds, [output]).wait()
    flops = 2 * 64**3
    assert timing.work_ns == 100 + flops // 40  # the call, and 10 flops a nanosecond at speed 1
    assert instance.predicted_ns == 100 + flops // 20 == region.program.predicted_ns
    assert np.array_equal(output, np.full((64, 64), 64, np.float32))


def test_equal_kernels_take_their_time_each(make: Make) -> None:
    device = make(SimDeviceSpec(speed=0.5)).devices[0]
    graph = fa.Graph()
    graph.output("y", graph.input("x", (1_000,)).exp().exp().exp())
    (region,) = plan_of(graph, device).regions
    instance = device.instantiate(region.program, [])
    given = on(device, np.zeros(1_000, np.float32)), on(device, np.zeros(1_000, np.float32))
    timing = device.lanes[0].submit(instance, given[:1], given[1:]).wait()
    assert timing.work_ns == instance.predicted_ns == 3 * (50 + 10 * 1_000 * 2)


def test_a_kernel_may_know_its_own_time_on_a_device(make: Make) -> None:
    machine = make(SimDeviceSpec(speed=2.0), SimDeviceSpec(speed=2.0))
    one, other = machine.devices
    own = program(one, 1_000, {one.location: 77})
    for device, took_ns in ((one, 77), (other, 500)):
        instance = device.instantiate(own, [])
        assert instance.predicted_ns == 500
        given = on(device, np.zeros(8, np.uint8)), on(device, np.zeros(8, np.uint8))
        assert device.lanes[0].submit(instance, given[:1], given[1:]).wait().work_ns == took_ns


def test_nothing_takes_no_time(device: SimDevice) -> None:
    assert span(run(device, 0)) == (0, 1)


def test_jitter_follows_the_seed_and_has_the_mean_1(make: Make) -> None:
    def times(seed: int) -> list[int]:
        device = make(SimDeviceSpec(jitter=0.2), seed=seed).devices[0]
        work = Work(device, 10_000)
        handles = [device.lanes[0].submit(work) for _ in range(400)]
        return [handle.wait().work_ns for handle in handles]

    first = times(1)
    assert times(1) == first
    assert times(2) != first
    assert len(set(first)) > 300
    assert 9_500 < sum(first) / len(first) < 10_500
    assert 1_500 < float(np.std(first)) < 2_500


# --- slow-downs ---


def test_a_device_slows_down_as_described(make: Make) -> None:
    device = make(SimDeviceSpec(slowdowns=((150, 2.0), (400, 1.0)))).devices[0]
    assert [span(run(device, 100)) for _ in range(4)] == [(0, 100), (100, 250), (250, 425), (425, 525)]


def test_a_device_that_slows_down_now_slows_what_runs(make: Make) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    first, second = run(device, 100), run(device, 100)
    clock_of(device).advance_to(40)
    machine.slow(device, 3.0)
    assert span(first) == (0, 220)
    machine.slow(device, 1.0)
    assert span(second) == (220, 320)


def test_an_end_that_was_planned_before_means_nothing(make: Make) -> None:
    """a clock's thread may have it in its hands already"""
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    handle = run(device, 100)
    job = device.lanes[0]._running
    assert job is not None
    assert job.event is not None
    assert job.event.call is not None
    planned = job.event.call
    machine.slow(device, 3.0)
    planned()
    assert not handle.done()
    assert span(handle) == (0, 300)


def test_a_standstill_is_no_end(make: Make) -> None:
    machine = make(SimDeviceSpec())
    (device,) = machine.devices
    handle = run(device, 100)
    clock_of(device).advance_to(40)
    machine.slow(device, math.inf)
    with pytest.raises(VirtualDeadlock):
        handle.wait()
    clock_of(device).advance_to(1_000)
    machine.slow(device, 1.0)
    assert span(handle) == (0, 1_060)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan])
def test_no_device_takes_no_time(make: Make, factor: float) -> None:
    machine = make(SimDeviceSpec())
    with pytest.raises(UserError, match="positive"):
        machine.slow(machine.devices[0], factor)


# --- waits ---


def test_work_waits_for_other_lanes_and_holds_up_what_is_behind_it(device: SimDevice) -> None:
    one, other = device.lanes
    awaited = other.submit(Work(device, 500))
    waiting = one.submit(Work(device, 10), waits=[awaited])
    behind = one.submit(Work(device, 10))
    assert (span(waiting), span(behind)) == ((500, 510), (510, 520))


def test_waiting_for_the_own_lane_costs_nothing(device: SimDevice) -> None:
    first = run(device, 100)
    assert span(run(device, 50, waits=[first])) == (100, 150)
    assert span(run(device, 50, waits=[first])) == (150, 200)


def test_a_wait_that_failed_fails_what_waited_and_nothing_runs(device: SimDevice) -> None:
    def fail() -> None:
        raise ArithmeticError("as told")

    one, other = device.lanes
    failing = other.submit(Work(device, 100, fail))
    work = Work(device, 50)
    handles = [one.submit(work, waits=[failing]), other.submit(work, waits=[failing])]
    last = one.submit(work, waits=handles)
    assert [str(error_of(handle)) for handle in (*handles, last)] == ["as told"] * 3
    assert work.called_ns == []
    assert span(run(device, 10)) == (100, 110)


# --- what is computed ---


def test_work_is_done_at_its_end(device: SimDevice) -> None:
    work = Work(device, 100)
    device.lanes[0].submit(work)
    clock_of(device).advance_to(99)
    assert work.called_ns == []
    clock_of(device).advance_to(100)
    assert work.called_ns == [100]


def test_who_is_told_of_a_completion_sees_its_results(device: SimDevice) -> None:
    seen: list[tuple[bool, int, int]] = []
    work = Work(device, 100)
    handle = device.lanes[0].submit(work)
    handle.add_done_callback(
        lambda done: seen.append((done.done(), len(work.called_ns), inflight_count(device.location)))
    )
    handle.wait()
    assert seen == [(True, 1, 0)]


def test_kernels_do_not_warn(device: SimDevice) -> None:
    zeros = np.zeros(4)
    assert error_of(device.lanes[0].submit(Work(device, 1, lambda: zeros / zeros))) is None


def test_a_kernel_that_fails_is_named_with_its_device(make: Make) -> None:
    device = make(SimDeviceSpec()).devices[0]
    graph = fa.Graph()
    rows = graph.constant(np.ones((2, 3), np.float32))
    graph.output("y", rows.take(graph.input("at", (1,), DType.U32)))
    (region,) = plan_of(graph, device).regions
    constants = [on(device, value) for value in graph.freeze().constants.values()]
    instance = device.instantiate(region.program, constants)
    output = device.memory.allocate_array((1, 3), DType.F32)
    handle = device.lanes[0].submit(instance, [on(device, np.array([9], np.uint32))], [output])
    error = error_of(handle)
    assert isinstance(error, KernelFailed)
    assert f"failed on {device.location}: IndexOutOfRange" in str(error)
    assert error.node_id >= 0
    assert type(error.__cause__).__name__ == "IndexOutOfRange"


def test_a_lane_outlives_what_a_kernel_raises(device: SimDevice) -> None:
    def leave() -> None:
        raise SystemExit(3)

    handle = device.lanes[0].submit(Work(device, 10, leave))
    assert isinstance(error_of(handle), KernelFailed)
    assert span(run(device, 10)) == (10, 20)


def test_a_copy_within_a_device_reads_and_writes_each_byte(device: SimDevice) -> None:
    source = on(device, np.arange(1_000, dtype=np.float32))
    destination = device.memory.allocate_array((1_000,), DType.F32)
    timing = device.lanes[0].submit_copy(source, destination).wait()
    assert np.array_equal(source, destination)
    assert timing.work_ns == 2 * 4_000 / 10


def test_what_a_job_works_on_is_let_go_of_with_it(device: SimDevice) -> None:
    """without the collector: the next run needs the memory"""
    arrays = [on(device, np.zeros(100, np.uint8)) for _ in range(2)]
    gc.disable()
    try:
        handle = device.lanes[0].submit_copy(*arrays)
        arrays.clear()
        assert device.memory.used_nbytes == 200
        handle.wait()
        assert device.memory.used_nbytes == 0
    finally:
        gc.enable()


# --- another memory ---


@pytest.mark.parametrize("wrong", ["feed", "output"])
def test_a_device_reaches_into_no_other_memory(make: Make, wrong: str) -> None:
    one, other = make(SimDeviceSpec(), SimDeviceSpec()).devices
    instance = one.instantiate(program(one), [])
    values = np.zeros(8, np.uint8)
    given: dict[str, Any] = {"feed": on(one, values), "output": on(one, values)}
    for elsewhere in (on(other, values), values):
        wrongly = {**given, wrong: elsewhere}
        error = error_of(one.lanes[0].submit(instance, [wrongly["feed"]], [wrongly["output"]]))
        assert isinstance(error, WrongSubstrate)
        assert f"{wrong} 0" in str(error)
    assert error_of(one.lanes[0].submit(instance, [given["feed"]], [given["output"]])) is None


def test_neither_do_its_programs(make: Make) -> None:
    one, other = make(SimDeviceSpec(), SimDeviceSpec()).devices
    graph = fa.Graph()
    graph.output("y", graph.input("x", (3,)).exp() + graph.constant([1.0, 2.0, 3.0]))
    (region,) = plan_of(graph, one).regions
    value = np.ones(3, np.float32)
    with pytest.raises(WrongSubstrate, match="constant 0"):
        one.instantiate(region.program, [value])
    with pytest.raises(WrongSubstrate, match="arena"):
        one.instantiate(region.program, [on(one, value)], other.memory.allocate(region.program.arena_nbytes or 64))
    assert one.instantiate(region.program, [on(one, value)]).program is region.program


# --- stopping, closing, accounts ---


def test_the_stop_flag_is_looked_at_when_work_starts_and_never_later(device: SimDevice) -> None:
    early, late = StopFlag(), StopFlag()
    first, second, third = run(device, 100, stop=late), run(device, 100, stop=early), run(device, 100)
    early.stopped = True
    clock_of(device).advance_to(50)
    late.stopped = True
    assert span(first) == (0, 100)
    assert isinstance(error_of(second), Stopped)
    assert span(third) == (100, 200)


def test_a_closed_lane_ends_what_it_holds_and_takes_no_more(device: SimDevice) -> None:
    held = [run(device, 100), run(device, 100)]
    device.close()
    device.close()
    assert isinstance(error_of(run(device)), ExecutorClosed)
    assert [span(handle) for handle in held] == [(0, 100), (100, 200)]


def test_accounts(device: SimDevice) -> None:
    lane = device.lanes[0]
    handles = [run(device, 100), run(device, 50)]
    assert (lane.pending_count, lane.pending_ns, lane.busy_ns) == (2, 150, 0)
    assert (device.pending_work_count(), device.pending_work_ns()) == (2, 150)
    handles[0].wait()
    assert (lane.pending_count, lane.pending_ns, lane.busy_ns) == (1, 50, 100)
    clock_of(device).advance_to(1_000)
    assert (lane.pending_count, lane.pending_ns, lane.busy_ns) == (0, 0, 150)
    assert (inflight_count(device.location), pending_ns(device.location)) == (0, 0)


def test_programs_of_one_kind_share_what_was_measured(device: SimDevice) -> None:
    shared = program(device)
    one, other = (device.instantiate(shared, []) for _ in range(2))
    assert one.history is other.history
    assert one.history is not device.instantiate(program(device), []).history
