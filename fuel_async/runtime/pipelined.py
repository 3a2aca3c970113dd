"""The walker: an asynchronous walk of the DAG that submits one kernel at a time, with one handle for each.

It is the seeds' executor, and the oracle of the lane-program path: both must give the same bits. Identity of storages
is part of its surface: views, a reshape or contiguize of row-major values, and repeated targets are the same `Storage`
object; copies and kernels make a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.dispatch import OpParams, derive_params, kernel_dtypes
from fuel_async.errors import FuelError, GraphError, KernelFailed, MissingInput
from fuel_async.ir import BY_NAME, DType, Form, FrozenGraph, Graph, Layout, OpKind, Tensor, TensorType, freeze
from fuel_async.registry import global_bindings
from fuel_async.runtime import feeds as feed_rules
from fuel_async.runtime.compiled import compile_node, execute_compiled
from fuel_async.storage import Storage, alloc_cpu, from_array
from fuel_async.streams import CompletionHandle, HostLane, LoopShare, StopFlag

if TYPE_CHECKING:
    from fuel_async.runtime.executor import Executor

Target: TypeAlias = "Tensor | str | int"
Realized: TypeAlias = tuple[Storage, Layout]

#: Kernels that the walk submits ahead of the lane.
LOOKAHEAD = 64

_COPY = BY_NAME["copy"]


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

        `inputs` gives arrays, or `Storage` objects, which are used as they are. `KernelFailed` names the node; kernels
        behind it are stopped, and what the lane holds has ended before the error is raised.
        """
        if not targets:
            return []
        walk = Walking(graph, [_index(graph, target) for target in targets], inputs or {})
        async with aclosing(walk.handles(await self.lane())) as handles:
            async for _ in handles:
                pass
        return walk.realized()

    async def lane(self) -> HostLane:
        """Return the lane that walks use."""
        engine = await self._executor.engine()
        lane = engine.session.lanes[0]
        if not isinstance(lane, HostLane):
            raise GraphError("walk", f"the walker runs on host lanes, not on {lane.name}")
        return lane


