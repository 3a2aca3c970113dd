"""What is decided for each node of a graph: its candidates in order, where it runs, and where else it could."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.ir import DeviceLocation
    from fuel_async.plan.rank import AlternativeSet


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionPlan:
    """The decisions of `compile_plan`. Nobody changes a plan, nor the sets in it; share it between threads freely."""

    order: tuple[int, ...]
    _alternatives: Mapping[int, AlternativeSet]
    _runner_ups: Mapping[int, AlternativeSet]
    _devices: Mapping[int, DeviceLocation]
    #: The generation of the topology that it was made for.
    generation: int = 0

    @classmethod
    def empty(cls) -> ExecutionPlan:
        """Return a plan of nothing."""
        nothing: Mapping[int, AlternativeSet] = MappingProxyType({})
        return cls((), nothing, nothing, MappingProxyType({}))

    def alternatives(self, node: int) -> AlternativeSet | None:
        """Return the candidates of a node on the device where it is planned, the winner first.

        None for leaves, views, copies and moves, of which nothing is decided.
        """
        return self._alternatives.get(node)

    def runner_ups(self, node: int) -> AlternativeSet | None:
        """Return the candidates on other devices, ranked, for a choice at run time; None when there are none.

        Copies are planned for the winner: whoever takes one of these brings the operands there. What that takes is in
        its couplings where a producer went elsewhere, too.
        """
        return self._runner_ups.get(node)

    def device(self, node: int) -> DeviceLocation | None:
        """Return where the value of a node is when it is made, or lies before the run; None when nothing says so."""
        return self._devices.get(node)

    def __len__(self) -> int:
        """The number of nodes of which something is decided."""
        return len(self._alternatives)
