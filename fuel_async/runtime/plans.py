"""The plan cache: finding or making what a run of a graph needs.

Plans are keyed by structure, types, options and topology generation, so that graphs built anew for each request share
them; a prepared plan adds the constants of one graph. Both are bounded, least recently used first. Planning is
single-flight, off the loop above a few nodes, and is not cancelled when one of its callers is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref as weakref

from fuel_async.ir import Breathe, FrozenGraph, PrecisionGuarantee, no_breath
from fuel_async.plan import Plan, make_plan
from fuel_async.registry import topology_generation
from fuel_async.runtime.instances import Prepared
from fuel_async.runtime.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends import Device
    from fuel_async.runtime.session import Session

#: Plans kept, and prepared plans kept.
MOST_PLANS = 256
MOST_PREPARED = 256

#: Kernels of all plans kept, and of all that is prepared: each takes about a kilobyte in a plan, and as much bound.
MOST_KERNELS = 1_000_000

#: Makes the prepared plan from plan, graph, device, generation, measured and free.
MakePrepared: TypeAlias = "Callable[[Plan, FrozenGraph, Device, int, Measured, Callable[[int], None]], Prepared]"

Sizes: TypeAlias = tuple[tuple[str, int], ...]
Key: TypeAlias = tuple[Sizes, PrecisionGuarantee | None]


class PlanCache:
    """Prepared plans by graph, and plans by structure. All methods take any thread."""

    def __init__(self, session: Session, free: Callable[[int], None], make: MakePrepared = Prepared) -> None:
        """`free(nbytes)` is told when an instance ceases to hold memory. `make` takes what `Prepared` does."""
        self._session, self._free, self._make = session, free, make
        self._lock = threading.Lock()
        #: By the identity of the graph, which a weak reference guards: a look-up costs a tenth of a microsecond.
        self._prepared: dict[int, tuple[weakref[FrozenGraph], dict[Key, Prepared]]] = {}
        self._plans: OrderedDict[tuple[object, ...], tuple[Plan, Measured]] = OrderedDict()
        #: Of those plans.
        self._kernels = 0
        self._clock = count(1)
        self.made = 0

    def find(self, graph: FrozenGraph, key: Key) -> Prepared | None:
        """Return what is prepared for the graph, if it is still current."""
        entry = self._prepared.get(id(graph))
        if entry is None:
            return None
        found = entry[1].get(key)
        if found is None or found.generation != topology_generation():
            return None
        found.last_used = next(self._clock)
        return found

    def prepare(self, graph: FrozenGraph, key: Key, breathe: Breathe = no_breath) -> Prepared:
        """Plan the graph, or take the plan of an equal one, and remember it. O(nodes) the first time."""
        found = self.find(graph, key)
        if found is not None:
            return found
        sizes, precision = key
        generation = topology_generation()
        bound = graph.bind(dict(sizes), breathe)
        plan_key = (bound.digest, precision, generation)
        with self._lock:
            entry = self._plans.get(plan_key)
            if entry is not None:
                self._plans.move_to_end(plan_key)
        if entry is None:
            target = self._session.target(precision)
            made = make_plan(bound.without_constants(), target, breathe)
            entry = made, Measured(made.predicted_ns)
        plan, measured = entry
        prepared = self._make(plan, bound, self._session.device, generation, measured, self._free)
        with self._lock:
            self.made += 1
            if plan_key not in self._plans:
                self._kernels += plan.kernels
            self._plans[plan_key] = entry
            self._drop_old_plans()
            by_key = self._prepared.setdefault(id(graph), (self._guard(graph), {}))[1]
            old = by_key.get(key)
            by_key[key] = prepared
            prepared.last_used = next(self._clock)
            dropped = self._surplus()
        for one in (*dropped, *([old] if old is not None else [])):
            _retire(one)
        return prepared

    def last_sizes(self, graph: FrozenGraph) -> Mapping[str, int]:
        """The sizes that the graph's symbols had when it was last run or planned; empty before."""
        entry = self._prepared.get(id(graph))
        if entry is None:
            return {}
        by_use = sorted(entry[1].items(), key=lambda item: item[1].last_used)
        return dict(by_use[-1][0][0]) if by_use else {}

    def all(self) -> list[Prepared]:
        """Return everything prepared, least recently used first."""
        with self._lock:
            entries = list(self._prepared.values())  # in one step: a collection may take entries away at any moment
            found = [one for _, by_key in entries for one in by_key.values()]
        return sorted(found, key=lambda one: one.last_used)

    def reclaim(self, nbytes: int) -> int:
        """Drop idle instances, least recently used plans first, until `nbytes` are free; return how many are."""
        freed = 0
        for prepared in self.all():
            if freed >= nbytes:
                break
            freed += prepared.drop_idle()
        return freed

    def clear(self) -> None:
        """Forget everything."""
        for prepared in self.all():
            _retire(prepared)
        with self._lock:
            self._prepared.clear()
            self._plans.clear()
            self._kernels = 0

    def _surplus(self) -> list[Prepared]:
        entries = [
            (one.last_used, graph, key, one.plan.kernels)
            for graph, (_, by_key) in self._prepared.copy().items()  # a collection may take entries away
            for key, one in by_key.items()
        ]
        entries.sort(key=lambda entry: -entry[0])
        kept = _within_bounds([kernels for _, _, _, kernels in entries], MOST_PREPARED)
        surplus = entries[kept:]
        return [entry[1].pop(key) for _, graph, key, _ in surplus if (entry := self._prepared.get(graph)) is not None]

    def _drop_old_plans(self) -> None:
        while len(self._plans) > 1 and (len(self._plans) > MOST_PLANS or self._kernels > MOST_KERNELS):
            _, (plan, _) = self._plans.popitem(last=False)
            self._kernels -= plan.kernels

    def _guard(self, graph: FrozenGraph) -> weakref[FrozenGraph]:
        """A reference that makes the cache forget the graph with its last holder."""
        number, prepared = id(graph), self._prepared

        def forget(_: weakref[FrozenGraph]) -> None:
            prepared.pop(number, None)

        return weakref(graph, forget)


def _retire(prepared: Prepared) -> None:
    prepared.alive = False
    prepared.drop_idle()


def _within_bounds(kernels: Sequence[int], most: int) -> int:
    """How many of the newest entries are kept: at least one, at most `most`, of `MOST_KERNELS` together."""
    total = 0
    for kept, held in enumerate(kernels):
        total += held
        if kept and (kept >= most or total > MOST_KERNELS):
            return kept
    return len(kernels)
