"""A stream as a lane: programs that are launched on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fuel_async.backends.cuda.line import Line
from fuel_async.backends.cuda.work import Work
from fuel_async.errors import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.cuda.watch import Watch
    from fuel_async.streams import CompletionHandle, StopFlag


class Launched(Protocol):
    """What a stream can run over what a submission gives."""

    @property
    def predicted_ns(self) -> int:
        """What it is expected to take."""

    def launch(self, stream: Stream, given: Sequence[Sequence[Any]]) -> None:
        """Put it on the stream. Within `Context.here`; raises what the driver raises."""


class CudaLane(Line):
    """One stream for programs. Any thread."""

    def __init__(self, context: Context, watch: Watch, number: int) -> None:
        """Make the stream. `DeviceError` when the driver refuses."""
        super().__init__(context, watch, f"{context.name} stream {number}")

    def submit(
        self,
        instance: Launched,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        waits: Sequence[CompletionHandle] = (),
        *,
        stop: StopFlag | None = None,
    ) -> CompletionHandle:
        """See `Lane.submit`. Launched when this returns, unless it waits for what no CUDA device does."""
        work = _Program(self, instance, (feeds, outputs, sessions, scalars), waits)
        if stop is not None and stop.stopped:
            self.refuse(work, Stopped())
            return work.handle
        return self.take(work)


class _Program(Work):
    """One run of an instance."""

    __slots__ = ()

    def __init__(
        self,
        lane: CudaLane,
        instance: Launched,
        given: tuple[Sequence[Any], ...],
        waits: Sequence[CompletionHandle],
    ) -> None:
        super().__init__(lane, (instance, given), waits, instance.predicted_ns)

    def begin(self, stream: Stream) -> None:
        instance, given = self.held
        instance.launch(stream, given)
