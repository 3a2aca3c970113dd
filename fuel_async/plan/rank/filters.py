"""What candidates must be, and what they had better be: filters, in order.

A hard filter is a demand: what does not meet it is out, and if nothing is left, that is an error. A soft one is a
preference: it is applied to each device by itself, and passed over where it would leave too few. So a preference never
takes a device away; whether a device is worth its price is decided by prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from fuel_async.errors import FilterRejected, UserError
from fuel_async.ir import PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuel_async.dispatch import BindingKey, KernelDTypes
    from fuel_async.ir import DeviceLocation, Layout
    from fuel_async.plan.rank.alternatives import AlternativeSet
    from fuel_async.plan.rank.candidate import Candidate


@dataclass(frozen=True, slots=True)
class FilterClass:
    """Whether a filter is a demand, `FilterClass.Hard`, or a preference, `FilterClass.Soft(min_remaining)`."""

    #: How many candidates of a device a preference leaves at least, or it is passed over; None for a demand.
    min_remaining: int | None = None

    Hard: ClassVar[FilterClass]

    def __post_init__(self) -> None:
        if self.min_remaining is not None and self.min_remaining < 1:
            raise UserError(f"a preference cannot leave {self.min_remaining} candidates; give at least 1")

    @classmethod
    def Soft(cls, min_remaining: int = 1) -> FilterClass:
        """Return the class of a preference."""
        return cls(min_remaining)

    @property
    def is_hard(self) -> bool:
        """Whether it is a demand."""
        return self.min_remaining is None


FilterClass.Hard = FilterClass()


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a filter is told of the decision."""

    op: BindingKey
    #: Of the inputs, then of the output.
    dtypes: KernelDTypes
    input_layouts: tuple[Layout, ...]
    tag: str | None = None

    def with_tag(self, tag: str) -> FilterContext:
        """Return the same under a tag, which errors repeat."""
        return FilterContext(self.op, self.dtypes, self.input_layouts, tag)

    def summary(self) -> str:
        """Return it as errors print it."""
        dtypes = ", ".join(map(str, self.dtypes))
        tail = "" if self.tag is None else f" tag={self.tag}"
        return f"op={_spelled(self.op)} dtypes=[{dtypes}] input_layouts={len(self.input_layouts)}{tail}"


def _spelled(op: BindingKey) -> str:
    return str(getattr(op, "value", op))


def is_plain(layout: Layout) -> bool:
    """Whether an operand is row-major from the first byte of its storage, as every kernel takes it."""
    return layout.is_contiguous and not layout.offset


class AlternativeFilter(Protocol):
    """A rule of which candidates to keep: a pure function of what it is given."""

    def filter(self, alternatives: Sequence[Candidate], context: FilterContext) -> Sequence[int]:
        """Return the indices to keep, strictly ascending."""

    def classification(self) -> FilterClass:
        """Return whether it is a demand or a preference."""

    def name(self) -> str:
        """Return its name, in kebab-case."""


@dataclass(frozen=True, slots=True)
class PrecisionRequirement:
    """What kernels must be proven to be. None demands nothing; a claim that is missing meets no demand."""

    require_bit_stable: bool = False
    max_ulp: int | None = None
    max_relative: float | None = None
    max_absolute: float | None = None

    BIT_STABLE: ClassVar[PrecisionRequirement]

    @classmethod
    def from_floor(cls, floor: PrecisionGuarantee | None) -> PrecisionRequirement:
        """Return the demands of a floor, as runs are given one."""
        if floor is None:
            return cls()
        return cls(floor.bit_stable_on_same_hardware, floor.max_ulp, floor.max_relative, floor.max_absolute)

    @property
    def is_unconstrained(self) -> bool:
        """Whether everything meets it."""
        return self == PrecisionRequirement()

    def admits(self, precision: PrecisionGuarantee) -> bool:
        """Whether a kernel with this guarantee meets all demands."""
        floor = PrecisionGuarantee(self.require_bit_stable, self.max_ulp, self.max_relative, self.max_absolute)
        return precision.satisfies(floor)


PrecisionRequirement.BIT_STABLE = PrecisionRequirement(require_bit_stable=True)


@dataclass(frozen=True, slots=True)
class PrecisionFloorFilter:
    """Demands that kernels are proven to be as exact as required."""

    requirement: PrecisionRequirement = PrecisionRequirement()

    def filter(self, alternatives: Sequence[Candidate], context: FilterContext) -> list[int]:
        """Keep those whose claims meet the requirement."""
        return [index for index, one in enumerate(alternatives) if self.requirement.admits(one.precision)]

    def classification(self) -> FilterClass:
        """Return that it is a demand."""
        return FilterClass.Hard

    def name(self) -> str:
        """Return `precision-floor`."""
        return "precision-floor"


@dataclass(frozen=True, slots=True)
class StridedInputPreferenceFilter:
    """Prefers kernels that read strides where an operand is not row-major: others need a copy of it first."""

    min_remaining: int = 1

    def filter(self, alternatives: Sequence[Candidate], context: FilterContext) -> list[int]:
        """Keep those that take the operands as they are."""
        plain = all(map(is_plain, context.input_layouts))
        return [index for index, one in enumerate(alternatives) if plain or one.caps.strided_input]

    def classification(self) -> FilterClass:
        """Return that it is a preference."""
        return FilterClass.Soft(self.min_remaining)

    def name(self) -> str:
        """Return `strided-input-preference`."""
        return "strided-input-preference"


@dataclass(frozen=True, slots=True)
class BitStablePreferenceFilter:
    """Prefers kernels that give the same bits each time."""

    min_remaining: int = 1

    def filter(self, alternatives: Sequence[Candidate], context: FilterContext) -> list[int]:
        """Keep those that claim to be bit-stable."""
        return [index for index, one in enumerate(alternatives) if one.precision.bit_stable_on_same_hardware]

    def classification(self) -> FilterClass:
        """Return that it is a preference."""
        return FilterClass.Soft(self.min_remaining)

    def name(self) -> str:
        """Return `bit-stable-preference`."""
        return "bit-stable-preference"


def default_chain(requirement: PrecisionRequirement) -> tuple[AlternativeFilter, ...]:
    """Return the filters of planning in order: the floor, then strides, then bit stability."""
    return PrecisionFloorFilter(requirement), StridedInputPreferenceFilter(), BitStablePreferenceFilter()


def apply_filter_chain(
    alternatives: AlternativeSet, filters: Iterable[AlternativeFilter], context: FilterContext
) -> None:
    """Apply the filters in order, each to what the ones before have left.

    `FilterRejected` when a demand leaves nothing: the set is then as that filter found it, and the ones behind it are
    not applied. A preference is applied device by device, and passed over where it would leave too few.
    """
    for each in filters:
        wanted = each.classification()
        if wanted.min_remaining is None:
            keep = list(each.filter(alternatives.alternatives(), context))
            if not keep:
                raise FilterRejected(each.name(), context.summary(), len(alternatives))
        else:
            keep = _preferred(alternatives, each, context, wanted.min_remaining)
        alternatives.retain_indices(keep)


def _preferred(
    alternatives: AlternativeSet, preference: AlternativeFilter, context: FilterContext, min_remaining: int
) -> list[int]:
    members: dict[DeviceLocation, list[int]] = {}
    for index, one in enumerate(alternatives):
        members.setdefault(one.device, []).append(index)
    keep: list[int] = []
    every = alternatives.alternatives()
    for of_device in members.values():
        kept = preference.filter([every[index] for index in of_device], context)
        keep += of_device if len(kept) < min_remaining else [of_device[place] for place in kept]
    return sorted(keep)
