"""Planning in the background: whole runs, in the planner's thread, with the cyclic collector held.

Nobody waits for it, and no run needs it. So what goes wrong there breaks none: it is counted, and told once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from fuel_async.runtime.collecting import COLLECTOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import Breathe
    from fuel_async.runtime.session import Session
    from fuel_async.runtime.statistics import Counters
    from fuel_async.streams import CompletionHandle

_LOG = logging.getLogger("fuel_async")

T = TypeVar("T")


class Planning:
    """The background planning of one executor. Any thread; never blocks."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session, self._counters = session, counters

    def call(self, work: Callable[[Breathe], T], then: Callable[[T], None] | None = None) -> None:
        """Do `work(breathe)`, and then, if that goes well, `then(result)` in the same thread."""

        def held(breathe: Breathe) -> T:
            with COLLECTOR.held():
                return work(breathe)

        handle, call = self._session.call(held)

        def settled(handle: CompletionHandle) -> None:
            error = handle.exception()
            if error is not None:
                self._failed(error)
            elif then is not None:
                then(call.value)

        handle.add_done_callback(settled)

    def _failed(self, error: BaseException) -> None:
        self._counters.plans_failed += 1
        if self._counters.plans_failed == 1:
            _LOG.error("a whole run could not be planned; runs go on without", exc_info=error)
