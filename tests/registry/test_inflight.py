"""In-flight counters: saturating, per device, safe from any thread."""

from __future__ import annotations

import threading

import pytest

from fuel_async.ir import BackendId, DeviceLocation
from fuel_async.registry import (
    InflightCounters,
    inflight_count,
    inflight_dec,
    inflight_inc,
    pending_ns,
    pending_ns_add,
)

HERE, THERE = DeviceLocation(BackendId("test"), 0), DeviceLocation(BackendId("test"), 1)


@pytest.fixture
def counters() -> InflightCounters:
    return InflightCounters()


def test_n_increments_and_n_decrements_return_to_the_base_line_each_step_visible(
    counters: InflightCounters,
) -> None:
    seen = []
    for step in (counters.inc, counters.inc, counters.inc, counters.dec, counters.dec, counters.dec):
        step(HERE)
        seen.append(counters.count(HERE))
    assert seen == [1, 2, 3, 2, 1, 0]


def test_a_decrement_on_an_untouched_device_stays_at_zero(counters: InflightCounters) -> None:
    counters.dec(HERE)
    assert counters.count(HERE) == 0
    counters.inc(HERE)
    assert counters.count(HERE) == 1


def test_a_decrement_too_many_saturates_at_zero(counters: InflightCounters) -> None:
    counters.inc(HERE)
    counters.dec(HERE)
    counters.dec(HERE)
    assert counters.count(HERE) == 0


def test_two_devices_do_not_interfere(counters: InflightCounters) -> None:
    counters.inc(HERE)
    counters.inc(THERE)
    counters.inc(THERE)
    counters.dec(HERE)
    assert (counters.count(HERE), counters.count(THERE)) == (0, 2)


def test_predicted_time_adds_up_and_never_goes_below_zero(counters: InflightCounters) -> None:
    assert counters.pending_ns(HERE) == 0
    counters.pending_ns_add(HERE, 500)
    counters.pending_ns_add(HERE, 250)
    counters.pending_ns_add(HERE, -500)
    assert (counters.pending_ns(HERE), counters.pending_ns(THERE)) == (250, 0)
    counters.pending_ns_add(HERE, -9_999)
    assert counters.pending_ns(HERE) == 0


def test_increments_and_decrements_of_many_threads_balance(counters: InflightCounters) -> None:
    def work() -> None:
        for _ in range(300):
            counters.inc(HERE)
            counters.pending_ns_add(HERE, 7)
            counters.pending_ns_add(HERE, -7)
            counters.dec(HERE)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counters.count(HERE), counters.pending_ns(HERE)) == (0, 0)


def test_the_process_counts_all_executors_together() -> None:
    before = inflight_count(HERE)
    inflight_inc(HERE)
    pending_ns_add(HERE, 40)
    assert (inflight_count(HERE), pending_ns(HERE)) == (before + 1, 40)
    inflight_dec(HERE)
    pending_ns_add(HERE, -40)
    assert (inflight_count(HERE), pending_ns(HERE)) == (before, 0)
