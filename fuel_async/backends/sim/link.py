"""The lanes of a simulated machine: a device's, which runs programs, and a link's, which copies between memories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fuel_async.backends.sim.job import Job
from fuel_async.backends.sim.lane import Track
from fuel_async.errors import FuelError, InternalError, ShapeMismatch
from fuel_async.streams import HostCall, ProgramInstance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from numpy.typing import NDArray

    from fuel_async.backends.sim.site import Port, Site
    from fuel_async.backends.sim.spec import LinkSpec
    from fuel_async.backends.sim.speeds import Speeds
    from fuel_async.ir import DeviceLocation
    from fuel_async.registry import Inflight
    from fuel_async.streams import CompletionHandle, StopFlag


class SimCall(HostCall, ProgramInstance, Protocol):
    """What a simulated lane can run: a program bound to host arrays."""


class SimLane(Track):
    """An ordered queue of a simulated device."""

    def __init__(
        self,
        site: Site,
        name: str,
        location: DeviceLocation,
        random: Random,
        inflight: Inflight,
        speeds: Speeds,
        memory_location: DeviceLocation,
    ) -> None:
        super().__init__(site, name, location, random, inflight)
        self._speeds, self._memory_location = speeds, memory_location

    def submit(
        self,
        instance: SimCall,
        feeds: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        sessions: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        waits: Sequence[CompletionHandle] = (),
        *,
        stop: StopFlag | None = None,
    ) -> CompletionHandle:
        """See `Lane.submit`. `stop` is looked at when its turn comes, never later.

        The handle fails with `WrongSubstrate` when an array lies in another memory than the device's.
        """

        def call() -> None:
            instance.execute(feeds, outputs, sessions, scalars, None, None)

        true_ns = self._speeds.true_ns(instance.program)
        job = Job(self, call, true_ns, instance.predicted_ns, waits, stop)
        given = (("feed", feeds), ("output", outputs), ("session value", sessions))
        return self.enter(job, self._misplaced(given))

    def submit_copy(
        self, src: NDArray[Any], dst: NDArray[Any], waits: Sequence[CompletionHandle] = ()
    ) -> CompletionHandle:
        """Copy within the device's memory: arrays of equal shape and dtype; each byte is read and written."""
        true_ns = 2 * src.nbytes / self._speeds.true.bytes_per_ns
        said_ns = int(2 * src.nbytes / self._speeds.said.bytes_per_ns)
        job = Job(self, lambda: copy(src, dst), true_ns, said_ns, waits, None, src.nbytes)
        return self.enter(job, self._misplaced((("copy operand", (src, dst)),)))

    def _misplaced(self, given: Sequence[tuple[str, Sequence[Any]]]) -> FuelError | None:
        try:
            for what, arrays in given:
                self.core.deeds.check(what, arrays, self._memory_location)
        except FuelError as error:
            return error.with_traceback(None)
        return None


class LinkLane(Track):
    """One direction between two memories. One copy at a time; with ports, one of all that share them."""

    def __init__(
        self,
        site: Site,
        spec: LinkSpec,
        source: DeviceLocation,
        destination: DeviceLocation,
        random: Random,
        ports: Mapping[str, Port],
    ) -> None:
        """`ports` are those that it shares, by their names."""
        location = source if destination.is_host else destination
        super().__init__(site, f"{source} to {destination}", location, random, ports=tuple(ports.values()))
        self.source, self.destination = source, destination
        self.estimate = replace(spec.said_estimate, ports=tuple(ports))
        self._true = spec.true_estimate
        self._copied_nbytes = self._copies = 0

    @property
    def copied_nbytes(self) -> int:
        """Bytes that have arrived."""
        return self._copied_nbytes

    @property
    def copies(self) -> int:
        """Copies that have arrived."""
        return self._copies

    def submit(self, *_: Any, **__: Any) -> CompletionHandle:
        """No programs run on a link."""
        raise InternalError(f"the link {self.name} copies and runs nothing; submit to a lane of a device")

    def submit_copy(
        self, src: NDArray[Any], dst: NDArray[Any], waits: Sequence[CompletionHandle] = ()
    ) -> CompletionHandle:
        """See `Lane.submit_copy`: numpy arrays of equal shape and dtype, in the memories at the link's two ends.

        The handle fails with `WrongSubstrate` when one lies elsewhere.
        """
        refused: FuelError | None = None
        try:
            self.core.deeds.check("the source of copy", (src,), self.source)
            self.core.deeds.check("the destination of copy", (dst,), self.destination)
        except FuelError as error:
            refused = error.with_traceback(None)
        predicted_ns, true_ns = self.estimate.copy_ns(src.nbytes), self._true.copy_ns(src.nbytes)
        return self.enter(Job(self, lambda: copy(src, dst), true_ns, predicted_ns, waits, None, src.nbytes), refused)

    def _count(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            self._copied_nbytes += job.nbytes
            self._copies += 1


def copy(src: NDArray[Any], dst: NDArray[Any]) -> None:
    """Copy all elements. `ShapeMismatch`, where numpy would broadcast."""
    if src.shape != dst.shape:
        raise ShapeMismatch("copy", "the arrays differ in shape", [src.shape, dst.shape])
    np.copyto(dst, src, casting="no")
