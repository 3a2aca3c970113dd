"""The protocols that lanes of every backend follow.

A lane is one ordered queue of a device: a host worker thread, a CUDA stream, a Vulkan queue. Submitting is synchronous,
never blocks and may be done from any thread. Within a lane work runs in the order of submission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import DeviceLocation
    from fuel_async.streams.completion import CompletionHandle
    from fuel_async.streams.history import History


class StopFlag:
    """What a run tells every lane that works for it: give up at the next opportunity. Set once, from any thread."""

    __slots__ = ("stopped",)

    def __init__(self) -> None:
        self.stopped = False


class ProgramInstance(Protocol):
    """A lane program made ready on a device: its constants and temporaries are bound.

    Belongs to one run from launch to its last completion; never submitted twice at the same time.
    """

    @property
    def program(self) -> LaneProgram:
        """What it runs."""

    @property
    def history(self) -> History:
        """What the program was measured to take on this device; shared by its instances there."""

    @property
    def predicted_ns(self) -> int:
        """The mean of the program's last completions on this device, else what the plan predicted."""


class Lane(Protocol):
    """One ordered queue of a device."""

    @property
    def name(self) -> str:
        """What errors, timings and traces call it."""

    @property
    def location(self) -> DeviceLocation:
        """The device it belongs to."""

    @property
    def pending_count(self) -> int:
        """Submissions of this lane that have not settled."""

    @property
    def pending_ns(self) -> int:
        """Their predicted time."""

    def submit(
        self,
        instance: Any,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        waits: Sequence[CompletionHandle] = (),
        *,
        stop: StopFlag | None = None,
    ) -> CompletionHandle:
        """Enqueue an instance with the values of its bindable slots, to start after `waits` have settled.

        When a wait fails, the submission settles with that error and nothing runs. When `stop` is set, a host lane
        settles with `Stopped` between two kernels; a GPU program is never interrupted.
        """

    def submit_copy(self, src: Any, dst: Any, waits: Sequence[CompletionHandle] = ()) -> CompletionHandle:
        """Enqueue a copy of bytes from `src` to `dst`, two arrays of equal size that the lane's device can reach."""
