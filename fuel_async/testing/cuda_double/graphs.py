"""Graphs: the runtime's functions for them, and `cupy.cuda.Graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.current import current_stream_ptr
from fuel_async.testing.cuda_double.machine import GraphState, installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.testing.cuda_double.capture import Node
    from fuel_async.testing.cuda_double.gpu import Gpu
    from fuel_async.testing.cuda_double.machine import Machine


def keep_graph(gpu: Gpu, nodes: Sequence[Node]) -> int:
    """Keep what a capture gave, under a number."""
    machine = installed()
    handle = machine.number()
    machine.graphs[handle] = GraphState(gpu, nodes)
    return handle


def graphInstantiate(graph: int) -> int:
    """Make a graph fit to be launched. The graph itself stays."""
    machine = installed()
    if (state := machine.graphs.get(graph)) is None:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    machine.enter("graphInstantiate", state.gpu, place="graph")
    return keep_graph(state.gpu, state.nodes)


def graphDestroy(graph: int) -> None:
    """Give a graph back."""
    machine = installed()
    machine.take_out(machine.graphs, graph)


def graphExecDestroy(graphExec: int) -> None:
    """Give back what can be launched."""
    graphDestroy(graphExec)


def graphLaunch(graphExec: int, stream: int) -> None:
    """Let a stream do what was captured, one launch of a graph after the other.

    Numbers and addresses are those of the capture; the bytes there are those of now.
    """
    machine = installed()
    if (state := machine.graphs.get(graphExec)) is None:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    work = machine.stream(stream)
    if work.gpu is not state.gpu:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    machine.enter("graphLaunch", work.gpu, place="graph")
    machine.count("graph_launches")
    before = state.last

    def run() -> None:
        if before is not None:
            before.wait()
        for node in state.nodes:
            work.perform(node.operation)

    state.last = machine.submit(work, Operation("graph", run)) or state.last


def graphUpload(graphExec: int, stream: int) -> None:
    """Bring a graph to its device ahead of its first launch."""
    machine = installed()
    if graphExec not in machine.graphs:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    machine.enter("graphUpload", machine.stream(stream).gpu)


class Graph:
    """`cupy.cuda.Graph`: what `Stream.end_capture` returns."""

    graphExec: int
    _machine: Machine | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "currently this class cannot be initiated by the user and must be created via stream capture"
        )

    @classmethod
    def _of(cls, graph: int) -> Graph:
        made = cls.__new__(cls)
        try:
            made.graphExec = graphInstantiate(graph)
        finally:
            graphDestroy(graph)
        made._machine = installed()
        return made

    def __del__(self) -> None:
        if self._machine is not None:
            self._machine.graphs.pop(self.graphExec, None)

    def launch(self, stream: Any = None) -> None:
        """Do what was captured on a stream, by default the current one."""
        graphLaunch(self.graphExec, current_stream_ptr() if stream is None else stream.ptr)

    def upload(self, stream: Any = None) -> None:
        """Bring it to its device."""
        graphUpload(self.graphExec, current_stream_ptr() if stream is None else stream.ptr)
