"""Program instances: kernels planned and compiled once, arguments made once for the arrays that they are given.

A repeated submission over the same arrays makes nothing and allocates nothing. After a few runs over the same arrays
the launches are captured as a graph, and from then on that is launched. The latest few recordings are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.parameters import Parameters
from fuel_async.backends.cuda.script import Launches, Script
from fuel_async.backends.grids.planning import plan_calls
from fuel_async.backends.grids.recordings import Recordings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cuda.memory import CudaArray
    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.grids.memory import GridArena
    from fuel_async.backends.grids.operands import Space
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import Breathe
    from fuel_async.streams import History

#: Runs of a recording before it is captured: the first ones load what a capture must not.
EAGER_RUNS = 2
#: A graph of fewer launches is not worth its own launch.
LEAST_LAUNCHES = 2


class Recording:
    """Launches over the same arrays, and the graph of them once it is captured."""

    __slots__ = ("__weakref__", "graph", "launches", "runs")

    def __init__(self, launches: Launches) -> None:
        self.launches, self.runs = launches, 0
        self.graph: Any | None = None


class CudaInstance:
    """A lane program bound to a device's memory. One run at a time."""

    __slots__ = (
        "__weakref__", "_is_eager", "_parameters", "_recordings", "_script", "_site", "history", "program",
    )  # fmt: skip

    def __init__(
        self,
        site: Site,
        program: LaneProgram,
        constants: Sequence[CudaArray],
        arena: GridArena[CudaArray],
        history: History,
        breathe: Breathe,
    ) -> None:
        """Plan all kernels and compile them. `KernelFailed` names the node that cannot be."""
        self._site, self.program, self.history = site, program, history
        self._script = Script(site)
        self._parameters = Parameters(site, program) if program.ports[3] else None
        self._recordings: Recordings[CudaArray, Recording] = Recordings(program, arena.bytes, constants)
        #: Whether it is launched kernel by kernel for good.
        self._is_eager = not site.captures.is_wanted
        plan_calls(program, site.context.name, site.memory.alignment, site.limits, self._script.add, breathe)
        self._is_eager = self._is_eager or self._script.dispatches < LEAST_LAUNCHES
        site.prepare(products=self._script.products)

    @property
    def predicted_ns(self) -> int:
        """What the next run of it is expected to take."""
        return self.history.predicted_ns

    @property
    def dispatches(self) -> int:
        """Launches of one run."""
        return self._script.dispatches

    @property
    def recordings(self) -> int:
        """Recordings that are kept."""
        return len(self._recordings)

    @property
    def graphs(self) -> int:
        """How many of them are captured."""
        return sum(one.graph is not None for one in self._recordings)

    def launch(self, stream: Stream, given: Sequence[Sequence[Any]]) -> None:
        """See `lane.Launched`. Makes arguments when these arrays are not among the latest that it was given."""
        arrays, scalars = self._recordings.split(given)
        if self._parameters is not None:
            self._parameters.write(scalars, stream)
            arrays += self._parameters.arrays
        recording = self._recordings.get(arrays, self._record)
        if recording.graph is None and recording.runs >= EAGER_RUNS and not self._is_eager:
            recording.graph = self._site.captures.capture(recording.launches, recording, repr(self.program))
            self._is_eager = recording.graph is None
        if recording.graph is None:
            recording.runs += 1
            recording.launches.run(stream)
        else:
            recording.graph.launch(stream=stream.raw)

    def _record(self, place: Callable[[Space], CudaArray], _: Recording | None) -> Recording:
        return Recording(self._script.bind(place))
