"""The host lane: order, waits, ends, and what a kernel may do to it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.errors import DeviceLost, ExecutorClosed, KernelFailed, ShapeMismatch, Stopped
from fuel_async.streams import CompletionHandle, HostLane, StopFlag
from fuel_async.streams import host as host_module
from fuel_async.streams.host import LATE_NS, LONGEST_STRETCH_NS, NEVER, SLEEP_NS, STRETCH_NS, _Server
from tests.streams.support import HERE, PATIENCE_S, Call, Gate, ended, in_flight, lanes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lane() -> Iterator[HostLane]:
    with lanes() as (one,):
        yield one


@pytest.fixture
def two() -> Iterator[list[HostLane]]:
    with lanes(2) as both:
        yield both


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    for _ in range(100):
        one.open()


def error_of(handle: CompletionHandle) -> BaseException | None:
    """What became of the work, once it is done."""
    handle.completion.wait(PATIENCE_S)
    try:
        handle.wait(PATIENCE_S)
    except BaseException as error:
        return error
    return None


# --- order ---


def test_work_runs_in_the_order_of_submission(lane: HostLane) -> None:
    done: list[int] = []
    handles = [lane.submit(Call(lambda n=n: done.append(n))) for n in range(200)]  # type: ignore[misc]
    handles[-1].wait(PATIENCE_S)
    assert done == list(range(200))
    assert all(handle.done() for handle in handles)


def test_many_threads_submit_to_one_lane(lane: HostLane) -> None:
    """each thread's work in its own order, one piece at a time"""
    done: list[tuple[int, int]] = []
    inside: list[int] = []
    most: list[int] = []
    start = threading.Barrier(4)

    def work(who: int, number: int) -> None:
        inside.append(who)
        most.append(len(inside))
        done.append((who, number))
        inside.pop()

    def submit(who: int) -> None:
        start.wait(PATIENCE_S)
        for number in range(50):
            lane.submit(Call(lambda number=number: work(who, number)))  # type: ignore[misc]

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    lane.submit(Call()).wait(PATIENCE_S)
    assert max(most) == 1
    for submitter in range(4):
        assert [number for who, number in done if who == submitter] == list(range(50))


def test_what_is_given_reaches_the_instance(lane: HostLane) -> None:
    call = Call()
    lane.submit(call, [1], [2, 3], [4], [5]).wait(PATIENCE_S)
    assert call.given == [([1], [2, 3], [4], [5])]


def test_a_timing_says_when_and_where(lane: HostLane) -> None:
    timing = lane.submit(Call(), node=7).wait(PATIENCE_S)
    assert (timing.device, timing.lane) == (HERE, "lane 0")
    assert timing.submitted_ns <= timing.started_ns <= timing.finished_ns
    assert timing.queued_ns + timing.elapsed_ns == timing.finished_ns - timing.submitted_ns
    assert lane.busy_ns >= timing.elapsed_ns


@pytest.mark.parametrize("measures", [False, True])
def test_work_is_measured_exactly_where_somebody_asks(
    lane: HostLane, monkeypatch: pytest.MonkeyPatch, measures: bool
) -> None:
    """by the thread's own time, which leaves out its waits for the interpreter"""
    monkeypatch.setattr(host_module, "thread_time_ns", iter(range(0, 10**9, 77)).__next__)
    call = Call()
    call.measures = measures
    timing = lane.submit(call).wait(PATIENCE_S)
    assert (timing.work_ns == 77) is measures
    assert measures or timing.work_ns == timing.elapsed_ns


def test_an_instance_need_not_say_whether_it_measures(lane: HostLane) -> None:
    class Bare:
        predicted_ns = 1

        def execute(self, *bound: Any) -> None:
            return

    lane.submit(Bare()).wait(PATIENCE_S)  # type: ignore[arg-type]
    lane.submit(Bare(), waits=[lane.submit(Bare())]).wait(PATIENCE_S)  # type: ignore[arg-type]


# --- waits ---


def test_work_waits_for_another_lane(two: list[HostLane], gate: Gate) -> None:
    first, second = two
    before = first.submit(Call(gate))
    after = Call()
    handle = second.submit(after, waits=[before])
    gate.entered()
    assert after.ran == 0
    assert not handle.done()
    gate.open()
    handle.wait(PATIENCE_S)
    assert before.done()
    assert after.ran == 1


