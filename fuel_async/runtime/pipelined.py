"""The walker: an asynchronous walk of the DAG that submits one kernel at a time, with one handle for each.

It is the seeds' executor, and the oracle of the lane-program path: both must give the same bits. Identity of
storages is part of its surface: views, a reshape or contiguize of row-major values, and repeated targets are
the same `Storage` object, and so are all outputs of a kernel that has several, its bundle; copies and kernels make a
new one. An op that may write over its operand does so, and
its result is the operand's storage, where the walk itself made that and nobody is still to read it as it was.
"""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.dispatch import OpParams, derive_params, kernel_dtypes
from fuel_async.errors import (
    BundleMisuse,
    DeviceLost,
    ExecutorClosed,
    FeedError,
    GraphError,
    KernelFailed,
    MissingInput,
    NoBackendForOp,
)
from fuel_async.ir import (
    BY_NAME,
    Breathe,
    Bundle,
    BundleType,
    Form,
    FrozenGraph,
    Graph,
    Layout,
    OpSpec,
    Snapshot,
    Tensor,
    TensorType,
    derive_ordering,
    freeze,
)
from fuel_async.registry import global_bindings
from fuel_async.runtime import feeds as feed_rules
from fuel_async.runtime.checkpoint import checkpoint
from fuel_async.runtime.compiled import compile_node, execute_compiled
from fuel_async.storage import Storage, alloc_bundle, alloc_cpu, from_array
from fuel_async.streams import CompletionHandle, HostLane, LoopShare, StopFlag

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from fuel_async.runtime.executor import Executor

Target: TypeAlias = "Tensor | str | int"
#: A storage and how a value lies in it, counted in elements of the value's dtype: of an output of a bundle that may be
#: another than the storage's.
Realized: TypeAlias = tuple[Storage, Layout]

#: Kernels that the walk submits ahead of the lane.
LOOKAHEAD = 64

#: What one step costs the loop.
_STEP_NS = 20_000

_COPY, _VIEW_SLOT = BY_NAME["copy"], BY_NAME["view_slot"]


class PipelinedExecutor:
    """Walks graphs on an executor's first host lane. Usable wherever the executor is."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def realize(self, graph: Graph, target: Target, inputs: Mapping[str, Any] | None = None) -> Realized:
        """Compute one value: its storage and how it lies in it. See `realize_many`."""
        (realized,) = await self.realize_many(graph, [target], inputs)
        return realized

    async def realize_many(
        self, graph: Graph, targets: Sequence[Target], inputs: Mapping[str, Any] | None = None
    ) -> list[Realized]:
        """Compute tensors (or outputs by name, or nodes by id) in the order asked for; shared parts once.

        `inputs` gives arrays by name, or `Storage` objects, which are used as they are; only those that the
        targets need must be there. `MissingInput` and `FeedError` come before anything runs, and `BundleMisuse` for a
        node with several outputs: those can be asked for. `KernelFailed`
        names the node; kernels that need it do not run. An error, and a cancellation, come out when the lane
        is through with what it holds.
        """
        nodes = [_index(graph, target) for target in targets]
        if not nodes:
            return []
        walk, lane = await self.begin(graph.snapshot(), nodes, inputs or {})
        async with aclosing(walk.handles(lane)) as handles:
            async for _ in handles:
                pass
        return walk.realized()

    async def begin(self, graph: Snapshot, nodes: Sequence[int], inputs: Mapping[str, Any]) -> tuple[Walking, HostLane]:
        """Make a walk to `nodes` ready, off the loop, and return it with the lane it is for."""
        session = (await self._executor.engine()).session
        lane = session.lanes[0]
        if not isinstance(lane, HostLane):
            raise GraphError("walk", f"the walker runs on host lanes, not on {lane.name}")
        handle, call = session.call(lambda breathe: Walking(graph, nodes, inputs, breathe))
        session.watch_worker()
        await handle
        return call.value, lane


class Walking:
    """One walk: the storages and layouts of the nodes met so far and still needed."""

    def __init__(self, graph: Snapshot, nodes: Sequence[int], inputs: Mapping[str, Any], breathe: Breathe) -> None:
        """Check the inputs and bind the symbols. A few microseconds a node, besides feeds that are copied."""
        unknown = {name: "is not an input of the graph" for name in inputs if name not in graph.inputs}
        if unknown:
            raise FeedError(graph.name, unknown)
        reached = _reached(graph, nodes, breathe)
        asked = {str(position): node for position, node in enumerate(nodes)}
        needed = {name: node for name, node in graph.inputs.items() if reached[node]}
        frozen = freeze(replace(graph, inputs=needed, outputs=asked), breathe)
        for name, node in frozen.inputs.items():
            if name not in inputs:
                raise MissingInput(frozen.describe(node))
        given = {name: inputs[name] for name in frozen.inputs}
        arrays = {name: value for name, value in given.items() if not isinstance(value, Storage)}
        shapeless = {
            name: "is a Storage, which has no shape to bind symbols with; give an array"
            for name in given.keys() - arrays.keys()
            if frozen.types[frozen.inputs[name]].nbytes < 0
        }
        if shapeless:
            raise FeedError(graph.name, shapeless)
        sizes = dict(feed_rules.symbol_sizes(frozen, arrays)) if frozen.symbols else {}
        self.graph: FrozenGraph = frozen.bind(sizes, breathe)
        self.targets = list(self.graph.outputs.values())
        #: Whether every kernel has run.
        self.ended = False
        self._bindings = global_bindings()
        self._storages: dict[int, Storage] = {}
        self._layouts: dict[int, Layout] = {}
        #: The handle of the kernel whose output a node is or looks into.
        self._producers: dict[int, CompletionHandle] = {}
        #: By storage that the walk has made: how many nodes there are that show it. Kept where it matters.
        self._shown: dict[Storage, int] = {}
        self._order = derive_ordering(self.graph, breathe).order
        #: The last node that reads each node; its own id where none does.
        self._last_reader = list(range(len(self.graph)))
        for node in self._order:
            for arg in self.graph.args[node]:
                self._last_reader[arg] = node
            if not node & 1_023:
                breathe()
        for node in self.targets:
            self._last_reader[node] = len(self.graph)
        self._place_inputs(given, arrays, sizes)
        for node, value in self.graph.constants.items():
            self._place(node, from_array(value), Layout.contiguous(value.shape))

    def realized(self) -> list[Realized]:
        """The targets, once the walk has ended."""
        return [(self._storages[node], self._layouts[node]) for node in self.targets]

    async def handles(self, lane: HostLane) -> AsyncGenerator[CompletionHandle, None]:
        """Submit kernel after kernel, yielding each handle as it is submitted; ends when all have run."""
        graph, share, stop = self.graph, LoopShare.running(), StopFlag()
        pending: deque[CompletionHandle] = deque()
        await checkpoint()
        try:
            for node in self._order:
                if graph.ops[node].form is Form.LEAF:
                    continue
                if not share.take(_STEP_NS):
                    await share.wait(_STEP_NS)
                handle = self._step(node, lane, stop)
                self._forget_read_by(node)
                if handle is None:
                    continue
                pending.append(handle)
                share.watch(lane)
                yield handle
                if len(pending) >= LOOKAHEAD:
                    await self._finish(pending)
            while pending:
                await self._finish(pending)
            self.ended = True
        finally:
            stop.stopped = True
            for handle in pending:
                await handle.settled()

    # --- inside ---

    def _place_inputs(self, given: Mapping[str, Any], arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        problems = feed_rules.check(self.graph, arrays, sizes)
        for name, node in self.graph.inputs.items():
            kind, value = self.graph.types[node], given[name]
            if not isinstance(value, Storage):
                continue
            problems.pop(name, None)
            if value.dtype is not kind.dtype or value.nbytes < kind.nbytes:
                problems[name] = f"is a {value!r}, which does not hold {kind}"
        if problems:
            raise FeedError(self.graph.name, problems)
        for name, node in self.graph.inputs.items():
            kind, value = self.graph.types[node], given[name]
            if not isinstance(value, Storage):
                value = from_array(feed_rules.dense(value, kind.dtype))
            self._place(node, value, Layout.contiguous(_sizes(kind)))

    def _place(self, node: int, storage: Storage, layout: Layout) -> None:
        self._storages[node], self._layouts[node] = storage, layout
        if storage in self._shown:
            self._shown[storage] += 1

    def _step(self, node: int, lane: HostLane, stop: StopFlag) -> CompletionHandle | None:
        """Realise one node that is no leaf; the handle of the kernel it took, or None."""
        graph = self.graph
        op, args, kind = graph.ops[node], graph.args[node], graph.types[node]
        if op.view is None:
            return self._run(op, node, args, kind, lane, stop)
        (source,) = args
        if op.destroys is not None:  # a release: a marker, and the operand is forgotten as ever
            self._place(node, alloc_cpu(kind.dtype, 0), Layout.contiguous((0,)))
            return None
        layout = self._view(op, node, source)
        if layout is None:
            handle = self._run(_COPY, node, args, graph.types[source], lane, stop)
            self._layouts[node] = Layout.contiguous(_sizes(kind))
            return handle
        self._place(node, self._storages[source], layout)
        if source in self._producers:
            self._producers[node] = self._producers[source]
        return None

    def _view(self, op: OpSpec, node: int, source: int) -> Layout | None:
        """How a view lies in the storage of its operand; None where it must be copied."""
        graph = self.graph
        if op is _VIEW_SLOT:
            return self._output(node)
        assert op.view is not None  # the form says so
        return op.view(self._layouts[source], graph.attrs[node], _sizes(graph.types[node]))

    def _output(self, node: int) -> Layout:
        """How the output of a bundle lies that the node takes."""
        (bundle,), (slot,) = self.graph.args[node], self.graph.attrs[node] or ()
        return self.graph.bundles[bundle][slot].layout

    def _run(
        self, op: OpSpec, node: int, args: Sequence[int], kind: TensorType, lane: HostLane, stop: StopFlag
    ) -> CompletionHandle:
        """Submit the kernel of `op`, which gives a value of type `kind`, in a new storage or over its operand."""
        assert op.kind is not None  # the form says so
        graph = self.graph
        types = graph.operand_types(node)
        params = OpParams.NONE if op is _COPY else derive_params(op, graph.attrs[node], types, kind)
        dtypes = kernel_dtypes(op, types, kind)
        try:
            compiled = compile_node(op.kind, dtypes, lane.location.backend, params, self._bindings)
        except NoBackendForOp as error:
            error.add_note(f"asked for by {graph.describe(node)}")
            raise
        inputs = [self._storages[arg] for arg in args]
        layout = Layout.contiguous(_sizes(kind))
        read = [self._output(node)] if op.takes_bundle else [self._layouts[arg] for arg in args]
        layouts = [*read, layout]
        if op.destroys is not None and compiled.caps.in_place and self._may_destroy(node, args, op.destroys, layout):
            output = inputs[op.destroys]
        else:
            views = kind.views if isinstance(kind, BundleType) else ()
            output = alloc_bundle(views) if views else alloc_cpu(kind.dtype, layout.count)
            if graph.destructive:
                self._shown[output] = 0
        waits = [self._producers[arg] for arg in args if arg in self._producers]
        if not op.takes_bundle:
            for position, arg in enumerate(args):
                # A storage says one dtype: of another output of its bundle kernels are given a copy.
                told = inputs[position].dtype is types[position].dtype
                if not told or not (compiled.caps.strided_input or _dense(layouts[position])):
                    copied, handle = self._dense_copy(node, arg, lane, stop)
                    inputs[position], layouts[position] = copied, Layout.contiguous(layouts[position].shape)
                    waits.append(handle)
        handle = execute_compiled(compiled, inputs, [output], layouts, lane=lane, waits=waits, node=node, stop=stop)
        self._place(node, output, layout)
        self._producers[node] = handle
        return handle

    def _may_destroy(self, node: int, args: Sequence[int], position: int, layout: Layout) -> bool:
        """Whether `node` may write over its operand: the walk's own bytes, all of them, for nobody else to read.

        The kernel copies otherwise. The lane runs what has read the bytes so far before this.
        """
        source = args[position]
        storage = self._storages[source]
        return (
            self._shown.get(storage) == 1
            and storage.bundle is None
            and self._last_reader[source] == node
            and self._layouts[source] == layout
            and storage.nbytes == layout.count * storage.dtype.nbytes
        )

    def _dense_copy(self, node: int, arg: int, lane: HostLane, stop: StopFlag) -> tuple[Storage, CompletionHandle]:
        """Submit a row-major copy of a strided operand, for one call of a kernel that reads no strides."""
        dtype, layout = self.graph.types[arg].dtype, self._layouts[arg]
        assert _COPY.kind is not None  # a kernel op
        compiled = compile_node(_COPY.kind, (dtype, dtype), lane.location.backend, OpParams.NONE, self._bindings)
        copied, layouts = alloc_cpu(dtype, layout.count), [layout, Layout.contiguous(layout.shape)]
        waits = [self._producers[arg]] if arg in self._producers else []
        handle = execute_compiled(
            compiled, [self._storages[arg]], [copied], layouts, lane=lane, waits=waits, node=node, stop=stop
        )
        return copied, handle

    def _forget_read_by(self, node: int) -> None:
        """Let go of what nobody reads after `node`; the lane holds it as long as it needs."""
        for arg in set(self.graph.args[node]):
            if self._last_reader[arg] == node:
                storage = self._storages.pop(arg)
                del self._layouts[arg]
                if storage in self._shown:
                    self._shown[storage] -= 1
                    if not self._shown[storage]:
                        del self._shown[storage]
                self._producers.pop(arg, None)

    async def _finish(self, pending: deque[CompletionHandle]) -> None:
        """Take the oldest submission off `pending` once the lane is through with it."""
        handle = pending[0]
        await handle.settled()
        pending.popleft()
        error = handle.exception()
        if isinstance(error, DeviceLost | ExecutorClosed):
            raise error
        if error is not None:
            node = -1 if handle.node is None else handle.node
            cause = f"{type(error).__name__}: {error}"
            raise KernelFailed(self.graph.describe(node), str(handle.device), cause, node) from error


def _reached(graph: Snapshot, nodes: Sequence[int], breathe: Breathe) -> bytearray:
    """Mark the nodes that `nodes` are computed from, themselves included."""
    reached = bytearray(graph.count)
    for node in nodes:
        reached[node] = 1
    for node in range(max(nodes, default=-1), -1, -1):
        if reached[node]:
            for arg in graph.args[node]:
                reached[arg] = 1
        if not node & 1_023:
            breathe()
    return reached


def _index(graph: Graph, target: Target) -> int:
    node = _node(graph, target)
    facts = graph.node_at(node)
    if facts.op.slots:
        raise BundleMisuse("realize", f"%{node} gives several outputs; ask for slots of it", [facts.type])
    return node


def _node(graph: Graph, target: Target) -> int:
    if isinstance(target, Tensor | Bundle):
        graph.own("realize", target)
        return target.index
    if isinstance(target, str):
        ports = graph.snapshot().outputs
        if target not in ports:
            there = ", ".join(ports) or "none"
            raise GraphError("realize", f"no output is called {target!r}; there are: {there}")
        return ports[target]
    if not 0 <= target < len(graph):
        raise GraphError("realize", f"node {target} is not in {graph!r}")
    return target


def _dense(layout: Layout) -> bool:
    return layout.is_contiguous and not layout.offset


def _sizes(kind: TensorType) -> tuple[int, ...]:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound
