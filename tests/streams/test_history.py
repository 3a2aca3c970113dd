"""What a program was measured to take."""

from __future__ import annotations

import pytest

from fuel_async.streams import History
from fuel_async.streams.history import REMEMBERED, SAMPLED


def test_before_anything_is_known_the_cost_model_is_believed() -> None:
    history = History(500)
    assert (history.predicted_ns, history.measured_median_ns) == (500, None)


def test_the_first_completion_is_dropped() -> None:
    """it pays for cold caches, page faults and compilation"""
    history = History(500)
    history.record(90_000)
    assert (history.predicted_ns, history.measured_median_ns) == (500, None)
    history.record(100)
    assert (history.predicted_ns, history.measured_median_ns) == (100, 100)


def test_the_mean_predicts_and_the_median_decides() -> None:
    history = History(500)
    for ns in (0, 100, 200, 900):
        history.record(ns)
    assert (history.predicted_ns, history.measured_median_ns) == (400, 200)


def test_only_the_last_ones_are_remembered() -> None:
    history = History(500)
    for _ in range(1 + REMEMBERED):
        history.record(10_000)
    for _ in range(SAMPLED * REMEMBERED):
        history.record(100)
    assert (history.predicted_ns, history.measured_median_ns) == (100, 100)


def test_a_slow_down_is_noticed_in_a_steady_state() -> None:
    history = History(1)
    for _ in range(1 + REMEMBERED):
        history.record(100)
    for _ in range(SAMPLED * (REMEMBERED // 2 + 1)):
        history.record(900)
    assert history.measured_median_ns == 900


@pytest.mark.parametrize("count", range(3 * REMEMBERED))
def test_it_says_beforehand_which_completions_it_will_remember(count: int) -> None:
    history = History(1)
    for _ in range(count):
        history.record(0)
    before, due = history.predicted_ns, history.due
    history.record(8_000_000)
    assert (history.predicted_ns != before) <= due
    if count:
        assert (history.predicted_ns != before) is due
