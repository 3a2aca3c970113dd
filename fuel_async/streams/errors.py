"""How errors cross threads: as text and facts, never with frames.

A traceback holds every frame of the thread that raised, and those hold arrays, arenas and runs. So an error leaves its
thread without frames, with the formatted traceback as a note; and each waiter is given a fresh copy, since one shared
exception would collect the frames of all of them. What would steer the thread that receives it (an exit, an interrupt,
a cancellation, the end of an iterator) comes as the cause of a `KernelFailed`.
"""

from __future__ import annotations

import contextlib
import traceback

from fuel_async.errors import KernelFailed

#: Exceptions that mean something else to a coroutine than that something failed.
_STEERING = (StopIteration, StopAsyncIteration)


def without_frames(error: BaseException) -> BaseException:
    """Return `error` with its traceback, and those of all that led to it, turned into notes. Never raises."""
    met: set[int] = set()
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is None or id(link) in met:
            continue
        met.add(id(link))
        if link.__traceback__ is not None:
            with contextlib.suppress(Exception):  # an exception may refuse notes
                link.add_note("".join(traceback.format_tb(link.__traceback__)).rstrip())
            link.__traceback__ = None
        links += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            links += link.exceptions
    return error


def raisable(error: BaseException, device: str) -> Exception:
    """Return what stands for `error`, which work on `device` raised, where somebody waited for that work."""
    if isinstance(error, Exception) and not isinstance(error, _STEERING):
        return error
    failed = KernelFailed("a kernel", device, "".join(traceback.format_exception_only(error)).rstrip())
    failed.__cause__ = error
    return failed


def fresh(error: BaseException) -> BaseException:
    """Return a new exception of the same type, text, facts, notes and cause.

    Constructors of the type's own are passed over: they take facts, not the text. A type that cannot be made without
    them is shared rather than lost.
    """
    kind = type(error)
    native = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    try:
        known: tuple[object, ...] = native.__reduce__(error)[1]  # type: ignore[assignment, call-arg]  # more than args
        copy = kind.__new__(kind, *known)
        if type(copy) is not kind:
            return error
        native.__init__(copy, *known)  # type: ignore[misc]  # the constructor of that very type
        copy.args = error.args
        copy.__dict__.update(error.__dict__)
        notes = getattr(error, "__notes__", None)
        if notes is not None:
            copy.__notes__ = list(notes)
    except Exception:
        return error
    copy.__cause__ = error.__cause__ if error.__cause__ is not None else error.__context__
    return copy