def test_a_lane_keeps_its_order_while_one_piece_waits(two: list[HostLane], gate: Gate) -> None:
    """b waits for the other lane; c, which waits for b, and d, which waits for nothing, stay behind it"""
    first, second = two
    done: list[str] = []
    a = first.submit(Call(gate))
    b = second.submit(Call(lambda: done.append("b")), waits=[a])
    c = second.submit(Call(lambda: done.append("c")), waits=[b])
    d = second.submit(Call(lambda: done.append("d")))
    gate.entered()
    assert done == []
    assert second.pending_count == 3
    gate.open()
    for handle in (b, c, d):
        handle.wait(PATIENCE_S)
    assert done == ["b", "c", "d"]


def test_work_waits_for_all_of_several(two: list[HostLane], gate: Gate) -> None:
    first, second = two
    waits = [first.submit(Call(gate)), first.submit(Call(gate)), first.submit(Call())]
    after = Call()
    handle = second.submit(after, waits=waits)
    for _ in range(2):
        gate.entered()
        assert after.ran == 0
        gate.open()
    handle.wait(PATIENCE_S)
    assert all(wait.done() for wait in waits)


def test_waiting_for_what_has_ended_costs_no_turn(two: list[HostLane]) -> None:
    first, second = two
    done = first.submit(Call())
    done.wait(PATIENCE_S)
    second.submit(Call(), waits=[done, done]).wait(PATIENCE_S)


def test_lanes_of_one_name_are_told_apart(gate: Gate) -> None:
    """as the lanes of two executors are"""
    mine, other = HostLane("lane 0", HERE), HostLane("lane 0", HERE)
    before = mine.submit(Call(gate))
    after = Call()
    handle = other.submit(after, waits=[before])
    gate.entered()
    gate.open()
    handle.wait(PATIENCE_S)
    assert before.done()
    for lane in (mine, other):
        lane.close()
        ended(lane)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_failed_wait_is_the_error_of_what_waited(two: list[HostLane], elsewhere: bool) -> None:
    """on the same lane and on another one; nothing runs"""
    first, second = two
    failed = first.submit(Call(_raise))
    after = Call()
    handle = (second if elsewhere else first).submit(after, waits=[failed])
    found = error_of(handle)
    assert isinstance(found, ArithmeticError)
    assert str(found) == "as told"
    assert after.ran == 0
    further = error_of(second.submit(after, waits=[handle]))
    assert isinstance(further, ArithmeticError)


def test_the_first_of_several_failed_waits_is_told(two: list[HostLane]) -> None:
    first, second = two
    fine, broken = first.submit(Call()), first.submit(Call(_raise))
    stopped = first.submit(Call(), stop=_stopped())
    after = Call()
    assert isinstance(error_of(second.submit(after, waits=[fine, broken, stopped])), ArithmeticError)
    assert after.ran == 0


def _raise() -> None:
    raise ArithmeticError("as told")


def _stopped() -> StopFlag:
    flag = StopFlag()
    flag.stopped = True
    return flag


# --- the end ---


def test_a_lane_that_was_never_used_has_no_thread() -> None:
    lane = HostLane("unused", HERE)
    assert lane._thread is None
    lane.close()
    lane.join()


def test_closing_lets_what_is_queued_run_to_its_end(gate: Gate) -> None:
    lane, later = HostLane("closing", HERE), Call()
    lane.submit(Call(gate))
    handle = lane.submit(later)
    gate.entered()
    lane.close()
    lane.close()
    gate.open()
    ended(lane)
    assert handle.done()
    assert later.ran == 1
    lane.close()


def test_closing_lets_what_waits_for_another_lane_run(gate: Gate) -> None:
    with lanes() as (other,):
        lane, later = HostLane("closing", HERE), Call()
        handle = lane.submit(later, waits=[other.submit(Call(gate))])
        lane.close()
        gate.open()
        handle.wait(PATIENCE_S)
        ended(lane)
        assert later.ran == 1


def test_a_closed_lane_refuses_and_says_so(lane: HostLane) -> None:
    lane.close()
    base = in_flight()
    handle = lane.submit(Call())
    assert handle.done()
    assert isinstance(handle.exception(), ExecutorClosed)
    with pytest.raises(ExecutorClosed):
        handle.wait()
    assert in_flight() == base
    assert lane.pending_count == 0


