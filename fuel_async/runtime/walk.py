"""`Executor.walk`: looking at a graph kernel by kernel, one completion handle each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.errors import UserError
from fuel_async.runtime.pipelined import PipelinedExecutor, Walking
from fuel_async.storage import as_array

if TYPE_CHECKING:
    from fuel_async.ir import FrozenGraph, Graph
    from fuel_async.runtime.executor import Executor
    from fuel_async.runtime.perform import Array
    from fuel_async.streams import CompletionHandle


class Walk:
    """An asynchronous iterator over the handles of a graph's kernels, in the order of their submission.

    `handle.node` is a node of `graph`, the frozen form of what runs. The walk ends when every kernel has; then
    `results` holds the outputs.
    """

    def __init__(self, executor: Executor, graph: Graph, feeds: Mapping[str, Any]) -> None:
        """`Executor.walk` makes these."""
        self._executor, self._built, self._feeds = executor, graph, feeds
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
            raise UserError("the walk has not ended; take all of its handles")
        return self._results

    def __aiter__(self) -> Walk:
        return self

    async def __anext__(self) -> CompletionHandle:
        if self._handles is None:
            lane = await PipelinedExecutor(self._executor).lane()
            outputs = self._built.snapshot().outputs
            self._walking = Walking(self._built, list(outputs.values()), self._feeds)
            self._handles = self._walking.handles(lane)
        try:
            return await anext(self._handles)
        except StopAsyncIteration:
            self._results = self._collect()
            raise

    async def aclose(self) -> None:
        """Stop the walk; what the lane holds has ended when this returns."""
        if self._handles is not None:
            await self._handles.aclose()

    def _collect(self) -> dict[str, Array]:
        walking = self._walking
        if walking is None:
            raise UserError("the walk has not begun")
        snapshot = self._built.snapshot()
        boolean = self._built.freeze().boolean
        return {
            name: _delivered(np.array(as_array(storage, layout)), name in boolean)
            for name, (storage, layout) in zip(snapshot.outputs, walking.realized(), strict=True)
        }


def _delivered(array: Array, boolean: bool) -> Array:
    return array.view(np.bool_) if boolean else array
