"""The cyclic collector, held by several at a time."""

from __future__ import annotations

import gc
import threading

import pytest

from fuel_async.runtime.collecting import COLLECTOR, Collector


def test_the_last_holder_lets_it_work() -> None:
    with COLLECTOR.held():
        with COLLECTOR.held():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_holders_of_several_threads_are_counted_together() -> None:
    begun, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with COLLECTOR.held():
            begun.set()
            assert enough.wait(10)

    thread = threading.Thread(target=hold)
    with COLLECTOR.held():
        thread.start()
        assert begun.wait(10)
    assert not gc.isenabled()
    enough.set()
    thread.join()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    with pytest.raises(ArithmeticError), COLLECTOR.held():
        raise ArithmeticError
    assert gc.isenabled()


def test_who_works_without_it_goes_on_so() -> None:
    gc.disable()
    try:
        with COLLECTOR.held():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_fork_forgets_the_holders_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    with collector.held():
        monkeypatch.setattr("fuel_async.runtime.collecting.fork_generation", lambda: 1_000)
        with collector.held():
            assert not gc.isenabled()
        assert gc.isenabled()
        collector._holders += 1  # the parent's, which in a fork nobody lets go
