"""The candidates of one node in order, the winner first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from fuel_async.cost import PriceSource
from fuel_async.errors import InvariantBroken, UserError
from fuel_async.plan.rank.frontier import frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from fuel_async.dispatch import BindingKey
    from fuel_async.ir import CostEstimate, DeviceLocation, DType, SizeClass
    from fuel_async.plan.rank.candidate import Candidate

#: Candidates that are kept of each device, unless it has more backends than that.
KEEP_PER_DEVICE = 32


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What is decided: enough to look measured times up again when it is decided anew."""

    op: BindingKey
    principal_dtype: DType
    size_class: SizeClass


class AlternativeSet:
    """An ordered set of candidates, and what is decided between them.

    Its builder's alone until `finalize`; from then on it never changes, and any thread may read it.
    """

    __slots__ = ("_candidates", "_conditions", "_context", "_final")

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._candidates = list(candidates)
        self._context: DecisionContext | None = None
        self._conditions: frozenset[str] = frozenset()
        self._final = False

    @classmethod
    def empty(cls) -> AlternativeSet:
        """Return a set without candidates."""
        return cls()

    @classmethod
    def from_candidates(cls, candidates: Iterable[Candidate]) -> AlternativeSet:
        """Return a set of these candidates in their order."""
        return cls(candidates)

    def copy(self) -> AlternativeSet:
        """Return an open set with the same content."""
        return self.of(self._candidates)

    def finalize(self) -> AlternativeSet:
        """Make it immutable for good, and return it."""
        self._final = True
        return self

    def of(self, candidates: Iterable[Candidate]) -> AlternativeSet:
        """Return a set of other candidates for the same decision."""
        made = AlternativeSet(candidates)
        made._context, made._conditions = self._context, self._conditions
        return made

    # --- looking ---

    def __len__(self) -> int:
        return len(self._candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._candidates)

    def __repr__(self) -> str:
        devices = ", ".join(str(device) for device in self.devices())
        return f"<AlternativeSet of {len(self)} on {devices or 'no device'}>"

    def is_empty(self) -> bool:
        """Whether it has no candidate."""
        return not self._candidates

    def alternatives(self) -> tuple[Candidate, ...]:
        """Return the candidates in order."""
        return tuple(self._candidates)

    def devices(self) -> tuple[DeviceLocation, ...]:
        """Return the devices of the candidates, as they come first."""
        return tuple(dict.fromkeys(one.device for one in self._candidates))

    def winner(self) -> Candidate | None:
        """Return the first candidate; None when there is none."""
        return self._candidates[0] if self._candidates else None

    @property
    def context(self) -> DecisionContext | None:
        """What is decided; kept whatever happens to the candidates."""
        return self._context

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of couplings that hold as planned: ranking counts their deltas."""
        return self._conditions

    def best_given(self, conditions: AbstractSet[str]) -> Candidate | None:
        """Return the candidate that is the best where `conditions` hold instead of those that were planned.

        Of equals the first; None for an empty set.
        """
        return min(self._candidates, key=lambda one: one.vector(conditions).total_order_key, default=None)

    # --- changing: `UserError` once it is final ---

    def push(self, candidate: Candidate) -> None:
        """Append a candidate."""
        self._check_open()
        self._candidates.append(candidate)

    def set_context(self, context: DecisionContext) -> None:
        """Say what is decided."""
        self._check_open()
        self._context = context

    def set_conditions(self, conditions: AbstractSet[str]) -> None:
        """Say which conditions of couplings hold."""
        self._check_open()
        self._conditions = frozenset(conditions)

    def set_static_cost(self, index: int, cost: CostEstimate, source: PriceSource = PriceSource.COUNTED) -> None:
        """Give a candidate another count; all zero takes its price away. What was measured stays."""
        self._check_open()
        one = self._candidates[index]
        said = PriceSource.UNPRICED if cost.is_unpriced else source
        said = said if one.measured_ns is None else PriceSource.MEASURED
        self._candidates[index] = replace(one, static_cost=cost, price_source=said)

    def set_inbound_transfer_ns(self, index: int, nanoseconds: int) -> None:
        """Say what bringing the operands to a candidate's device takes."""
        self._check_open()
        self._candidates[index] = replace(self._candidates[index], inbound_transfer_ns=nanoseconds)

    def put(self, index: int, candidate: Candidate) -> None:
        """Put a candidate in the place of another."""
        self._check_open()
        self._candidates[index] = candidate

    def retain_indices(self, keep: Sequence[int]) -> None:
        """Keep the candidates at these indices, which ascend strictly; none of them empties the set."""
        self._check_open()
        found = list(keep)
        ascending = all(a < b for a, b in pairwise(found))
        if not ascending or (found and not (found[0] >= 0 and found[-1] < len(self))):
            raise InvariantBroken("indices to keep ascend and are in range", f"{found} of {len(self)}")
        self._candidates = [self._candidates[index] for index in found]

    def rank_by_cost(self) -> None:
        """Sort by time, then precision, accuracy and memory; equals keep their order, unpriced ones come last."""
        self._check_open()
        conditions = self._conditions
        self._candidates.sort(key=lambda one: one.vector(conditions).total_order_key)

    rank_by_composite_cost = rank_by_cost

    def retain_per_device_frontier(self, keep: int = KEEP_PER_DEVICE) -> None:
        """Keep of each device what is best in some respect, and rank. The set is ranked: its first is the winner.

        The winner stays, and one candidate of each backend of each device. A device has at most `keep` left, or as many
        as it has backends.
        """
        if len(self) == 1:
            self._check_open()
            return
        by_device: dict[DeviceLocation, list[int]] = {}
        for index, one in enumerate(self._candidates):
            by_device.setdefault(one.device, []).append(index)
        kept: list[int] = []
        for members in by_device.values():
            found = frontier(
                [self._candidates[index].vector(self._conditions) for index in members],
                [self._candidates[index].backend for index in members],
                max(keep, 1),
                members.index(0) if members[0] == 0 else None,
            )
            kept += [members[place] for place in found]
        self.retain_indices(sorted(kept))
        self.rank_by_cost()

    def _check_open(self) -> None:
        if self._final:
            raise UserError("these candidates are final and never change; change a copy()")