@pytest.mark.parametrize("_", range(20))
def test_closing_and_submitting_at_once_loses_nothing(_: int) -> None:
    """whatever was accepted runs, whatever was not says so"""
    lane, calls = HostLane("race", HERE), [Call() for _ in range(20)]
    start, handles = threading.Barrier(2), list[CompletionHandle]()

    def submit() -> None:
        start.wait(PATIENCE_S)
        handles.extend(lane.submit(call) for call in calls)

    thread = threading.Thread(target=submit)
    thread.start()
    start.wait(PATIENCE_S)
    lane.close()
    thread.join(PATIENCE_S)
    ended(lane)
    for call, handle in zip(calls, handles, strict=True):
        refused = isinstance(handle.exception(), ExecutorClosed)
        assert call.ran == (0 if refused else 1)


def test_an_idle_lane_that_nobody_refers_to_ends_its_thread() -> None:
    lane = HostLane("forgotten", HERE)
    lane.submit(Call()).wait(PATIENCE_S)
    thread, gone = lane._thread, weakref.ref(lane)
    assert thread is not None
    del lane
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert gone() is None


def test_a_lane_lives_until_its_work_is_done(gate: Gate) -> None:
    lane, later = HostLane("forgotten", HERE), Call()
    lane.submit(Call(gate))
    handle, thread = lane.submit(later), lane._thread
    gate.entered()
    del lane
    gc.collect()
    gate.open()
    handle.wait(PATIENCE_S)
    assert later.ran == 1
    assert thread is not None
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_lane_whose_work_waits_for_another_lives_too(gate: Gate) -> None:
    with lanes() as (other,):
        lane, later = HostLane("forgotten", HERE), Call()
        handle = lane.submit(later, waits=[other.submit(Call(gate))])
        del lane
        gc.collect()
        gate.open()
        handle.wait(PATIENCE_S)
        assert later.ran == 1


def test_an_idle_lane_keeps_nothing_of_its_work_alive(lane: HostLane) -> None:
    class Thing:
        pass

    thing, call = Thing(), Call()
    gone: list[weakref.ref[Any]] = [weakref.ref(thing), weakref.ref(call)]
    lane.submit(call, [thing]).wait(PATIENCE_S)
    failing = Call(_raise)
    gone.append(weakref.ref(failing))
    handle = lane.submit(failing, [thing])
    assert isinstance(error_of(handle), ArithmeticError)
    lane.submit(Call()).wait(PATIENCE_S)  # the thread is past both
    del thing, call, failing
    assert [ref() for ref in gone] == [None] * 3
    assert handle.done()


def test_a_thread_that_cannot_start_is_the_devices_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, base = HostLane("no thread", HERE), in_flight()

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        handle = lane.submit(Call())
    found = handle.exception()
    assert isinstance(found, DeviceLost)
    assert "can't start new thread" in str(found)
    assert (in_flight(), lane.pending_count) == (base, 0)
    lane.submit(Call()).wait(PATIENCE_S)  # it is tried anew
    lane.close()
    ended(lane)


def test_a_lane_can_be_joined_from_its_own_thread(lane: HostLane) -> None:
    lane.submit(Call(lane.join)).wait(PATIENCE_S)


def test_threads_carry_the_name_of_the_package(lane: HostLane) -> None:
    names: list[str] = []
    lane.submit(Call(lambda: names.append(threading.current_thread().name))).wait(PATIENCE_S)
    assert names == ["fuel_async lane 0"]
    assert lane._thread is not None
    assert lane._thread.daemon


# --- what kernels do ---


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt("now"), SystemExit(3), GeneratorExit("end"), asyncio.CancelledError("not you"),
        StopIteration("next"), StopAsyncIteration("next"), BaseException("base"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_what_would_steer_the_waiter_is_the_cause_of_a_failure(error: BaseException) -> None:
    def work() -> None:
        raise error

    with lanes() as (lane,):
        handle = lane.submit(Call(work))
        with pytest.raises(KernelFailed) as caught:
            await handle
        assert type(caught.value.__cause__) is type(error)
        assert caught.value.__cause__.args == error.args
        assert type(error).__name__ in str(caught.value)
        assert type(handle.exception()) is type(error)
        await lane.submit(Call())  # the thread lives


def test_an_error_that_refuses_everything_does_not_kill_the_thread(lane: HostLane) -> None:
    class Stubborn(Exception):
        __notes__ = "not a list"  # type: ignore[assignment]

        def __str__(self) -> str:
            raise RuntimeError("no text")

        def __bool__(self) -> bool:
            raise RuntimeError("no truth")

    error = Stubborn()
    error.__cause__ = error

    def work() -> None:
        raise error

    assert isinstance(error_of(lane.submit(Call(work))), Stubborn)
    lane.submit(Call()).wait(PATIENCE_S)


def test_numpy_is_silent_in_a_lane(lane: HostLane) -> None:
    """warnings are errors here: a division by zero would fail the work"""
    out = np.empty(1)
    lane.submit(Call(lambda: np.divide(np.ones(1), np.zeros(1), out))).wait(PATIENCE_S)
    assert np.isinf(out[0])


def test_stopped_work_is_not_begun(lane: HostLane, gate: Gate) -> None:
    flag, call = StopFlag(), Call()
    lane.submit(Call(gate))
    handle = lane.submit(call, stop=flag)
    gate.entered()
    flag.stopped = True
    gate.open()
    assert isinstance(error_of(handle), Stopped)
    assert call.ran == 0


def test_the_stop_flag_and_the_pace_reach_the_instance(lane: HostLane) -> None:
    call = Call()
    lane.submit(call, stop=StopFlag()).wait(PATIENCE_S)
    assert len(call.paces) == 1
    assert call.paces[0] is not None


# --- copies ---


def test_a_copy_follows_strides(lane: HostLane) -> None:
    src, dst = np.arange(6.0).reshape(2, 3), np.zeros((3, 2))
    lane.submit_copy(src, dst.T).wait(PATIENCE_S)
    assert dst.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_copy_waits(two: list[HostLane], gate: Gate) -> None:
    first, second = two
    src, dst = np.zeros(3), np.ones(3)

    def fill() -> None:
        gate()
        src.fill(7)

    handle = second.submit_copy(src, dst, waits=[first.submit(Call(fill))])
    gate.entered()
    gate.open()
    handle.wait(PATIENCE_S)
    assert dst.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("src", "dst", "error"),
    [
        (np.zeros(3), np.zeros((2, 3)), ShapeMismatch),
        (np.zeros(3), np.zeros(3, np.float32), TypeError),
    ],
)
def test_a_copy_neither_broadcasts_nor_casts(
    lane: HostLane, src: np.ndarray[Any, Any], dst: np.ndarray[Any, Any], error: type[Exception]
) -> None:
    assert isinstance(error_of(lane.submit_copy(src, dst)), error)


# --- counters ---


def test_what_is_in_flight_is_counted_until_it_settles(lane: HostLane, gate: Gate) -> None:
    base_count, base_ns = in_flight()
    handles = [lane.submit(Call(gate, predicted_ns=1_000 * n)) for n in (1, 2, 3)]
    assert in_flight() == (base_count + 3, base_ns + 6_000)
    assert (lane.pending_count, lane.pending_ns) == (3, 6_000)
    assert lane.due_ns != NEVER
    for left, handle in zip(((2, 5_000), (1, 3_000), (0, 0)), handles, strict=True):
        gate.entered()
        gate.open()
        handle.wait(PATIENCE_S)
        assert in_flight() == (base_count + left[0], base_ns + left[1])
    assert lane.due_ns == NEVER


def test_failed_and_stopped_work_is_counted_down_too(lane: HostLane) -> None:
    base = in_flight()
    error_of(lane.submit(Call(_raise)))
    error_of(lane.submit(Call(), stop=_stopped()))
    assert in_flight() == base


def test_uncounted_work_is_none_of_the_devices(gate: Gate) -> None:
    base, lane = in_flight(), HostLane("planner", HERE, counted=False)
    handle = lane.submit(Call(gate, predicted_ns=5_000))
    assert in_flight() == base
    assert (lane.pending_count, lane.pending_ns) == (1, 5_000)
    gate.open()
    handle.wait(PATIENCE_S)
    lane.close()
    ended(lane)


# --- giving the interpreter away ---


