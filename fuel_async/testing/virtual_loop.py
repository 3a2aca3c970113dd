"""An event loop on virtual time: nothing is waited for, and the same program takes the same course each time.

When nothing is ready, time goes on to the next timer of the loop or the next event of its clock, whichever is first.
When there is neither, a wait could never end: the loop raises `VirtualDeadlock`. What is handed to threads runs in
place. A real thread may still wake the loop, but time does not wait for it.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

from fuel_async.backends.sim import VirtualClock, VirtualDeadlock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

T = TypeVar("T")


class VirtualSelector(selectors.BaseSelector):
    """A selector that never sleeps: where another would, it advances the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready. If nothing is, let time go on, at most by `timeout` seconds."""
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        event_ns = self._clock.next_ns()
        timer_ns = math.inf if timeout is None else self._clock.now_ns() + max(1, math.ceil(timeout * 1e9))
        if event_ns is None and timeout is None:
            raise VirtualDeadlock(
                f"the loop waits at {self._clock.now_ns():,} ns, and neither a timer nor a simulated event is to come"
            )
        self._clock.advance_to(int(min(timer_ns, math.inf if event_ns is None else event_ns)))
        return self._real.select(0)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector.register`."""
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors.BaseSelector.unregister`."""
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector.modify`."""
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See `selectors.BaseSelector.get_map`."""
        return self._real.get_map()

    def close(self) -> None:
        """See `selectors.BaseSelector.close`."""
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time is that of a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        super().__init__(VirtualSelector(clock))

    def time(self) -> float:
        """Seconds on the virtual clock."""
        return self.clock.now_ns() / 1e9

    def run_in_executor(  # type: ignore[override]  # the stub names the executor's own type
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` here and now: a thread would take real time, of which there is none."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def virtual_loop(clock: VirtualClock) -> Callable[[], VirtualLoop]:
    """Return a factory of loops on `clock`, as `asyncio.Runner(loop_factory=…)` takes it."""
    return lambda: VirtualLoop(clock)


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, clock: VirtualClock | None = None, debug: bool = False
) -> T:
    """Run `main(clock)` to its end in virtual time and return what it returns.

    `VirtualDeadlock` when it waits for what never comes.
    """
    time = VirtualClock() if clock is None else clock
    with asyncio.Runner(debug=debug, loop_factory=virtual_loop(time)) as runner:
        return runner.run(main(time))
