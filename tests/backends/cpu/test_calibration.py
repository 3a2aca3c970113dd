"""Measuring the host: once a process, quickly, and always with a usable result."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.backends.cpu import calibration
from fuel_async.backends.cpu.calibration import Calibration, measure
from fuel_async.cost import Rates

if TYPE_CHECKING:
    from collections.abc import Callable


def test_rates_are_measured_at_the_first_call_and_never_change() -> None:
    measured: list[Rates] = []

    def once() -> Rates:
        measured.append(Rates(call_ns=len(measured) + 1))
        return measured[-1]

    one = Calibration(once)
    assert measured == []
    assert one.rates() is one.rates() is measured[0]
    assert len(measured) == 1


def test_many_threads_measure_once() -> None:
    start, calls, found = threading.Barrier(4), list[None](), list[Rates]()

    def slow() -> Rates:
        calls.append(None)
        return Rates(call_ns=7)

    one = Calibration(slow)

    def ask() -> None:
        start.wait(20)
        found.append(one.rates())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(calls) == 1
    assert len({id(rates) for rates in found}) == 1


def test_a_measurement_that_failed_is_made_again() -> None:
    outcomes: list[Callable[[], Rates]] = [_fail, lambda: Rates(call_ns=3)]
    one = Calibration(lambda: outcomes.pop(0)())
    with pytest.raises(MemoryError):
        one.rates()
    assert one.rates().call_ns == 3


def _fail() -> Rates:
    raise MemoryError


def test_the_hosts_rates_are_plausible() -> None:
    """within orders of magnitude of any machine that runs numpy"""
    rates = measure()
    assert rates.call_ns is not None
    assert 20 <= rates.call_ns <= 100_000
    assert 0.01 <= rates.flops_per_ns <= 1_000
    assert 0.01 <= rates.dense_flops_per_ns <= 10_000
    assert 0.01 <= rates.bytes_per_ns <= 10_000


def test_the_fastest_of_several_measurements_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """disturbances only ever add time"""
    times = iter([0, 900, 1_000, 1_100, 2_000, 2_500, 3_000, 3_400, 4_000, 4_800])
    monkeypatch.setattr(calibration, "perf_counter_ns", times.__next__)
    assert calibration._fastest(lambda: None) == 100


def test_a_clock_that_does_not_move_gives_usable_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "perf_counter_ns", lambda: 5)
    rates = measure()
    assert rates.call_ns == 1
    assert min(rates.flops_per_ns, rates.dense_flops_per_ns, rates.bytes_per_ns) > 0


def test_measuring_leaves_numpys_error_state_alone() -> None:
    with np.errstate(all="raise"):
        measure()
        assert set(np.geterr().values()) == {"raise"}
