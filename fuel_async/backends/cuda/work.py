"""Work: one submission until it has settled."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.points import Point
from fuel_async.streams import CompletionHandle, Timing, first_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.line import Line
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.errors import FuelError


class Work:
    """A submission. It holds all that the device works on, and its line.

    Kinds of it say how it is put on the stream, and what its line's thread does when its turn has come.
    """

    __slots__ = (
        "error", "event", "handle", "held", "is_accepted", "is_late", "line", "point", "ready_ns", "siblings",
        "waits",
    )  # fmt: skip

    #: Whether the host must be through with what it waits for: it reads host memory when it is put on the stream.
    reads_host = False

    def __init__(self, line: Line, held: tuple[Any, ...], waits: Sequence[CompletionHandle], predicted_ns: int) -> None:
        """`held` is what the device works on, let go of just before the outcome is told."""
        self.line, self.held, self.waits = line, held, waits
        self.point = Point(line.order)
        #: What the stream reaches at its end; None where the thread of the line is through with it then.
        self.event: Any = None
        #: Whether its line's thread puts it on the stream, when its turn has come; and what that waits for first.
        self.is_late = False
        self.siblings: Sequence[Point] = ()
        #: What went wrong when it was put on the stream.
        self.error: FuelError | None = None
        #: Whether it was taken before the line closed.
        self.is_accepted = False
        self.handle = CompletionHandle(
            self.point, line.location, line.name, perf_counter_ns(), None, predicted_ns, line.inflight
        )
        #: When it could have started, were the stream free.
        self.ready_ns = self.handle.submitted_ns

    # --- what kinds of work say -------------------------------------------------------------------

    def can_begin(self) -> bool:
        """Whether it can be put on the stream by whoever submits it; else the line's thread calls `perform`."""
        return True

    def begin(self, stream: Stream) -> None:
        """Put it on the stream. Within `Context.here`, under the line's lock; raises what the driver raises."""
        raise NotImplementedError

    def perform(self, stream: Stream) -> None:
        """Put it on the stream and wait for it, in the line's thread. `DeviceError`."""
        raise NotImplementedError

    def finish(self) -> None:
        """What is left to do in the line's thread once the device is through with it. Raises what goes wrong."""

    def let_go(self) -> None:
        """Give back what it used, once the device is through with it."""

    # --- outcome ----------------------------------------------------------------------------------

    def settle(self, timing: Timing, error: BaseException | None) -> None:
        """Tell its outcome, and let go of everything."""
        error = error or first_error(self.waits)
        self.waits, self.siblings, self.held = (), (), ()
        self.point.set()
        self.handle.settle(timing, error)
