"""`Executor.walk`: looking at a graph kernel by kernel, one completion handle each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.errors import UserError
from fuel_async.runtime.pipelined import PipelinedExecutor, Walking
from fuel_async.storage import as_array

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from fuel_async.ir import FrozenGraph, Graph
    from fuel_async.runtime.executor import Executor
    from fuel_async.runtime.perform import Array
    from fuel_async.streams import CompletionHandle


class Walk:
    """An asynchronous iterator over the handles of a graph's kernels, in the order of their submission.

    `handle.node` is a node of `graph`, the frozen form of what runs. The walk ends when every kernel has;
    then `results` holds the outputs. To be used by one task at a time.
    """

    def __init__(self, executor: Executor, graph: Graph, feeds: Mapping[str, Any]) -> None:
        """`Executor.walk` makes these. What is added to the graph afterwards is not walked."""
        self._executor, self._built, self._feeds = executor, graph.snapshot(), feeds
        self._walking: Walking | None = None
        self._handles: AsyncGenerator[CompletionHandle, None] | None = None
        self._results: dict[str, Array] | None = None

    @property
    def graph(self) -> FrozenGraph:
        """The graph whose nodes the handles name; there from the first handle on."""
        if self._walking is None:
            raise UserError("the walk has not begun; ask for its first handle")
        return self._walking.graph

    @property
    def results(self) -> dict[str, Array]:
        """The outputs by name, arrays of the caller's own, once the walk has ended."""
        if self._results is None:
            raise UserError("the walk has no results: it has not ended, or it failed; take all of its handles")
        return self._results

    def __aiter__(self) -> Walk:
        return self

    async def __anext__(self) -> CompletionHandle:
        if self._handles is None:
            nodes = list(self._built.outputs.values())
            walking, lane = await PipelinedExecutor(self._executor).begin(self._built, nodes, self._feeds)
            self._walking, self._handles = walking, walking.handles(lane)
        try:
            return await anext(self._handles)
        except StopAsyncIteration:
            if self._results is None and self._walking is not None and self._walking.ended:
                self._results = await self._collect(self._walking)
            raise

    async def aclose(self) -> None:
        """Stop the walk; what the lane holds has ended when this returns."""
        if self._handles is not None:
            await self._handles.aclose()

    async def _collect(self, walking: Walking) -> dict[str, Array]:
        """Copy the outputs, off the loop."""
        boolean = [name in walking.graph.boolean for name in walking.graph.outputs]
        dtypes = [walking.graph.types[node].dtype for node in walking.targets]
        arrays = [
            as_array(storage, layout, dtype)
            for (storage, layout), dtype in zip(walking.realized(), dtypes, strict=True)
        ]

        def copies() -> list[Array]:
            return [np.array(array) for array in arrays]

        session = (await self._executor.engine()).session
        handle, call = session.call(lambda breathe: copies())
        await handle
        return {
            name: array.view(np.bool_) if truth else array
            for name, array, truth in zip(self._built.outputs, call.value, boolean, strict=True)
        }