class Walking:
    """One walk: the storages and layouts of the nodes met so far."""

    def __init__(self, graph: Graph, nodes: Sequence[int], inputs: Mapping[str, Any]) -> None:
        asked = {str(position): node for position, node in enumerate(nodes)}
        frozen = freeze(replace(graph.snapshot(), outputs=asked))
        arrays = {name: value for name, value in inputs.items() if not isinstance(value, Storage)}
        given = {name: value for name, value in inputs.items() if isinstance(value, Storage)}
        for name in frozen.inputs:
            if name not in inputs:
                raise MissingInput(frozen.describe(frozen.inputs[name]))
        sizes = dict(feed_rules.symbol_sizes(frozen, arrays)) if frozen.symbols else {}
        self.graph: FrozenGraph = frozen.bind(sizes)
        self.targets = list(frozen.outputs.values())
        self.storages: dict[int, Storage] = {}
        self.layouts: dict[int, Layout] = {}
        self._leaves(arrays, given, sizes)

    def _leaves(self, arrays: Mapping[str, Any], given: Mapping[str, Storage], sizes: Mapping[str, int]) -> None:
        problems = {
            name: problem
            for name, problem in feed_rules.check(self.graph, arrays, sizes).items()
            if name not in given
        }
        if problems:
            raise feed_rules.FeedError(self.graph.name, problems)
        for name, node in self.graph.inputs.items():
            kind = self.graph.types[node]
            if name in given:
                storage = given[name]
                if storage.dtype is not kind.dtype or storage.nbytes < kind.nbytes:
                    raise feed_rules.FeedError(self.graph.name, {name: f"{storage!r} does not hold {kind}"})
            else:
                storage = from_array(feed_rules.dense(arrays[name], kind.dtype))
            self._place(node, storage, Layout.contiguous(_sizes(kind)))
        for node, value in self.graph.constants.items():
            self._place(node, from_array(value), Layout.contiguous(value.shape))

    def _place(self, node: int, storage: Storage, layout: Layout) -> None:
        self.storages[node], self.layouts[node] = storage, layout

    def realized(self) -> list[Realized]:
        """The targets, once the walk has ended."""
        return [(self.storages[node], self.layouts[node]) for node in self.targets]

    async def handles(self, lane: HostLane) -> AsyncGenerator[CompletionHandle, None]:
        """Submit kernel after kernel, yielding each handle as it is submitted; ends when the lane has done them all."""
        share, stop = LoopShare.running(), StopFlag()
        pending: list[CompletionHandle] = []
        try:
            for node in range(len(self.graph)):
                handle = self._step(node, lane, stop)
                if handle is None:
                    continue
                share.watch(lane)
                pending.append(handle)
                yield handle
                if len(pending) >= LOOKAHEAD:
                    await self._await(pending.pop(0))
            while pending:
                await self._await(pending.pop(0))
        finally:
            stop.stopped = True
            await _drain(pending)

    async def _await(self, handle: CompletionHandle) -> None:
        try:
            await handle
        except FuelError as error:
            raise self._failed(handle, error) from error
        except Exception as error:
            raise self._failed(handle, error) from error

    def _failed(self, handle: CompletionHandle, error: Exception) -> KernelFailed:
        node = -1 if handle.node is None else handle.node
        cause = f"{type(error).__name__}: {error}"
        return KernelFailed(self.graph.describe(node), str(handle.device), cause, node)

    def _step(self, node: int, lane: HostLane, stop: StopFlag) -> CompletionHandle | None:
        """Realise one node; the handle of the kernel it took, or None."""
        graph = self.graph
        op, args = graph.ops[node], graph.args[node]
        kind = graph.types[node]
        if op.form is Form.LEAF:
            return None
        if op.view is not None:
            (source,) = args
            layout = op.view(self.layouts[source], graph.attrs[node], _sizes(kind))
            if layout is not None:
                self._place(node, self.storages[source], layout)
                return None
            source_kind = graph.types[source]
            handle = self._copy(node, source, source_kind, lane, stop)
            self.layouts[node] = Layout.contiguous(_sizes(kind))
            return handle
        assert op.kind is not None  # the form says so
        types = [graph.types[arg] for arg in args]
        params = derive_params(op, graph.attrs[node], types, kind)
        return self._run(op.kind, kernel_dtypes(op, types, kind), params, node, args, kind, lane, stop)

    def _copy(
        self, node: int, source: int, kind: TensorType, lane: HostLane, stop: StopFlag
    ) -> CompletionHandle:
        assert _COPY.kind is not None  # a kernel op
        return self._run(_COPY.kind, (kind.dtype, kind.dtype), OpParams.NONE, node, (source,), kind, lane, stop)

    def _run(
        self,
        op: OpKind,
        dtypes: tuple[DType, ...],
        params: OpParams,
        node: int,
        args: Sequence[int],
        kind: TensorType,
        lane: HostLane,
        stop: StopFlag,
    ) -> CompletionHandle:
        compiled = compile_node(op, dtypes, lane.location.backend, params, global_bindings())
        shape = _sizes(kind)
        output = alloc_cpu(kind.dtype, Layout.contiguous(shape).count)
        layouts = [*[self.layouts[arg] for arg in args], Layout.contiguous(shape)]
        inputs = [self.storages[arg] for arg in args]
        self._place(node, output, layouts[-1])
        return execute_compiled(compiled, inputs, [output], layouts, lane=lane, node=node, stop=stop)


async def _drain(handles: Sequence[CompletionHandle]) -> None:
    """Wait until the lane is through with all of them, whatever became of them."""
    for handle in handles:
        try:
            await handle
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the first error is on its way already
            del error


def _index(graph: Graph, target: Target) -> int:
    if isinstance(target, Tensor):
        graph.own("realize", target)
        return target.index
    if isinstance(target, str):
        ports = graph.snapshot().outputs
        if target not in ports:
            raise GraphError("realize", f"no output is called {target!r}; there are {', '.join(ports) or 'none'}")
        return ports[target]
    if not 0 <= target < len(graph):
        raise GraphError("realize", f"node {target} is not in {graph!r}")
    return target


def _sizes(kind: TensorType) -> tuple[int, ...]:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound


