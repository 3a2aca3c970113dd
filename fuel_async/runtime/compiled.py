"""The seeds' dispatch of a single kernel: compile a node, execute it, and get the handle of its completion.

`compile_node` is one table look-up; `execute_compiled` calls the kernel in place, or enqueues it on a lane
and returns at once. The walker (`runtime.pipelined`) is built from these two; lane programs do the same in
bulk.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fuel_async.dispatch import (
    KernelBindingTable,
    KernelCaps,
    KernelDTypes,
    KernelRef,
    OpParams,
    kernel_dtypes,
)
from fuel_async.errors import InternalError, KernelArgumentError, NoBackendForOp, Stopped
from fuel_async.ir import BackendId, DeviceLocation, DType, Form, FrozenGraph, Layout, OpKind
from fuel_async.streams import CompletionHandle, HostLane, StopFlag, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.storage import Storage

#: What a kernel of unknown length is taken to last when its lane is asked how much it holds.
_UNKNOWN_NS = 1_000


@dataclass(frozen=True, slots=True)
class CompiledNode:
    """A node resolved to the kernel that computes it."""

    op: OpKind
    dtypes: KernelDTypes
    backend: BackendId
    kernel: KernelRef
    caps: KernelCaps
    op_params: OpParams

    @property
    def output_dtype(self) -> DType:
        """The dtype of the result."""
        if not self.dtypes:
            raise InternalError(f"{self.op.as_str()} was compiled without operand dtypes")
        return self.dtypes[-1]


def compile_node(
    op: OpKind, dtypes: KernelDTypes, backend: BackendId, op_params: OpParams, bindings: KernelBindingTable
) -> CompiledNode:
    """Resolve the first kernel for dense operands: inputs' dtypes in order, then the output's.

    `NoBackendForOp` when there is none: no other dtype or backend stands in.
    """
    kernel, caps = bindings.lookup_with_caps(op, dtypes, backend)
    return CompiledNode(op, tuple(dtypes), backend, kernel, caps, op_params)


def execute_compiled(
    compiled: CompiledNode,
    inputs: Sequence[Storage],
    outputs: Sequence[Storage],
    layouts: Sequence[Layout],
    *,
    lane: HostLane | None = None,
    waits: Sequence[CompletionHandle] = (),
    node: int | None = None,
    stop: StopFlag | None = None,
) -> CompletionHandle:
    """Run a kernel over storages: inputs, then outputs in `layouts`. Synchronous; returns the handle.

    Without a lane the kernel runs here and now, its error is raised, and the handle is ready; all of `waits`
    must be done. On a lane the handle is pending, counts as in flight until it settles, and carries the
    error. Where one of `waits` failed the kernel does not run, and the error is that one's.
    """
    call = _KernelCall(compiled, inputs, outputs, layouts, waits)
    if lane is not None:
        return lane.submit(call, waits=waits, node=node, stop=stop)
    location = call.location
    started_ns = perf_counter_ns()
    call.execute()
    finished_ns = perf_counter_ns()
    timing = Timing(location, "inline", started_ns, started_ns, finished_ns, finished_ns - started_ns)
    return CompletionHandle.ready(location, timing, node=node)


def dispatched_kernel_ident(
    graph: FrozenGraph, node: int, bindings: KernelBindingTable, backend: BackendId = BackendId.CPU
) -> tuple[str, int] | None:
    """Return (kernel source, revision hash) of the kernel that would compute the node; None if none would."""
    op = graph.ops[node]
    if op.form is not Form.KERNEL or op.kind is None:
        return None
    dtypes = kernel_dtypes(op, graph.operand_types(node), graph.types[node])
    try:
        entry = bindings.lookup_entry(op.kind, dtypes, backend)
    except NoBackendForOp:
        return None
    return entry.kernel_source, entry.kernel_revision_hash


class _KernelCall:
    """One kernel over storages, as a lane runs it, if what it waits for succeeded.

    A lane keeps its own order, so it does not look at how earlier submissions to it ended; this does.
    """

    __slots__ = ("_call", "_waits", "location", "predicted_ns")
    measures = False

    def __init__(
        self,
        compiled: CompiledNode,
        inputs: Sequence[Storage],
        outputs: Sequence[Storage],
        layouts: Sequence[Layout],
        waits: Sequence[CompletionHandle],
    ) -> None:
        if not outputs:
            raise KernelArgumentError(compiled.op.as_str(), "the number of outputs", 0, "at least 1")

        def call() -> None:
            compiled.kernel(inputs, outputs, layouts, compiled.op_params)

        self._call: Callable[[], None] = call
        self._waits = tuple(waits)
        self.location: DeviceLocation = outputs[0].device
        self.predicted_ns = _UNKNOWN_NS

    def execute(self, *bound: Any) -> None:
        stop: StopFlag | None = bound[4] if bound else None
        if stop is not None and stop.stopped:
            raise Stopped
        for wait in self._waits:
            wait.result()
        if bound and bound[5] is not None:
            bound[5](True, _UNKNOWN_NS)
        self._call()
