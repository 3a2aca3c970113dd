"""Events mark a place in a stream at the moment they are recorded, and streams wait for where they were then."""

from __future__ import annotations

import threading

import pytest

from tests.testing.cuda_double.support import LONG_S, SHORT_S, Rig


def test_an_event_that_was_never_recorded_is_done(rig: Rig) -> None:
    event, stream = rig.event(), rig.stream()
    assert rig.runtime.eventQuery(event.ptr) == 0
    event.synchronize()
    stream.wait_event(event)
    rig.launch(stream, "note", 1)
    stream.synchronize()
    assert rig.noted == [1]


@pytest.mark.parametrize("timing", [False, True])
def test_an_event_is_done_when_what_came_before_it_is(rig: Rig, timing: bool) -> None:
    stream = rig.stream()
    event = rig.event(timing=timing)
    rig.gate(stream)
    stream.record(event)
    rig.launch(stream, "gate")
    assert rig.runtime.eventQuery(event.ptr) == 600
    assert not event.done
    rig.gates.running.acquire(blocking=False)
    rig.gates.open()
    event.synchronize()
    assert rig.runtime.eventQuery(event.ptr) == 0
    assert event.done


def test_an_event_says_nothing_of_what_comes_after_it(rig: Rig) -> None:
    stream = rig.stream()
    rig.launch(stream, "note", 1)
    event = stream.record(rig.event())
    rig.gate(stream)
    event.synchronize()
    assert rig.noted == [1]
    assert rig.runtime.streamQuery(stream.ptr) == 600


def test_a_recorded_event_marks_its_new_place(rig: Rig) -> None:
    stream, event = rig.stream(), rig.event()
    stream.record(event)
    assert rig.runtime.eventQuery(event.ptr) == 0
    rig.gate(stream)
    stream.record(event)
    assert rig.runtime.eventQuery(event.ptr) == 600


def test_a_stream_waits_for_where_an_event_was_when_told(rig: Rig) -> None:
    first, second, waiting = rig.stream(), rig.stream(), rig.stream()
    event = rig.event()
    rig.gate(first)
    rig.launch(first, "note", 1)
    first.record(event)
    rig.gate(waiting)  # the wait comes to its turn after the event has moved
    waiting.wait_event(event)
    rig.launch(second, "other_gate")
    second.record(event)  # moves the event, not the wait
    rig.launch(waiting, "note", 2)
    rig.gates.open()
    waiting.synchronize()
    assert rig.noted == [1, 2]
    assert rig.runtime.eventQuery(event.ptr) == 600


def test_a_stream_waits_for_an_event_of_another_device(rig: Rig) -> None:
    first, second = rig.stream(0), rig.stream(1)
    rig.cupy.cuda.Device(0).use()
    rig.gate(first)
    event = first.record(rig.event())
    second.wait_event(event)
    rig.cupy.cuda.Device(1).use()
    rig.launch(second, "note", 1)
    after = second.record(rig.event())
    assert rig.runtime.eventQuery(after.ptr) == 600
    del event  # who waits still waits
    rig.gates.open()
    after.synchronize()
    assert rig.noted == [1]


def test_an_event_is_recorded_on_its_own_device_only(rig: Rig) -> None:
    stream = rig.stream(1)
    rig.cupy.cuda.Device(0).use()
    event = rig.event()
    assert rig.status_of(stream.record, event) == 400
    rig.cupy.cuda.Device(1).use()
    assert rig.status_of(event.record, stream) == 400
    stream.record(rig.event())


def test_an_event_that_was_given_back_is_refused(rig: Rig) -> None:
    event, stream = rig.event(), rig.stream()
    ptr = event.ptr
    del event
    assert rig.runtime.eventQuery(ptr) == 400
    assert rig.status_of(rig.runtime.eventRecord, ptr, stream.ptr) == 400
    assert rig.machine.leaks().events == 0


def test_waiting_for_an_event_lets_other_threads_run(rig: Rig) -> None:
    stream = rig.stream()
    rig.gate(stream)
    event = stream.record(rig.event())
    done = threading.Event()

    def wait() -> None:
        event.synchronize()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not done.wait(SHORT_S)
    rig.gates.open()
    assert done.wait(LONG_S)
    thread.join(LONG_S)


def test_time_between_events(rig: Rig) -> None:
    stream = rig.stream()
    elapsed = rig.cupy.cuda.get_elapsed_time
    begin, end, plain = rig.event(timing=True), rig.event(timing=True), rig.event()
    assert rig.status_of(elapsed, begin, end) == 400
    stream.record(begin)
    rig.gate(stream)
    stream.record(end)
    stream.record(plain)
    assert rig.status_of(elapsed, begin, end) == 600
    rig.gates.open()
    end.synchronize()
    assert elapsed(begin, end) > 0
    assert elapsed(begin, begin) == 0
    assert rig.status_of(elapsed, begin, plain) == 400


def test_an_event_goes_to_the_current_stream_by_default(rig: Rig) -> None:
    stream, event = rig.stream(), rig.event()
    rig.gate(stream)
    with stream:
        event.record()
    assert rig.runtime.eventQuery(event.ptr) == 600
