"""How errors cross threads: as text and facts, never with frames.

A traceback holds every frame of the thread that raised, and those hold arrays, arenas and runs. So an error leaves its
thread without frames, with the formatted traceback as a note; and each waiter is given a fresh copy, since one shared
exception would collect the frames of all of them.
"""

from __future__ import annotations

import traceback


def without_frames(error: BaseException) -> BaseException:
    """Return `error` with its traceback, and those of its causes, turned into notes."""
    link: BaseException | None = error
    while link is not None:
        if link.__traceback__ is not None:
            link.add_note("".join(traceback.format_tb(link.__traceback__)).rstrip())
            link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def fresh(error: BaseException) -> BaseException:
    """Return a new exception of the same type, text, facts, notes and cause."""
    kind = type(error)
    try:
        copy = kind.__new__(kind, *error.args)
        if kind.__init__ is Exception.__init__ or kind.__module__ == "builtins":
            copy = kind(*error.args)
    except Exception:
        return error  # a type that cannot be built from its own args is shared rather than lost
    copy.__dict__.update(error.__dict__)
    notes = getattr(error, "__notes__", None)
    if notes is not None:
        copy.__notes__ = list(notes)
    copy.__cause__ = error.__cause__ if error.__cause__ is not None else error.__context__
    return copy
