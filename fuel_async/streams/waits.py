"""What is asked of several handles at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuel_async.streams.completion import CompletionHandle


def first_error(waits: Iterable[CompletionHandle]) -> BaseException | None:
    """Return a fresh copy of the first error among those that have settled; None while there is none. Any thread."""
    return next((error for wait in waits if wait.done() and (error := wait.exception()) is not None), None)


def when_all(waits: Sequence[CompletionHandle], call: Callable[[], None]) -> None:
    """Call `call` once when all have settled, whatever became of them: in the thread that settles the last, or now."""
    if not waits:
        call()
        return
    left, lock = [len(waits)], threading.Lock()

    def settled(_: CompletionHandle) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            call()

    for wait in waits:
        wait.add_done_callback(settled)
