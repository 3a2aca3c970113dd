"""Being lost: everybody who asked is told once, without the lock, and nobody is kept for it."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING

from fuel_async.backends.losing import Losable
from fuel_async.errors import DeviceLost

if TYPE_CHECKING:
    from collections.abc import Callable


class Thing(Losable):
    def lose(self) -> None:
        with self.lock:
            if self.lost is not None:
                return
            self.lost = DeviceLost("thing:0", "gone")
        for tell in self.to_tell():
            tell()


class Listener:
    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def hear(self) -> None:
        self._heard.append("listener")


def test_who_asked_is_told_once_and_in_order() -> None:
    thing, told = Thing(), list[str]()
    for name in "abc":
        thing.when_lost(lambda name=name: told.append(name))  # type: ignore[misc]
    thing.lose()
    thing.lose()
    assert told == ["a", "b", "c"]


def test_who_asks_after_the_loss_is_told_at_once() -> None:
    thing, told = Thing(), list[str]()
    thing.lose()
    end = thing.when_lost(lambda: told.append("late"))
    end()
    thing.lose()
    assert told == ["late"]


def test_who_has_ended_it_is_not_told_and_may_end_it_again() -> None:
    thing, told = Thing(), list[str]()
    end = thing.when_lost(lambda: told.append("never"))
    end()
    end()
    thing.lose()
    end()
    assert told == []


def test_who_is_told_sees_the_loss_and_may_ask_again() -> None:
    thing, told = Thing(), list[object]()
    thing.when_lost(lambda: told.append(thing.lock.locked()))
    thing.when_lost(lambda: told.append(thing.lost))
    thing.when_lost(lambda: told.append(thing.when_lost(lambda: told.append("again"))))
    thing.lose()
    assert told[:3] == [False, thing.lost, "again"]


def test_a_method_is_told_while_its_object_lives() -> None:
    thing, heard = Thing(), list[str]()
    kept, gone = Listener(heard), Listener(heard)
    thing.tell_while_alive(kept.hear)
    thing.tell_while_alive(gone.hear)
    seen = weakref.ref(gone)
    del gone
    gc.collect()
    assert seen() is None, "it is not kept for this"
    thing.lose()
    assert heard == ["listener"]


def test_many_threads_ask_while_it_is_lost() -> None:
    """Each is told exactly once, whether it was early or late."""
    thing, told, start = Thing(), list[int](), threading.Barrier(9)

    def ask(number: int) -> None:
        start.wait()
        for step in range(200):
            thing.when_lost(call(number * 200 + step))

    def call(number: int) -> Callable[[], None]:
        return lambda: told.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    start.wait()
    thing.lose()
    for thread in threads:
        thread.join(30)
    assert sorted(told) == list(range(1_600))


def test_the_lock_may_be_somebody_elses() -> None:
    lock = threading.Lock()
    assert Losable(lock).lock is lock
    assert Losable().lock is not Losable().lock