class Clock:
    """A clock that only sleeps and tests move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.slept = 10**9, list[float]()
        #: What a sleep takes, and processor time of other threads meanwhile.
        self.sleep_ns, self.others_ns = 60_000, 10**6
        self.process_ns = 0
        monkeypatch.setattr(host_module, "perf_counter_ns", lambda: self.now_ns)
        monkeypatch.setattr(host_module, "process_time_ns", lambda: self.process_ns)
        monkeypatch.setattr(host_module, "thread_time_ns", lambda: 0)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ns += self.sleep_ns
        self.process_ns += self.others_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def server(clock: Clock) -> _Server:
    lane = HostLane("paced", HERE)
    made = _Server(lane, lane._jobs)
    made._due, made._gave_ns = lane, clock.now_ns
    return made


def _paced(server: _Server, clock: Clock, chunk_ns: int, holds: bool = True) -> HostLane:
    """Say that a stretch of kernels comes, and let its time go by."""
    server._pace(holds, chunk_ns)
    clock.now_ns += chunk_ns
    assert server._due is not None
    return server._due


def test_a_lane_sleeps_after_a_stretch_of_kernels_that_hold_the_interpreter(clock: Clock, server: _Server) -> None:
    chunks = STRETCH_NS // 64_000 + 1
    for _ in range(chunks):
        _paced(server, clock, 64_000)
    assert clock.slept == []
    _paced(server, clock, 64_000)
    assert len(clock.slept) == 1
    _paced(server, clock, 64_000)
    assert len(clock.slept) == 1


def test_kernels_that_release_the_interpreter_need_no_sleep(clock: Clock, server: _Server) -> None:
    for _ in range(100):
        _paced(server, clock, 64_000, holds=False)
    assert clock.slept == []


def test_a_lane_says_when_the_next_word_is_due(clock: Clock, server: _Server) -> None:
    lane = _paced(server, clock, 64_000)
    assert lane.due_ns == clock.now_ns + LATE_NS
    _paced(server, clock, 1_000_000)
    assert lane.due_ns == clock.now_ns + LATE_NS


def test_stretches_grow_with_the_price_of_a_sleep(clock: Clock, server: _Server) -> None:
    clock.sleep_ns = 120_000
    while not clock.slept:
        _paced(server, clock, 64_000)
    assert server._stretch_ns == 300_000
    clock.sleep_ns = 10**7
    while len(clock.slept) < 2:
        _paced(server, clock, 64_000)
    assert server._stretch_ns == LONGEST_STRETCH_NS
    clock.sleep_ns = 60_000
    while len(clock.slept) < 3:
        _paced(server, clock, 64_000)
    assert server._stretch_ns == STRETCH_NS


def test_stretches_grow_while_no_other_thread_has_anything_to_do(clock: Clock, server: _Server) -> None:
    clock.others_ns = 0
    lengths = []
    for _ in range(5):
        before = len(clock.slept)
        while len(clock.slept) == before:
            _paced(server, clock, 64_000)
        lengths.append(server._stretch_ns)
    assert lengths == sorted(lengths)
    assert lengths[-1] == LONGEST_STRETCH_NS
    clock.others_ns = 10**6
    while len(clock.slept) < 6:
        _paced(server, clock, 64_000)
    assert server._stretch_ns == STRETCH_NS


def test_a_lane_of_rare_work_may_have_longer_stretches(clock: Clock) -> None:
    lane = HostLane("planner", HERE, longest_stretch_ns=2 * LONGEST_STRETCH_NS)
    server = _Server(lane, lane._jobs)
    server._due, server._gave_ns = lane, clock.now_ns
    clock.others_ns = 0
    while len(clock.slept) < 5:
        _paced(server, clock, 64_000)
    assert server._stretch_ns == 2 * LONGEST_STRETCH_NS


@pytest.mark.parametrize(("sleep_ns", "argument_s"), [(55_000, 0.0), (5_000, SLEEP_NS / 1e9)])
def test_the_shortest_sleep_is_one_that_lasts(clock: Clock, sleep_ns: int, argument_s: float) -> None:
    """a sleep of 0 lasts as long as the timer slack; where that is short, 50 µs are asked for"""
    clock.sleep_ns = sleep_ns
    assert host_module._shortest_sleep_s() == argument_s
