"""The door by which threads enter a loop: one wake a batch, in order, within a time budget, and never a hang."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.streams import Waker
from fuel_async.streams import waker as waker_module
from tests.streams.support import PATIENCE_S, turns

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Counted:
    """A loop of which nothing but the wakes is used, and counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.wakes = loop, 0

    def call_soon_threadsafe(self, call: Any, *, context: contextvars.Context | None = None) -> Any:
        self.wakes += 1
        return self.loop.call_soon_threadsafe(call, context=context)

    def is_closed(self) -> bool:
        return self.loop.is_closed()


async def test_posts_run_on_the_loop_in_their_order() -> None:
    waker, heard, done = Waker(asyncio.get_running_loop()), list[tuple[int, int]](), asyncio.Event()

    def post() -> None:
        for number in range(100):
            waker.post(lambda number=number: heard.append((number, threading.get_ident())))  # type: ignore[misc]
        waker.post(done.set)

    await asyncio.to_thread(post)
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert heard == [(number, threading.get_ident()) for number in range(100)]


async def test_a_batch_costs_one_wake() -> None:
    loop = Counted(asyncio.get_running_loop())
    waker, heard = Waker(loop), list[int]()  # type: ignore[arg-type]
    for number in range(1_000):
        waker.post(lambda number=number: heard.append(number))  # type: ignore[misc]
    assert (loop.wakes, heard) == (1, [])
    await turns(until=lambda: len(heard) == 1_000)
    waker.post(lambda: heard.append(-1))
    assert loop.wakes == 2


async def test_a_post_made_by_a_post_is_heard() -> None:
    waker, done = Waker(asyncio.get_running_loop()), asyncio.Event()
    waker.post(lambda: waker.post(lambda: waker.post(done.set)))
    await asyncio.wait_for(done.wait(), PATIENCE_S)


async def test_no_post_of_many_threads_is_lost() -> None:
    waker, heard, start = Waker(asyncio.get_running_loop()), list[int](), threading.Barrier(4)

    def post(thread: int) -> None:
        start.wait(PATIENCE_S)
        for number in range(500):
            waker.post(lambda number=number: heard.append(thread * 500 + number))  # type: ignore[misc]

    await asyncio.gather(*(asyncio.to_thread(post, thread) for thread in range(4)))
    await turns(until=lambda: len(heard) == 2_000)
    assert sorted(heard) == list(range(2_000))


async def test_a_long_drain_gives_the_loop_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def clock() -> int:
        nonlocal now_ns
        now_ns += 90_000
        return now_ns

    monkeypatch.setattr(waker_module, "perf_counter_ns", clock)
    loop = asyncio.get_running_loop()
    waker, heard = Waker(loop), list[str]()
    for number in range(6):
        waker.post(lambda number=number: heard.append(f"post {number}"))  # type: ignore[misc]
    waker.post(lambda: heard.append("last"))
    loop.call_soon(heard.append, "somebody else")
    await turns(until=lambda: "last" in heard)
    posts = [word for word in heard if word.startswith("post")]
    assert posts == [f"post {number}" for number in range(6)]
    assert heard.index("somebody else") < heard.index("post 5")


async def test_a_post_that_raises_is_reported_and_stops_none_of_the_others() -> None:
    loop = asyncio.get_running_loop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    waker, done = Waker(loop), asyncio.Event()

    def broken() -> None:
        raise ValueError("as told")

    waker.post(broken)
    waker.post(done.set)
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert [type(context["exception"]) for context in reported] == [ValueError]


async def test_posts_do_not_run_in_the_posters_context() -> None:
    waker, seen, done = Waker(asyncio.get_running_loop()), list[str](), asyncio.Event()
    VARIABLE.set("the poster's")
    waker.post(lambda: seen.append(VARIABLE.get()))
    waker.post(done.set)
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert seen == ["unset"]


# --- loops that are over ---


@pytest.fixture
def closed() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.close()
    return loop


def test_on_a_closed_loop_a_post_runs_here(closed: asyncio.AbstractEventLoop) -> None:
    waker, heard = Waker(closed), list[int]()
    for number in range(3):
        waker.post(lambda number=number: heard.append(number))  # type: ignore[misc]
    assert heard == [0, 1, 2]


def test_a_post_that_needs_the_closed_loop_does_no_harm(closed: asyncio.AbstractEventLoop) -> None:
    waker, heard = Waker(closed), list[int]()
    waker.post(lambda: closed.call_soon(heard.append, 1))  # type: ignore[arg-type]
    waker.post(lambda: heard.append(2))
    assert heard == [2]


def test_what_a_loop_left_when_it_closed_runs_with_the_next_post() -> None:
    """it was woken, but did not come to it"""
    loop = asyncio.new_event_loop()
    waker, heard = Waker(loop), list[int]()
    waker.post(lambda: heard.append(1))
    waker.post(lambda: heard.append(2))
    loop.close()
    assert heard == []
    waker.post(lambda: heard.append(3))
    assert heard == [1, 2, 3]


def test_a_waker_does_not_keep_its_loop() -> None:
    loop = asyncio.new_event_loop()
    waker, gone, heard = Waker(loop), weakref.ref(loop), list[int]()
    loop.close()
    del loop
    gc.collect()
    assert gone() is None
    waker.post(lambda: heard.append(1))
    assert heard == [1]


# --- the event descriptor of asyncio's own loops ---


async def _made() -> Waker:
    return Waker(asyncio.get_running_loop())


@pytest.fixture
def rung() -> Iterator[tuple[asyncio.AbstractEventLoop, Waker]]:
    """A loop of asyncio's that has run, with a waker made in it."""
    loop = asyncio.SelectorEventLoop()
    waker = loop.run_until_complete(_made())
    assert (waker._bell is None) is not hasattr(os, "eventfd")
    yield loop, waker
    loop.close()


def test_a_loop_that_rests_hears_of_it_when_it_runs_on(rung: tuple[asyncio.AbstractEventLoop, Waker]) -> None:
    (loop, waker), heard = rung, list[int]()
    waker.post(lambda: heard.append(1))
    assert heard == []
    loop.run_until_complete(turns(until=lambda: heard == [1]))


def test_a_waker_of_a_loop_that_has_closed_runs_posts_here(rung: tuple[asyncio.AbstractEventLoop, Waker]) -> None:
    (loop, waker), heard = rung, list[int]()
    waker.post(lambda: heard.append(1))
    loop.close()
    waker.post(lambda: heard.append(2))
    waker.post(lambda: heard.append(3))
    assert heard == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="the system has none")
def test_the_descriptor_goes_with_the_loop() -> None:
    loop = asyncio.SelectorEventLoop()
    waker = loop.run_until_complete(_made())
    bell = waker._bell
    assert bell is not None
    loop.close()
    os.fstat(bell)  # kept as long as somebody could ring
    del loop
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(bell)
    heard: list[int] = []
    waker.post(lambda: heard.append(1))
    assert heard == [1]


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="the system has none")
def test_without_descriptors_the_loops_own_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: int) -> int:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(os, "eventfd", none_left)

    async def main() -> None:
        waker, done = Waker(asyncio.get_running_loop()), asyncio.Event()
        assert waker._bell is None
        await asyncio.to_thread(waker.post, done.set)
        await asyncio.wait_for(done.wait(), PATIENCE_S)

    asyncio.run(main())
