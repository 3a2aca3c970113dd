"""Capture: what becomes a graph, what a graph does, and what spoils a capture."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.testing.cuda_double.support import LONG_S, Rig, bytes_at, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
MODES = {"global": GLOBAL, "thread-local": THREAD_LOCAL, "relaxed": RELAXED}


def test_captured_work_runs_when_it_is_launched(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture(THREAD_LOCAL)
    assert stream.is_capturing()
    rig.launch(stream, "note", 1)
    rig.launch(stream, "note", 2)
    graph = stream.end_capture()
    assert not stream.is_capturing()
    stream.synchronize()
    assert rig.noted == []
    graph.upload(stream)
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()
    assert rig.noted == [1, 2, 1, 2]
    counts = rig.machine.counts()
    assert (counts.launches, counts.graph_launches) == (2, 2)


def test_a_graph_goes_to_the_current_stream_by_default(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    with stream:
        stream.begin_capture()
        rig.launch(stream, "note", 1)
        graph = stream.end_capture()
    with other:
        graph.launch()
    other.synchronize()
    assert rig.noted == [1]


def test_a_graph_keeps_addresses_and_numbers_and_reads_bytes_anew(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4)
    pinned, array = rig.pinned(np.zeros(4, np.uint8))
    push = np.zeros(1, [("n", np.uint32)])
    push["n"] = 7
    stream.begin_capture(THREAD_LOCAL)
    rig.runtime.memcpyAsync(memory.ptr, pinned.ptr, 4, 1, stream.ptr)
    rig.launch(stream, "add_one", np.uint64(memory.ptr), 4)
    rig.launch(stream, "note", push[0]["n"])
    graph = stream.end_capture()
    push["n"] = 8
    for value in (10, 20):
        array[:] = value
        graph.launch(stream)
        stream.synchronize()
        assert bytes_at(memory.ptr, 4) == bytes([value + 1] * 4)
    assert rig.noted == [7, 7]


def test_a_graph_that_uses_freed_memory_ends_the_device(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4)
    stream.begin_capture(THREAD_LOCAL)
    rig.launch(stream, "add_one", np.uint64(memory.ptr), 4)
    graph = stream.end_capture()
    del memory
    graph.launch(stream)
    assert rig.status_of(stream.synchronize) == 700


def test_launches_of_one_graph_do_not_overlap(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture()
    rig.launch(stream, "gate")
    graph = stream.end_capture()
    graph.launch(stream)
    rig.gates.wait_running()
    graph.launch(other)
    rig.launch(other, "note", 1)
    assert not rig.gates.running.acquire(timeout=0.05)
    assert rig.noted == []
    rig.gates.open()
    other.synchronize()
    assert rig.noted == [1]


def test_a_graph_belongs_to_its_device(rig: Rig) -> None:
    stream = rig.stream(0)
    stream.begin_capture()
    graph = stream.end_capture()
    assert rig.status_of(graph.launch, rig.stream(1)) == 1


def test_a_graph_that_was_given_back_is_refused(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture()
    graph = stream.end_capture()
    number = graph.graphExec
    assert rig.machine.leaks().graphs == 1
    del graph
    assert rig.machine.leaks().graphs == 0
    assert rig.status_of(rig.runtime.graphLaunch, number, stream.ptr) == 1


# --- several streams --------------------------------------------------------------------------------------------------


def test_streams_join_a_capture_by_its_events(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(THREAD_LOCAL)
    rig.launch(stream, "note", 1)
    other.wait_event(stream.record(rig.event()))
    assert other.is_capturing()
    rig.launch(other, "note", 2)
    stream.wait_event(other.record(rig.event()))
    rig.launch(stream, "note", 3)
    graph = stream.end_capture()
    assert not other.is_capturing()
    assert rig.noted == []
    graph.launch(stream)
    stream.synchronize()
    assert rig.noted == [1, 2, 3]


def test_work_that_is_not_joined_again_fails_the_capture(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(THREAD_LOCAL)
    other.wait_event(stream.record(rig.event()))
    rig.launch(other, "note", 1)
    assert rig.status_of(stream.end_capture) == 904
    assert not other.is_capturing()
    rig.launch(other, "note", 2)
    other.synchronize()
    assert rig.noted == [2]


def test_a_capture_ends_where_it_began(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(THREAD_LOCAL)
    other.wait_event(stream.record(rig.event()))
    assert rig.status_of(other.end_capture) == 903
    assert rig.status_of(stream.end_capture) == 901
    assert rig.status_of(stream.end_capture) == 401


def test_a_capture_waits_for_nothing_outside(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    event = other.record(rig.event())
    stream.begin_capture(THREAD_LOCAL)
    assert rig.status_of(stream.wait_event, event) == 905
    assert rig.status_of(stream.end_capture) == 901


def test_captures_do_not_merge(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(RELAXED)
    other.begin_capture(RELAXED)
    event = stream.record(rig.event())
    assert rig.status_of(other.wait_event, event) == 902
    assert rig.status_of(stream.end_capture) == 901
    assert rig.status_of(other.end_capture) == 901


def test_an_event_of_a_capture_that_is_over_cannot_be_waited_for(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(RELAXED)
    event = stream.record(rig.event())
    graph = stream.end_capture()
    assert rig.status_of(other.wait_event, event) == 907
    assert rig.runtime.eventQuery(event.ptr) == 907
    stream.record(event)
    other.wait_event(event)
    assert graph is not None


# --- what spoils it ---------------------------------------------------------------------------------------------------

#: Calls about the capture itself, refused in every mode: each with the status it raises.
OWN: dict[str, tuple[int, Callable[[Rig, Any, Any], Any]]] = {
    "synchronize": (900, lambda rig, stream, event: stream.synchronize()),
    "event.synchronize": (907, lambda rig, stream, event: event.synchronize()),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OWN)
def test_a_capture_is_spoiled_by_waiting_for_it(rig: Rig, name: str, mode: str) -> None:
    status, call = OWN[name]
    stream = rig.stream()
    stream.begin_capture(MODES[mode])
    event = stream.record(rig.event())
    assert rig.status_of(call, rig, stream, event) == status
    assert rig.status_of(rig.launch, stream, "note", 1) == 901
    assert rig.status_of(stream.is_capturing) == 901
    assert rig.status_of(stream.end_capture) == 901
    rig.launch(stream, "note", 2)
    stream.synchronize()
    assert rig.noted == [2]


def test_asking_spoils_it_too(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture(RELAXED)
    assert rig.runtime.streamQuery(stream.ptr) == 900
    assert rig.status_of(stream.end_capture) == 901
    stream.begin_capture(RELAXED)
    assert rig.runtime.eventQuery(stream.record(rig.event()).ptr) == 907
    assert rig.status_of(stream.end_capture) == 901


#: Calls that may make the driver wait, on nothing that is captured.
UNSAFE: dict[str, Callable[[Rig, Any, Any], Any]] = {
    "malloc": lambda rig, stream, event: rig.runtime.malloc(8),
    "hostAlloc": lambda rig, stream, event: rig.runtime.hostAlloc(8, 0),
    "free": lambda rig, stream, event: rig.runtime.free(rig.machine.addresses.live()[0].start),
    "synchronize": lambda rig, stream, event: stream.synchronize(),
    "event.synchronize": lambda rig, stream, event: event.synchronize(),
    "deviceSynchronize": lambda rig, stream, event: rig.runtime.deviceSynchronize(),
    "compile": lambda rig, stream, event: rig.cupy.RawModule(code="// new").get_function("note"),
    "eventQuery": lambda rig, stream, event: _raised(rig, rig.runtime.eventQuery(event.ptr)),
    "streamQuery": lambda rig, stream, event: _raised(rig, rig.runtime.streamQuery(stream.ptr)),
}


def _raised(rig: Rig, status: int) -> None:
    if status:
        raise rig.runtime.CUDARuntimeError(status)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same-thread", "other-thread"])
@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_calls_are_refused_as_the_mode_says(rig: Rig, name: str, mode: str, elsewhere: bool) -> None:
    memory = rig.runtime.malloc(8)
    stream, other, event = rig.stream(), rig.stream(), rig.event()
    rig.launch(stream, "note", 0)
    stream.synchronize()
    stream.begin_capture(MODES[mode])
    rig.launch(stream, "note", 1)

    def call() -> int:
        return rig.status_of(UNSAFE[name], rig, other, event)

    is_refused = mode == "global" or (mode == "thread-local" and not elsewhere)
    assert (in_thread(call) if elsewhere else call()) == (900 if is_refused else 0)
    assert rig.status_of(stream.end_capture) == (901 if is_refused else 0)
    assert memory


def test_other_threads_work_as_before_while_one_captures(rig: Rig) -> None:
    stream, other = rig.stream(), rig.stream()
    stream.begin_capture(THREAD_LOCAL)

    def work() -> list[int]:
        memory = rig.memory(8)
        rig.launch(other, "note", 1)
        other.record(rig.event()).synchronize()
        del memory
        return list(rig.noted)

    assert in_thread(work) == [1]
    stream.end_capture()


def test_a_capture_that_is_not_relaxed_ends_in_its_own_thread(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture(THREAD_LOCAL)
    assert in_thread(lambda: rig.status_of(stream.end_capture)) == 908
    stream.end_capture()
    stream.begin_capture(RELAXED)
    assert in_thread(lambda: rig.status_of(stream.end_capture)) == 0


def test_copies_of_pageable_memory_cannot_be_captured(rig: Rig) -> None:
    stream, memory, array = rig.stream(), rig.memory(4), np.zeros(4, np.uint8)
    stream.begin_capture(RELAXED)
    assert rig.status_of(rig.runtime.memcpyAsync, memory.ptr, array.ctypes.data, 4, 1, stream.ptr) == 900
    assert rig.status_of(stream.end_capture) == 901


def test_a_stream_captures_once_at_a_time_and_the_legacy_one_never(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture()
    assert rig.status_of(stream.begin_capture) == 401
    stream.end_capture()
    with pytest.raises(RuntimeError, match="legacy"):
        rig.cupy.cuda.Stream.null.begin_capture()
    with pytest.raises(NotImplementedError):
        rig.cupy.cuda.Graph()


def test_a_stream_that_is_given_back_forgets_its_capture(rig: Rig) -> None:
    stream = rig.stream()
    stream.begin_capture(GLOBAL)
    assert rig.machine.leaks().captures == 1
    del stream
    assert rig.machine.leaks().captures == 0
    rig.memory(8)


def test_errors_of_a_graph_end_the_device_when_it_runs(rig: Rig) -> None:
    stream, done = rig.stream(), threading.Event()
    stream.begin_capture()
    rig.launch(stream, "note", 1)
    rig.launch(stream, "crash")
    rig.launch(stream, "note", 2)
    graph = stream.end_capture()
    done.set()
    graph.launch(stream)
    assert rig.status_of(stream.synchronize) == 719
    assert rig.noted == [1]
    assert done.wait(LONG_S)
