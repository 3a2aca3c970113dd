"""Preparing a first run: its graph frozen, its feeds checked, its plan found or made.

All that takes a while is done in the session's planner thread, at most once for callers that want the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fuel_async.errors import FuelError
from fuel_async.ir import FrozenGraph, Graph, PrecisionGuarantee, freeze
from fuel_async.runtime import feeds as feed_rules
from fuel_async.runtime.config import OFF_LOOP_NBYTES, OFF_LOOP_NODES
from fuel_async.runtime.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.ir import Breathe, Snapshot
    from fuel_async.runtime.instances import Array, Prepared
    from fuel_async.runtime.plans import Key, PlanCache
    from fuel_async.runtime.session import Session

#: The key of graphs without symbols, run without a precision floor.
_PLAIN: Key = ((), None)


def plan_key(frozen: FrozenGraph, feeds: Mapping[str, Any], precision: PrecisionGuarantee | None) -> Key:
    """Return what a graph's plans are told apart by: the sizes of its symbols, read off the feeds, and the floor.

    `FeedError` when the feeds do not tell the sizes.
    """
    if not frozen.symbols:
        return _PLAIN if precision is None else ((), precision)
    return feed_rules.symbol_sizes(frozen, feeds), precision


class Preparing:
    """The ways into the plan cache of one engine. On any loop."""

    def __init__(
        self, session: Session, cache: PlanCache, plan: Callable[[FrozenGraph, Key, Breathe], Prepared]
    ) -> None:
        """`plan` is called in the planner thread."""
        self._session, self._cache, self._plan = session, cache, plan
        self.flights = SingleFlight(session)

    async def prepare(
        self, graph: Graph, feeds: dict[str, Any], precision: PrecisionGuarantee | None
    ) -> tuple[FrozenGraph, Prepared, Sequence[Array]]:
        """The way of a first run, or of feeds that must be converted. Feeds are checked before anything is planned."""
        frozen = graph.frozen or await self._freeze(graph, feeds, precision)
        key = plan_key(frozen, feeds, precision)
        values = feed_rules.as_arrays(frozen, feeds, dict(key[0]))
        prepared = self._cache.find(frozen, key)
        if prepared is None:
            if len(frozen) <= OFF_LOOP_NODES:
                prepared = self._cache.prepare(frozen, key)
            else:
                prepared = await self.flights.do((frozen, key), lambda breathe: self._plan(frozen, key, breathe))
        return frozen, prepared, [value if feed_rules.sound(value) else await self._copy(value) for value in values]

    async def _freeze(
        self, graph: Graph, feeds: Mapping[str, Any], precision: PrecisionGuarantee | None
    ) -> FrozenGraph:
        if len(graph) <= OFF_LOOP_NODES:
            return graph.freeze()
        snapshot = graph.snapshot()
        key = (graph, snapshot.count, len(snapshot.outputs))  # the graph itself: an id may be taken again
        frozen = await self.flights.do(key, lambda breathe: self._frozen(snapshot, feeds, precision, breathe))
        return graph.adopt_frozen(frozen, snapshot)

    def _frozen(
        self, snapshot: Snapshot, feeds: Mapping[str, Any], precision: PrecisionGuarantee | None, breathe: Breathe
    ) -> FrozenGraph:
        """In the planner thread: freeze, and plan at once where nothing speaks against it. It saves two hops.

        Whatever does is met again, and told, on each caller's own way: others may share the frozen graph.
        """
        frozen = freeze(snapshot, breathe)
        if not frozen.symbols and not feed_rules.check(frozen, feeds, {}):
            with suppress(FuelError):
                self._plan(frozen, plan_key(frozen, feeds, precision), breathe)
        return frozen

    async def _copy(self, value: Array) -> Array:
        """A row-major, aligned copy of a feed that kernels cannot read as it lies."""
        if value.nbytes <= OFF_LOOP_NBYTES:
            return value.copy(order="C")
        handle, call = self._session.call(lambda breathe: value.copy(order="C"))
        await handle
        return call.value
