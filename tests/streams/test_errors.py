"""Errors that cross threads: fresh ones of the same type, with their facts and without frames."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Self

import numpy as np
import pytest

from fuel_async.errors import FeedError, FuelError, KernelFailed, OutOfMemory
from fuel_async.streams import fresh, without_frames
from fuel_async.streams.errors import raisable


class TakesFacts(Exception):
    """Its constructor takes something else than the text."""

    def __init__(self, code: int, *, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"error {code}: {detail}")


class Transforms(Exception):
    """Called with its own text it would say something else."""

    def __init__(self, text: str) -> None:
        super().__init__(f"<{text}>")


class OwnNew(Exception):
    """Refuses to be made without what its text does not tell."""

    def __new__(cls, *, secret: object) -> Self:
        return super().__new__(cls, "text")

    def __init__(self, *, secret: object) -> None:
        self.secret = secret


class MakesOthers(Exception):
    def __new__(cls, *args: object) -> Any:
        return ValueError(*args)


class OsKind(OSError):
    """A system error with a constructor of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(2, "no such thing", path)


def caught(error: BaseException) -> BaseException:
    """The error as an `except` finds it: with a traceback."""
    try:
        raise error
    except BaseException as found:
        return found


ERRORS = [
    ValueError("text"),
    ValueError(),
    KeyError("key"),
    OSError(2, "no such thing", "a/file"),
    OsKind("a/file"),
    UnicodeDecodeError("ascii", b"x", 0, 1, "why"),
    StopIteration(7),
    SystemExit(3),
    KeyboardInterrupt(),
    MemoryError("none left"),
    ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    TakesFacts(7, detail="x"),
    Transforms("text"),
    FeedError("graph", {"x": "is missing"}),
    OutOfMemory("cpu:0", 10, 5),
    KernelFailed("node", "cpu:0", "cause", 3),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_fresh_error_says_the_same(error: BaseException) -> None:
    error.__cause__ = ZeroDivisionError("why")
    error.add_note("a note")
    copy = fresh(caught(error))
    assert copy is not error
    assert type(copy) is type(error)
    assert (str(copy), repr(copy), copy.args) == (str(error), repr(error), error.args)
    assert {k: v for k, v in vars(copy).items() if k != "__notes__"} == {
        k: v for k, v in vars(error).items() if k != "__notes__"
    }
    assert copy.__notes__ == error.__notes__
    assert copy.__cause__ is error.__cause__
    assert copy.__traceback__ is None
    copy.add_note("another")
    assert len(error.__notes__) == len(copy.__notes__) - 1
    error.__cause__ = None
    del error.__notes__[:]


def test_what_the_interpreter_keeps_beside_the_arguments_is_kept() -> None:
    copy = fresh(OSError(2, "no such thing", "a/file"))
    assert isinstance(copy, FileNotFoundError)
    assert (copy.errno, copy.filename) == (2, "a/file")
    own = fresh(OsKind("b"))
    assert isinstance(own, OsKind)
    assert (own.errno, own.filename, own.path) == (2, "b", "b")
    assert getattr(fresh(SystemExit(3)), "code", None) == 3
    assert getattr(fresh(StopIteration(7)), "value", None) == 7
    group = fresh(ExceptionGroup("several", [ValueError("one")]))
    assert isinstance(group, ExceptionGroup)
    assert [str(one) for one in group.exceptions] == ["one"]


def test_what_cannot_be_made_anew_is_shared_rather_than_lost() -> None:
    error = OwnNew(secret=1)
    assert fresh(error) is error


def test_a_type_that_makes_other_types_is_shared() -> None:
    error = Exception.__new__(MakesOthers, "x")
    assert type(error) is MakesOthers
    assert fresh(error) is error


def test_a_context_stands_in_for_a_cause() -> None:
    error = ValueError("second")
    error.__context__ = first = KeyError("first")
    assert fresh(error).__cause__ is first


# --- frames ---


class Held:
    """Something that a frame holds."""


def _fail(holding: Held) -> None:
    array = np.ones(3)
    raise ValueError(f"while holding {array.size}, {holding is not None}")


def test_frames_become_notes_and_go() -> None:
    held = Held()
    gone = weakref.ref(held)
    try:
        _fail(held)
    except ValueError as found:
        error = without_frames(found)
    del held
    gc.collect()
    assert gone() is None
    assert error.__traceback__ is None
    (note,) = error.__notes__
    assert "in _fail" in note
    assert "raise ValueError" in note


def test_frames_of_everything_that_led_to_it_go() -> None:
    """a cause, the context beside it, the context of the cause, members of a group"""
    gone: list[weakref.ref[Held]] = []

    def failing() -> Exception:
        held = Held()
        gone.append(weakref.ref(held))
        try:
            _fail(held)
        except ValueError as found:
            return found
        raise AssertionError

    cause, context, further, member = failing(), failing(), failing(), failing()
    cause.__context__ = further
    error = caught(ExceptionGroup("several", [member, TypeError("fine")]))
    error.__cause__, error.__context__ = cause, context
    assert without_frames(error) is error
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4
    assert all(one.__traceback__ is None for one in (error, cause, context, further, member))


def test_an_error_that_is_its_own_cause_ends() -> None:
    error, other = caught(ValueError("one")), caught(KeyError("two"))
    error.__cause__, other.__cause__ = other, error
    assert without_frames(error) is error
    assert len(error.__notes__) == len(other.__notes__) == 1


def test_an_error_without_truth_is_an_error() -> None:
    class Empty(Exception):
        def __len__(self) -> int:
            return 0

    error, empty = caught(ValueError("outer")), caught(Empty())
    error.__cause__ = empty
    without_frames(error)
    assert empty.__traceback__ is None
    assert fresh(error).__cause__ is empty


def test_a_second_look_adds_nothing() -> None:
    error = without_frames(caught(ValueError("text")))
    notes = list(error.__notes__)
    assert without_frames(error).__notes__ == notes


# --- what may be raised ---


@pytest.mark.parametrize("error", [ValueError("x"), KernelFailed("n", "d", "c"), MemoryError()])
def test_an_error_is_raised_as_it_is(error: Exception) -> None:
    assert raisable(error, "cpu:0") is error


@pytest.mark.parametrize("error", [StopIteration(1), StopAsyncIteration(), KeyboardInterrupt(), SystemExit(1)])
def test_what_means_something_else_to_the_waiter_is_a_cause(error: BaseException) -> None:
    found = raisable(error, "cpu:0")
    assert isinstance(found, KernelFailed)
    assert isinstance(found, FuelError)
    assert found.__cause__ is error
    assert found.device == "cpu:0"
