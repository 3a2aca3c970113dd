"""Several handles at once: when all have settled, and the first error among them."""

from __future__ import annotations

import threading

import pytest

from fuel_async.errors import KernelFailed
from fuel_async.ir import CPU_DEVICE
from fuel_async.streams import CompletionHandle, HostSignal, Timing, first_error, when_all

TIMING = Timing(CPU_DEVICE, "lane", 0, 0, 0, 0)


def pending() -> CompletionHandle:
    return CompletionHandle(HostSignal(), CPU_DEVICE, "lane", 0)


def failure(node: str) -> KernelFailed:
    return KernelFailed(node, "cpu:0", "no")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_all_have_settled_when_the_last_one_has(order: tuple[int, ...]) -> None:
    handles, calls = [pending() for _ in range(3)], list[int]()
    when_all(handles, lambda: calls.append(1))
    for place in order:
        assert calls == []
        handles[place].settle(TIMING, failure("a") if place == 1 else None)
    assert calls == [1]


def test_what_has_settled_already_is_not_waited_for() -> None:
    done, calls = pending(), list[int]()
    done.settle(TIMING)
    when_all([done, done], lambda: calls.append(1))
    when_all([], lambda: calls.append(2))
    assert calls == [1, 2]


def test_threads_that_settle_at_once_call_once() -> None:
    for _ in range(50):
        handles, calls, start = [pending() for _ in range(4)], list[int](), threading.Barrier(4)

        def settle(handle: CompletionHandle, start: threading.Barrier = start) -> None:
            start.wait()
            handle.settle(TIMING)

        when_all(handles, lambda calls=calls: calls.append(1))  # type: ignore[misc]
        threads = [threading.Thread(target=settle, args=(handle,)) for handle in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert calls == [1]


def test_the_first_error_is_that_of_what_has_settled() -> None:
    handles = [pending() for _ in range(4)]
    assert first_error(handles) is None
    handles[0].settle(TIMING)
    assert first_error(handles) is None
    handles[3].settle(TIMING, failure("d"))
    assert "d failed" in str(first_error(handles))
    handles[2].settle(TIMING, failure("c"))
    found, again = first_error(handles), first_error(handles)
    assert "c failed" in str(found)
    assert found is not again
