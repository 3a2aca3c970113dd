"""The topology generation only grows, and tells who asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fuel_async.registry import (
    GenerationCounter,
    bump_topology_generation,
    on_topology_change,
    topology_generation,
)

if TYPE_CHECKING:
    import pytest


def test_a_generation_starts_at_zero_and_grows_by_one() -> None:
    counter = GenerationCounter()
    assert counter.current() == 0
    assert [counter.bump(), counter.bump()] == [1, 2]
    assert counter.current() == 2


def test_bumps_of_many_threads_are_all_counted() -> None:
    counter = GenerationCounter()
    threads = [threading.Thread(target=lambda: [counter.bump() for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.current() == 800


def test_callbacks_hear_every_bump_until_they_leave() -> None:
    counter, heard = GenerationCounter(), list[int]()
    leave = counter.on_change(heard.append)
    counter.bump()
    leave()
    leave()
    counter.bump()
    assert heard == [1]


def test_a_callback_sees_the_generation_it_is_told_of() -> None:
    counter, seen = GenerationCounter(), list[tuple[int, int]]()
    counter.on_change(lambda generation: seen.append((generation, counter.current())))
    counter.bump()
    assert seen == [(1, 1)]


def test_a_callback_that_raises_is_dropped_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counter, heard = GenerationCounter(), list[int]()

    def broken(generation: int) -> None:
        raise ValueError("broken callback")

    counter.on_change(broken)
    counter.on_change(heard.append)
    assert [counter.bump(), counter.bump()] == [1, 2]
    assert heard == [1, 2]
    assert [record.message.split(":")[0] for record in caplog.records] == ["dropped a topology callback that raised"]


def test_the_processes_generation_is_one_counter() -> None:
    heard: list[int] = []
    leave = on_topology_change(heard.append)
    before = topology_generation()
    bumped = bump_topology_generation()
    leave()
    assert bumped == before + 1 == topology_generation()
    assert heard == [bumped]
